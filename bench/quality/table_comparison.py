"""Our methods and other rule miners on the paper's tables: number of rules, precision on unseen rows, redundancy."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from itertools import combinations
from math import isnan

from bench.quality import methods
from bench.quality.estimates import Estimate, group_by, mean, values
from bench.quality.experiment import Experiment, Page, Record, Run, Summary
from bench.quality.figure import Panel, Series
from bench.quality.methods import Method, Table
from bench.quality.paper_tables import HELD_OUT, TARGET, PaperTable, absent, paper_tables
from bench.quality.peer_client import ROOT, TIMEOUT, PeerError, PeerTimeoutError
from bench.quality.rule_sets import SAME_ROWS, RuleSet, figures
from bench.quality.stability import GAP, dice

DEFAULT_SEEDS = 10
METHODS = ("auto", "paper", "FIGS", "RuleFit", "SkopeRules", "subgroups", "RuleKit", "SIRUS", "RIPPER", "IREP")
LABELS = {"auto": "ours, `auto`", "paper": "ours, `paper`", "subgroups": "pysubgroup"}


def measure(run: Run) -> Iterator[Record]:
    """Run all methods in turn for each draw and table, so that disturbances of the machine affect all of them."""
    unavailable = _lacking(run)
    yield from ({"method": name, "failed": f"not measured: {lack}"} for name, lack in unavailable.items())
    yield from ({"table": lack.split()[0], "failed": f"left out: {lack}"} for lack in absent(run))
    tables = list(paper_tables(run))
    with run.peers.processes() if run.peers else nullcontext() as peers:
        available_methods = {
            name: methods.method(name, peers) for name in METHODS if run.includes(name) and name not in unavailable
        }
        comparisons = [_compare_on(table, available_methods, run) for table in tables]
        for seed in run.seed_range(DEFAULT_SEEDS, quick=2):
            for compare in comparisons:
                yield from compare(seed)


def _lacking(run: Run) -> dict[str, str]:
    """Requested methods that are not available, with the reason."""
    peers = {name: methods.PEERS[name] for name in METHODS if name in methods.PEERS and run.includes(name)}
    if run.peers is None:
        return dict.fromkeys(peers, "the peers' environment is missing")
    reasons = run.peers.unavailable()
    return {name: reasons[miner] for name, miner in peers.items() if miner in reasons}


def _compare_on(table: PaperTable, available_methods: dict[str, Method], run: Run) -> Callable[[int], Iterator[Record]]:
    """Return a function that yields the records of a draw; a method that took too long is not tried again."""
    before: dict[str, RuleSet] = {}
    waiting = dict(available_methods)
    _warm_up(table, run)

    def compare(seed: int) -> Iterator[Record]:
        train, holdout = table.draw(seed)
        for name, method in list(waiting.items()):
            record: Record = {"table": table.name, "method": name, "seed": seed, "failed": None}
            try:
                mined = method(Table(train, TARGET, seed, run.jobs))
            except PeerError as error:
                yield {**record, "failed": str(error)}
                if isinstance(error, PeerTimeoutError):
                    del waiting[name]
                continue
            rules = RuleSet.on(mined.rules, table.frame)
            again = rules.returning(before[name]) if name in before else None
            before[name] = rules
            times = {"seconds": mined.seconds, "cpu": mined.cpu}
            yield {**record, **figures(mined.rules, train, holdout), "returning": again, **times}

    return compare


def _warm_up(table: PaperTable, run: Run) -> None:
    """Compile the kernels, so that the first draw is timed like the others."""
    for name in methods.OURS:
        if not run.quick and run.includes(name):
            methods.method(name, None)(Table(table.draw(0)[0], TARGET, 0, run.jobs))


def agreement(records: Sequence[Record]) -> float | None:
    """The mean over all pairs of draws of the Dice coefficient between the feature sets of their rules."""
    texts = ["" if record["features"] is None else str(record["features"]) for record in records]
    sets = [set(filter(None, text.split(GAP))) for text in texts]
    coefficients = [each for each in (dice(one, other) for one, other in combinations(sets, 2)) if each is not None]
    return mean(coefficients).value if coefficients else None


def summarise(records: Sequence[Record]) -> Summary:
    done = [record for record in records if not record.get("failed")]
    cases = group_by(done, lambda record: (record["table"], record["method"]))
    rows = [_row(*case, chosen) for case, chosen in cases.items()]
    columns = ["", "draws", "rules", "reliable", "width", "precision: training", "held out", "lift", "covered %"]
    columns += ["overlap", "nearest", "same features", "same rows %", "wall s", "CPU s"]
    return Summary(columns, rows, notes=_failures(records))


def _row(table: str, method: str, done: Sequence[Record]) -> list[str]:
    def format_mean(name: str, spec: str, scale: float = 1.0) -> str:
        return Estimate(mean(values(done, name)).value, float("nan")).format(spec, scale)

    same = agreement(done)
    return [
        f"{table}: {LABELS.get(method, method)}",
        str(len(done)),
        mean(values(done, "rules")).format(".1f"),
        format_mean("reliable", ".1f"),
        format_mean("width", ".1f"),
        format_mean("train_precision", ".3f"),
        mean(values(done, "held_precision")).format(".3f"),
        format_mean("held_lift", ".2f"),
        format_mean("held_coverage", ".0f", 100),
        format_mean("overlap", ".2f"),
        format_mean("nearest", ".2f"),
        "–" if same is None else f"{same:.2f}",
        format_mean("returning", ".0f", 100),
        format_mean("seconds", ".2f"),
        format_mean("cpu", ".2f"),
    ]


def _failures(records: Sequence[Record]) -> list[str]:
    """One line for each reason, with all failures that have it."""
    by_reason = group_by([record for record in records if record.get("failed")], "failed")
    return [f"{'; '.join(map(_where, those))}: {reason}." for reason, those in by_reason.items()]


def _where(record: Record) -> str:
    names = [LABELS.get(str(record["method"]), record["method"]) if record.get("method") else None, record.get("table")]
    seed = f"draw {record['seed']}" if record.get("seed") is not None else None
    return ", ".join(str(each) for each in (*names, seed) if each)


def panels(records: Sequence[Record]) -> list[Panel]:
    """Means of the tables' means; a table without a value is left out."""
    done = [record for record in records if not record.get("failed")]

    def bars(name: str) -> list[Series]:
        series = []
        for method, chosen in group_by(done, "method").items():
            means = [mean(values(each, name)).value for each in group_by(chosen, "table").values()]
            estimate = mean(value for value in means if not isnan(value))
            label = LABELS.get(str(method), str(method)).replace("`", "")
            series.append(Series(label, [estimate.value], [estimate.error], ours=method in methods.OURS))
        return series

    return [
        Panel("held-out precision, mean of tables", "", bars("held_precision")),
        Panel("overlap of rules, mean of tables", "", bars("overlap")),
        Panel("CPU time, mean of tables", "s", bars("cpu")),
    ]


ABOUT = f"""\
{1 - HELD_OUT:.0%} of the rows of each table are drawn for mining, {DEFAULT_SEEDS} times unless *draws* says
otherwise; the rest is held out. All methods get the same draws of the same numbers (categories as 0 and 1, missing
cells filled) and run with their defaults (exceptions are documented in `bench/quality/peers`) on all cores they can
use, for at most {TIMEOUT:.0f} s. All rules are scored in the same way: a rule is its conditions and, for a peer,
the class that is most over-represented among the training rows it covers. SkopeRules, pysubgroup, RIPPER and IREP
look for one class and run once for each; for FIGS, every leaf of every tree is a rule. Our methods reserve 30 % of
the drawn rows for validation; the others mine on all of them.

- *reliable*: rules with the number of rows (50) and the purity that the paper requires, on the training rows
- *width*: features that a rule uses
- *precision*: mean over rules with equal weights, then over draws; ± is the standard error over draws, which is too
  small because draws share rows
- *lift*: held-out precision over the share of the rule's class
- *covered*: held-out rows that any rule covers
- *overlap*: Jaccard similarity of the training rows of two rules for the same class, mean over pairs;
  *nearest*: of a rule and the most similar one, mean over rules
- *same features*: Dice coefficient of the rules' sets of features, mean over all pairs of draws
- *same rows*: rules for which the previous draw had a rule with the same class and rows (Jaccard ≥ {SAME_ROWS})
- *wall*, *CPU*: without imports, and for our methods without compilation; Java compiles while RuleKit runs"""

TABLES = Experiment(
    name="tables",
    title="The same draws of the paper's tables",
    about=ABOUT,
    measure=measure,
    summarise=summarise,
    panels=panels,
    page=Page(ROOT / "docs" / "results.md", "peers", "../bench/quality/results"),
)
