"""The experiments of the paper: the cases that each runs, and its findings next to the figures that the paper prints.

tables ──► Experiment.cases ──► run_cases (or jobs of a cluster) ──► Experiment.findings ──► Findings.write
"""

from maabo_dist.research.paper.cases import Experiment
from maabo_dist.research.paper.noise_experiments import APP1, APP2, APP3, EXP2
from maabo_dist.research.paper.rule_experiments import EXP1, EXP3

EXPERIMENTS: dict[str, Experiment] = {each.name: each for each in (EXP1, EXP2, EXP3, APP1, APP2, APP3)}

__all__ = ["EXPERIMENTS"]
