"""The colours of the report's page, light and dark; which of them is told by what axes are drawn on."""

from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.colors import to_rgba


@dataclass(frozen=True, slots=True)
class Palette:
    """Colours by what they are for; safe for colour-blind readers."""

    ink: str
    soft: str
    """Of text beside the point."""
    faint: str
    rule: str
    """Of axes and edges."""
    grid: str
    tint: str
    """Of a region behind bars."""
    accent: str
    rest: str
    """Of classes that have no colour of their own."""
    classes: tuple[str, ...]

    def of_class(self, place: int, own: int, count: int) -> str:
        """The colour of a class in the picture of a rule on class `own`, where there are `count` classes."""
        if count <= len(self.classes):
            return self.classes[place]
        return self.classes[0] if place == own else self.rest


LIGHT = Palette(
    ink="#1c2025",
    soft="#545b64",
    faint="#8a9099",
    rule="#cfcbc1",
    grid="#ebe8e1",
    tint="#e8f1f7",
    accent="#0b5c8a",
    rest="#b9bcc1",
    classes=("#0072b2", "#d55e00", "#009e73", "#b65c92", "#c58600", "#3d9bd6", "#882255", "#7d7d1e"),
)
DARK = Palette(
    ink="#e8e6e1",
    soft="#aab0b8",
    faint="#7d858f",
    rule="#414851",
    grid="#252a31",
    tint="#1d2c38",
    accent="#7cc4f0",
    rest="#5b626c",
    classes=("#56b4e9", "#f0933b", "#35c79d", "#e29cc6", "#eedd55", "#7f9cf0", "#e0708a", "#b9b95a"),
)


def palette_of(ax: Axes) -> Palette:
    """Light colours on a light ground, dark ones on a dark: as the style in force has it."""
    red, green, blue, seen = to_rgba(ax.get_facecolor())
    return DARK if seen > 0.5 and 0.2126 * red + 0.7152 * green + 0.0722 * blue < 0.4 else LIGHT
