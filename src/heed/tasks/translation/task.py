"""Translation: pairs of texts, a pair decoder, the loss over the target's tokens, outputs as text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import starmap
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from heed.data.batch import PairBatch, TokenPair, collate_pairs, plan_batches
from heed.data.corpus import Corpus, Lengths, corpus_of
from heed.data.examples import Link, Pair, Span, in_turn, take
from heed.data.findings import Findings, found_table
from heed.data.kinds.pairs import SIDES, Names, pair_reader
from heed.data.readers import hold
from heed.data.splits import Splits
from heed.data.tokens.subwords import MEASURED, Growth, SubwordSampler
from heed.data.tokens.tokenizer import TextTokenizer, beginning
from heed.errors import ConfigError, DataError
from heed.generation import SamplingOptions, Writer
from heed.models.base import Memory, PairDecoder
from heed.observe.trace import trace
from heed.registry import body_class
from heed.tasks import suggest_task
from heed.tasks.base.predictions import short
from heed.tasks.base.report import SideCounts, length_table, sample_lines, vocabulary_warnings
from heed.tasks.base.task import check_positions
from heed.tasks.base.training_set import Coding, TrainingSet, Weighted
from heed.tasks.base.transfer import Parent, with_parents
from heed.tasks.base.writing import TOGETHER, ToWrite, Writing, WrittenText
from heed.tasks.translation.config import TranslationConfig
from heed.tasks.translation.start import (
    Tokenizers,
    auto_size,
    counterparts,
    few_because,
    for_few_pairs,
    learn_tokenizers,
    load_tokenizers,
    open_pairs,
    save_tokenizers,
    taken_part,
    with_body,
)
from heed.tasks.translation.supervision import Supervision, attention_loss, check_model, supervised_weights
from heed.training.checkpoint import draw_seed
from heed.training.contracts import Loss
from heed.training.loss import loss_at

VALIDATE_AT_MOST = 500
"""Most validation examples that are decoded; the loss uses all examples."""


_BLANK = WrittenText("", 0.0, 0.0, (), (), True, ())


class Translation(Writing[TranslationConfig, Pair, list[int], TokenPair]):
    """The task of translation: pairs as tokens, training corpora, model, loss, scores, writing."""

    names: ClassVar[Names] = SIDES
    """Usual names of the columns of both sides."""
    interfaces = ("pair_decoder",)
    size_fields: ClassVar = {"source": "source_vocab_size", "target": "target_vocab_size"}
    units: ClassVar = {"source": "source tokens", "target": "target tokens"}
    alternatives: ClassVar = {"source": ("source", "tokens")}

    def __init__(self, config: TranslationConfig, tokenizers: Tokenizers, splits: Splits[Pair] | None) -> None:
        super().__init__(config, splits)
        self.source_tokenizer, self.target_tokenizer = tokenizers
        self._encoded: dict[str, Corpus[TokenPair]] = {}
        amount = config.tokenizer.sampling
        self._samplers = [tokenizer.sampler(amount) for tokenizer in tokenizers] if amount > 0 else []

    @classmethod
    def prepare(cls, config: TranslationConfig, given: Mapping[str, Sequence[Pair]] | None = None) -> Translation:
        config, parent, tokenizer_parent = with_parents(with_body(config), cls)
        known = cls._of_parent(config, parent)
        splits = cls.read_splits(config, given)
        seen = [splits.examples["train"], *(corpus.examples for corpus in splits.extra.values())]
        count = sum(map(len, seen))
        asked, config = config, for_few_pairs(config, count, body_class(config.model.name, cls.interfaces))
        if config is not asked:
            why = few_because(asked, count)
            splits.remarks.append(f"{why}: using size scarce and the settings for few pairs (docs/data.md, Few pairs)")
        if tokenizer_parent is None:
            config, tokenizers, remark = learn_tokenizers(config, seen, count, known)
            splits.remarks += [remark] if remark else []
        else:
            tokenizers = (
                tokenizer_parent.tokenizer("source", cls.alternatives),
                tokenizer_parent.tokenizer("target", cls.alternatives),
            )
        tokenizers[0].add_tags(corpus.tag for corpus in splits.extra.values() if corpus.tag is not None)
        task = cls(config, tokenizers, splits)
        task._leave_out_long()
        _ = task.supervision  # reports errors in files of links before anything is trained
        if task.positions is not None:
            names = [name for name in task.split_names if name != "train" or config.data.is_embedded]
            needed = {name: int(np.add(task.encoded(name).lengths, (0, 1)).max()) for name in names}
            check_positions(task.positions, needed, config.generation.max_length)
        return task.settle(parent)

    @staticmethod
    def _of_parent(config: TranslationConfig, parent: Parent | None) -> Mapping[str, TextTokenizer]:
        """The tokenizers that come with a parent's body, by side; none if the user set fields of the tokenizer."""
        part = None if parent is None else taken_part(config, parent)
        if part is None or parent is None or config.tokenizer.model_fields_set - {"sampling"}:
            return {}
        theirs = parent.task.tokenizers()
        sides = {"encoder": ["source"], "decoder": ["target"], "both": ["source", "target"]}[part]
        return {side: theirs.get(side) or theirs["tokens"] for side in sides if theirs.keys() & {side, "tokens"}}

    def taken_from(
        self, parent: Parent, own: Mapping[str, Tensor], prefix: str, given: dict[str, Tensor]
    ) -> Mapping[str, str] | None:
        part = taken_part(self.config, parent)
        return None if part is None else counterparts(part, parent.task.config.model.name, own, prefix, given)

    @classmethod
    def restore(cls, config: TranslationConfig, folder: Path) -> Translation:
        return cls(config, load_tokenizers(folder, config.tokenizer), None)

    @classmethod
    def resume(
        cls, config: TranslationConfig, folder: Path, given: Mapping[str, Sequence[Pair]] | None = None
    ) -> Translation:
        task = super().resume(config, folder, given)
        task._leave_out_long()
        return task

    def save(self, folder: Path) -> None:
        save_tokenizers(folder, (self.source_tokenizer, self.target_tokenizer))

    @property
    def selected_by(self) -> str:
        return "exact_match" if self.config.data.is_embedded else "chrf"

    @property
    def text_scores(self) -> tuple[str, ...]:
        """The scores of texts in addition to exact match (see `output_measures`); none for embedded data."""
        return () if self.config.data.is_embedded else ("chrf", "bleu", "ter")

    @property
    def quick_scores(self) -> tuple[str, ...]:
        return () if self.config.data.is_embedded else ("bleu", "chrf")

    def training_references(self) -> Sequence[str]:
        return () if self.config.data.is_embedded else [pair.target for pair in self.few_trained()]

    @property
    def auto_size(self) -> str:
        return auto_size(self.config, len(self.training))

    def build_model(self) -> PairDecoder:
        model: PairDecoder = super().build_model()
        if (section := self.config.training.supervision) is not None:
            check_model(model, section, self.config.training.supervised_by, self.config.model.name)
        return model

    def axes(self) -> dict[str, list[str]]:
        return {kind: tokenizer.tokens for kind, tokenizer in self.tokenizers().items()}

    def collate(self, indices: list[int], epoch: int = 0) -> PairBatch:
        batch = self.training.collate(indices)
        return batch if self.supervision is None else self.supervision.on(batch)

    @cached_property
    def supervision(self) -> Supervision | None:
        """The wanted attention in training; None without guided attention."""
        section = self.config.training.supervision
        return None if section is None else Supervision(self, section)

    def loss(self, model: PairDecoder, batch: PairBatch, label_smoothing: float) -> Tensor | Loss:
        """The loss of every task that writes, plus that of guided attention."""
        section = self.config.training.supervision
        if batch.alignment is None or section is None:
            return super().loss(model, batch, label_smoothing)
        with trace(model, grad=True, mechanism="cross", layer=section.layer) as seen:
            hidden = self.hidden(model, batch)
        weights = supervised_weights(seen, section)
        of_text = loss_at((batch.target_mask, batch.num_targets), hidden, batch.labels, model.output, label_smoothing)
        of_weights = section.weight * attention_loss(weights, batch.alignment, batch.source_mask, section.loss)
        return Loss(of_text + of_weights, {"text": of_text, "alignment": of_weights})

    # Data -----------------------------------------------------------------------------------------------------

    def tokenizers(self) -> dict[str, TextTokenizer]:
        return {"source": self.source_tokenizer, "target": self.target_tokenizer}

    @classmethod
    def open_splits(cls, config: TranslationConfig, given: Mapping[str, Sequence[Pair]] | None = None) -> Splits[Pair]:
        return open_pairs(config.data, given, suggest_task, cls.names)

    @classmethod
    def hold(cls, data: Any, split: str, config: Any, findings: Findings) -> Sequence[Pair]:
        """Pairs: (source, target) tuples, (sources, targets), or columns `source` and `target`."""
        columns = config.data.columns
        return hold(data, split, pair_reader(columns, names=cls.names), ["source", "target"], findings)

    @property
    def frame(self) -> tuple[list[int], list[int]]:
        """The tokens added before and after each source (`model.source_frame`)."""
        kind = (self.config.model.model_extra or {}).get("source_frame", "none")
        special = self.source_tokenizer.special
        return [special.start] if kind == "both" else [], [special.end] if kind in ("end", "both") else []

    def framed(self, source: Sequence[int]) -> list[int]:
        """A source with the tokens of its frame, as the model reads it."""
        before, after = self.frame
        return [*before, *source, *after]

    def within(self, columns: int) -> slice:
        """The positions of a framed source, of this length, that are not part of the frame."""
        before, after = self.frame
        return slice(len(before), columns - len(after))

    def encoded(self, name: str) -> Corpus[TokenPair]:
        """The examples of a split or of a further training corpus as tokens, the corpus's tag before the source."""
        if name not in self._encoded:
            pairs, tag = self._pairs_of(name)
            texts = [tokenizer.text for tokenizer in (self.source_tokenizer, self.target_tokenizer)]
            what = {"frame": self.frame, **self.config.data.model_dump(include={"max_source"})}
            what |= {"tokenizers": texts, "tag": tag}
            encode = lambda: (self.encode_pairs(some, tag) for some in in_turn(pairs))  # noqa: E731
            made = lambda rows: [*starmap(TokenPair, rows)]  # noqa: E731
            self._encoded[name] = corpus_of(pairs, encode, ["<i4", "<i4"], made, **what)
        return self._encoded[name]

    def _pairs_of(self, name: str) -> tuple[Sequence[Pair], str | None]:
        """The pairs of a split or further corpus, and the tag of the corpus."""
        extra = self.splits.extra.get(name)
        return (self.splits.examples[name], None) if extra is None else (extra.examples, extra.tag)

    @staticmethod
    def costs(lengths: Lengths) -> Lengths:
        """Cost of pairs in a batch: the lengths of the target, with its start or end token, and of the source.

        Batches group pairs of similar target length, then of similar source length.
        """
        return lengths[:, ::-1] + np.array([1, 0], dtype=np.int32)

    @property
    def _most(self) -> int:
        """The most tokens that a side of a training pair may have."""
        most = 2**30 if self.config.data.is_embedded else self.config.data.max_length
        return most if self.positions is None else min(most, self.positions - 1)  # one for the start token of a target

    @cached_property
    def _growth(self) -> list[Growth]:
        """The growth of each side's texts by subword sampling."""
        examples = self.splits.examples["train"]
        pairs = take(examples, range(0, len(examples), max(1, len(examples) // MEASURED))[:MEASURED])
        sides = zip(self._samplers, zip(*(pair.texts for pair in pairs), strict=True), strict=True)
        return [Growth.measured(sampler, texts) for sampler, texts in sides]

    def trained(self, lengths: Lengths) -> Lengths:
        """The most tokens that pairs of these lengths have in training, `(pairs, 2)`: more with subword sampling."""
        if not self._samplers:
            return lengths
        bounds = [growth.bound(lengths[:, side]) for side, growth in enumerate(self._growth)]
        return np.minimum(np.stack(bounds, axis=1), np.maximum(lengths, self._most))

    def encode_pairs(self, pairs: Sequence[Pair], tag: str | None = None) -> list[TokenPair]:
        """Encode pairs as tokens, with the tag, if given, before each source."""
        sources = self.source_tokenizer.encode_all([pair.source for pair in pairs])
        targets = self.target_tokenizer.encode_all([pair.target for pair in pairs])
        return [TokenPair(self._tagged(s, tag), t) for s, t in zip(sources, targets, strict=True)]

    def _tagged(self, source: list[int], tag: str | None) -> list[int]:
        return self.framed(source if tag is None else [self.source_tokenizer.tags[tag], *source])

    def _cut_anew(
        self, pair: Pair, tag: str | None, drawn: tuple[int, int, int], lengths: NDArray[np.int32]
    ) -> TokenPair:
        source, target = (
            sampler.encode(text, draw_seed(*drawn, side), most)
            for side, (sampler, text, most) in enumerate(self._to_cut(pair, tag, lengths))
        )
        return TokenPair(self._tagged(source, tag), target)

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

    @cached_property
    def links_held_out(self) -> dict[tuple[str, ...], tuple[Link, ...]]:
        """The true alignment of each validation and test pair of embedded data; empty for other data."""
        data = self.config.data
        if not data.is_embedded:
            return {}
        drawn = open_pairs(data.model_copy(update={"train": 0})).examples  # drawing the training pairs takes seconds
        return {pair.texts: pair.links for pairs in drawn.values() for pair in pairs if pair.links}

    @cached_property
    def training(self) -> TrainingSet[Pair, TokenPair, PairBatch]:
        """All training data: the training set, then the further corpora."""
        cut = self._cut_anew if self._samplers else None
        planned = lambda lengths: self.costs(self.trained(lengths))  # noqa: E731
        coding = Coding(planned, self.unit_batch, cut)
        weights = {"train": 1.0, **{name: corpus.weight for name, corpus in self.splits.extra.items()}}
        corpora = []
        for name, weight in weights.items():
            pairs, tag = self._pairs_of(name)
            corpora.append(Weighted(pairs, self.encoded(name), weight, tag))
        return TrainingSet(corpora, coding)

    @property
    def _rule(self) -> str:
        """The reason for leaving out a training pair that is too long."""
        if self._most == self.config.data.max_length:
            return f"longer than data.max_length {self._most} tokens"
        return f"longer than the {self._most} tokens that model.max_length has positions for"

    def _leave_out_long(self) -> None:
        """Drop training pairs that are too long, and count them."""
        data, splits = self.config.data, self.splits
        if data.is_embedded:
            return

        for name in ("train", *splits.extra):
            encoded = self.encoded(name)
            kept = np.flatnonzero(encoded.lengths.max(1) <= self._most)
            if name == "train" and not len(kept):
                raise DataError(f"every training pair is {self._rule}; raise the limit, or give shorter pairs")
            self._encoded[name] = encoded.select(kept)
            splits.keep(name, kept, self._rule)

    def train_batches(self, epoch: int) -> Sequence[list[int]]:
        config = self.config.training
        return self.training.batches(config.batch_tokens, config.seed, epoch)

    def work(self, indices: list[int]) -> int:
        return self.training.work(indices)

    def describe(self, indices: list[int], epoch: int) -> str:
        pair = self.training.examples_at(indices[:1])[0]
        where = pair.origin or f"training example {indices[0]}"
        return f"{len(indices)} examples, the first {where}: {pair.source!r}"

    # Writing --------------------------------------------------------------------------------------------------

    def plan(self, sources: Sequence[list[int]], rows: int) -> list[list[int]]:
        return plan_batches([(1, len(source)) for source in sources], TOGETHER // rows)

    def memory(self, model: PairDecoder, sources: Sequence[list[int]], device: torch.device) -> Memory:
        batch = collate_pairs([TokenPair(source, []) for source in sources], [*range(len(sources))]).to(device)
        return model.encode(batch.source, batch.source_mask)

    def positions_read(self, sources: Sequence[list[int]]) -> int:
        return len(sources) * max(map(len, sources))

    def ids_read(self, source: list[int]) -> list[int]:
        return source

    def unit_costs(self, units: Sequence[TokenPair]) -> list[tuple[int, int]]:
        return [pair.cost for pair in units]

    def unit_batch(self, units: Sequence[TokenPair], indices: list[int]) -> PairBatch:
        return collate_pairs(units, indices, self.target_tokenizer.special)

    def hidden(self, model: PairDecoder, batch: PairBatch) -> Tensor:
        return model(batch.source, batch.source_mask, batch.target)

    def valid_units(self) -> Sequence[TokenPair]:
        return self.encoded("valid")

    def valid_lengths(self) -> list[int]:
        return self.encoded("valid").lengths[:, 1].tolist()  # type: ignore[no-any-return]

    def num_references(self, split: str) -> int:
        return len(self.splits.examples[split])

    def to_validate(self) -> ToWrite[list[int]]:
        # An output longer than every reference is wrong whatever follows, so writing it out would only cost time.
        longest = max(self.valid_lengths()) + 2
        pairs = self.splits.examples["valid"][:VALIDATE_AT_MOST]
        references = [pair.target for pair in pairs]
        sources = [pair.source for pair in self.encoded("valid")[:VALIDATE_AT_MOST]]
        return ToWrite(sources, references, min(longest, self.positions or longest))

    @property
    def longest_trained(self) -> int:
        return self.training.longest(1)

    def translate(
        self,
        model: PairDecoder,
        texts: Sequence[str],
        *,
        sampling: SamplingOptions | None = None,
        prefix: str = "",
        writer: Writer | None = None,
        **search: Any,
    ) -> list[list[WrittenText]]:
        """Write a target for each text: its candidates, best first; for a blank text one blank output.

        Args:
            model: The model that writes.
            texts: Sources; spaces around them are removed, except for an imported run.
            sampling: Draw instead of searching.
            prefix: Every output begins with this text.
            writer: An engine that searches instead of torch; it can neither draw outputs nor continue a prefix.
            search: Options of `search_options`.

        Raises:
            ConfigError: The prefix has text never seen in training, which cannot be written; or the writer does not
                support an option.
        """
        given = self.config.generation
        if writer is not None and (sampling is not None or prefix):
            what = "draw outputs (sampling)" if sampling is not None else f"continue a prefix ({prefix!r})"
            raise ConfigError(f"engine '{writer.name}' cannot {what}; use engine 'torch'")
        if unknown := self.target_tokenizer.unknown_in(prefix):
            what = f"prefix {short(prefix)} has {short(unknown[0])}"
            raise ConfigError(f"{what}, which was never seen in training targets")
        begun = beginning(self.target_tokenizer, prefix)
        fields: dict[str, Any] = {"renormalize": given.renormalize, "early_stopping": given.early_stopping}
        options = self.search_options(model, forbidden_first=begun.never_next, **fields, **search)
        # A space at either end could be read as an unknown word.
        texts = [self.stripped(text) if text.strip() else "" for text in texts]
        encoded = self.source_tokenizer.encode_all([text for text in texts if text])
        sources = [self.framed(ids) for ids in encoded]
        if writer is None:
            found = iter(self.write(model, sources, options, sampling, begun.ids))
        else:
            written = writer.write(sources, options)
            found = iter([[WrittenText.of(self.target_tokenizer, one) for one in some] for some in written])
        frame = len(self.framed([]))
        read = iter(
            [replace(one, unread=frame + len(ids) - len(source)) for one in some]
            for ids, source, some in zip(encoded, sources, found, strict=True)
        )
        return [next(read) if text else [_BLANK] for text in texts]

    def never_written(self, model: PairDecoder) -> tuple[int, ...]:
        never = super().never_written(model)
        may_be_unknown = self.config.generation.unknown or (self.writes_unknown and model.aligns)
        unknown = self.target_tokenizer.special.unknown
        return tuple(token for token in never if token != unknown) if may_be_unknown else never

    @property
    def writes_unknown(self) -> bool:
        """True if a model with attention may write the unknown token, replaced by the source word it looked at."""
        return self.target_tokenizer.unit == "word" and self.config.generation.replace_unknown

    # Overview -------------------------------------------------------------------------------------------------

    def overview(self) -> str:
        """Counts, findings in the files, lengths, unknown tokens, samples as the model sees them."""
        tokenizer, tokenizers = self.config.tokenizer, self.tokenizers()
        rows = [side for split in (*self.splits.examples, *self.splits.extra) for side in self.token_counts(split)]
        return "\n".join(
            [
                self.splits.summary,
                *found_table(self.splits.found),
                f"\ntokenizer {tokenizer.kind}: {self.source_tokenizer.vocab_size:,} source tokens, "
                f"{self.target_tokenizer.vocab_size:,} target tokens{' (shared)' if tokenizer.shared else ''}\n",
                length_table(rows),
                *vocabulary_warnings(rows, tokenizers),
                "\nas read and, below, as the model sees them:",
                *(self._sample(*one) for one in self._samples()),
            ]
        )

    def _samples(self) -> Iterator[tuple[Pair, TokenPair, str]]:
        """A few training examples, with the links that guide attention; the first example of each other split."""
        training = self.training
        chosen = training.samples()
        for index, pair, tokens in zip(chosen, training.examples_at(chosen), training.tokens_at(chosen), strict=True):
            yield pair, tokens, "" if self.supervision is None else self.supervision.shown(index, pair)
        for name in self.split_names[1:]:
            if encoded := self.encoded(name):
                yield self.splits.examples[name][0], encoded[0], ""

    def _sample(self, pair: Pair, tokens: TokenPair, links: str) -> str:
        source = ("source", pair.source, self.source_tokenizer, tokens.source)
        shown = sample_lines(pair.origin, "", [source, ("target", pair.target, self.target_tokenizer, tokens.target)])
        return f"{shown}\n    links   {links}" if links else shown

    def token_counts(self, split: str) -> list[SideCounts]:
        """The source and target tokens of a split or further corpus."""
        corpus = self.encoded(split)
        return [
            SideCounts(split, side, own, corpus.counts(row, one.vocab_size, own), one.special.unknown)
            for row, ((side, one), own) in enumerate(zip(self.tokenizers().items(), corpus.lengths.T, strict=True))
        ]

    def report_counts(self) -> dict[str, Any]:
        """For each split and further corpus: examples, tokens, unknown tokens; for files, also those left out by rule.

        A corpus's tag counts as a source token.
        """
        result: dict[str, Any] = {}
        extra = self.splits.extra
        every_count = self.splits.counts | {name: corpus.counts for name, corpus in extra.items()}
        for name in (*self.splits.examples, *extra):
            entry: dict[str, Any] = {"examples": len(self.encoded(name))}
            if name in every_count:
                entry |= every_count[name].as_values()
            if name in extra:
                entry |= {"weight": extra[name].weight, "tag": extra[name].tag}
            for tokens in self.token_counts(name):
                entry[f"{tokens.side}_tokens"], entry[f"{tokens.side}_unknown"] = tokens.total, tokens.unknown
            result[name] = entry
        return result
