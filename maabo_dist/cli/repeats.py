"""The repeats of a job on a cluster: jobs of their own, on other draws of the rows."""

from typing import TYPE_CHECKING

from maabo_dist.cli.source import Source

if TYPE_CHECKING:
    from maabo_dist.data.columns import Columns
    from maabo_dist.settings import MiningSettings


def repeats_of(source: Source, columns: "Columns") -> "tuple[MiningSettings, ...]":
    """How each repeat is mined; a table that is too small for that is refused."""
    if not source.repeating.repeats:
        return ()
    from maabo_dist.mining.repeats import check_repeats, repeat_settings

    drawn = repeat_settings(source.mining, source.repeating.repeats)
    check_repeats(columns, drawn)
    return drawn
