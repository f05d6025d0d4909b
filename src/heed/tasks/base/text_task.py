"""Bases of tasks whose examples are texts: one tokenizer, encoding, batches, scoring; and texts with labels."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from heed.config.sections import TextConfig, num_subwords, with_tokenizer
from heed.data.batch import frame_size, plan_batches, plan_pass
from heed.data.corpus import Corpus, Lengths, Rows, StoredExamples, corpus_of, sample_of
from heed.data.examples import Example, in_turn, take
from heed.data.findings import found_table
from heed.data.splits import Splits
from heed.data.tokens.tokenizer import TextTokenizer
from heed.data.word_vectors import FoundVectors, vector_width
from heed.errors import ConfigError
from heed.models.base import Body, ModelConfig, TokenEncoder
from heed.registry import learned_positions
from heed.tasks.base.report import SideCounts, sample_lines, token_lines
from heed.tasks.base.task import Task, scoring_tokens
from heed.tasks.base.transfer import Started, with_parents
from heed.tasks.base.vocabulary import (
    Coverage,
    Learned,
    cover,
    embedding_of,
    fill,
    find_vectors,
    labelled_size,
    learned,
    taken,
    width_field,
    with_words,
)
from heed.threads import threads_for
from heed.training.contracts import Batch
from heed.training.processes import current

_TOKENIZER = "tokenizer.json"
_SAMPLE = 10_000_000
"""Bytes of text of a corpus on disk that the tokenizer is trained on: a few seconds' work."""

C = TypeVar("C", bound=TextConfig)
E = TypeVar("E", bound=Example)
T = TypeVar("T")
"""An example as tokens."""
B = TypeVar("B", bound=Batch)
"""A batch."""


class TextTask(Task[C, E], Generic[C, E, T, B]):
    """A task whose examples are texts, read by one tokenizer and an encoder.

    A task gives `open_splits`, `collate_encoded`, `build_model`, `loss` and `selected_by`, and what differs from the
    defaults: tokens are those of an example's texts, and `validate` is the loss on the validation set.
    """

    targets = "texts"
    interfaces = ("encoder",)
    size_fields: ClassVar = {"tokens": "vocab_size"}
    alternatives: ClassVar = {"tokens": ("tokens", "source", "target")}

    def __init__(self, config: C, tokenizer: TextTokenizer, splits: Splits[E] | None) -> None:
        super().__init__(config, splits)
        self.tokenizer = tokenizer
        self._corpora: dict[str, Corpus[T]] = {}
        self._encoded: dict[str, Sequence[T]] = {}
        self._costs: dict[str, NDArray[np.int64]] = {}

    @classmethod
    def prepare(cls, config: C, given: Mapping[str, Sequence[E]] | None = None) -> Self:
        for field in ("sampling", "shared"):
            if value := getattr(config.tokenizer, field):
                raise ConfigError(f"tokenizer.{field} is {value}, which does not apply to {config.task}; remove it")
        config, parent, tokenizer_parent = with_parents(config, cls)
        splits = cls.read_splits(config, given)
        train = splits.examples["train"]
        if tokenizer_parent is None:
            asked, reading = config, config.data.model_dump(mode="json", include={"columns", "imported"})
            config, (tokenizer,), used = learned(config, [train], lambda: cls.learn(asked, train), reading=reading)
            if (kind := config.tokenizer.kind) != "word" and asked.tokenizer.kind == "auto":
                splits.remarks.append(f"tokenizer.kind is {kind}: the script of the texts has no spaces between words")
            if used < len(train):
                splits.remarks.append(f"tokenizer trained on a sample of {used:,} of {len(train):,} {train[0].unit}s")
        else:
            texts = [" ".join(cls.texts_of(example)) for example in sample_of(train)]
            least = config.tokenizer.min_count if config.tokenizer.extend else None
            tokenizer, remarks = taken(tokenizer_parent.tokenizer("tokens", cls.alternatives), texts, least)
            splits.remarks += remarks
        return cls.made(config, with_words(tokenizer, config.model), splits).settle(parent)

    @classmethod
    def learn(cls, config: C, train: Sequence[E]) -> Learned[C]:
        """Decide the kind and size of the tokenizer, and train it on the examples, or on a sample of those on disk."""
        sample = sample_of(train, _SAMPLE)
        texts = [text for example in sample for text in cls.texts_of(example)]
        size = partial(num_subwords, len(texts), len(set().union(*texts)))
        config = with_tokenizer(config, cls.usual_tokens(texts), size)
        return config, [cls.train_tokenizer(config, sample)], len(sample)

    @classmethod
    def made(cls, config: C, tokenizer: TextTokenizer, splits: Splits[E]) -> Self:
        """The task of a new run, not yet settled."""
        return cls(config, tokenizer, splits)

    @classmethod
    def restore(cls, config: C, folder: Path) -> Self:
        return cls(config, cls.load_tokenizer(folder), None)

    @classmethod
    def load_tokenizer(cls, folder: Path) -> TextTokenizer:
        """The tokenizer of a run folder."""
        return TextTokenizer.load(folder / _TOKENIZER)

    def save(self, folder: Path) -> None:
        self.tokenizer.save(folder / _TOKENIZER)

    @classmethod
    def usual_tokens(cls, texts: Sequence[str]) -> str:
        """The kind of tokens for these texts if the configuration does not say."""
        return "word"

    @classmethod
    def texts_of(cls, example: E) -> Sequence[str]:
        """The texts of an example that the tokenizer is trained on."""
        return example.texts

    @classmethod
    def train_tokenizer(cls, config: C, examples: Sequence[E]) -> TextTokenizer:
        """A tokenizer of the configured kind."""
        return TextTokenizer.train([text for example in examples for text in cls.texts_of(example)], config.tokenizer)

    @property
    def row_kinds(self) -> Sequence[str]:
        """The types of the rows of numbers that `rows_of` makes of each example."""
        return ("<i4",)

    def encode(self, examples: Sequence[E]) -> list[T]:
        """Examples to tokens, and whatever else a batch needs."""
        return self.made_of(self.rows_of(examples))

    def rows_of(self, examples: Sequence[E]) -> list[Rows]:
        """All that a batch needs of each example, as rows of numbers, its tokens first."""
        return [[ids] for ids in self.tokenizer.encode_all([" ".join(self.texts_of(example)) for example in examples])]

    def made_of(self, rows: Sequence[Rows]) -> list[T]:
        """Examples as tokens, with whatever else a batch needs, from their rows."""
        return [tokens for (tokens,) in rows]  # type: ignore[misc]

    @property
    def rows_by(self) -> dict[str, Any]:
        """All that `rows_of` depends on (JSON)."""
        return {"tokenizer": self.tokenizer.text}

    def tokens_of(self, encoded: T) -> list[int]:
        """The tokens of an encoded example."""
        return encoded  # type: ignore[return-value]  # as `encode` makes it

    @abstractmethod
    def collate_encoded(self, encoded: Sequence[T], indices: list[int]) -> B:
        """Pad the chosen examples into one batch."""

    # Settling -------------------------------------------------------------------------------------------------

    def fields_from_data(self, given: dict[str, Any]) -> dict[str, Any]:
        path = self.config.model.word_vectors
        if path is None:
            return {}
        if self.tokenizer.unit != "word":
            kind = self.config.tokenizer.kind
            raise ConfigError(f"model.word_vectors needs tokenizer.kind=word, but tokenizer.kind is {kind}")
        own = self.body_class.config_class.model_fields
        return {"d_embedding": vector_width(Path(path))} if "d_embedding" in own and "d_embedding" not in given else {}

    @property
    def auto_size(self) -> str:
        return labelled_size(len(self.splits.examples["train"]))

    def count_of(self, kind: str) -> int:
        return self.tokenizer.vocab_size

    def follows_from_data(self) -> tuple[str, ...]:
        return (*super().follows_from_data(), "d_features")

    def axes(self) -> dict[str, list[str]]:
        return {"tokens": self.tokenizer.tokens}

    def tokenizers(self) -> dict[str, TextTokenizer]:
        return {"tokens": self.tokenizer}

    def build_body(self, config: ModelConfig) -> Body:
        """The model's body, with frozen embeddings if `train_embeddings` is false."""
        body = self.body_class(config)
        if not self.config.model.train_embeddings:
            embedding_of(body).weight.requires_grad_(False)
        return body

    def start(self, model: Any) -> dict[str, Started]:
        started: dict[str, Started] = {}
        if self.config.model.word_vectors is not None:
            found, coverage = self.vectors()
            fill(embedding_of(model.body), found, model.body.embedding_scale)
            started["word_vectors"] = coverage
        return {**started, **super().start(model)}

    def vectors(self) -> tuple[FoundVectors, Coverage]:
        """The word vectors and their coverage."""
        path = Path(self.config.model.word_vectors or "")
        field = width_field(self.body_class.config_class.model_fields)
        width = (self.config.model.model_extra or {})[field]
        found = find_vectors(path, self.tokenizer, width, field)
        return found, cover(path, found, self.tokenizer, [self.tokens_of(e) for e in self.encoded("train")])

    def corpus(self, split: str) -> Corpus[T]:
        """The examples of a split, encoded once; their tokens are made on access."""
        if split not in self._corpora:
            examples = self.splits.examples[split]
            encode = lambda: map(self.rows_of, in_turn(examples))  # noqa: E731
            self._corpora[split] = corpus_of(examples, encode, self.row_kinds, self.made_of, **self.rows_by)
        return self._corpora[split]

    def encoded(self, split: str) -> Sequence[T]:
        """The examples of a split as tokens."""
        return self.corpus(split)

    def costs(self, split: str) -> NDArray[np.int64]:
        """The cost of each example of a split in a batch, `(examples,)`."""
        if split not in self._costs:
            self._costs[split] = self.positions(self.corpus(split).lengths)
        return self._costs[split]

    def positions(self, lengths: Lengths) -> NDArray[np.int64]:
        """The costs of examples whose rows have these lengths, `(examples, rows)` to `(examples,)`."""
        return np.maximum(1, self.framed * frame_size(False) + self.counted(lengths))

    def counted(self, lengths: Lengths) -> NDArray[np.int64]:
        """The tokens of examples that are read."""
        return lengths[:, 0].astype(np.int64)

    def kept(self, lengths: Lengths) -> Lengths:
        """The tokens of each text of an example that are read, `(examples, rows)` to `(examples, texts)`."""
        return lengths[:, :1]

    def token_counts(self, split: str) -> SideCounts:
        """The tokens of a split that are read, with the end tokens between texts."""
        corpus, special = self.corpus(split), self.tokenizer.special
        lengths = self.counted(corpus.lengths)
        kept = self.kept(corpus.lengths)
        tokens = np.zeros(self.tokenizer.vocab_size, np.int64)
        for row, most in enumerate(kept.T):
            tokens += corpus.counts(row, len(tokens), most)
        tokens[special.end] += lengths.sum() - kept.sum()
        return SideCounts(split, "text", lengths, tokens, special.unknown)

    @property
    def room(self) -> int | None:
        """The most tokens of a text that a model with learned positions reads; None for other models.

        The start and end token of a framed text are not counted.
        """
        if not issubclass(self.body_class, TokenEncoder):
            return None
        section, config = self.config.model, self.body_class.config_class
        positions = learned_positions(config, config.sizes.get(section.size, {}) | (section.model_extra or {}))
        return None if positions is None else positions - self.framed * frame_size(False)

    @cached_property
    def framed(self) -> bool:
        """True if the model reads a text between a start and an end token."""
        return issubclass(self.body_class, TokenEncoder) and self.body_class.framed

    # Overviews ------------------------------------------------------------------------------------------------

    def overview(self) -> str:
        rows = [*map(self.token_counts, self.split_names)]
        return "\n".join(
            [
                self.splits.summary,
                *found_table(self.splits.found),
                *token_lines(self.config.tokenizer.kind, self.tokenizer, rows),
                *([f"\n{self.vectors()[1]}"] if self.config.model.word_vectors is not None else []),
                *self.label_lines(),
                "\nas read and, below, as the model sees them:",
                *(
                    sample_lines(
                        example.origin,
                        self.shown_truth(example),
                        [("", " ".join(self.texts_of(example)), self.tokenizer, self.tokens_of(encoded))],
                    )
                    for example, encoded in self._samples()
                ),
            ]
        )

    def label_lines(self) -> list[str]:
        """Lines of the overview on what is to be predicted."""
        return []

    def shown_truth(self, example: E) -> str:
        """The correct output of a sample, for the overview."""
        return example.truth

    def _samples(self) -> Iterator[tuple[E, T]]:
        """A few training examples, and the first of each other set."""
        train, encoded = self.splits.examples["train"], self.encoded("train")
        yield from ((train[i], encoded[i]) for i in range(0, len(train), max(1, len(train) // 3)))
        for name in self.split_names[1:]:
            yield from zip(self.splits.examples[name][:1], self.encoded(name), strict=False)

    def report_counts(self) -> dict[str, Any]:
        result: dict[str, Any] = {}
        for name, examples in self.splits.examples.items():
            tokens, counts = self.token_counts(name), self.splits.counts[name].as_values()
            result[name] = {"examples": len(examples), **counts, "tokens": tokens.total, "unknown": tokens.unknown}
        return result

    def describe(self, indices: list[int], epoch: int) -> str:
        example = self.splits.examples["train"][indices[0]]
        return f"{len(indices)} examples, the first {example.origin}: {' '.join(self.texts_of(example))[:80]!r}"

    # Batches and scores ---------------------------------------------------------------------------------------

    def cost(self, encoded: T) -> int:
        """The cost of an example in a batch, in positions."""
        return max(1, self.framed * frame_size(False) + len(self.tokens_of(encoded)))

    def train_batches(self, epoch: int) -> Sequence[list[int]]:
        training = self.config.training
        plan = plan_pass(self.costs("train"), training.batch_tokens, training.seed, epoch)
        return plan if isinstance(self.splits.examples["train"], StoredExamples) else list(plan)

    def scoring_batches(self, encoded: Sequence[T]) -> list[list[int]]:
        """The batches for scoring examples."""
        return plan_batches([self.cost(e) for e in encoded], scoring_tokens(self.config.training))

    def scoring_memory(self, model: Any, activations: float) -> int:
        """Bytes of a scoring batch."""
        return round(scoring_tokens(self.config.training) * activations)

    def collate(self, indices: list[int], epoch: int = 0) -> B:
        chosen = take(self.encoded("train"), indices)
        return replace(self.collate_encoded(chosen, [*range(len(indices))]), indices=indices)  # type: ignore[type-var]

    def work(self, indices: list[int]) -> int:
        return len(indices) * int(self.costs("train")[indices].max())

    @torch.no_grad()
    def scored(self, model: Any, encoded: Sequence[T], score: Callable[[B], Sequence[Any]]) -> list[Any]:
        """The results of `score`, which gives one for each example of a batch, for encoded examples in their order."""
        device, results = next(model.eval().parameters()).device, [None] * len(encoded)
        for indices in self.scoring_batches(encoded):
            batch: Any = self.collate_encoded(encoded, indices).to(device)
            with threads_for(model, batch.tokens.numel()):
                for i, result in zip(indices, score(batch), strict=True):
                    results[i] = result
        return results

    def forwarded(self, model: Any, encoded: Sequence[T]) -> Tensor:
        """What `model(tokens, mask)` gives for each encoded example, on the CPU, the examples first."""
        return torch.stack(self.scored(model, encoded, lambda batch: [*self.forward(model, batch).float().cpu()]))

    def forward(self, model: Any, batch: Any) -> Tensor:
        """The model's outputs for a batch, the examples first."""
        return model(batch.tokens, batch.mask)  # type: ignore[no-any-return]

    @torch.no_grad()
    def validate(self, model: Any) -> dict[str, float]:
        """The loss on the validation set, over its targets; the processes share the batches."""
        device, total, count = next(model.eval().parameters()).device, 0.0, 0.0
        encoded, processes = self.validated_part(self.encoded("valid")), current()
        for indices in processes.share(self.scoring_batches(encoded)):
            batch: Any = self.collate_encoded(encoded, indices).to(device)
            total += float(self.loss(model, batch, 0.0))  # type: ignore[arg-type]
            count += batch.num_targets
        total, count = processes.total(total, count)
        return {"loss": total / count}  # for a tagger, over its words
