"""What a translation model is trained on: the training set, and further corpora as often as they weigh."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from heed.data.batching import PairBatch, TokenPair, collate_pairs, draw_epoch, plan_batches
from heed.data.examples import Pair
from heed.data.store import Joined
from heed.data.subwords import SubwordSampler
from heed.training.checkpoint import draw_seed

__all__ = ["Corpus", "Samplers", "TrainingSet"]

Samplers = tuple[SubwordSampler, SubwordSampler]
"""Of source and target."""


@dataclass(frozen=True)
class Corpus:
    """One corpus of the training set.

    Attributes:
        pairs: As text.
        tokens: As tokens, the tag before each source.
        weight: How often it is seen in one pass.
        tag: The token put before its sources, or None.
    """

    pairs: Sequence[Pair]
    tokens: Sequence[TokenPair]
    weight: float = 1.0
    tag: int | None = None


class TrainingSet:
    """Corpora, their pairs numbered through in the order of the corpora.

    Attributes:
        pairs: All pairs as text.
        tokens: All pairs as tokens.
    """

    def __init__(self, corpora: Sequence[Corpus]) -> None:
        self.pairs: Joined[Pair] = Joined([corpus.pairs for corpus in corpora])
        self.tokens: Joined[TokenPair] = Joined([corpus.tokens for corpus in corpora])
        self._corpora = corpora
        self._pass = (0, 0)
        self._costs = [pair.cost for pair in self.tokens]  # the same in every epoch

    def batches(self, batch_tokens: int, seed: int, epoch: int) -> list[list[int]]:
        """The batches of one pass; a function of (seed, epoch) only."""
        chosen = None
        if len(self._corpora) > 1:
            sizes, weights = [len(c.pairs) for c in self._corpora], [c.weight for c in self._corpora]
            chosen = draw_epoch(sizes, weights, seed, epoch)
        self._pass = (seed, epoch)
        return plan_batches(self._costs, batch_tokens, seed, epoch, chosen)

    def collate(self, indices: list[int], samplers: Samplers | None) -> PairBatch:
        """One batch of the pass that was planned last.

        Args:
            indices: Which pairs.
            samplers: Of source and target, which cut each text anew in each pass; None to take the tokens as they are.
        """
        if samplers is None:
            return collate_pairs(self.tokens, indices)
        cut = []
        for i in indices:
            pair, tag = self.pairs[i], self._corpora[self.pairs.part_of(i)].tag
            # A text is cut the same wherever and whenever it stands in a pass: in any process, and after a resume.
            source, target = (
                sampler.encode(text, draw_seed(*self._pass, i, side))
                for side, (sampler, text) in enumerate(zip(samplers, (pair.source, pair.target), strict=True))
            )
            cut.append(TokenPair(source if tag is None else [tag, *source], target))
        return replace(collate_pairs(cut, list(range(len(cut)))), indices=indices)
