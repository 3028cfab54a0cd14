"""From results to what people and programs read: the document, the terminal report and the exports."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from maabo_dist.report.diff import diff_documents
    from maabo_dist.report.document import result_document
    from maabo_dist.report.exports import to_csv, to_markdown, to_pandas, to_sql
    from maabo_dist.report.figures import FigureData, dump_figures, figures_of, make_figures
    from maabo_dist.report.html import report_page
    from maabo_dist.report.plan_summary import explain_plan
    from maabo_dist.report.run_folder import make_folder, read_run, write_folder
    from maabo_dist.report.terminal import print_report, report_console
    from maabo_dist.report.wording import condition_text, conditions_text, rule_text

_HOMES = {
    "FigureData": "figures",
    "condition_text": "wording",
    "conditions_text": "wording",
    "diff_documents": "diff",
    "dump_figures": "figures",
    "figures_of": "figures",
    "explain_plan": "plan_summary",
    "make_figures": "figures",
    "make_folder": "run_folder",
    "print_report": "terminal",
    "read_run": "run_folder",
    "report_console": "terminal",
    "report_page": "html",
    "result_document": "document",
    "rule_text": "wording",
    "to_csv": "exports",
    "to_markdown": "exports",
    "to_pandas": "exports",
    "to_sql": "exports",
    "write_folder": "run_folder",
}

__all__ = [
    "FigureData",
    "condition_text",
    "conditions_text",
    "diff_documents",
    "dump_figures",
    "explain_plan",
    "figures_of",
    "make_figures",
    "make_folder",
    "print_report",
    "read_run",
    "report_console",
    "report_page",
    "result_document",
    "rule_text",
    "to_csv",
    "to_markdown",
    "to_pandas",
    "to_sql",
    "write_folder",
]


def __getattr__(name: str) -> object:
    """Import what is asked for when it is asked for: a worker that needs the schema never loads rich."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
