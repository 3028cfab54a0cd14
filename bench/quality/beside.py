"""The paper's tables through ours and other rule miners: how many rules, how good on unseen rows, how redundant."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from itertools import combinations
from math import isnan

from bench.quality import methods
from bench.quality.experiment import Experiment, Page, Record, Run, Summary
from bench.quality.figure import Panel, Series
from bench.quality.methods import Method, Table
from bench.quality.paper_tables import HELD_OUT, TARGET, PaperTable, absent, paper_tables
from bench.quality.peer_calls import PATIENCE, ROOT, PeerError, PeerTimeoutError
from bench.quality.rule_sets import SAME_ROWS, RuleSet, figures
from bench.quality.stability import GAP, dice
from bench.quality.statistics import Estimate, column, grouped, mean

USUAL_SEEDS = 10
METHODS = ("auto", "paper", "FIGS", "RuleFit", "SkopeRules", "subgroups", "RuleKit", "SIRUS", "RIPPER", "IREP")
SHOWN = {"auto": "ours, `auto`", "paper": "ours, `paper`", "subgroups": "pysubgroup"}


def measure(run: Run) -> Iterator[Record]:
    """Draw by draw and table by table, all methods one after the other: what disturbs the machine disturbs all."""
    lacking = _lacking(run)
    yield from ({"method": name, "failed": f"not measured: {lack}"} for name, lack in lacking.items())
    yield from ({"table": lack.split()[0], "failed": f"left out: {lack}"} for lack in absent(run))
    tables = list(paper_tables(run))
    with run.peers.standing() if run.peers else nullcontext() as peers:
        who = {name: methods.method(name, peers) for name in METHODS if run.takes(name) and name not in lacking}
        courses = [_course(table, who, run) for table in tables]
        for seed in run.seeds_of(USUAL_SEEDS, quick=2):
            for course in courses:
                yield from course(seed)


def _lacking(run: Run) -> dict[str, str]:
    """Methods that were asked for and cannot be had, with the reason."""
    wanted = {name: methods.PEERS[name] for name in METHODS if name in methods.PEERS and run.takes(name)}
    if run.peers is None:
        return dict.fromkeys(wanted, "the peers' environment is not there")
    lacks = run.peers.lacking()
    return {name: lacks[miner] for name, miner in wanted.items() if miner in lacks}


def _course(table: PaperTable, who: dict[str, Method], run: Run) -> Callable[[int], Iterator[Record]]:
    """What yields the records of one draw after another; a method that took too long is not tried again."""
    before: dict[str, RuleSet] = {}
    waiting = dict(who)
    _warm_up(table, run)

    def drawn(seed: int) -> Iterator[Record]:
        train, held = table.draw(seed)
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
            yield {**record, **figures(mined.rules, train, held), "returning": again, **times}

    return drawn


def _warm_up(table: PaperTable, run: Run) -> None:
    """Compile, so that the first draw is timed like the others."""
    for name in methods.OURS:
        if not run.quick and run.takes(name):
            methods.method(name, None)(Table(table.draw(0)[0], TARGET, 0, run.jobs))


def agreement(records: Sequence[Record]) -> float | None:
    """The mean over all pairs of draws of the Dice coefficient between the feature sets of their rules."""
    texts = ["" if record["features"] is None else str(record["features"]) for record in records]
    sets = [set(filter(None, text.split(GAP))) for text in texts]
    found = [each for each in (dice(one, other) for one, other in combinations(sets, 2)) if each is not None]
    return mean(found).value if found else None


def summarise(records: Sequence[Record]) -> Summary:
    done = [record for record in records if not record.get("failed")]
    cases = grouped(done, lambda record: (record["table"], record["method"]))
    rows = [_row(*case, chosen) for case, chosen in cases.items()]
    columns = ["", "draws", "rules", "reliable", "width", "precision: training", "held out", "lift", "covered %"]
    columns += ["overlap", "nearest", "same features", "same rows %", "wall s", "CPU s"]
    return Summary(columns, rows, notes=_failures(records))


def _row(table: str, method: str, done: Sequence[Record]) -> list[str]:
    def shown(name: str, spec: str, scale: float = 1.0) -> str:
        return Estimate(mean(column(done, name)).value, float("nan")).shown(spec, scale)

    same = agreement(done)
    return [
        f"{table}: {SHOWN.get(method, method)}",
        str(len(done)),
        mean(column(done, "rules")).shown(".1f"),
        shown("reliable", ".1f"),
        shown("width", ".1f"),
        shown("train_precision", ".3f"),
        mean(column(done, "held_precision")).shown(".3f"),
        shown("held_lift", ".2f"),
        shown("held_coverage", ".0f", 100),
        shown("overlap", ".2f"),
        shown("nearest", ".2f"),
        "–" if same is None else f"{same:.2f}",
        shown("returning", ".0f", 100),
        shown("seconds", ".2f"),
        shown("cpu", ".2f"),
    ]


def _failures(records: Sequence[Record]) -> list[str]:
    """One line for each reason, with all that it holds for."""
    by_reason = grouped([record for record in records if record.get("failed")], "failed")
    return [f"{'; '.join(map(_where, those))}: {reason}." for reason, those in by_reason.items()]


def _where(record: Record) -> str:
    named = [SHOWN.get(str(record["method"]), record["method"]) if record.get("method") else None, record.get("table")]
    seed = f"draw {record['seed']}" if record.get("seed") is not None else None
    return ", ".join(str(each) for each in (*named, seed) if each)


def panels(records: Sequence[Record]) -> list[Panel]:
    """Means over the tables, of the tables' means; a table that gives none is left out."""
    done = [record for record in records if not record.get("failed")]

    def bars(name: str) -> list[Series]:
        series = []
        for method, chosen in grouped(done, "method").items():
            means = [mean(column(each, name)).value for each in grouped(chosen, "table").values()]
            estimate = mean(value for value in means if not isnan(value))
            label = SHOWN.get(str(method), str(method)).replace("`", "")
            series.append(Series(label, [estimate.value], [estimate.error], ours=method in methods.OURS))
        return series

    return [
        Panel("held-out precision, mean of tables", "", bars("held_precision")),
        Panel("overlap of rules, mean of tables", "", bars("overlap")),
        Panel("CPU time, mean of tables", "s", bars("cpu")),
    ]


ABOUT = f"""\
Of each table {1 - HELD_OUT:.0%} of the rows are drawn to mine on, {USUAL_SEEDS} times unless *draws* says
otherwise; the rest is held out. All methods get the same draws of the same numbers (categories as 0 and 1, gaps
filled) and run with their defaults (what differs is told in `bench/quality/peers`) on all cores they can use,
at most {PATIENCE:.0f} s a call. One scorer judges all: a rule is its conditions and, of a peer, the class most
over-represented among the training rows it covers. SkopeRules, pysubgroup, RIPPER and IREP look for one class
and run once for each; of FIGS every leaf of every tree is a rule. Ours keep 30 % of the drawn rows for
validation; the others mine on all of them.

- *reliable*: rules that have the rows (50) and the purity that the paper asks of one, on the training rows
- *width*: features that a rule uses
- *precision*: mean over rules, each counting alike, then over draws; ± is the standard error over draws, which
  share rows, so that it is too small
- *lift*: held-out precision over the share of the rule's class
- *covered*: held-out rows that any rule covers
- *overlap*: Jaccard similarity of the training rows of two rules for the same class, mean over pairs;
  *nearest*: of a rule and the one most like it, mean over rules
- *same features*: Dice coefficient of the rules' sets of features, mean over all pairs of draws
- *same rows*: rules whose rows (Jaccard ≥ {SAME_ROWS}) and class a rule of the draw before had too
- *wall*, *CPU*: without imports, and of ours without compilation; Java compiles while RuleKit runs"""

BESIDE = Experiment(
    name="tables",
    title="The same draws of the paper's tables",
    about=ABOUT,
    measure=measure,
    summarise=summarise,
    panels=panels,
    page=Page(ROOT / "docs" / "results.md", "peers", "../bench/quality/results"),
)
