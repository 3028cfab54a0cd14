"""Tables with planted rules, the truth about them, and a score for what a miner makes of them."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from maabo_dist.research.synthetic.planting import Generated, draw, generate
    from maabo_dist.research.synthetic.recipe import Recipe
    from maabo_dist.research.synthetic.scoring import MinedRule, Score, score
    from maabo_dist.research.synthetic.truth import PlantedRule, Truth

_HOMES = {
    "Generated": "planting",
    "MinedRule": "scoring",
    "PlantedRule": "truth",
    "Recipe": "recipe",
    "Score": "scoring",
    "Truth": "truth",
    "draw": "planting",
    "generate": "planting",
    "score": "scoring",
}

__all__ = ["Generated", "MinedRule", "PlantedRule", "Recipe", "Score", "Truth", "draw", "generate", "score"]


def __getattr__(name: str) -> object:
    """Import what is asked for when it is asked for: the command line needs the recipe alone to show its help."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
