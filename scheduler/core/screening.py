"""`Screening`: the pairwise screen of one job as a pure state machine. Answers go in, blocks to send come out.

    block ──sent──► answer ──► merged into the strongest pairs ──► finished, when every block is answered
      ▲      │ nothing heard: again            (no strike: workers may have died)
      ├──────┤ unavailable: again, later       (no strike: the worker was at fault)
      └──────┘ failed or lost: again; a block with too many strikes cannot be had, and without it there is no screen

The strongest pairs of all are the strongest of the strongest of each block: neither the cut, nor who screens a block,
nor the order in which answers come changes them.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil

from maabo_dist.screens.blocks import count_pairs, pair_blocks
from maabo_dist.screens.pairs import Pairs
from scheduler.core.outbox import Outbox

MOST_STRIKES = 8
"""Failures after which a block, and the job with it, is given up: enough that machines that die hardly look like it."""
FEWEST_BLOCKS, MOST_BLOCKS = 16, 4096
"""Enough that several workers share a short screen, few enough for the books of a long one."""


@dataclass(frozen=True, slots=True, order=True)
class Block:
    """Pairs whose first feature is one of start … stop − 1."""

    start: int
    stop: int
    size: int
    """Pairs."""


@dataclass(frozen=True, slots=True)
class BlockTask:
    """A block to send. `attempt` counts the strikes against it."""

    key: Block
    attempt: int


def cut_blocks(features: int, seconds: float, task_seconds: float) -> list[tuple[int, int]]:
    """Start and stop of blocks that take about `task_seconds` each, where all pairs take `seconds`."""
    return pair_blocks(features, min(MOST_BLOCKS, max(FEWEST_BLOCKS, ceil(seconds / task_seconds))))


class Screening:
    """The books of one screen under way."""

    def __init__(self, features: int, blocks: Sequence[tuple[int, int]], most: int) -> None:
        """The `most` strongest pairs of a table of so many features are wanted, from these blocks."""
        self.features, self.most = features, most
        self.best = Pairs.strongest([], most)
        """The strongest pairs of the blocks answered so far."""
        self.screened = 0
        """Pairs in them."""
        made = [Block(start, stop, count_pairs(start, stop, features)) for start, stop in blocks]
        self.pairs = sum(block.size for block in made)
        self._numbers = {block: number for number, block in enumerate(made, start=1)}
        self._known = {(block.start, block.stop): block for block in made}
        self._open = set(made)
        self._outbox: Outbox[Block] = Outbox()
        self._outbox.unsent.extend((block, 0) for block in made)

    @property
    def blocks(self) -> int:
        """How many there are."""
        return len(self._numbers)

    @property
    def finished(self) -> bool:
        """Whether every block is answered."""
        return not self._open

    @property
    def tasks_in_flight(self) -> int:
        """Blocks that were sent and not answered."""
        return len(self._outbox.sent)

    @property
    def tasks_to_send(self) -> int:
        """Blocks that could be sent now."""
        return len(self._outbox.unsent) + len(self._outbox.later)

    @property
    def in_flight(self) -> int:
        """Pairs that were sent and not answered."""
        return self._outbox.in_flight

    def block(self, start: int, stop: int) -> Block | None:
        """The block of these features, if it is one."""
        return self._known.get((start, stop))

    def number(self, block: Block) -> int:
        """Which block this is, from 1 on."""
        return self._numbers[block]

    def next_task(self, now: float) -> BlockTask | None:
        """The next block to send."""
        found = self._outbox.next(now)
        return None if found is None else BlockTask(*found)

    def sent(self, block: Block, attempt: int, now: float) -> None:
        """The block is on its way."""
        self._outbox.note_sent(block, attempt, now)

    def unsent(self, block: Block, attempt: int) -> None:
        """A block from `next_task` could not be sent after all."""
        self._outbox.unsent.appendleft((block, attempt))

    def adopt(self, block: Block, attempt: int, now: float) -> None:
        """A predecessor sent this block; its answer may still come."""
        if self.is_open(block):
            self._withdraw(block)
            self.sent(block, attempt, now)

    def is_sent(self, block: Block, attempt: int) -> bool:
        """Whether this very attempt is under way."""
        return self._outbox.is_sent(block, attempt)

    def sent_at(self, block: Block) -> float | None:
        """When a block that is under way was sent."""
        return self._outbox.sent_at(block)

    def is_open(self, block: Block) -> bool:
        """Whether an answer to this block is still of use."""
        return block in self._open

    def answer(self, block: Block, pairs: Pairs) -> bool:
        """The strongest pairs of a block; False if they are of no use any more."""
        if not self.is_open(block):
            return False
        self._withdraw(block)
        self._open.remove(block)
        self.best = Pairs.strongest([self.best, pairs], self.most)
        self.screened += block.size
        return True

    def strike(self, block: Block, attempt: int) -> bool:
        """An attempt failed: send the block again. True if it cannot be had."""
        if not self._outbox.is_sent(block, attempt):
            return False
        self._outbox.take_back(block)
        self._outbox.unsent.appendleft((block, attempt + 1))
        return attempt + 1 >= MOST_STRIKES

    def postpone(self, block: Block, attempt: int, until: float) -> None:
        """The worker could not begin: send again later."""
        self._outbox.postpone(block, attempt, until)

    def taken(self, sent_before: float, now: float) -> None:
        """Whatever was sent before a time has been taken from the queue: from now on its answer is awaited."""
        self._outbox.taken(sent_before, now)

    def resend_silent(self, now: float, allowance: Callable[[Block], float]) -> list[Block]:
        """Send again what a worker took longer ago than `allowance` seconds, twice as long after each silence."""
        return self._outbox.resend_silent(now, allowance)

    def _withdraw(self, block: Block) -> None:
        """Wherever it is, it is not to be sent and not on its way."""
        if block in self._outbox.sent:
            self._outbox.take_back(block)
        self._outbox.cut(lambda other: [other] if other != block else [])
