"""What a translation model is trained on: the training set, and further corpora as often as they weigh."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from heed.data.batching import PairBatch, TokenPair, collate_pairs, draw_epoch, plan_batches
from heed.data.examples import Pair
from heed.data.store import Joined
from heed.tasks.tokenizers import Tokenizers

__all__ = ["Corpus", "TrainingSet"]


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
        self._costs = [pair.cost for pair in self.tokens]  # the same in every epoch

    def batches(self, batch_tokens: int, seed: int, epoch: int) -> list[list[int]]:
        """The batches of one pass; a function of (seed, epoch) only."""
        chosen = None
        if len(self._corpora) > 1:
            sizes, weights = [len(c.pairs) for c in self._corpora], [c.weight for c in self._corpora]
            chosen = draw_epoch(sizes, weights, seed, epoch)
        return plan_batches(self._costs, batch_tokens, seed, epoch, chosen)

    def collate(self, indices: list[int], samplers: Tokenizers | None) -> PairBatch:
        """One batch.

        Args:
            indices: Which pairs.
            samplers: Tokenizers of source and target that cut a text differently each time; None to take the tokens
                as they are.
        """
        if samplers is None:
            return collate_pairs(self.tokens, indices)
        pairs = [self.pairs[i] for i in indices]
        sources = samplers[0].encode_all([pair.source for pair in pairs])
        targets = samplers[1].encode_all([pair.target for pair in pairs])
        tags = [self._corpora[self.pairs.part_of(i)].tag for i in indices]
        cut = [
            TokenPair(source if tag is None else [tag, *source], target)
            for tag, source, target in zip(tags, sources, targets, strict=True)
        ]
        return replace(collate_pairs(cut, list(range(len(cut)))), indices=indices)
