"""Which subsets of features deserve a tree: the space, the acquisition, the proposer and its schedule."""

from maabo_dist.search.proposer import ProposerState, SubsetProposer
from maabo_dist.search.schedule import Batch, batch_schedule
from maabo_dist.search.space import Subsets, SubsetSpace

__all__ = ["Batch", "ProposerState", "SubsetProposer", "SubsetSpace", "Subsets", "batch_schedule"]
