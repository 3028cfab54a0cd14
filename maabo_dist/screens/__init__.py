"""Screens: which features, and which pairs of features, deserve to be tried first."""

from maabo_dist.screens.bits import BitTable
from maabo_dist.screens.pairs import (
    MOST_PAIRS,
    Pairs,
    Screen,
    chance_bar,
    count_pairs,
    pair_blocks,
    pair_seconds,
    screen,
    screen_block,
    screen_pairs,
    single_strengths,
)
from maabo_dist.screens.wire import pack_pairs, pack_screen, unpack_pairs, unpack_screen

__all__ = [
    "MOST_PAIRS",
    "BitTable",
    "Pairs",
    "Screen",
    "chance_bar",
    "count_pairs",
    "pack_pairs",
    "pack_screen",
    "pair_blocks",
    "pair_seconds",
    "screen",
    "screen_block",
    "screen_pairs",
    "single_strengths",
    "unpack_pairs",
    "unpack_screen",
]
