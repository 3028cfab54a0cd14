"""Sentences and rules on a terminal, wrapped between their parts."""

from collections.abc import Iterator, Sequence

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.text import Text

WITHOUT = "without "
_AND = "and "


class Statement:
    """A rule on several lines: its conditions, wrapped between them where possible, and its consequence."""

    def __init__(self, conditions: list[str], consequence: str, dropped: list[str]) -> None:
        self.conditions, self.consequence, self.dropped = conditions, f"→ {consequence}", dropped

    def _lines(self, width: int) -> Iterator[Text]:
        for line in _fill_lines(self.conditions, " ", _AND, width):
            yield Text(line, overflow="fold")
        yield Text(self.consequence, style="bold", overflow="fold")
        for line in _fill_lines(self.dropped, ", ", "", width, WITHOUT):
            yield Text(line, style="dim", overflow="fold")

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        return self._lines(options.max_width)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        widths = (max(line.cell_len for line in self._lines(width)) for width in (0, options.max_width))
        return Measurement(*(min(width, options.max_width) for width in widths))


class Sentence:
    """A sentence whose parts, such as conditions, stay on one line where possible."""

    def __init__(self, parts: Sequence[tuple[str, str]]) -> None:
        # Texts and their styles, in their order; a space comes between them.
        self.parts = parts

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        line = Text(overflow="fold")
        for text, style in self.parts:
            if line.cell_len and line.cell_len + 1 + cell_len(text) > options.max_width:
                yield line
                line = Text(overflow="fold")
            line.append(" " if line.cell_len else "").append(text, style)
        yield line

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(min(20, options.max_width), options.max_width)


def _fill_lines(parts: list[str], gap: str, joiner: str, width: int, start: str = "") -> Iterator[str]:
    """Join the parts to lines, wrapped between parts where a line would be wider than `width`."""
    if not parts:
        return
    line = f"{start}{parts[0]}"
    for part in parts[1:]:
        longer = f"{line}{gap}{joiner}{part}"
        if cell_len(longer) > width:
            yield line + gap.rstrip()
            longer = f"{joiner}{part}"
        line = longer
    yield line
