"""The experiments of `maabo paper`, timed: our figures on the paper's tables and the printed ones."""

from bench import printing
from bench.timing import time_call
from maabo_dist.research.paper import EXPERIMENTS
from maabo_dist.research.paper.cases import run_cases
from maabo_dist.research.paper.tables import named_table, table_from_file


def run(options) -> None:
    tables = {"diabetes": named_table("diabetes")}
    if options.titanic is None:
        printing.console.print("The Titanic rows of the paper need the real table: --titanic FILE or MAABO_TITANIC.")
    else:
        tables = {"titanic": table_from_file(options.titanic), **tables}
    _run_experiment("exp3", tables, 10 if options.quick else 50)
    if "titanic" in tables:
        _run_experiment("exp1", {"titanic": tables["titanic"]}, 10 if options.quick else 50)


def _run_experiment(name, tables, seeds: int) -> None:
    experiment, results = EXPERIMENTS[name], []
    cases = experiment.cases(list(tables.values()), seeds)
    seconds = time_call(lambda: results.extend(run_cases(cases, tables, 1, lambda _: None)))
    for comparison in experiment.findings(results).comparisons:
        printing.print_table(f"7. {comparison.title}", comparison.head, comparison.rows, comparison.notes)
    printing.console.print(f"  {len(cases):,} runs, {printing.format_time(seconds / len(cases))} each", style="dim")
