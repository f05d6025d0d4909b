"""Sources of pairs of texts: two tokenizers or a shared one, further corpora, subword sampling, known alignments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import starmap
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray

from heed.config import Columns
from heed.data.batch import TokenPair, draw_epoch, pad_rows, plan_batches, plan_pass
from heed.data.columns import Column
from heed.data.corpus import Corpus, Lengths, StoredExamples, corpus_of
from heed.data.examples import Link, Pair, Span, in_turn, take
from heed.data.findings import Findings, found_table
from heed.data.kinds.pairs import SIDES, Names, pair_reader
from heed.data.readers import hold, to_texts
from heed.data.splits import Splits
from heed.data.tokens.subwords import MEASURED, Growth, SubwordSampler
from heed.data.tokens.tokenizer import TextTokenizer
from heed.errors import ConfigError, DataError
from heed.models.base import Memory, PairDecoder
from heed.registry import body_class
from heed.tasks import suggest_task
from heed.tasks.base.report import SideCounts, length_table, sample_lines, vocabulary_warnings
from heed.tasks.base.transfer import Parent
from heed.tasks.base.writing import TOGETHER, ToWrite
from heed.tasks.contracts import Batch, Draw, Input, Pass, Rows, Sized
from heed.tasks.inputs.few_pairs import (
    auto_size,
    few_because,
    for_few_pairs,
    learn_tokenizers,
    load_tokenizers,
    open_pairs,
    save_tokenizers,
    taken_part,
)
from heed.tasks.inputs.supervision import Supervision
from heed.tasks.work import Work
from heed.training.checkpoint import draw_seed

VALIDATE_AT_MOST = 500
"""Most validation examples for which a text is written; all are judged."""


class Weighted(NamedTuple):
    """Training examples and their tokens (with tag); each occurs `weight` times in a pass."""

    examples: Sequence[Any]
    tokens: Corpus[Any]
    weight: float = 1.0
    tag: str | None = None


class TrainingSet:
    """Corpora, in memory or on disk, their examples numbered consecutively."""

    def __init__(self, corpora: Sequence[Weighted]) -> None:
        self._corpora = corpora
        self._ends = np.cumsum([len(corpus.examples) for corpus in corpora])
        self.lengths = np.concatenate([corpus.tokens.lengths for corpus in corpora])
        """The tokens of each example, `(examples, sides)`."""

    def __len__(self) -> int:
        return int(self._ends[-1])

    def examples_at(self, indices: Sequence[int]) -> list[Any]:
        """The examples with these numbers."""
        return self._at([corpus.examples for corpus in self._corpora], indices)

    def tokens_at(self, indices: Sequence[int]) -> list[Any]:
        """The tokens of the examples with these numbers."""
        return self._at([corpus.tokens for corpus in self._corpora], indices)

    def _at(self, parts: Sequence[Sequence[Any]], indices: Sequence[int]) -> list[Any]:
        """The items with these numbers, those of a corpus taken together."""
        numbers = np.asarray(indices, dtype=np.int64)
        owners = np.searchsorted(self._ends, numbers, side="right")
        items: dict[int, Any] = {}
        for owner in np.unique(owners).tolist():
            places = np.flatnonzero(owners == owner)
            inside = numbers[places] - self._ends[owner] + len(parts[owner])
            items |= zip(places.tolist(), take(parts[owner], inside.tolist()), strict=True)
        return [items[place] for place in range(len(numbers))]

    def corpus_of(self, index: int) -> tuple[int, str | None]:
        """The number of an example's corpus (0 is the training set), and the tag of that corpus."""
        number = int(np.searchsorted(self._ends, index, side="right"))
        return number, self._corpora[number].tag

    def samples(self) -> list[int]:
        """The numbers of a few examples to show."""
        return [*range(0, len(self), max(1, len(self) // 3))]

    def batches(self, costs: Lengths, batch_tokens: int, seed: int, epoch: int) -> Sequence[list[int]]:
        """The batches of one pass, determined by (seed, epoch)."""
        chosen = None
        if len(self._corpora) > 1:
            sizes, weights = [len(c.examples) for c in self._corpora], [c.weight for c in self._corpora]
            chosen = draw_epoch(sizes, weights, seed, epoch)
        plan = plan_pass(costs, batch_tokens, seed, epoch, chosen)
        # With millions of examples, lists would take more memory than anything else.
        return plan if any(isinstance(corpus.examples, StoredExamples) for corpus in self._corpora) else list(plan)


@dataclass(frozen=True)
class Pairs(Input):
    """The source of a pair, framed as the model reads it; the target is what is written."""

    key: ClassVar[str] = "source"
    sized: ClassVar = {
        "source": Sized("source_vocab_size", ("source", "tokens")),
        "target": Sized("target_vocab_size"),
    }
    keeps_blank: ClassVar[bool] = True

    names: Names = SIDES
    """Usual names of the columns of both sides."""
    asked: tuple[str, ...] = ("source", "text")
    """Possible names of the data-frame column with the texts to predict, best first."""
    source_tokenizer: TextTokenizer = None  # type: ignore[assignment]  # learned
    target_tokenizer: TextTokenizer = None  # type: ignore[assignment]  # learned; the same object if shared

    # Data -----------------------------------------------------------------------------------------------------

    def open(self, config: Any, given: Mapping[str, Sequence[Any]] | None) -> Splits[Pair]:
        return open_pairs(config.data, given, suggest_task, self.names)

    def hold(self, data: Any, split: str, config: Any, findings: Findings) -> Sequence[Pair]:
        """Pairs: (source, target) tuples, (sources, targets), or columns `source` and `target`."""
        reader = pair_reader(config.data.columns, names=self.names)
        return hold(data, split, reader, ["source", "target"], findings)

    @property
    def columns(self) -> tuple[Column, Column]:
        """The columns of both sides that the run was trained on."""
        columns = self.config.data.columns
        return columns.source, columns.target

    def read_files(self, files: Sequence[str | Path], findings: Findings, labels: Sequence[str]) -> Sequence[Pair]:
        columns = Columns(source=self.columns[0], target=self.columns[1])
        return [*pair_reader(columns, suggest_task, self.names, again=True).read([*map(str, files)], findings)]

    def learn(self, config: Any, splits: Splits[Pair], parent: Parent | None) -> tuple[Any, Self]:
        seen = [splits.examples["train"], *(corpus.examples for corpus in splits.extra.values())]
        count = sum(map(len, seen))
        asked, config = config, for_few_pairs(config, count, body_class(config.model.name, ("pair_decoder",)))
        if config is not asked:
            why = few_because(asked, count)
            splits.remarks.append(f"{why}: using size scarce and the settings for few pairs (docs/data.md, Few pairs)")
        if parent is None:
            config, (source, target), remark = learn_tokenizers(config, seen, count, _of_parent(config))
            splits.remarks += [remark] if remark else []
        else:
            source, target = (parent.tokenizer(side, self.alternatives) for side in ("source", "target"))
        source.add_tags(corpus.tag for corpus in splits.extra.values() if corpus.tag is not None)
        return config, replace(self, source_tokenizer=source, target_tokenizer=target)

    def taught(self, *learned: Any) -> Self:
        source, target = learned[0]
        return replace(self, source_tokenizer=source, target_tokenizer=target)

    def save(self, folder: Path) -> None:
        save_tokenizers(folder, (self.source_tokenizer, self.target_tokenizer))

    def restore(self, config: Any, folder: Path) -> Self:
        source, target = load_tokenizers(folder, config.tokenizer)
        return replace(self, source_tokenizer=source, target_tokenizer=target)

    def tokenizers(self) -> Mapping[str, TextTokenizer]:
        return {"source": self.source_tokenizer, "target": self.target_tokenizer}

    def rows(self) -> Mapping[str, Rows]:
        return {side: Rows(one.tokens, unit=f"{side} tokens") for side, one in self.tokenizers().items()}

    def check_alike(self, other: Any, run: Path) -> str:
        for side, mine in self.tokenizers().items():
            theirs = other.tokenizers()[side]
            difference = mine.first_difference(theirs)
            if not difference and side == "target" and mine.tags != theirs.tags:  # tags are tokens of the output layer
                difference = f"the tags {' '.join(mine.tags) or '(none)'} and {' '.join(theirs.tags) or '(none)'}"
            if difference:
                return f"their {side} tokenizers differ: {difference}; train one with tokenizer.from={run}"
        return ""

    # Settling -------------------------------------------------------------------------------------------------

    def leave_out(self, work: Work) -> None:
        """Drop training pairs that are too long, and count them; read the links that guide attention."""
        data, most = work.config.data, self.most(work)
        if not data.is_embedded:
            rule = f"longer than data.max_length {most} tokens"
            if most != data.max_length:
                rule = f"longer than the {most} tokens that model.max_length has positions for"
            for name in ("train", *work.splits.extra):
                encoded: Any = work.encoded(name)
                kept = np.flatnonzero(encoded.lengths.max(1) <= most)
                if name == "train" and not len(kept):
                    raise DataError(f"every training pair is {rule}; raise the limit, or give shorter pairs")
                work.keep(name, kept, rule)
        self.guide(work)

    def guide(self, work: Work) -> Supervision | None:
        """The wanted attention in training; None without guided attention."""
        section = work.config.training.supervision
        return None if section is None else work.once("guide", lambda: Supervision(work, section))

    @staticmethod
    def most(work: Work) -> int:
        """The most tokens that a side of a training pair may have."""
        data, positions = work.config.data, work.head.positions  # type: ignore[attr-defined]
        most = 2**30 if data.is_embedded else data.max_length
        return most if positions is None else min(most, positions - 1)  # one for the start token of a target

    def fields(self, given: dict[str, Any], work: Work) -> dict[str, Any]:
        positions = work.head.positions  # type: ignore[attr-defined]
        if positions is not None and not work.is_imported:
            names = [name for name in work.split_names if name != "train" or work.config.data.is_embedded]
            encoded: dict[str, Any] = {name: work.encoded(name) for name in names}
            needed = {name: int(np.add(one.lengths, (0, 1)).max()) for name, one in encoded.items()}
            check_positions(positions, needed, work.config.generation.max_length)
        return {}

    def size(self, work: Work) -> str:
        return auto_size(work.config, len(self.training(work)))

    # Examples as tokens ---------------------------------------------------------------------------------------

    @cached_property
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

    @property
    def encoding(self) -> Any:
        return None if self.config is None else {"frame": self.frame, **_limits(self.config.data)}

    def encode(self, examples: Sequence[Pair], split: str = "", tag: str | None = None) -> Corpus[TokenPair]:
        """Pairs as tokens; the tag of a further corpus is before each source."""

        def chunks() -> Iterator[list[TokenPair]]:
            for some in in_turn(examples):
                sources = self.source_tokenizer.encode_all([pair.source for pair in some])
                targets = self.target_tokenizer.encode_all([pair.target for pair in some])
                yield [TokenPair(self._tagged(s, tag), t) for s, t in zip(sources, targets, strict=True)]

        made = lambda rows: [*starmap(TokenPair, rows)]  # noqa: E731
        if not split:
            return Corpus.held(chunks(), ["<i4", "<i4"], made)
        texts = [tokenizer.text for tokenizer in (self.source_tokenizer, self.target_tokenizer)]
        return corpus_of(examples, chunks, ["<i4", "<i4"], made, **self.encoding, tokenizers=texts, tag=tag)

    def _tagged(self, source: list[int], tag: str | None) -> list[int]:
        return self.framed(source if tag is None else [self.source_tokenizer.tags[tag], *source])

    def costs(self, encoded: Any) -> NDArray[np.int64]:
        costs: NDArray[np.int64] = self.positions(encoded.lengths)
        return costs

    def positions(self, lengths: Lengths) -> Any:
        """Cost of pairs in a batch: the lengths of the target, with its start or end token, and of the source.

        Batches group pairs of similar target length, then of similar source length.
        """
        return lengths[:, ::-1] + np.array([1, 0], dtype=np.int32)

    @property
    def at_once(self) -> int:
        return int(self.config.training.batch_tokens)

    def collate(self, encoded: Sequence[TokenPair], indices: list[int], draw: Draw | None) -> Batch:
        return self._batch(take(encoded, indices), indices)

    def _batch(self, pairs: Sequence[TokenPair], indices: list[int]) -> Batch:
        source, mask = pad_rows([pair.source for pair in pairs])
        inputs, targets = {"source": source, "source_mask": mask}, {"written": [pair.target for pair in pairs]}
        return Batch(indices, inputs, targets=targets, masks=("source_mask",))

    # Training -------------------------------------------------------------------------------------------------

    def training(self, work: Work) -> TrainingSet:
        """All training data: the training set, then the further corpora."""

        def made() -> TrainingSet:
            train: Any = work.encoded("train")
            corpora = [Weighted(work.splits.examples["train"], train)]
            for name, one in work.splits.extra.items():
                tokens: Any = work.encoded(name)
                corpora.append(Weighted(one.examples, tokens, one.weight, one.tag))
            return TrainingSet(corpora)

        return work.once("training set", made)  # type: ignore[no-any-return]

    def plan(self, work: Work, split: str, draw: Draw) -> Pass:
        training = self.training(work)
        costs = self.positions(self._grown(work, training.lengths))

        def collate(pieces: Sequence[int]) -> Batch:
            indices = list(pieces)
            tokens = [*self._cut_anew(work, draw, indices)] if self.samplers else training.tokens_at(indices)
            batch, guide = self._batch(tokens, indices), self.guide(work)
            if guide is None:
                return batch
            return replace(batch, targets={**batch.targets, "alignment": guide.of(tokens, indices, draw)})

        return Pass(training.batches(costs, work.config.training.batch_tokens, *draw), collate, costs)

    @cached_property
    def samplers(self) -> list[SubwordSampler]:
        """Cuts the texts of each side into different tokens in each pass; empty without subword sampling."""
        amount = self.config.tokenizer.sampling
        return [tokenizer.sampler(amount) for tokenizer in self.tokenizers().values()] if amount > 0 else []

    def _growth(self, work: Work) -> list[Growth]:
        """The growth of each side's texts by subword sampling."""
        examples = work.splits.examples["train"]
        pairs = take(examples, range(0, len(examples), max(1, len(examples) // MEASURED))[:MEASURED])
        sides = zip(self.samplers, zip(*(pair.texts for pair in pairs), strict=True), strict=True)
        return [Growth.measured(sampler, texts) for sampler, texts in sides]

    def _grown(self, work: Work, lengths: Lengths) -> Lengths:
        """The most tokens that pairs of these lengths have in training, `(pairs, 2)`: more with subword sampling."""
        if not self.samplers:
            return lengths
        measured = work.once("growth", lambda: self._growth(work))
        bounds = [growth.bound(lengths[:, side]) for side, growth in enumerate(measured)]
        grown: Lengths = np.minimum(np.stack(bounds, axis=1), np.maximum(lengths, self.most(work)))
        return grown

    def _cut_anew(self, work: Work, draw: Draw, indices: Sequence[int]) -> Iterator[TokenPair]:
        training = self.training(work)
        for index, pair in zip(indices, training.examples_at(indices), strict=True):
            source, target = (
                sampler.encode(text, draw_seed(*draw, index, side), most)
                for side, (sampler, text, most) in enumerate(self._to_cut(work, index, pair))
            )
            yield TokenPair(self._tagged(source, training.corpus_of(index)[1]), target)

    def _to_cut(self, work: Work, index: int, pair: Pair) -> list[tuple[SubwordSampler, str, int]]:
        """The sampler, the text and the most tokens of both sides, without tag and frame."""
        training = self.training(work)
        source, target = self._grown(work, training.lengths[[index]])[0].tolist()
        most = source - len(self.framed([])) - (training.corpus_of(index)[1] is not None), target
        return list(zip(self.samplers, pair.texts, most, strict=True))

    def spans_of(
        self, work: Work, index: int, pair: Pair, draw: Draw
    ) -> tuple[tuple[list[Span], list[Span]], tuple[str, str]]:
        """The spans of the tokens of both texts of a training pair, as they are cut in a pass.

        Returns:
            Spans of the source and the target, without frame and tag; and the texts that the spans refer to, which are
            normalised with subword sampling.
        """
        both = self.source_tokenizer, self.target_tokenizer
        if not self.samplers:
            source, target = (tokenizer.encode(text).spans for tokenizer, text in zip(both, pair.texts, strict=True))
            return (source, target), (pair.source, pair.target)
        source, target = (
            sampler.encode_spans(text, draw_seed(*draw, index, side), most)[1]
            for side, (sampler, text, most) in enumerate(self._to_cut(work, index, pair))
        )
        return (source, target), (both[0].normalize(pair.source), both[1].normalize(pair.target))

    # Writing --------------------------------------------------------------------------------------------------

    def read(self, texts: Sequence[str]) -> tuple[list[list[int]], list[int]]:
        """Sources as the model reads them, and the tokens of each that are not read."""
        encoded = self.source_tokenizer.encode_all(list(texts))
        sources, frame = [self.framed(ids) for ids in encoded], len(self.framed([]))
        return sources, [frame + len(ids) - len(source) for ids, source in zip(encoded, sources, strict=True)]

    def groups(self, sources: Sequence[list[int]], rows: int) -> list[list[int]]:
        """Groups of sources to read together, if each becomes `rows` rows."""
        return plan_batches([(1, len(source)) for source in sources], TOGETHER // rows)

    def memory(self, model: PairDecoder, sources: Sequence[list[int]], device: torch.device) -> Memory:
        """The model's memory of sources, a row each."""
        source, mask = (tensor.to(device) for tensor in pad_rows(sources))
        return model.encode(source, mask)

    def positions_read(self, sources: Sequence[list[int]]) -> int:
        """Number of positions that are computed when sources are read together."""
        return len(sources) * max(map(len, sources))

    def ids_read(self, source: list[int]) -> list[int]:
        """The tokens of a source."""
        return source

    def first_token(self, source: list[int]) -> int:
        """The first token of the output for a source."""
        return self.target_tokenizer.special.start

    def references(self, examples: Sequence[Pair]) -> list[str]:
        """The texts that are written for examples."""
        return [pair.target for pair in examples]

    def written_lengths(self, work: Work) -> list[int]:
        """Tokens of the validation references."""
        valid: Any = work.encoded("valid")
        return valid.lengths[:, 1].tolist()  # type: ignore[no-any-return]

    def longest_trained(self, work: Work) -> int:
        """Tokens of the longest target that is trained on."""
        return int(self.training(work).lengths[:, 1].max())

    def to_write(self, work: Work) -> ToWrite[list[int]]:
        """What a validation writes."""
        # An output longer than every reference is wrong whatever follows, so writing it out would only cost time.
        longest, positions = max(self.written_lengths(work)) + 2, work.head.positions  # type: ignore[attr-defined]
        sources = [pair.source for pair in work.encoded("valid")[:VALIDATE_AT_MOST]]
        references = self.references(work.splits.examples["valid"][:VALIDATE_AT_MOST])
        return ToWrite(sources, references, min(longest, positions or longest))

    def validated(self, examples: Sequence[Pair]) -> Sequence[Pair]:
        return examples[:VALIDATE_AT_MOST]

    # Questions ------------------------------------------------------------------------------------------------

    def questions(self, given: Any) -> tuple[list[Pair], bool]:
        single, own = isinstance(given, str), getattr(self.config.data, "columns", None)
        column = getattr(own, "source", None)
        texts = [given] if single else to_texts(given, "texts", (*([] if column is None else [column]), *self.asked))
        return [Pair(text, "") for text in texts], single

    @property
    def is_imported(self) -> bool:
        """True if the run was imported: it reads a text as its tokenizer does."""
        return getattr(self.config.data, "imported", None) is not None

    def stripped(self, text: str) -> str:
        """A text without surrounding blanks, as in training; that of an imported run as it is."""
        return text if self.is_imported else text.strip()

    # For people -----------------------------------------------------------------------------------------------

    def links_held_out(self, work: Work) -> dict[tuple[str, ...], tuple[Link, ...]]:
        """The true alignment of each validation and test pair of embedded data; empty for other data."""

        def drawn() -> dict[tuple[str, ...], tuple[Link, ...]]:
            data = work.config.data
            if not data.is_embedded:
                return {}
            splits = open_pairs(data.model_copy(update={"train": 0})).examples  # drawing the training pairs takes long
            return {pair.texts: pair.links for pairs in splits.values() for pair in pairs if pair.links}

        return work.once("links held out", drawn)  # type: ignore[no-any-return]

    def lines(self, work: Work) -> list[str]:
        """Counts, findings in the files, lengths, unknown tokens, samples as the model sees them."""
        tokenizer, splits = self.config.tokenizer, work.splits
        rows = [side for split in (*splits.examples, *splits.extra) for side in self.token_counts(split, work)]
        return [
            splits.summary,
            *found_table(splits.found),
            f"\ntokenizer {tokenizer.kind}: {self.source_tokenizer.vocab_size:,} source tokens, "
            f"{self.target_tokenizer.vocab_size:,} target tokens{' (shared)' if tokenizer.shared else ''}\n",
            length_table(rows),
            *vocabulary_warnings(rows, dict(self.tokenizers())),
            "\nas read and, below, as the model sees them:",
            *(self._sample(*one) for one in self._samples(work)),
        ]

    def _samples(self, work: Work) -> Iterator[tuple[Pair, TokenPair, str]]:
        """A few training examples, with the links that guide attention; the first example of each other split."""
        training, guide = self.training(work), self.guide(work)
        chosen = training.samples()
        for index, pair, tokens in zip(chosen, training.examples_at(chosen), training.tokens_at(chosen), strict=True):
            yield pair, tokens, "" if guide is None else guide.shown(index, pair)
        for name in work.split_names[1:]:
            if len(encoded := work.encoded(name)):
                yield work.splits.examples[name][0], encoded[0], ""

    def _sample(self, pair: Pair, tokens: TokenPair, links: str) -> str:
        source = ("source", pair.source, self.source_tokenizer, tokens.source)
        shown = sample_lines(pair.origin, "", [source, ("target", pair.target, self.target_tokenizer, tokens.target)])
        return f"{shown}\n    links   {links}" if links else shown

    def token_counts(self, split: str, work: Work) -> list[SideCounts]:
        """The source and target tokens of a split or further corpus."""
        corpus: Any = work.encoded(split)
        return [
            SideCounts(split, side, own, corpus.counts(row, one.vocab_size, own), one.special.unknown)
            for row, ((side, one), own) in enumerate(zip(self.tokenizers().items(), corpus.lengths.T, strict=True))
        ]

    def counts(self, split: str, work: Work) -> dict[str, Any]:
        """Examples, tokens, unknown tokens; for files, also those left out by rule. A tag counts as a source token."""
        extra = work.splits.extra.get(split)
        counts = work.splits.counts.get(split) if extra is None else extra.counts
        entry: dict[str, Any] = {"examples": len(work.encoded(split)), **({} if counts is None else counts.as_values())}
        if extra is not None:
            entry |= {"weight": extra.weight, "tag": extra.tag}
        for tokens in self.token_counts(split, work):
            entry[f"{tokens.side}_tokens"], entry[f"{tokens.side}_unknown"] = tokens.total, tokens.unknown
        return entry

    def piece_of(self, work: Work, piece: int) -> Pair:
        return self.training(work).examples_at([piece])[0]  # type: ignore[no-any-return]


def _limits(data: Any) -> dict[str, Any]:
    return dict(data.model_dump(include={"max_source"}))


def _of_parent(config: Any) -> Mapping[str, TextTokenizer]:
    """The tokenizers that come with a parent's body, by side; none if the user set fields of the tokenizer."""
    if config.model.from_ is None or config.tokenizer.model_fields_set - {"sampling"}:
        return {}
    parent = Parent.open(config.model.from_, "model.from")
    if (part := taken_part(config, parent)) is None:
        return {}
    theirs = parent.task.tokenizers()
    sides = {"encoder": ["source"], "decoder": ["target"], "both": ["source", "target"]}[part]
    return {side: theirs.get(side) or theirs["tokens"] for side in sides if theirs.keys() & {side, "tokens"}}


def check_positions(positions: int | None, needed: Mapping[str, int], written: int | None) -> None:
    """Refuse a table of positions that is too short, before anything is trained.

    Args:
        positions: Positions in the table; None for a model without one.
        needed: Positions that the longest text of each split needs.
        written: `generation.max_length`, if the user gave it.

    Raises:
        ConfigError: The message names the split and the number that it needs.
    """
    if positions is None or not needed:
        return
    table = f"model.max_length is {positions}, the number of learned positions, but"
    most, split = max((most, split) for split, most in needed.items())
    if most > positions:
        raise ConfigError(
            f"{table} a text of {split} needs {most}; set model.max_length={most}, or model.positions=sinusoidal"
        )
    if written is not None and written > positions:
        raise ConfigError(
            f"generation.max_length is {written}, but the model has {positions} learned positions (model.max_length); "
            f"set generation.max_length={positions} or less, or a larger model.max_length"
        )
