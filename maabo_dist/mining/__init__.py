"""From columns to rules: `study` is what is mined, `run` the search, `local` the whole method in one process."""

from maabo_dist.mining.local import MiningResult, Progress, conclude, mine, split_for

__all__ = ["MiningResult", "Progress", "conclude", "mine", "split_for"]
