"""Screens: which features, and which pairs of features, deserve to be tried first."""

from maabo_dist.screens.bits import BitTable
from maabo_dist.screens.pairs import Pairs, pair_blocks, screen_block, screen_pairs, single_strengths
from maabo_dist.screens.screen import MOST_PAIRS, Screen, chance_bar, screen

__all__ = [
    "MOST_PAIRS",
    "BitTable",
    "Pairs",
    "Screen",
    "chance_bar",
    "pair_blocks",
    "screen",
    "screen_block",
    "screen_pairs",
    "single_strengths",
]
