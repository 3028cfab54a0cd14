"""`Screening` and `Shuffling`: the screens and the searches on shuffled labels of one job, without I/O.

Both are pure state machines over blocks that are cut in advance and answered in any order:

    block ──sent──► answer ──► accepted ──► finished, when every block that is needed is answered
      ▲      │ no answer: again            (not a failure: the worker may have died)
      ├──────┤ unavailable: again, later   (not a failure of the block)
      └──────┘ failed or lost: again; after too many failures of one block the job has failed

The strongest pairs or triples of all are the strongest of the strongest of each block. A search on shuffled labels
depends on its number alone, and the searches that count are the first ones, up to the one that decides the certificate.
So neither the cut into blocks, nor the worker, nor the order of the answers changes the outcome.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from maabo_dist.findings.certificate import ShuffledSearch
from maabo_dist.mining.shuffles import ShufflePlan, ShuffleResult
from maabo_dist.screens.blocks import count_sets, divide_pairs, has_triples, triple_blocks
from maabo_dist.screens.pairs import Pairs
from maabo_dist.screens.screen import MAX_TRIPLES
from maabo_dist.screens.triples import Triples
from maabo_dist.screens.wire import unpack_pairs, unpack_triples
from scheduler.core.outbox import Outbox
from scheduler.core.task_lengths import SHORTEST, TaskLengths

# Failures after which a block, and with it the job, is given up: enough that dying machines rarely cause it.
MAX_BLOCK_FAILURES = 8
# Enough that several workers share short work, few enough to keep track of in long work.
MIN_BLOCKS, MAX_BLOCKS = 16, 32_768


@dataclass(frozen=True, slots=True, order=True)
class Block:
    """A block of a screen (`screen_blocks`), or searches start … stop − 1."""

    start: int
    stop: int
    # The number of pairs, triples or searches.
    size: int


@dataclass(frozen=True, slots=True)
class BlockTask:
    """A block to send. `attempt` counts its failures."""

    key: Block
    attempt: int


class BlockMachine:
    """The in-flight state of work that is cut into blocks."""

    def __init__(self, blocks: Iterable[Block]) -> None:
        cut = list(blocks)
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
        """True when every block that is needed is answered."""
        return not self._open

    @property
    def any_answered(self) -> bool:
        """True once a block is answered."""
        return len(self._open) < self.blocks

    def block(self, start: int, stop: int) -> Block | None:
        """The block of this range, or None."""
        return self._blocks.get((start, stop))

    def number(self, block: Block) -> int:
        """The number of a block, from 1."""
        return self._numbers[block]

    def next_task(self, now: float) -> BlockTask | None:
        """Take the next block to send."""
        entry = self.outbox.take_next(now)
        return None if entry is None else BlockTask(*entry)

    def mark_sent(self, block: Block, attempt: int, now: float) -> None:
        """Record that a block is in flight."""
        self.outbox.mark_sent(block, attempt, now)

    def adopt(self, block: Block, attempt: int, now: float) -> None:
        """Treat a block sent by an earlier scheduler as in flight."""
        if self.is_open(block):
            self._withdraw(block)
            self.outbox.mark_sent(block, attempt, now)

    def is_open(self, block: Block) -> bool:
        """True if this block is needed and not answered yet."""
        return block in self._open

    def fail(self, block: Block, attempt: int) -> bool:
        """Send a failed attempt again. True if the block failed too often."""
        if not self.outbox.is_sent(block, attempt):
            return False
        self.outbox.remove_sent(block)
        self.outbox.put_back(block, attempt + 1)
        return attempt + 1 >= MAX_BLOCK_FAILURES

    def _close(self, *blocks: Block) -> None:
        """Note that blocks are answered, or are not needed any more."""
        for block in blocks:
            self._withdraw(block)
            self._open.remove(block)

    def _withdraw(self, block: Block) -> None:
        """Remove a block from the outbox."""
        if block in self.outbox.sent:  # then it is nowhere else
            self.outbox.remove_sent(block)
        else:
            self.outbox.trim(lambda other: [other] if other != block else [])


def cut_blocks(
    features: int, seconds: float, lengths: TaskLengths, triples_seconds: float | None = None
) -> list[tuple[int, int]]:
    """Start and stop of blocks of these lengths, if all pairs take `seconds`.

    All triples take `triples_seconds`; None if they are not screened. Their blocks are all of one length.
    """
    pairs = divide_pairs(features, _cut(seconds, lengths))
    if triples_seconds is None:
        return pairs
    triples = triple_blocks(features, len(_cut(triples_seconds, lengths)))
    return pairs + [(features + start, features + stop) for start, stop in triples]


def _cut(seconds: float, lengths: TaskLengths) -> list[float]:
    """The lengths of neither too few blocks for workers that start later, nor too many to keep track of."""
    if seconds <= MIN_BLOCKS * SHORTEST * lengths.seconds:
        return [seconds / MIN_BLOCKS] * MIN_BLOCKS
    least, workers = seconds / MAX_BLOCKS, max(lengths.workers, MIN_BLOCKS // 2)
    blocks = list(replace(lengths, seconds=max(lengths.seconds, least), workers=workers).cut(seconds))
    # Short blocks near the end may be more than the limit; then all have one length.
    return blocks if len(blocks) <= MAX_BLOCKS else [least] * MAX_BLOCKS


class Screening(BlockMachine):
    """The in-flight state of one screen of `features` features, from these blocks.

    It keeps the `max_pairs` strongest pairs, and the `max_triples` strongest triples of each class and of interactions.
    """

    def __init__(
        self,
        features: int,
        blocks: Sequence[tuple[int, int]],
        max_pairs: int,
        *,
        classes: int = 2,
        max_triples: int = MAX_TRIPLES,
    ) -> None:
        cut = [Block(start, stop, count_sets(start, stop, features)) for start, stop in blocks]
        super().__init__(cut)
        self.features, self.max_pairs, self.max_triples = features, max_pairs, max_triples
        self._kinds = classes + 1
        # The strongest of the answered blocks.
        self.best = Pairs.strongest([], max_pairs)
        self.best_triples = Triples.empty()
        # The number of pairs and triples in the answered blocks, and in all.
        self.screened = 0
        self.sets = sum(block.size for block in cut)

    def describe(self, block: Block) -> str:
        """Say which pairs or triples a block has."""
        if has_triples(block.start, self.features):
            first, last = block.start - self.features, block.stop - self.features - 1
            return f"The triples whose second feature is {first} to {last}"
        return f"The pairs of features {block.start} to {block.stop - 1}"

    def most(self, block: Block) -> int:
        """The number of pairs, or of triples of each kind, that the answer to a block has at most."""
        return self.max_triples if has_triples(block.start, self.features) else self.max_pairs

    def unpack(self, block: Block, body: bytes) -> Pairs | Triples:
        """Unpack the answer to a block."""
        start, stop, features, most = block.start, block.stop, self.features, self.most(block)
        if has_triples(start, features):
            return unpack_triples(body, start - features, stop - features, features, self._kinds, most)
        return unpack_pairs(body, start, stop, features, most)

    def accept(self, block: Block, strongest: Pairs | Triples) -> bool:
        """Accept the strongest pairs or triples of a block; False if they are no longer needed."""
        if not self.is_open(block):
            return False
        self._close(block)
        if isinstance(strongest, Triples):
            self.best_triples = Triples.strongest([self.best_triples, strongest], self.max_triples)
        else:
            self.best = Pairs.strongest([self.best, strongest], self.max_pairs)
        self.screened += block.size
        return True


def cut_searches(count: int, seconds: float, lengths: TaskLengths) -> list[tuple[int, int]]:
    """Start and stop of blocks of searches of these lengths, if one search takes `seconds`; one search at least."""
    until = np.cumsum(_cut(count * max(seconds, 1e-6), lengths))
    stops = np.unique(np.ceil(count * (until / until[-1]) - 1e-6).astype(np.int64))
    return [(int(start), int(stop)) for start, stop in zip([0, *stops[:-1]], stops, strict=True)]


class Shuffling(BlockMachine):
    """The in-flight state of the searches on shuffled labels of one job, in these blocks."""

    def __init__(self, plan: ShufflePlan, blocks: Sequence[tuple[int, int]]) -> None:
        super().__init__(Block(start, stop, stop - start) for start, stop in blocks)
        self.plan = plan
        self._known: dict[int, ShuffledSearch] = {}
        # The time of the answered searches.
        self.seconds = 0.0

    @property
    def done(self) -> int:
        """The number of answered searches."""
        return len(self._known)

    def accept(self, block: Block, searches: Sequence[ShuffledSearch], seconds: float) -> bool:
        """Accept the searches of a block; False if they are no longer needed."""
        if not self.is_open(block):
            return False
        self._close(block)
        self._known |= dict(zip(range(block.start, block.stop), searches, strict=True))
        self.seconds += seconds
        needed = self.plan.count_needed(self._known)
        self._close(*(other for other in self._open if other.start >= needed))
        return True

    def result(self) -> ShuffleResult:
        """The searches that decide the certificate, once all of them are answered."""
        needed = self.plan.count_needed(self._known)
        searches = tuple(self._known[number] for number in range(needed))
        return ShuffleResult(searches, self.plan.count, self.seconds)
