"""What happened in a run of chaos, and how long the cluster stood still after each fault."""

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from statistics import median


@dataclass
class Recoveries:
    """The seconds from each fault to the next trees of any job. Faults may overlap."""

    seconds: dict = field(default_factory=lambda: defaultdict(list))
    _open: list = field(default_factory=list)
    _trees: int = 0

    def note_fault(self, kind, now):
        self._open.append((kind, now))

    def note_trees(self, trees, now):
        if trees > self._trees:
            for kind, since in self._open:
                self.seconds[kind].append(now - since)
            self._open.clear()
        self._trees = trees

    def forget_open(self):
        """Forget faults after which no job was running."""
        self._open.clear()

    def __str__(self):
        lines = [f"  {'seconds to the next trees (faults overlap)':42}  {'faults':>6}  {'median':>6}  {'longest':>7}"]
        for kind, seconds in sorted(self.seconds.items()):
            lines.append(f"    {kind:40}  {len(seconds):6}  {median(seconds):6.1f}  {max(seconds):7.1f}")
        return "\n".join(lines)


@dataclass
class Summary:
    seed: int
    ledger: str
    seconds: float = 0.0
    faults: Counter = field(default_factory=Counter)
    restarts: Counter = field(default_factory=Counter)
    recoveries: Recoveries = field(default_factory=Recoveries)
    jobs: int = 0
    resubmitted: int = 0
    trees: int = 0
    given_up: int = 0
    takeovers: int = 0
    resent: int = 0
    lost: int = 0
    dropped: int = 0
    poison: int = 0
    refused: int = 0
    settled: float = 0.0
    wrong: list = field(default_factory=list)

    def __str__(self):
        restarts = ", ".join(f"{kind} {count}" for kind, count in sorted(self.restarts.items()))
        faults = ", ".join(f"{kind} {count}" for kind, count in sorted(self.faults.items()))
        times = f"{self.seconds:.0f} s of faults, all done {self.settled:.0f} s after the last"
        lines = [
            f"chaos: {self.ledger}, seed {self.seed}, {times}",
            f"  faults    {self.faults.total()}: {faults}",
            f"  restarts  {self.restarts.total()}: {restarts}",
            f"  jobs      {self.jobs}, submitted again {self.resubmitted}, taken over {self.takeovers} times",
            f"  trees     {self.trees:,}, subsets given up {self.given_up}",
            f"  tasks     sent again {self.resent}, reported lost {self.lost}, answers dropped {self.dropped}",
            f"  poison    {self.poison} malformed messages and requests; the logs have {self.refused} refusals",
            str(self.recoveries),
            f"  wrong     {self.wrong or 'none'}",
        ]
        return "\n".join(lines)
