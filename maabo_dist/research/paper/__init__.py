"""The paper's experiments: what each runs, what it shows, and what the paper prints beside it.

    tables ──► Experiment.cases ──► run_cases (or jobs of a cluster) ──► Experiment.findings ──► files

Cases and findings are values. Only `tables` reads, `running` computes and `folder` writes.
"""

from maabo_dist.research.paper.app1 import APP1
from maabo_dist.research.paper.app2 import APP2
from maabo_dist.research.paper.app3 import APP3
from maabo_dist.research.paper.case import Case, Experiment, Findings, Outcome, Result, outcome_of
from maabo_dist.research.paper.exp1 import EXP1
from maabo_dist.research.paper.exp2 import EXP2
from maabo_dist.research.paper.exp3 import EXP3
from maabo_dist.research.paper.files import markdown, write_results
from maabo_dist.research.paper.running import prepared_for, run_cases
from maabo_dist.research.paper.tables import PaperTable, chosen_tables

EXPERIMENTS = {each.name: each for each in (EXP1, EXP2, EXP3, APP1, APP2, APP3)}

__all__ = [
    "EXPERIMENTS",
    "Case",
    "Experiment",
    "Findings",
    "Outcome",
    "PaperTable",
    "Result",
    "chosen_tables",
    "markdown",
    "outcome_of",
    "prepared_for",
    "run_cases",
    "write_results",
]
