"""The data of a translation: pairs as tokens, training corpora, batches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from heed.config import Columns, FilesData
from heed.data.batch.pairs import PairBatch, TokenPair, collate_pairs
from heed.data.examples import Pair, Span
from heed.data.read.findings import Findings
from heed.data.read.memory import hold
from heed.data.read.pairs import pair_reader
from heed.data.read.shuffled import sentence_reader
from heed.data.sequences import select, take
from heed.data.store.lengths import Lengths, lengths_of
from heed.data.store.pairs import open_pairs
from heed.data.store.splits import Splits
from heed.data.tokens.growth import MEASURED, Growth
from heed.data.tokens.subwords import SubwordSampler
from heed.data.tokens.token_cache import encode_cached
from heed.data.tokens.tokenizer import END, START, TextTokenizer
from heed.errors import DataError
from heed.models.base import learned_positions
from heed.tasks.base.contents import advice
from heed.tasks.base.task import Task
from heed.tasks.base.training_set import Coding, Corpus, Encoding, StreamSet, TrainingSet
from heed.tasks.translation.config import TranslationConfig
from heed.tasks.translation.tokenizers import Tokenizers
from heed.training.checkpoint import draw_seed


class TranslationData(Task[TranslationConfig, Pair]):
    """The data of a translation task: splits, tokens, training corpora."""

    def __init__(self, config: TranslationConfig, tokenizers: Tokenizers, splits: Splits[Pair] | None) -> None:
        super().__init__(config, splits)
        self.source_tokenizer, self.target_tokenizer = tokenizers
        self._encoded: dict[str, Sequence[TokenPair]] = {}
        self._lengths: dict[str, Lengths] = {}
        self._training: TrainingSet[Pair, TokenPair, PairBatch] | None = None
        amount = config.tokenizer.sampling
        self._samplers = [tokenizer.sampler(amount) for tokenizer in tokenizers] if amount > 0 else []

    def tokenizers(self) -> dict[str, TextTokenizer]:
        """The tokenizers of both sides."""
        return {"source": self.source_tokenizer, "target": self.target_tokenizer}

    @classmethod
    def open_splits(cls, config: TranslationConfig, given: Mapping[str, Sequence[Pair]] | None = None) -> Splits[Pair]:
        """Read or generate the pairs, or take the `given` ones."""
        return open_pairs(config.data, given, advice)

    @classmethod
    def hold(cls, data: Any, split: str, config: Any, findings: Findings) -> Sequence[Pair]:
        """Pairs: (source, target) tuples, (sources, targets), or columns `source` and `target`.

        If sources are the shuffled words of targets, only sentences.
        """
        section = config.data if isinstance(config.data, FilesData) else None
        columns = Columns() if section is None else section.columns
        if section is not None and section.shuffle_source is not None:
            shuffled = sentence_reader(columns, section.shuffle_seed)
            return hold(data, split, shuffled, {"target": columns.target}, findings, {"target": ("text",)})
        wanted = {"source": columns.source, "target": columns.target}
        return hold(data, split, pair_reader((), Columns(), "", ""), wanted, findings)

    @property
    def frame(self) -> tuple[list[int], list[int]]:
        """The tokens added before and after each source (`model.source_frame`)."""
        kind = (self.config.model.model_extra or {}).get("source_frame", "none")
        return [START] if kind == "both" else [], [END] if kind in ("end", "both") else []

    def framed(self, source: Sequence[int]) -> list[int]:
        """A source with the tokens of its frame, as the model reads it."""
        before, after = self.frame
        return [*before, *source, *after]

    def within(self, columns: int) -> slice:
        """The positions of a framed source, of this length, that are not part of the frame."""
        before, after = self.frame
        return slice(len(before), columns - len(after))

    def encoded(self, name: str) -> Sequence[TokenPair]:
        """The examples of a split or of a further training corpus as tokens, the corpus's tag before the source."""
        if name not in self._encoded:
            pairs = self._pairs_of(name)
            held = isinstance(pairs, list)
            self._encoded[name] = self.encode_pairs(pairs, self._tag(name), True) if held else self._unheld(name, pairs)
        return self._encoded[name]

    def _unheld(self, name: str, pairs: Sequence[Pair]) -> Encoding[TokenPair]:
        return Encoding(pairs, partial(self.encode_pairs, tag=self._tag(name)))

    def _pairs_of(self, name: str) -> Sequence[Pair]:
        extra = self.splits.extra.get(name)
        return self.splits.examples[name] if extra is None else extra.examples

    def _tag(self, name: str) -> str | None:
        extra = self.splits.extra.get(name)
        return None if extra is None else extra.tag

    @staticmethod
    def costs(lengths: Lengths) -> Lengths:
        """Cost of pairs in a batch: the lengths of the target, with its start or end token, and of the source.

        Batches group pairs of similar target length, then of similar source length.
        """
        return lengths[:, ::-1] + np.array([1, 0], dtype=np.int32)

    @property
    def positions(self) -> int | None:
        """Positions in the model's learned table; None if it has no table."""
        return learned_positions(self.body_class.config_class, self.config.model.model_extra or {})

    @property
    def _most(self) -> int:
        """The most tokens that a side of a training pair may have."""
        most = self.config.data.max_length if isinstance(self.config.data, FilesData) else 2**30
        return most if self.positions is None else min(most, self.positions - 1)  # one for the start token of a target

    @cached_property
    def _growth(self) -> list[Growth]:
        """The growth of each side's texts by subword sampling."""
        # For a stream, the validation pairs: its first window cannot be read again after a resume.
        examples = self.splits.examples["valid" if self.splits.stream else "train"]
        pairs = take(examples, range(0, len(examples), max(1, len(examples) // MEASURED))[:MEASURED])
        sides = zip(self._samplers, zip(*(pair.texts for pair in pairs), strict=True), strict=True)
        return [Growth.measured(sampler, texts) for sampler, texts in sides]

    def trained(self, lengths: Lengths) -> Lengths:
        """The most tokens that pairs of these lengths have in training, `(pairs, 2)`: more with subword sampling."""
        if not self._samplers:
            return lengths
        bounds = [growth.bound(lengths[:, side]) for side, growth in enumerate(self._growth)]
        return np.minimum(np.stack(bounds, axis=1), np.maximum(lengths, self._most))

    def _lengths_of(self, name: str) -> Lengths:
        """The numbers of tokens of the pairs of a training corpus, including its tag."""
        if name not in self._lengths:
            tokens = self.encoded(name)
            if isinstance(tokens, Encoding):
                self._lengths[name] = self._word_lengths(self._pairs_of(name), self._tag(name))
            else:
                self._lengths[name] = np.array([[len(s), len(t)] for s, t in tokens], dtype=np.int32).reshape(-1, 2)
        return self._lengths[name]

    def _word_lengths(self, pairs: Sequence[Pair], tag: str | None) -> Lengths:
        assert isinstance(self.config.data, FilesData)  # embedded data is held
        both = (self.source_tokenizer, self.target_tokenizer)
        lengths = lengths_of(pairs, both, self.config.data.max_length // 2)
        further = len(self.framed([])) + (tag is not None)
        return lengths + np.array([further, 0], dtype=np.int32) if further else lengths

    def encode_pairs(self, pairs: Sequence[Pair], tag: str | None = None, kept: bool = False) -> list[TokenPair]:
        """Encode pairs as tokens, with the tag, if given, before each source; `kept`: many pairs are cached on disk."""
        before = [] if tag is None else [self.source_tokenizer.tags[tag]]
        both, how = (self.source_tokenizer, self.target_tokenizer), encode_cached if kept else TextTokenizer.encode_all
        sides = [pair.source for pair in pairs], [pair.target for pair in pairs]
        sources, targets = (how(tokenizer, texts) for tokenizer, texts in zip(both, sides, strict=True))
        return [TokenPair(self.framed([*before, *s]), t) for s, t in zip(sources, targets, strict=True)]

    def _cut_anew(
        self, pair: Pair, tag: str | None, drawn: tuple[int, int, int], lengths: NDArray[np.int32]
    ) -> TokenPair:
        source, target = (
            sampler.encode(text, draw_seed(*drawn, side), most)
            for side, (sampler, text, most) in enumerate(self._to_cut(pair, tag, lengths))
        )
        before = [] if tag is None else [self.source_tokenizer.tags[tag]]
        return TokenPair(self.framed([*before, *source]), target)

    def _to_cut(self, pair: Pair, tag: str | None, lengths: NDArray[np.int32]) -> list[tuple[SubwordSampler, str, int]]:
        """The sampler, the text and the most tokens of both sides; `lengths` of sources include tag and frame."""
        source, target = self.trained(lengths[None])[0].tolist()
        most = source - len(self.framed([])) - (tag is not None), target
        return list(zip(self._samplers, pair.texts, most, strict=True))

    @property
    def cuts_anew(self) -> bool:
        """True if texts are cut into different tokens in each pass (subword sampling)."""
        return bool(self._samplers)

    def spans_of(self, index: int, pair: Pair) -> tuple[tuple[list[Span], list[Span]], tuple[str, str]]:
        """The spans of the tokens of both texts of a training pair, as they are cut in the pass planned last.

        Returns:
            Spans of the source and the target, without frame and tag; and the texts that the spans refer to, which are
            normalised with subword sampling.
        """
        both = self.source_tokenizer, self.target_tokenizer
        if not self._samplers:
            source, target = (tokenizer.encode(text).spans for tokenizer, text in zip(both, pair.texts, strict=True))
            return (source, target), (pair.source, pair.target)
        drawn, (lengths,) = self.training.drawn(index), self.training.lengths_at([index])
        source, target = (
            sampler.encode_spans(text, draw_seed(*drawn, side), most)[1]
            for side, (sampler, text, most) in enumerate(self._to_cut(pair, self.training.corpus_of(index)[1], lengths))
        )
        return (source, target), (both[0].normalize(pair.source), both[1].normalize(pair.target))

    def links_shown(self, index: int, pair: Pair) -> str:
        """The links that guide the attention to a training pair, for people; "" for none."""
        return ""

    @property
    def training(self) -> TrainingSet[Pair, TokenPair, PairBatch]:
        """All training data: the training set, then the further corpora; or a stream."""
        if self._training is None:
            stream, cut = self.splits.stream, self._cut_anew if self._samplers else None
            planned = lambda lengths: self.costs(self.trained(lengths))  # noqa: E731
            coding = Coding(self.encode_pairs, self._word_lengths, planned, collate_pairs, cut)
            if stream is not None and isinstance(self.config.data, FilesData):
                self._training = StreamSet(stream, coding, self._most, self._rule)
                return self._training
            corpora = [Corpus(self.splits.examples["train"], self.encoded("train"), self._lengths_of("train"))]
            for name, corpus in self.splits.extra.items():
                lengths = self._lengths_of(name)
                corpora.append(Corpus(corpus.examples, self.encoded(name), lengths, corpus.weight, corpus.tag))
            self._training = TrainingSet(corpora, coding)
        return self._training

    @property
    def _rule(self) -> str:
        """The reason for leaving out a training pair that is too long."""
        if isinstance(self.config.data, FilesData) and self._most == self.config.data.max_length:
            return f"longer than data.max_length {self._most} tokens"
        return f"longer than the {self._most} tokens that model.max_length has positions for"

    def _leave_out_long(self) -> None:
        """Drop training pairs that are too long, and count them; a stream does so window by window."""
        data, splits = self.config.data, self.splits
        if not isinstance(data, FilesData) or splits.stream:
            return

        def keep(name: str, examples: Sequence[Pair]) -> tuple[Sequence[Pair], NDArray[np.int64]]:
            kept = np.flatnonzero(self._lengths_of(name).max(1) <= self._most)
            if len(kept) < len(examples):
                examples = select(examples, kept)
                held = not isinstance(self.encoded(name), Encoding)
                self._encoded[name] = select(self.encoded(name), kept) if held else self._unheld(name, examples)
                self._lengths[name] = self._lengths[name][kept]
            return examples, kept

        rule = self._rule
        pairs = splits.examples["train"]
        splits.examples["train"], kept = keep("train", pairs)
        if not len(kept):
            raise DataError(f"every training pair is {rule}; raise the limit, or give shorter pairs")
        if len(kept) < len(pairs):
            counts = splits.counts["train"]
            counts.filtered[rule] = len(pairs) - len(kept)
            counts.kept = len(kept)
        for name, corpus in splits.extra.items():
            splits.extra[name] = corpus.keep(keep(name, corpus.examples)[1], rule)

    def train_batches(self, epoch: int) -> Sequence[list[int]]:
        """The batches of one pass over the training set, and over the further corpora by their weights."""
        config = self.config.training
        return self.training.batches(config.batch_tokens, config.seed, epoch)

    def work(self, indices: list[int]) -> int:
        """Padded positions of a training batch."""
        return self.training.work(indices)

    def describe(self, indices: list[int]) -> str:
        """Name the first of some training examples, and their number."""
        pair = self.training.examples_at(indices[:1])[0]
        where = pair.origin or f"training example {indices[0]}"
        return f"{len(indices)} examples, the first {where}: {pair.source!r}"

    @property
    def finishing_work(self) -> float:
        """The time to evaluate every test set, in validations (scoring attention as well about doubles the cost)."""
        pairs = self.splits.examples
        tested = sum(len(examples) for name, examples in pairs.items() if name not in ("train", "valid"))
        # Validation is greedy; a beam search costs at most the beam size times as much.
        return (1.0 + self.config.generation.beam_size) * tested / max(1, len(pairs["valid"]))

    @property
    def trained_validation(self) -> float:
        """Time of a validation after training: trained models write outputs as long as references, not the largest."""
        pairs = self.encoded("valid")
        longest = max(len(pair.target) for pair in pairs) + 2
        mean = sum(len(pair.target) + 1 for pair in pairs) / len(pairs)
        # Outputs of a batch are written together, until the longest ends.
        return min(1.0, 1.5 * mean / longest)

    def forced_batch(self, source: str, target: Sequence[int]) -> PairBatch:
        """One source with one given output, as a batch of one."""
        pair = TokenPair(self.framed(self.source_tokenizer.encode(source).ids), list(target))
        return collate_pairs([pair], [0])

    def collate_pairs(self, pairs: Sequence[Pair]) -> PairBatch:
        """Any pairs as one batch, in the order given."""
        return collate_pairs(self.encode_pairs(pairs), list(range(len(pairs))))
