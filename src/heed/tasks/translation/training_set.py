"""What a translation model is trained on: the training set, and further corpora as often as they weigh."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from heed.data.batch.pairs import PairBatch, TokenPair, collate_pairs, draw_epoch, plan_pass
from heed.data.examples import Pair
from heed.data.store.lengths import Lengths
from heed.data.store.store import Joined
from heed.data.tokens.subwords import SubwordSampler
from heed.tasks.translation.encoding import Encoding
from heed.training.checkpoint import draw_seed

__all__ = ["Corpus", "Samplers", "TrainingSet", "collate_anew"]

Samplers = tuple[SubwordSampler, SubwordSampler]
"""Of source and target."""


@dataclass(frozen=True)
class Corpus:
    """One corpus of the training set.

    Attributes:
        pairs: As text.
        tokens: As tokens, the tag before each source.
        costs: What a batch pays for each pair.
        weight: How often it is seen in one pass.
        tag: The token put before its sources, or None.
    """

    pairs: Sequence[Pair]
    tokens: Sequence[TokenPair]
    costs: Lengths
    weight: float = 1.0
    tag: int | None = None


class TrainingSet:
    """Corpora, their pairs numbered through in the order of the corpora.

    Attributes:
        pairs: All pairs as text.
        tokens: All pairs as tokens.
        costs: What a batch pays for each pair.
    """

    def __init__(self, corpora: Sequence[Corpus]) -> None:
        self.pairs: Joined[Pair] = Joined([corpus.pairs for corpus in corpora])
        self.tokens: Joined[TokenPair] = Joined([corpus.tokens for corpus in corpora])
        self.costs = np.concatenate([corpus.costs for corpus in corpora])
        self._corpora = corpora
        self._pass = (0, 0)
        self._held = not any(isinstance(corpus.tokens, Encoding) for corpus in corpora)

    def __len__(self) -> int:
        return len(self.pairs)

    @property
    def longest_target(self) -> int:
        """Tokens of the longest target."""
        return int(self.costs[:, 0].max()) - 1

    def pair(self, index: int) -> Pair:
        """One pair as text."""
        return self.pairs[index]

    def token_pair(self, index: int) -> TokenPair:
        """One pair as tokens."""
        return self.tokens[index]

    def costs_of(self, indices: Sequence[int]) -> Lengths:
        """What a batch pays for each of some pairs."""
        return self.costs[indices]

    def samples(self) -> list[int]:
        """A few pairs, to be shown."""
        return list(range(0, len(self.pairs), max(1, len(self.pairs) // 3)))

    def batches(self, batch_tokens: int, seed: int, epoch: int) -> Sequence[list[int]]:
        """The batches of one pass; a function of (seed, epoch) only."""
        chosen = None
        if len(self._corpora) > 1:
            sizes, weights = [len(c.pairs) for c in self._corpora], [c.weight for c in self._corpora]
            chosen = draw_epoch(sizes, weights, seed, epoch)
        self._pass = (seed, epoch)
        plan = plan_pass(self.costs, batch_tokens, seed, epoch, chosen)
        # A plan is read as a list is; of millions of pairs, lists would be the largest thing in memory.
        return list(plan) if self._held else plan

    def collate(self, indices: list[int], samplers: Samplers | None) -> PairBatch:
        """One batch of the pass that was planned last.

        Args:
            indices: Which pairs.
            samplers: Of source and target, which cut each text anew in each pass; None to take the tokens as they are.
        """
        if samplers is None:
            return collate_pairs(self.tokens, indices)
        tags = [self._corpora[self.pairs.part_of(i)].tag for i in indices]
        return collate_anew(self.pairs.take(indices), indices, tags, samplers, self._pass)


def collate_anew(
    pairs: Sequence[Pair], indices: list[int], tags: Sequence[int | None], samplers: Samplers, drawn: tuple[int, int]
) -> PairBatch:
    """A batch of pairs whose texts are cut anew.

    Args:
        pairs: The pairs of the batch.
        indices: What they are known by.
        tags: The token before each source, or None.
        samplers: Of source and target.
        drawn: Seed and pass. A text is cut the same wherever and whenever it stands in a pass: in any process, and
            after a resume.
    """
    cut = []
    for pair, i, tag in zip(pairs, indices, tags, strict=True):
        source, target = (
            sampler.encode(text, draw_seed(*drawn, i, side))
            for side, (sampler, text) in enumerate(zip(samplers, (pair.source, pair.target), strict=True))
        )
        cut.append(TokenPair(source if tag is None else [tag, *source], target))
    return replace(collate_pairs(cut, list(range(len(cut)))), indices=indices)
