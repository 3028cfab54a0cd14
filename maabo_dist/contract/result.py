"""The result of a mining run, as other programs read it."""

from enum import StrEnum


class StopReason(StrEnum):
    """Why a search ended."""

    BUDGET = "budget"
    """All planned trees were grown."""
    EXHAUSTED = "exhausted"
    """Every subset of the space has a tree."""
    PATIENCE = "patience"
    """No new rule for as many trees as `patience` allows."""
    TIME = "time"
    """The time limit was reached."""
    REQUESTED = "asked"
    """The progress callback asked for it."""
    INTERRUPTED = "interrupted"
    """Ctrl-C."""
    RUNNING = "running"
    """It has not ended: the result holds the rules so far."""

    @property
    def cut_short(self) -> bool:
        """True if somebody stopped the search."""
        return self in {StopReason.REQUESTED, StopReason.INTERRUPTED}
