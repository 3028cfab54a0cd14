"""`Screening`: the pairwise screen of one job as a pure state machine. Answers go in, blocks to send come out; no I/O.

    block ──sent──► answer ──► merged into the strongest pairs ──► finished, when every block is answered
      ▲      │ no answer: again            (not a failure: the worker may have died)
      ├──────┤ unavailable: again, later   (not a failure of the block)
      └──────┘ failed or lost: again; after too many failures of one block the screen is impossible

The strongest pairs of all are the strongest of the strongest of each block: neither the cut into blocks, nor the
worker, nor the order of the answers changes them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil

from maabo_dist.screens.blocks import count_pairs, pair_blocks
from maabo_dist.screens.pairs import Pairs
from scheduler.core.outbox import Outbox

# Failures after which a block, and with it the job, is given up: enough that dying machines rarely cause it.
MAX_FAILURES = 8
# Enough that several workers share a short screen, few enough to keep track of in a long one.
MIN_BLOCKS, MAX_BLOCKS = 16, 4096


@dataclass(frozen=True, slots=True, order=True)
class Block:
    """Pairs whose first feature is one of start … stop − 1."""

    start: int
    stop: int
    # The number of pairs.
    size: int


@dataclass(frozen=True, slots=True)
class BlockTask:
    """A block to send. `attempt` counts its failures."""

    key: Block
    attempt: int


def cut_blocks(features: int, seconds: float, task_seconds: float) -> list[tuple[int, int]]:
    """Start and stop of blocks that take about `task_seconds` each, if all pairs take `seconds`."""
    return pair_blocks(features, min(MAX_BLOCKS, max(MIN_BLOCKS, ceil(seconds / task_seconds))))


class Screening:
    """The in-flight state of one screen: the `max_pairs` strongest pairs of so many features, from these blocks."""

    def __init__(self, features: int, blocks: Sequence[tuple[int, int]], max_pairs: int) -> None:
        self.features, self.max_pairs = features, max_pairs
        # The strongest pairs of the answered blocks.
        self.best = Pairs.strongest([], max_pairs)
        # The number of pairs in the answered blocks.
        self.screened = 0
        cut = [Block(start, stop, count_pairs(start, stop, features)) for start, stop in blocks]
        self.pairs = sum(block.size for block in cut)
        self._numbers = {block: number for number, block in enumerate(cut, start=1)}
        self._blocks = {(block.start, block.stop): block for block in cut}
        self._open = set(cut)
        self.outbox: Outbox[Block] = Outbox()
        self.outbox.unsent.extend((block, 0) for block in cut)

    @property
    def blocks(self) -> int:
        """The number of blocks."""
        return len(self._numbers)

    @property
    def finished(self) -> bool:
        """True when every block is answered."""
        return not self._open

    def block(self, start: int, stop: int) -> Block | None:
        """The block of these features, or None."""
        return self._blocks.get((start, stop))

    def number(self, block: Block) -> int:
        """The number of a block, from 1."""
        return self._numbers[block]

    def next_task(self, now: float) -> BlockTask | None:
        """Take the next block to send."""
        entry = self.outbox.take_next(now)
        return None if entry is None else BlockTask(*entry)

    def adopt(self, block: Block, attempt: int, now: float) -> None:
        """Treat a block sent by an earlier scheduler as in flight."""
        if self.is_open(block):
            self._withdraw(block)
            self.outbox.mark_sent(block, attempt, now)

    def is_open(self, block: Block) -> bool:
        """True if this block is not answered yet."""
        return block in self._open

    def accept(self, block: Block, pairs: Pairs) -> bool:
        """Accept the strongest pairs of a block; False if they are no longer needed."""
        if not self.is_open(block):
            return False
        self._withdraw(block)
        self._open.remove(block)
        self.best = Pairs.strongest([self.best, pairs], self.max_pairs)
        self.screened += block.size
        return True

    def fail(self, block: Block, attempt: int) -> bool:
        """Send a failed attempt again. True if the block failed too often."""
        if not self.outbox.is_sent(block, attempt):
            return False
        self.outbox.remove_sent(block)
        self.outbox.put_back(block, attempt + 1)
        return attempt + 1 >= MAX_FAILURES

    def _withdraw(self, block: Block) -> None:
        """Remove a block from the outbox."""
        if block in self.outbox.sent:
            self.outbox.remove_sent(block)
        self.outbox.trim(lambda other: [other] if other != block else [])
