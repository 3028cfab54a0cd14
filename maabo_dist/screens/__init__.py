"""Screens: which features, and which pairs of features, deserve to be tried first."""

from maabo_dist.screens.bits import BitTable
from maabo_dist.screens.pairs import Pairs, pair_blocks, screen_block, screen_pairs, single_strengths

__all__ = ["BitTable", "Pairs", "pair_blocks", "screen_block", "screen_pairs", "single_strengths"]
