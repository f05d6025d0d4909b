"""Sources of pairs of texts: two tokenizers or a shared one, further corpora, known alignments."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, starmap
from pathlib import Path
from typing import Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
import torch

from heed.data.batch import TokenPair, draw_epoch, pad_rows, plan_batches, plan_pass
from heed.data.corpus import Corpus, Lengths, StoredExamples
from heed.data.corpus import Rows as Numbers
from heed.data.examples import Link, Pair, take
from heed.data.kinds import Kind
from heed.data.kinds.contents import no_advice
from heed.data.kinds.pairs import SIDES, Names, pair_reader
from heed.data.splits import Splits
from heed.data.tokens.tokenizer import TextTokenizer, language_token
from heed.errors import ConfigError, DataError, nearest
from heed.models.base import Memory, PairDecoder
from heed.registry import body_class
from heed.tasks import suggest_task
from heed.tasks.base.report import SideCounts, counted, counted_are, sample_lines
from heed.tasks.base.transfer import Parent
from heed.tasks.base.writing import TOGETHER, VALIDATED, ToWrite
from heed.tasks.contracts import Batch, Draw, Pass, Sized, as_list
from heed.tasks.inputs.few_pairs import (
    auto_size,
    few_reason,
    for_few_pairs,
    inherited_part,
    learn_tokenizers,
    open_pairs,
)
from heed.tasks.inputs.supervision import Supervision
from heed.tasks.inputs.tokens import SAMPLES, Tokens, file_of
from heed.tasks.work import Work

_SHOWN = 5
"""Languages that an error lists."""


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

    def batches(self, costs: Lengths, batch_tokens: int, seed: int, epoch: int) -> Sequence[list[int]]:
        """The batches of one pass, determined by (seed, epoch)."""
        chosen = None
        if len(self._corpora) > 1:
            sizes, weights = [len(c.examples) for c in self._corpora], [c.weight for c in self._corpora]
            chosen = draw_epoch(sizes, weights, seed, epoch)
        return as_list(plan_pass(costs, batch_tokens, seed, epoch, chosen), *(c.examples for c in self._corpora))


def pair_kind(names: Names = SIDES) -> Kind:
    """Pairs whose columns usually have these names."""
    return Kind(
        reader=lambda data, labels: pair_reader(
            data.columns, no_advice if labels is None else suggest_task, names, again=labels is not None
        ),
        fields=lambda data: ("source", "target"),
        sides=lambda data: ("source",),
        open=lambda data, examples: open_pairs(data, examples, suggest_task, names),
    )


PAIRS = pair_kind()


@dataclass(frozen=True)
class Pairs(Tokens):
    """The source of a pair, framed as the model reads it; the model writes the target."""

    key: ClassVar[str] = "source"
    sized: ClassVar = {
        "source": Sized("source_vocab_size", ("source", "tokens")),
        "target": Sized("target_vocab_size"),
    }
    keeps_blank: ClassVar[bool] = True
    unused: ClassVar = ()
    roles: ClassVar = ("source", "target")
    is_encoded_once: ClassVar = True
    row_kinds: ClassVar = ("<i4",) * 2

    kind: Kind = PAIRS
    text_columns: Sequence[str] = ("source", "text")
    documents: bool = False
    """True if sources are documents: of long ones the first `data.max_source` tokens are read."""

    # Data -----------------------------------------------------------------------------------------------------

    @property
    def source_tokenizer(self) -> TextTokenizer:
        """The tokenizer of sources."""
        return self.tokenizers["source"]

    @property
    def target_tokenizer(self) -> TextTokenizer:
        """The tokenizer of targets; the same object if it is shared."""
        return self.tokenizers["target"]

    def learn(self, config: Any, splits: Splits[Pair], parent: Parent | None) -> tuple[Any, Self]:
        corpora = [splits.examples["train"], *(extra.examples for extra in splits.extra.values())]
        count = sum(map(len, corpora))
        config_before, config = config, for_few_pairs(config, count, body_class(config.model.name, ("pair_decoder",)))
        if config is not config_before:
            why = few_reason(config_before, count)
            splits.remarks.append(f"{why}: using size scarce and the settings for few pairs (docs/data.md, Few pairs)")
        if parent is None:
            config, (source, target), remark = learn_tokenizers(config, corpora, _of_parent(config))
            splits.remarks += [remark] if remark else []
        else:
            source, target = (parent.tokenizer(side, self.sized[side].alike) for side in self.roles)
        languages = dict[str, list[str]]()
        for side in self.roles:
            if config.model.settings.get(f"{side}_frame") == "language":
                sections = (config.data, *config.data.extra)
                of_side = dict.fromkeys(getattr(section, f"{side}_language", None) for section in sections)
                languages[side] = [name for name in of_side if name is not None]
        if parent is None:
            if config.model.like is not None:
                raise ConfigError(
                    f"model.like={config.model.like} is for a run that starts from a model of several languages; give "
                    "--from RUN"
                )
            for side, names in languages.items():
                (source if side == "source" else target).add_tags(names)
        elif config.model.like is not None:
            source, target = self._with_new_language(config, splits, languages, source, target)
        source.add_tags(extra.tag for extra in splits.extra.values() if extra.tag is not None)
        return config, replace(self, tokenizers={"source": source, "target": target})

    def _with_new_language(
        self,
        config: Any,
        splits: Splits[Pair],
        languages: Mapping[str, Sequence[str]],
        source: TextTokenizer,
        target: TextTokenizer,
    ) -> tuple[TextTokenizer, TextTokenizer]:
        """The tokenizers with the languages that they lack, and with the characters of these.

        Raises:
            ConfigError: They lack none, or lack the one to start from.
        """
        from heed.exchange.huggingface.vocabularies import with_language

        sides, like = {"source": source, "target": target}, config.model.like
        if like != "mean":
            for tokenizer in sides.values():
                if language_token(tokenizer, like) is None:
                    raise ConfigError(f"model.like: {lacks_language(tokenizer, like)}")
        new = {
            side: [name for name in names if language_token(sides[side], name) is None]
            for side, names in languages.items()
        }
        tags = [*dict.fromkeys(name for names in new.values() for name in names)]
        if not tags:
            raise ConfigError(
                f"model.like={like} is for a language that the model lacks, but it has all of "
                f"{', '.join(dict.fromkeys(chain.from_iterable(languages.values()))) or 'them'}; remove the field"
            )
        examples = splits.examples["train"]
        texts = [getattr(pair, side) for side, names in new.items() if names for pair in examples]
        extended = with_language(source, tags, texts)
        splits.remarks.append(
            f"new language {', '.join(tags)}, which starts as {'the mean of all' if like == 'mean' else like}: "
            f"{counted(extended.vocab_size - source.vocab_size, 'new token')}"
        )
        return extended, extended if source.tokens == target.tokens else with_language(target, tags, texts)

    def restore(self, config: Any, folder: Path) -> Self:
        first, second = (folder / file_of(side) for side in self.roles)
        source = TextTokenizer.load(first)
        # Imported tokenizers may share a vocabulary but cut the texts of each side differently.
        same = config.tokenizer.shared and (not second.is_file() or first.read_bytes() == second.read_bytes())
        return replace(self, tokenizers={"source": source, "target": source if same else TextTokenizer.load(second)})

    # Settling -------------------------------------------------------------------------------------------------

    def leave_out(self, work: Work) -> None:
        """Drop training pairs that are too long, and count them; read the links that guide attention."""
        data, limit = work.config.data, self.side_limit(work)
        if not data.is_embedded:
            rule = f"longer than data.max_length {limit} tokens"
            if limit != data.max_length:
                rule = f"longer than the {limit} tokens that model.max_length has positions for"
            for name in ("train", *work.splits.extra):
                encoded: Any = work.encoded(name)
                short = np.flatnonzero(encoded.lengths.max(1) <= limit)
                if name == "train" and not len(short):
                    raise DataError(f"every training pair is {rule}; raise the limit, or give shorter pairs")
                work.keep(name, short, rule)
        self.guide(work)

    def guide(self, work: Work) -> Supervision | None:
        """The wanted attention in training; None without guided attention."""
        section = work.config.training.supervision
        return None if section is None else work.once("guide", lambda: Supervision(work, section))

    @staticmethod
    def side_limit(work: Work) -> int:
        """The most tokens that a side of a training pair may have."""
        data, positions = work.config.data, work.head.positions  # type: ignore[attr-defined]
        limit = 2**30 if data.is_embedded else data.max_length
        return limit if positions is None else min(limit, positions - 1)  # one for the start token of a target

    def fields(self, fields: dict[str, Any], work: Work) -> dict[str, Any]:
        positions = work.head.positions  # type: ignore[attr-defined]
        if work.is_imported:
            self.check_languages()
        elif positions is not None:
            names = [name for name in work.split_names if name != "train" or work.config.data.is_embedded]
            encoded: dict[str, Any] = {name: work.encoded(name) for name in names}
            needed = {name: int(np.add(tokens.lengths, (0, 1)).max()) for name, tokens in encoded.items()}
            check_positions(positions, needed, work.config.generation.max_length)
        return {}

    def size(self, work: Work) -> str:
        return auto_size(work.config, len(self.training(work)))

    # Examples as tokens ---------------------------------------------------------------------------------------

    @cached_property
    def frame(self) -> tuple[list[int], list[int]]:
        """The tokens added before and after each source (`model.source_frame`)."""
        kind = self.config.model.settings.get("source_frame", "none")
        special = self.source_tokenizer.special
        language = self.language("source", kind)
        before = [special.start] if kind == "both" else language
        return before, [] if kind == "none" else [special.end]

    @cached_property
    def target_prefix(self) -> list[int]:  # type: ignore[override]  # depends on the model
        """The tokens that every target begins with (`model.target_frame`)."""
        kind = self.config.model.settings.get("target_frame", "none")
        language = self.language("target", kind)
        return [self.source_tokenizer.special.start] if kind == "start" else language

    def language(self, side: Literal["source", "target"], frame: str) -> list[int]:
        """The token of the language of a side; none for a model whose frame has none.

        Raises:
            ConfigError: It is not set, the tokenizer has no token for it, or the model has no languages.
        """
        name = getattr(self.config.data, f"{side}_language", None)
        if frame != "language":
            if name is None:
                return []
            raise ConfigError(
                f"data.{side}_language is {name!r}, but the model has no languages: model.{side}_frame is {frame}"
            )
        if name and (token := language_token(self.tokenizers[side], name)) is not None:
            return [token]
        if name is None:
            raise ConfigError(
                f"data.{side}_language: the model needs the language of its texts, such as "
                f"{', '.join(languages_of(self.tokenizers[side])[:_SHOWN])}"
            )
        raise ConfigError(f"data.{side}_language: {lacks_language(self.tokenizers[side], name)}")

    def check_languages(self) -> None:
        """Refuse a language of the configuration that the model lacks.

        Raises:
            ConfigError: As `language`.
        """
        sides: tuple[Literal["source", "target"], ...] = ("source", "target")
        for side in sides:
            if getattr(self.config.data, f"{side}_language", None) is not None:
                self.language(side, self.config.model.settings.get(f"{side}_frame", "none"))

    def between(self, source: str | None, target: str | None) -> Self:
        """The same input for texts of other languages; None for those of the configuration."""
        languages = {"source_language": source, "target_language": target}
        update = {name: language for name, language in languages.items() if language is not None}
        if not update:
            return self
        data = self.config.data.model_copy(update=update)
        changed = replace(self, config=self.config.model_copy(update={"data": data}))
        changed.check_languages()
        return changed

    def target_spans(self, text: str) -> list[tuple[int, int]]:
        """The characters of each token of a target; the tokens before its text have none."""
        return [*[(0, 0)] * len(self.target_prefix), *self.target_tokenizer.encode(text).spans]

    @property
    def max_source(self) -> int:
        """The most tokens of a source that the model reads."""
        return int(self.config.data.max_source) if self.documents else sys.maxsize

    def framed(self, source: Sequence[int]) -> list[int]:
        """A source with the tokens of its frame, as the model reads it."""
        before, after = self.frame
        return [*before, *source[: self.max_source], *after]

    def within(self, columns: int) -> slice:
        """The positions of a framed source, of this length, that are not part of the frame."""
        before, after = self.frame
        return slice(len(before), columns - len(after))

    @property
    def rows_by(self) -> dict[str, Any]:
        of_target = {"target_prefix": self.target_prefix} if self.target_prefix else {}
        return {**super().rows_by, "frame": self.frame, "max_source": self.max_source, **of_target}

    def numbers_of(
        self, examples: Sequence[Pair], tag: str | None = None, languages: Sequence[str | None] = (None, None)
    ) -> list[Numbers]:
        """The tokens of both sides; a further corpus may have its own languages, and its tag is before each source."""
        if any(languages):
            return self.between(*languages).numbers_of(examples, tag)
        sources = self.source_tokenizer.encode_all([pair.source for pair in examples])
        targets = self.target_tokenizer.encode_all([pair.target for pair in examples])
        sides = zip(sources, targets, strict=True)
        return [[self._tagged(source, tag), [*self.target_prefix, *target]] for source, target in sides]

    def from_rows(self, rows: Sequence[Numbers]) -> list[TokenPair]:
        return [*starmap(TokenPair, rows)]

    def _tagged(self, source: list[int], tag: str | None) -> list[int]:
        return self.framed(source if tag is None else [self.source_tokenizer.tags[tag], *source])

    def costs_of(self, lengths: Lengths) -> Any:
        """Cost of pairs in a batch: the lengths of the target, with its start or end token, and of the source.

        Batches group pairs of similar target length, then of similar source length; documents the other way round.
        """
        costs = lengths + np.array([0, 1], dtype=np.int32)
        return costs if self.documents else costs[:, ::-1]

    def collate(self, encoded: Sequence[TokenPair], indices: list[int], draw: Draw | None) -> Batch:
        return self._batch(take(encoded, indices), indices)

    def _batch(self, pairs: Sequence[TokenPair], indices: list[int]) -> Batch:
        source, mask = pad_rows([pair.source for pair in pairs])
        inputs, targets = {"source": source, "source_mask": mask}, {"written": [pair.target for pair in pairs]}
        return Batch(indices, inputs, targets=targets, masks=("source_mask",))

    # Training -------------------------------------------------------------------------------------------------

    def training(self, work: Work) -> TrainingSet:
        """All training data: the training set, then the further corpora."""

        def collect() -> TrainingSet:
            train: Any = work.encoded("train")
            corpora = [Weighted(work.splits.examples["train"], train)]
            for name, extra in work.splits.extra.items():
                tokens: Any = work.encoded(name)
                corpora.append(Weighted(extra.examples, tokens, extra.weight, extra.tag))
            return TrainingSet(corpora)

        return work.once("training set", collect)  # type: ignore[no-any-return]

    def plan(self, work: Work, split: str, draw: Draw) -> Pass:
        training = self.training(work)
        costs = self.costs_of(training.lengths)

        def collate(pieces: Sequence[int]) -> Batch:
            indices = list(pieces)
            tokens = training.tokens_at(indices)
            batch, guide = self._batch(tokens, indices), self.guide(work)
            if guide is None:
                return batch
            return replace(batch, targets={**batch.targets, "alignment": guide.of(tokens, indices)})

        def described(pieces: Sequence[int]) -> str:
            return f"{len(pieces)} {work.unit}s, the first {work.first_of(training.examples_at(pieces[:1]), 0)}"

        batches = training.batches(costs, work.config.training.batch_tokens, *draw)
        return Pass(batches, collate, costs, described=described)

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

    def written_lengths(self, split: str, work: Work) -> Lengths:
        """Tokens of the targets of a split."""
        encoded: Any = self.training(work) if split == "train" else work.encoded(split)
        return encoded.lengths[:, 1]  # type: ignore[no-any-return]

    def to_write(self, work: Work) -> ToWrite[list[int]]:
        """The outputs that a validation writes."""
        # An output longer than every reference is wrong whatever follows, so writing it out would only cost time.
        longest, positions = int(self.written_lengths("valid", work).max()) + 2, work.head.positions  # type: ignore[attr-defined]
        sources = [pair.source for pair in work.encoded("valid")[:VALIDATED]]
        references = self.references(work.splits.examples["valid"][:VALIDATED])
        return ToWrite(sources, references, min(longest, positions or longest))

    # Questions ------------------------------------------------------------------------------------------------

    def example_of(self, text: str) -> Pair:
        return Pair(text, "")

    # For people -----------------------------------------------------------------------------------------------

    def cut_in(self, texts: Sequence[str]) -> list[int]:
        """Numbers of the documents that are longer than the model reads."""
        ids = self.source_tokenizer.encode_all([text.strip() for text in texts])
        return [n for n, tokens in enumerate(ids) if len(tokens) > self.max_source]

    def cut_of(self, split: str, work: Work) -> list[int]:
        """Numbers of the documents of a split that are cut; empty for splits that are not in memory."""

        def find() -> list[int]:
            pairs, full = work.splits.examples[split], self.max_source + len(self.framed([]))
            if not self.documents or isinstance(pairs, StoredExamples):
                return []
            encoded: Any = work.encoded(split)
            # Only documents of the largest length can have been cut, and these are few.
            longest = np.flatnonzero(encoded.lengths[:, 0] >= full).tolist()
            return [longest[n] for n in self.cut_in([pairs[n].source for n in longest])]

        return work.once(f"cut of {split}", find)  # type: ignore[no-any-return]

    def notes(self, work: Work) -> list[str]:
        notes = []
        for split, pairs in work.splits.examples.items():
            if cut := self.cut_of(split, work):
                what = f"{counted_are(len(cut), 'document')} longer than data.max_source {self.max_source} tokens"
                places = ", ".join(pairs[n].origin or f"example {n + 1}" for n in cut[:3])
                more = ", ..." if len(cut) > 3 else ""
                notes.append(f"{split}: {what}; only the beginning is read: {places}{more}")
        return notes

    def counts(self, split: str, work: Work) -> dict[str, Any]:
        is_cut = self.documents and split not in work.splits.extra
        return {**super().counts(split, work), **({"cut": len(self.cut_of(split, work))} if is_cut else {})}

    def links_held_out(self, work: Work) -> dict[tuple[str, ...], tuple[Link, ...]]:
        """The true alignment of each validation and test pair of embedded data; empty for other data."""

        def draw() -> dict[tuple[str, ...], tuple[Link, ...]]:
            data = work.config.data
            if not data.is_embedded:
                return {}
            splits = open_pairs(data.model_copy(update={"train": 0})).examples  # drawing the training pairs takes long
            return {pair.texts: pair.links for pairs in splits.values() for pair in pairs if pair.links}

        return work.once("links held out", draw)  # type: ignore[no-any-return]

    def samples(self, work: Work) -> Iterator[str]:
        """A few training examples, with the links that guide attention; the first example of each other split."""
        yield SAMPLES
        training, guide, others = self.training(work), self.guide(work), work.split_names[1:]
        chosen = range(0, len(training), max(1, len(training) // 3))
        every = [*zip(chosen, training.examples_at(chosen), training.tokens_at(chosen), strict=True)]
        every += [(-1, work.splits.examples[name][0], tokens) for name in others for tokens in work.encoded(name)[:1]]
        for index, pair, tokens in every:
            sides = zip(self.tokenizers.items(), pair.texts, tokens, strict=True)
            yield sample_lines(
                pair.origin, "", [(side, text, tokenizer, ids) for (side, tokenizer), text, ids in sides]
            )
            if index >= 0 and guide is not None and (links := guide.shown(index, pair)):
                yield f"    links   {links}"

    def token_counts(self, split: str, work: Work) -> list[SideCounts]:
        """The source and target tokens of a split or further corpus; a tag counts as a source token."""
        corpus: Any = work.encoded(split)
        return [
            SideCounts(split, side, n, corpus.counts(row, tokenizer.vocab_size, n), tokenizer.special.unknown)
            for row, ((side, tokenizer), n) in enumerate(zip(self.tokenizers.items(), corpus.lengths.T, strict=True))
        ]


def _of_parent(config: Any) -> Mapping[str, TextTokenizer]:
    """The tokenizers that come with a parent's body, by side; none if the user set fields of the tokenizer."""
    if config.model.from_ is None or config.tokenizer.model_fields_set:
        return {}
    parent = Parent.open(config.model.from_, "model.from")
    if (part := inherited_part(config, parent)) is None:
        return {}
    by_kind = parent.task.tokenizers()
    sides = {"encoder": ["source"], "decoder": ["target"], "both": ["source", "target"]}[part]
    return {side: by_kind.get(side) or by_kind["tokens"] for side in sides if by_kind.keys() & {side, "tokens"}}


def languages_of(tokenizer: TextTokenizer) -> list[str]:
    """The languages of a tokenizer, by name."""
    return sorted(tag.removeprefix("__").removesuffix("__") for tag in tokenizer.tags if not tag.startswith("<"))


def lacks_language(tokenizer: TextTokenizer, name: str) -> str:
    """The end of an error about a language that a tokenizer lacks, with what may be meant."""
    names = languages_of(tokenizer)
    alike = next((language for language in names if language.split("_")[0] == name.split("_")[0]), None)
    hint = nearest(name, names) if alike is None else f"; did you mean '{alike}'?"
    if not names:
        return f"the model has no languages, so none is called {name!r}"
    few = f"{', '.join(names[:_SHOWN])}{', ...' if len(names) > _SHOWN else ''}"
    return f"the model has no language {name!r}{hint or f'; it has {few}'} (training adds one with --like)"


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
    longest, split = max((length, split) for split, length in needed.items())
    if longest > positions:
        raise ConfigError(
            f"{table} a text of {split} needs {longest}; set model.max_length={longest}, or model.positions=sinusoidal"
        )
    if written is not None and written > positions:
        raise ConfigError(
            f"generation.max_length is {written}, but the model has {positions} learned positions (model.max_length); "
            f"set generation.max_length={positions} or less, or a larger model.max_length"
        )
