"""The data of a translation: pairs as tokens, training corpora, batches."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from heed.config import FilesData
from heed.data.batch.pairs import PairBatch, TokenPair, collate_pairs
from heed.data.examples import Pair
from heed.data.store.lengths import Lengths
from heed.data.store.sources import Splits, open_pairs
from heed.data.store.store import select
from heed.data.tokens.token_cache import encode_kept
from heed.data.tokens.tokenizer import TextTokenizer
from heed.errors import DataError
from heed.tasks.base.parent import Parent
from heed.tasks.translation.config import TranslationConfig
from heed.tasks.translation.encoding import Encoding, lengths_of
from heed.tasks.translation.stream_set import StreamSet
from heed.tasks.translation.tokenizers import Tokenizers
from heed.tasks.translation.training_set import Corpus, Samplers, TrainingSet


class TranslationData:
    """What a translation reads: splits, tokens, what is trained on.

    Attributes:
        config: The configuration.
        source_tokenizer: Of the sources.
        target_tokenizer: Of the targets.
    """

    def __init__(
        self, config: TranslationConfig, tokenizers: Tokenizers, splits: Splits | None, parent: Parent | None = None
    ) -> None:
        self.config = config
        self.source_tokenizer, self.target_tokenizer = tokenizers
        self._splits = splits
        self._parent = parent
        self._encoded: dict[str, Sequence[TokenPair]] = {}
        self._costs: dict[str, Lengths] = {}
        self._training: TrainingSet | StreamSet | None = None
        self._guides: list[Tensor] | None = None
        self._samplers: Samplers | None = None
        if config.tokenizer.sampling > 0:
            amount = config.tokenizer.sampling
            self._samplers = (self.source_tokenizer.sampler(amount), self.target_tokenizer.sampler(amount))

    @property
    def splits(self) -> Splits:
        """The examples; read or generated on first use."""
        if self._splits is None:
            self._splits = open_pairs(self.config.data)
        return self._splits

    @property
    def split_names(self) -> list[str]:
        """The sets that the data has."""
        return list(self.splits.pairs)

    @property
    def notes(self) -> str:
        """What was read, kept and left out."""
        return self.splits.notes

    def encoded(self, name: str) -> Sequence[TokenPair]:
        """The examples of a split or of a further training corpus as tokens, the corpus's tag before the source."""
        if name not in self._encoded:
            pairs, how = self._pairs_of(name), self._encode(name)
            self._encoded[name] = how(pairs, kept=True) if isinstance(pairs, list) else Encoding(pairs, how)
        return self._encoded[name]

    def _pairs_of(self, name: str) -> Sequence[Pair]:
        extra = self.splits.extra.get(name)
        return self.splits.pairs[name] if extra is None else extra.pairs

    def _encode(self, name: str) -> partial[list[TokenPair]]:
        extra = self.splits.extra.get(name)
        return partial(self.encode_pairs, tag=None if extra is None else extra.tag)

    def _costs_of(self, name: str) -> Lengths:
        """What a batch pays for each pair of a training corpus."""
        if name not in self._costs:
            tokens, extra = self.encoded(name), self.splits.extra.get(name)
            if isinstance(tokens, Encoding):
                assert isinstance(self.config.data, FilesData)  # embedded data is held
                tag = extra is not None and extra.tag is not None
                both = (self.source_tokenizer, self.target_tokenizer)
                self._costs[name] = lengths_of(self._pairs_of(name), both, self.config.data.max_length // 2, tag)
            else:
                self._costs[name] = np.array([pair.cost for pair in tokens], dtype=np.int32).reshape(-1, 2)
        return self._costs[name]

    def encode_pairs(self, pairs: Sequence[Pair], tag: str | None = None, kept: bool = False) -> list[TokenPair]:
        """Pairs to tokens, a tag before each source where one is given; of many pairs they may be kept on disk."""
        before = [] if tag is None else [self.source_tokenizer.tags[tag]]
        both, how = (self.source_tokenizer, self.target_tokenizer), encode_kept if kept else TextTokenizer.encode_all
        sides = [pair.source for pair in pairs], [pair.target for pair in pairs]
        sources, targets = (how(tokenizer, texts) for tokenizer, texts in zip(both, sides, strict=True))
        return [TokenPair([*before, *s], t) for s, t in zip(sources, targets, strict=True)]

    @property
    def training(self) -> TrainingSet | StreamSet:
        """Everything that is trained on: the training set, then the further corpora; or a stream."""
        if self._training is None:
            stream, both = self.splits.stream, (self.source_tokenizer, self.target_tokenizer)
            if stream is not None and isinstance(self.config.data, FilesData):
                self._training = StreamSet(stream, both, self.encode_pairs, self.config.data.max_length)
                return self._training
            corpora = [Corpus(self.splits.pairs["train"], self.encoded("train"), self._costs_of("train"))]
            for name, corpus in self.splits.extra.items():
                tag = None if corpus.tag is None else self.source_tokenizer.tags[corpus.tag]
                corpora.append(Corpus(corpus.pairs, self.encoded(name), self._costs_of(name), corpus.weight, tag))
            self._training = TrainingSet(corpora)
        return self._training

    def _leave_out_long(self) -> None:
        """Drop training pairs that are too long, and count them; a stream does so window by window."""
        data, splits = self.config.data, self.splits
        if not isinstance(data, FilesData) or splits.stream:
            return

        def short(name: str) -> NDArray[np.int64]:
            costs = self._costs_of(name)
            return np.flatnonzero(np.maximum(costs[:, 0] - 1, costs[:, 1]) <= data.max_length)

        def keep(name: str, kept: NDArray[np.int64], pairs: Sequence[Pair]) -> None:
            held = not isinstance(self.encoded(name), Encoding)
            self._encoded[name] = select(self.encoded(name), kept) if held else Encoding(pairs, self._encode(name))
            self._costs[name] = self._costs[name][kept]

        rule = f"longer than data.max_length {data.max_length} tokens"
        pairs, kept = splits.pairs["train"], short("train")
        if not len(kept):
            raise DataError(f"every training pair is longer than data.max_length {data.max_length} tokens")
        if len(kept) < len(pairs):
            counts = splits.counts["train"]
            counts.filtered[rule] = len(pairs) - len(kept)
            counts.kept = len(kept)
            splits.pairs["train"] = select(pairs, kept)
            keep("train", kept, splits.pairs["train"])
        for name, corpus in splits.extra.items():
            kept = short(name)
            if len(kept) < len(corpus.pairs):
                splits.extra[name] = corpus.keep(kept, rule)
                keep(name, kept, splits.extra[name].pairs)

    def train_batches(self, epoch: int) -> Sequence[list[int]]:
        """The batches of one pass over the training set, and over the further corpora as often as they weigh."""
        config = self.config.training
        return self.training.batches(config.batch_tokens, config.seed, epoch)

    def work(self, indices: list[int]) -> int:
        """Padded positions of a training batch."""
        return len(indices) * int(self.training.costs_of(indices).max(0).sum())

    def describe(self, indices: list[int]) -> str:
        """Name the first of some training examples, and how many there are."""
        pair = self.training.pair(indices[0])
        where = pair.origin or f"training example {indices[0]}"
        return f"{len(indices)} examples, the first {where}: {pair.source!r}"

    @property
    def finishing_work(self) -> float:
        """Evaluating every test set, in validations (attention is looked at as well, about doubling the cost)."""
        pairs = self.splits.pairs
        tested = sum(len(examples) for name, examples in pairs.items() if name not in ("train", "valid"))
        # Validation is greedy; a beam costs at most its width more.
        return (1.0 + self.config.generation.beam_size) * tested / max(1, len(pairs["valid"]))

    def forced_batch(self, source: str, target: Sequence[int]) -> PairBatch:
        """One source with one given output, as a batch of one."""
        pair = TokenPair(self.source_tokenizer.encode(source).ids, list(target))
        return collate_pairs([pair], [0])

    def collate_pairs(self, pairs: Sequence[Pair]) -> PairBatch:
        """Any pairs as one batch, in the order given."""
        return collate_pairs(self.encode_pairs(pairs), list(range(len(pairs))))
