"""The paper's figures on the paper's tables, ours beside the printed ones: the experiments of `maabo paper`, timed."""

from bench import show
from bench.clock import stopwatch
from maabo_dist.research.paper import EXPERIMENTS
from maabo_dist.research.paper.cases import run_cases
from maabo_dist.research.paper.tables import named_table, table_from_file


def run(options) -> None:
    tables = {"diabetes": named_table("diabetes")}
    if options.titanic is None:
        show.console.print("The Titanic rows of the paper need the real table: --titanic FILE or MAABO_TITANIC.")
    else:
        tables = {"titanic": table_from_file(options.titanic), **tables}
    _experiment("exp3", tables, 10 if options.quick else 50)
    if "titanic" in tables:
        _experiment("exp1", {"titanic": tables["titanic"]}, 10 if options.quick else 50)


def _experiment(name, tables, seeds: int) -> None:
    experiment, results = EXPERIMENTS[name], []
    cases = experiment.cases(list(tables.values()), seeds)
    seconds = stopwatch(lambda: results.extend(run_cases(cases, tables, 1, lambda _: None)))
    for shown in experiment.findings(results).comparisons:
        show.table(f"7. {shown.title}", shown.head, shown.rows, shown.notes)
    show.console.print(f"  {len(cases):,} runs, {show.time(seconds / len(cases))} each", style="dim")
