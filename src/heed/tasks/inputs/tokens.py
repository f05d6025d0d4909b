"""Base class of inputs with tokenizers: examples as tokens, word vectors, counts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from heed.config.sections import num_subwords, with_tokenizer
from heed.data.batch import frame_size
from heed.data.corpus import Corpus, Lengths, corpus_of, sample_of
from heed.data.corpus import Rows as Numbers
from heed.data.examples import in_turn
from heed.data.findings import Findings, findings_table
from heed.data.kinds import Kind
from heed.data.readers import examples_from_python, to_texts
from heed.data.splits import Splits, drawn_splits, open_splits
from heed.data.tokens.tokenizer import TextTokenizer
from heed.data.word_vectors import WordVectors, vector_width
from heed.errors import ConfigError
from heed.models.base import TokenEncoder
from heed.registry import learned_positions
from heed.tasks import task_class
from heed.tasks.base.report import SideCounts, sample_lines, token_lines
from heed.tasks.base.transfer import Parent, Started
from heed.tasks.base.vocabulary import (
    Coverage,
    Learned,
    adapted,
    cached_tokenizers,
    embedding_of,
    fill,
    find_vectors,
    size_for,
    width_field,
    with_words,
)
from heed.tasks.contracts import Input, Rows, Sized
from heed.tasks.work import Work

SAMPLES = "\nas read and, below, as the model sees them:"


def file_of(role: str) -> str:
    """The file of a tokenizer in a run folder."""
    return "tokenizer.json" if role == "tokens" else f"tokenizer.{role}.json"


@dataclass(frozen=True)
class Tokens(Input):
    """Examples whose texts one tokenizer reads.

    A subclass overrides `texts_of`, `decided`, `train_tokenizer` and, if an example is more than one row of tokens,
    `row_kinds`, `numbers_of`, `from_rows`, `rows_by`.
    """

    sized: ClassVar = {"tokens": Sized("vocab_size", ("tokens", "source", "target"))}

    unused: ClassVar[tuple[str, ...]] = ("tokenizer.shared",)
    settles: ClassVar[tuple[str, ...]] = ("d_features",)
    roles: ClassVar[Sequence[str]] = ("tokens",)
    target_prefix: ClassVar[Sequence[int]] = ()
    """The tokens that every text to write begins with."""
    sampled_bytes: ClassVar[int] = 10_000_000
    """Bytes of text of a corpus on disk that the tokenizer is trained on: a few seconds' work."""

    kind: Kind
    text_columns: Sequence[str] = ("text",)
    """Possible names of the data-frame column with the texts to predict, best first."""

    @property
    def tokenizer(self) -> TextTokenizer:
        """The only tokenizer."""
        (tokenizer,) = self.tokenizers.values()
        return tokenizer

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "kind": None}  # functions, which a pickled run has by the name of its task

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, kind=task_class(state["config"].task).input.kind)

    # Data -----------------------------------------------------------------------------------------------------

    def open(self, config: Any, examples: Mapping[str, Sequence[Any]] | None) -> Splits[Any]:
        data = config.data
        if data.is_embedded and self.kind.draw is not None:
            draw, sizes = self.kind.draw(data), {"train": data.train, "valid": data.valid, "test": data.test}
            drawn = {name: [*draw(name, size)] for name, size in sizes.items()}
            return drawn_splits(drawn, data.name, self.kind.units)
        if self.kind.open is not None:
            return self.kind.open(data, examples)
        return open_splits(data, self.kind.reader(data, None), examples)

    def read_data(self, data: Any, split: str, config: Any, findings: Findings) -> Sequence[Any]:
        reader, fields = self.kind.reader(config.data, None), self.kind.fields(config.data)
        examples = examples_from_python(self.kind.arranged(data), split, reader, fields, findings)
        self.kind.check(examples, split)
        return examples

    def read_files(self, files: Sequence[str | Path], findings: Findings, labels: Sequence[str]) -> Sequence[Any]:
        return [*self.kind.reader(self.config.data, labels).read([*map(str, files)], findings)]

    # Learning -------------------------------------------------------------------------------------------------

    def learn(self, config: Any, splits: Splits[Any], parent: Parent | None) -> tuple[Any, Self]:
        train, reading = splits.examples["train"], replace(self, config=config)
        if parent is None:
            config_before, by = config, config.data.model_dump(mode="json", include={"columns", "imported"})
            config, (tokenizer,), used = cached_tokenizers(config, [train], lambda: reading._train(train), reading=by)
            if config.tokenizer.kind == "unigram" and config_before.tokenizer.kind == "auto":
                splits.remarks.append("tokenizer.kind is unigram: the script of the texts has no spaces between words")
            if used < len(train):
                splits.remarks.append(f"tokenizer trained on a sample of {used:,} of {len(train):,} {train[0].unit}s")
        else:
            texts, section = [" ".join(reading.texts_of(example)) for example in sample_of(train)], config.tokenizer
            min_count = section.min_count if section.extend else None
            parent_tokenizer = parent.tokenizer("tokens", self.sized["tokens"].alike)
            tokenizer, remarks = adapted(parent_tokenizer, texts, min_count)
            splits.remarks += remarks
        return config, replace(self, tokenizers={"tokens": with_words(tokenizer, config.model)})

    def _train(self, train: Sequence[Any]) -> Learned[Any]:
        """Decide the kind and size of the tokenizer, and train it on the examples, or on a sample of those on disk."""
        sample = sample_of(train, self.sampled_bytes)
        config = self.decided([text for example in sample for text in self.texts_of(example)], train)
        return config, [replace(self, config=config).train_tokenizer(sample)], len(sample)

    def texts_of(self, example: Any) -> Sequence[str]:
        """The texts of an example that the tokenizer is trained on."""
        texts: Sequence[str] = example.texts
        return texts

    def decided(self, texts: Sequence[str], train: Sequence[Any], usual: str = "word") -> Any:
        """The configuration with the kind and size of the tokenizer, for texts of training examples."""
        return with_tokenizer(self.config, usual, partial(num_subwords, len(texts), len(set().union(*texts))))

    def train_tokenizer(self, examples: Sequence[Any]) -> TextTokenizer:
        """A tokenizer of the configured kind."""
        return TextTokenizer.train([t for example in examples for t in self.texts_of(example)], self.config.tokenizer)

    def save(self, folder: Path) -> None:
        for role, tokenizer in self.tokenizers.items():
            tokenizer.save(folder / file_of(role))

    def restore(self, config: Any, folder: Path) -> Self:
        return replace(self, tokenizers={role: TextTokenizer.load(folder / file_of(role)) for role in self.roles})

    def rows(self) -> Mapping[str, Rows]:
        return {
            role: Rows(tokenizer.tokens, unit="" if role == "tokens" else f"{role} tokens")
            for role, tokenizer in self.tokenizers.items()
        }

    # Settling -------------------------------------------------------------------------------------------------

    def size(self, work: Work) -> str:
        return size_for(len(work.splits.examples["train"]))

    def fields(self, fields: dict[str, Any], work: Work) -> dict[str, Any]:
        path = self._word_vectors
        if path is None:
            return {}
        if self.tokenizer.unit != "word":
            kind = work.config.tokenizer.kind
            raise ConfigError(f"model.word_vectors needs tokenizer.kind=word, but tokenizer.kind is {kind}")
        is_open = "d_embedding" in work.body_class.config_class.model_fields and "d_embedding" not in fields
        return {"d_embedding": vector_width(Path(path))} if is_open else {}

    @property
    def _word_vectors(self) -> str | None:
        """The file of `model.word_vectors`, for tasks that have it."""
        return getattr(self.config.model, "word_vectors", None)

    def start(self, model: Any, work: Work) -> dict[str, Started]:
        if self._word_vectors is None:
            return {}
        vectors, coverage = self.vectors(work)
        fill(embedding_of(model.body), vectors, model.body.embedding_scale)
        return {"word_vectors": coverage}

    def vectors(self, work: Work) -> tuple[WordVectors, Coverage]:
        """The word vectors and their coverage."""
        assert self.body is not None
        assert self._word_vectors is not None
        path, field = Path(self._word_vectors), width_field(self.body.config_class.model_fields)
        width, (counts,) = self.config.model.settings[field], self.token_counts("train", work)
        return find_vectors(path, self.tokenizer, width, field, counts.tokens)

    # Examples as tokens ---------------------------------------------------------------------------------------

    row_kinds: ClassVar[Sequence[str]] = ("<i4",)

    def numbers_of(self, examples: Sequence[Any]) -> list[Numbers]:
        """All that a model reads of each example, as rows of numbers of the types `row_kinds`, its tokens first."""
        return [[ids] for ids in self.tokenizer.encode_all([" ".join(self.texts_of(example)) for example in examples])]

    def from_rows(self, rows: Sequence[Numbers]) -> list[Any]:
        """Examples as tokens, with whatever else a batch needs, from their rows."""
        return [tokens for (tokens,) in rows]

    @property
    def rows_by(self) -> dict[str, Any]:
        """All that `numbers_of` depends on (JSON)."""
        return {"tokenizers": {role: tokenizer.text for role, tokenizer in self.tokenizers.items()}}

    def encode(self, examples: Sequence[Any], split: str = "", **further: Any) -> Any:
        encode = lambda: (self.numbers_of(part, **further) for part in in_turn(examples))  # noqa: E731
        if split:
            return corpus_of(examples, encode, self.row_kinds, self.from_rows, **self.rows_by, **further)
        return Corpus.in_memory(encode(), self.row_kinds, self.from_rows)

    def tokens_of(self, encoded: Any) -> list[int]:
        """The tokens of an encoded example."""
        tokens: list[int] = encoded
        return tokens

    def costs(self, encoded: Any) -> NDArray[np.int64]:
        return self.costs_of(encoded.lengths)

    def costs_of(self, lengths: Lengths) -> NDArray[np.int64]:
        """The costs of examples whose rows have these lengths, `(examples, rows)` to `(examples,)`."""
        return np.maximum(1, self.is_framed * frame_size(False) + self.counted(lengths))

    def counted(self, lengths: Lengths) -> NDArray[np.int64]:
        """The tokens of examples that are read."""
        return lengths[:, 0].astype(np.int64)

    def lengths_read(self, lengths: Lengths) -> Lengths:
        """The tokens of each text of an example that are read, `(examples, rows)` to `(examples, texts)`."""
        return lengths[:, :1]

    @property
    def is_framed(self) -> bool:
        """True if the model reads a text between a start and an end token."""
        return self.body is not None and issubclass(self.body, TokenEncoder) and self.body.framed

    @property
    def text_positions(self) -> int | None:
        """The most tokens of a text that a model with learned positions reads; None for other models.

        The start and end token of a framed text are not counted.
        """
        if self.body is None or not issubclass(self.body, TokenEncoder):
            return None
        section, config = self.config.model, self.body.config_class
        positions = learned_positions(config, config.sizes.get(section.size, {}) | section.settings)
        return None if positions is None else positions - self.is_framed * frame_size(False)

    @property
    def max_tokens(self) -> int:
        """Largest number of tokens of a text that are read."""
        max_length: int = self.config.data.max_length
        return min(max_length, self.text_positions or max_length)

    @property
    def limit(self) -> str:
        """The same for people, with its reason."""
        owner = "data.max_length" if self.max_tokens == self.config.data.max_length else "the model's"
        return f"{owner} {self.max_tokens}"

    # For people -----------------------------------------------------------------------------------------------

    def token_counts(self, split: str, work: Work) -> Sequence[SideCounts]:
        """The tokens of each side of a split that are read, with the end tokens between texts."""
        corpus: Any = work.encoded(split)
        lengths, lengths_read = self.counted(corpus.lengths), self.lengths_read(corpus.lengths)
        tokens = np.zeros(self.tokenizer.vocab_size, np.int64)
        for row, max_lengths in enumerate(lengths_read.T):
            tokens += corpus.counts(row, len(tokens), max_lengths)
        special = self.tokenizer.special
        tokens[special.end] += lengths.sum() - lengths_read.sum()
        return [SideCounts(split, "text", lengths, tokens, special.unknown)]

    def counts(self, split: str, work: Work) -> dict[str, Any]:
        """Examples, those left out by rule, and for each side tokens and unknown tokens."""
        extra, sides = work.splits.extra.get(split), self.token_counts(split, work)
        examples = work.splits.examples[split] if extra is None else extra.examples
        read = work.splits.counts.get(split) if extra is None else extra.counts
        counts: dict[str, Any] = {"examples": len(examples), **({} if read is None else read.as_values())}
        if extra is not None:
            counts |= {"weight": extra.weight, "tag": extra.tag}
        for side in sides:
            name = f"{side.side}_" if len(sides) > 1 else ""
            counts |= {f"{name}tokens": side.total, f"{name}unknown": side.unknown}
        return counts

    def lines(self, work: Work) -> list[str]:
        every = (*work.split_names, *work.splits.extra)
        sides = [side for split in every for side in self.token_counts(split, work)]
        return [
            work.splits.summary,
            *self.notes(work),
            *work.head.notes(work),
            *findings_table(work.splits.found),
            *self.about(work),
            *token_lines(self.config.tokenizer, self.tokenizers, sides),
            *([] if self._word_vectors is None else [f"\n{self.vectors(work)[1]}"]),
            *work.head.lines(work),
            *self.samples(work),
        ]

    def about(self, work: Work) -> Iterable[str]:
        """Lines of `heed check` on the examples, before the table of tokens."""
        return ()

    def samples(self, work: Work) -> Iterator[str]:
        """A few training examples, and the first of each other set, as they are read and as the model sees them."""
        yield SAMPLES
        train, encoded = work.splits.examples["train"], work.encoded("train")
        every = [(train[i], encoded[i]) for i in range(0, len(train), max(1, len(train) // 3))]
        for name in work.split_names[1:]:
            every += zip(work.splits.examples[name][:1], work.encoded(name)[:1], strict=False)
        for example, tokens in every:
            text = ("", " ".join(self.texts_of(example)), self.tokenizer, self.tokens_of(tokens))
            names = dict.fromkeys(getattr(example, "tags", ()) or getattr(example, "labels", ()))
            yield sample_lines(example.origin, " ".join(names) or example.truth, [text])

    # Questions ------------------------------------------------------------------------------------------------

    def questions(self, texts: Any) -> tuple[list[Any], bool]:
        """In a data frame the texts are in the column that was trained on, or in the first of `text_columns`."""
        single = isinstance(texts, str)
        if not single:
            columns, side = getattr(self.config.data, "columns", None), self.kind.sides(self.config.data)[0]
            column = getattr(columns, side, None)
            texts = to_texts(texts, "texts", (*([] if column is None else [column]), *self.text_columns, side))
        return [self.example_of(text) for text in ([texts] if single else texts)], single

    def example_of(self, text: Any) -> Any:
        """An input as an example without a truth."""
        raise NotImplementedError

    def unknown_in(self, text: Any) -> Sequence[str]:
        """The parts of an input that were never seen in training."""
        return next(iter(self.tokenizers.values())).unknown_in(text)

    @property
    def is_imported(self) -> bool:
        """True if the run was imported: it reads a text as its tokenizer does."""
        return getattr(self.config.data, "imported", None) is not None

    def stripped(self, text: str) -> str:
        """A text without surrounding blanks, as in training; that of an imported run as it is."""
        return text if self.is_imported else text.strip()
