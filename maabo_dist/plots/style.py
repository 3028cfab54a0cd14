"""The colours of the report's page, light and dark; which of them is told by what axes are drawn on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.colors import to_rgba
from matplotlib.figure import FigureBase
from matplotlib.image import AxesImage
from matplotlib.patches import Patch
from matplotlib.ticker import FuncFormatter

from maabo_dist._util.text import printable
from maabo_dist.contract.result import ResultDocument, RuleRecord
from maabo_dist.errors import SettingsError
from maabo_dist.mining.result import MiningResult
from maabo_dist.report.document import result_document
from maabo_dist.report.figures import FORMAT as FIGURES_FORMAT
from maabo_dist.report.figures import FigureData
from maabo_dist.rules.rule import Rule


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


def palette_for(ax: Axes) -> Palette:
    """Light colours on a light ground, dark ones on a dark: as the style in force has it."""
    red, green, blue, seen = to_rgba(ax.get_facecolor())
    return DARK if seen > 0.5 and 0.2126 * red + 0.7152 * green + 0.0722 * blue < 0.4 else LIGHT


SMALL, MIDDLE = 8.0, 9.0
"""Sizes of text, in points."""

LITERAL: dict[str, Any] = {"parse_math": False, "usetex": False}
"""For every text that has a name in it: a dollar is a dollar."""


def new_axes(width: float, height: float) -> Axes:
    """One empty axes in a figure of its own, which pyplot shows; inches."""
    return new_row(1, width, height)[0]


def new_row(count: int, width: float, height: float, most: int = 4) -> list[Axes]:
    """So many axes, at most `most` beside each other, each of that size."""
    from matplotlib import pyplot as plt

    across = max(1, min(count, most))
    down = max(1, -(-count // across))
    figure, grid = plt.subplots(
        down, across, figsize=(width * across, height * down), layout="constrained", squeeze=False
    )
    axes = list(grid.flat)
    for spare in axes[count:]:
        figure.delaxes(spare)
    return axes[:count]


def style_axes(ax: Axes, *, left: bool = True, bottom: bool = True) -> Palette:
    """Soft labels, no box; without `left` and `bottom` no axis either. Returns the colours to draw with."""
    palette = palette_for(ax)
    for side, wanted in {"left": left, "bottom": bottom, "top": False, "right": False}.items():
        ax.spines[side].set(visible=wanted, color=palette.rule)
    ax.tick_params(which="both", color=palette.rule, labelcolor=palette.soft, labelsize=SMALL)
    for axis, wanted in ((ax.xaxis, bottom), (ax.yaxis, left)):
        axis.label.set(color=palette.soft, fontsize=MIDDLE)
        if not wanted:
            axis.set_tick_params(which="both", length=0)
    return palette


def set_title(ax: Axes, text: str, palette: Palette) -> None:
    """A title at the left, of a text that may have names in it."""
    ax.set_title(text, loc="left", fontsize=MIDDLE, color=palette.ink, **LITERAL)


def name_rows(ax: Axes, names: Sequence[str], length: int = 28) -> None:
    """Names beside the rows 0, 1, … from the top."""
    ax.set_yticks(range(len(names)), [shortened(name, length) for name in names], **LITERAL)
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(max(1, len(names)) - 0.5, -0.5)


def shortened(text: str, length: int) -> str:
    """The text on one line, at most so many signs long."""
    text = printable(text)
    return text if len(text) <= length else f"{text[: length - 1]}…"


def legend_above(ax: Axes, names: Sequence[str], palette: Palette) -> None:
    """The classes on the line of the title, at the right."""
    above = {"loc": "lower right", "bbox_to_anchor": (1, 1), "ncols": max(1, len(names)), "borderaxespad": 0}
    class_legend(ax, names, palette, **above)


def class_legend(holder: Axes | FigureBase, names: Sequence[str], palette: Palette, **where: Any) -> None:
    """Which colour is which class, above axes or beside those of a figure; of more classes than colours, nothing."""
    if len(names) > len(palette.classes):
        return
    handles = [Patch(color=colour) for colour in palette.classes[: len(names)]]
    # matplotlib leaves out labels that begin with an underscore: the names come in afterwards.
    legend = holder.legend(
        handles, ["x"] * len(names), frameon=False, fontsize=SMALL, handlelength=0.8, handleheight=0.8, **where
    )
    for text, name in zip(legend.get_texts(), names, strict=True):
        text.set(text=shortened(name, 24), color=palette.soft, **LITERAL)


def scale(image: AxesImage, place: Axes, ticks: Sequence[int], palette: Palette, unit: str = "") -> None:
    """What the colours of an image mean, drawn into small axes."""
    bar = place.figure.colorbar(image, cax=place, ticks=list(ticks))
    bar.set_ticklabels([f"{tick:,}{unit}" for tick in ticks])
    bar.outline.set_visible(False)
    place.tick_params(length=0, labelsize=SMALL, labelcolor=palette.soft)


def percent_axis(axis: Axis) -> None:
    """Shares on an axis, told in percent."""
    axis.set_major_formatter(FuncFormatter(lambda share, _: f"{100 * share:g} %"))


def percent(share: float) -> str:
    """`7.5 %`, `42 %`."""
    return f"{100 * share:.{1 if 0 < share < 0.1 else 0}f} %"


class Miner(Protocol):
    """A fitted `RuleMiner`."""

    def document(self) -> ResultDocument:
        """The result document."""
        ...

    def figures(self) -> FigureData:
        """Its figures."""
        ...


Shown = Miner | MiningResult | ResultDocument | Mapping[str, Any] | tuple[ResultDocument, FigureData | None]
"""A fitted miner, a result, a document or figures, or the two together as `read_run` gives them."""
RuleName = Rule | RuleRecord | str | int
"""A rule, its id, or its place from 0."""


def document_of(shown: Shown) -> ResultDocument:
    """The result document."""
    match shown:
        case MiningResult():
            return result_document(shown, {"name": "table"})
        case ResultDocument():
            return shown
        case (ResultDocument() as document, _):
            return document
        case _ if hasattr(shown, "document"):
            return shown.document()
    raise SettingsError(f"This picture needs a document, not {_named(shown)}. {_REMEDY}")


def figures_of(shown: Shown) -> FigureData:
    """The figures."""
    match shown:
        case Mapping() if shown.get("format") == FIGURES_FORMAT:
            return dict(shown)
        case (ResultDocument(), Mapping() as figures):
            return figures_of(figures)
        case MiningResult():
            raise SettingsError("A result alone has no figures. Pass maabo_dist.report.figures_of(result, columns).")
        case _ if hasattr(shown, "figures"):
            return shown.figures()
    raise SettingsError(f"This picture needs figures, not {_named(shown)}. {_REMEDY}")


def rule_of(shown: Shown, rule: RuleName) -> tuple[RuleRecord, Mapping[str, Any]]:
    """A rule in the document, and its figure data."""
    document, figures = document_of(shown), figures_of(shown)
    if figures["digest"] != document.digest:
        raise SettingsError("These figures are of other rules than this document. Pass those of the same run.")
    found = _found(document, rule)
    entry = next((entry for entry in figures["rules"] if entry["id"] == found.id), None)
    if entry is None:
        raise SettingsError(f"{found.id} has no figures: only the first {len(figures['rules'])} rules have.")
    return found, entry


def _found(document: ResultDocument, rule: RuleName) -> RuleRecord:
    rules = document.rules
    if isinstance(rule, int):
        if not 0 <= rule < len(rules):
            raise SettingsError(f"There is no rule at place {rule}; there are {len(rules)} rules, the first is 0.")
        return rules[rule]
    name = rule if isinstance(rule, str) else rule.id
    found = next((entry for entry in rules if entry.id == name), None)
    if found is None:
        last = f"they are R1 to R{len(rules)}" if rules else "there are none"
        raise SettingsError(f"There is no rule {name!r} among these rules; {last}.")
    return found


_REMEDY = "Pass a fitted RuleMiner, or what maabo_dist.report.read_run gives of a run with --report."


def _named(shown: object) -> str:
    if isinstance(shown, Mapping):
        return f"a mapping of the format {shown.get('format')!r}"
    return "a document without figures" if isinstance(shown, tuple) else f"a {type(shown).__name__}"
