"""Trees grown for blocks of subsets: the training table, the kernels, the depth search, the forest they give."""

from maabo_dist.trees.depth_search import depth_search
from maabo_dist.trees.forest import CompactTree, Forest
from maabo_dist.trees.training import TrainingTable

__all__ = ["CompactTree", "Forest", "TrainingTable", "depth_search"]
