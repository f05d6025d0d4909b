"""Base of classification and tagging: one tokenizer, label names, splits of labelled examples, a settled model."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

from heed.data.batch.framed import frame_size
from heed.data.batch.plan import plan_batches
from heed.data.embedded.generated import Split
from heed.data.examples import Sentence, Text, label_order
from heed.data.read.word_vectors import FoundVectors, vector_width
from heed.data.store.splits import Splits, drawn_splits
from heed.data.tokens.tokenizer import UNKNOWN, TextTokenizer
from heed.errors import ConfigError
from heed.models.base import Body, ModelConfig, TokenEncoder, learned_positions
from heed.tasks.base.config import LabelledConfig
from heed.tasks.base.fine_tuning import is_fine_tuning, with_fine_tuning
from heed.tasks.base.labelled_overview import overview_of
from heed.tasks.base.labels import check_labels, load_labels, number_of, save_labels
from heed.tasks.base.scoring import library_memory
from heed.tasks.base.sizes import labelled_size, num_subwords, with_tokenizer
from heed.tasks.base.started import Started
from heed.tasks.base.task import Task
from heed.tasks.base.transfer import Parent, with_parents
from heed.tasks.base.vocabulary import taken
from heed.tasks.base.word_vectors import Coverage, cover, embedding_of, fill, find_vectors, width_field, with_words
from heed.training.contracts import Batch

_TOKENIZER = "tokenizer.json"

C = TypeVar("C", bound=LabelledConfig)
E = TypeVar("E", bound=Text | Sentence)
T = TypeVar("T")
"""An example as tokens."""
B = TypeVar("B", bound=Batch)
"""A batch."""


def drawn(data: Any, draw: Callable[[Split, int], Sequence[E]], unit: str) -> Splits[E]:
    """The splits of embedded data, of the sizes given in `data`."""
    sizes: dict[Split, int] = {"train": data.train, "valid": data.valid, "test": data.test}
    return drawn_splits({name: [*draw(name, size)] for name, size in sizes.items()}, data.name, unit)


class LabelledTask(Task[C, E], Generic[C, E, T, B]):
    """A task whose examples are texts with labels; a label's number is its place in `labels`."""

    targets = "texts"
    interfaces = ("encoder",)
    size_fields: ClassVar = {"tokens": "vocab_size"}
    alternatives: ClassVar = {"tokens": ("tokens", "source", "target")}

    def __init__(self, config: C, tokenizer: TextTokenizer, labels: Sequence[str], splits: Splits[E] | None) -> None:
        super().__init__(config, splits)
        self.tokenizer = tokenizer
        self.labels = list(labels)
        self._number = {label: i for i, label in enumerate(self.labels)}
        self._encoded: dict[str, list[T]] = {}

    @classmethod
    def prepare(cls, config: C, given: Mapping[str, Sequence[E]] | None = None) -> Self:
        """Read the data, or take the `given` examples, train the tokenizer, settle the fields that depend on the data.

        Raises:
            ConfigError, DataError: The configuration or the data cannot be used.
        """
        for field in ("sampling", "shared"):
            if value := getattr(config.tokenizer, field):
                raise ConfigError(f"tokenizer.{field} is {value}, which does not apply to {config.task}; remove it")
        config, parent, spoken = with_parents(config, cls)
        splits = cls.read_splits(config, given)
        train = splits.examples["train"]
        if spoken is None:
            texts = [text for example in train for text in cls.texts_of(example)]
            # Labels depend on words, so words are the default tokens.
            config = with_tokenizer(config, "word", lambda: num_subwords(len(texts), len(set().union(*texts))))
            tokenizer = cls.train_tokenizer(config, train)
        else:
            tokenizer, remarks = cls.take_tokenizer(config, spoken.tokenizer("tokens", cls), train)
            splits.remarks += remarks
        tokenizer = with_words(tokenizer, config.model)
        # A subset of the training set keeps the labels of the whole.
        known = [*train, *splits.left_out, *([] if isinstance(config.data.valid, list) else splits.examples["valid"])]
        task = cls(config, tokenizer, cls.complete(label for e in known for label in cls.labels_of(e)), splits)
        task.check_labels()
        return task.settle(parent)

    @classmethod
    def take_tokenizer(
        cls, config: C, tokenizer: TextTokenizer, examples: Sequence[E]
    ) -> tuple[TextTokenizer, list[str]]:
        """The tokenizer of another run, extended if configured, and remarks on how it fits the examples."""
        texts = [" ".join(cls.texts_of(example)) for example in examples]
        return taken(tokenizer, texts, config.tokenizer.min_count if config.tokenizer.extend else None)

    def settle(self, parent: Parent | None) -> Self:
        """Settle the configuration as for every task; a pretrained body is fine-tuned at smaller learning rates."""
        super().settle(parent)
        if is_fine_tuning(self.config, parent, self.interfaces):
            self.config = with_fine_tuning(self.config, len(self.train_batches(0)))
        return self

    @classmethod
    def restore(cls, config: C, folder: Path) -> Self:
        """The task of a run folder; its data is opened only when asked for."""
        return cls(config, TextTokenizer.load(folder / _TOKENIZER), load_labels(folder), None)

    def save(self, folder: Path) -> None:
        """Write the tokenizer and the label names into a run folder."""
        self.tokenizer.save(folder / _TOKENIZER)
        save_labels(folder, self.labels)

    @classmethod
    @abstractmethod
    def texts_of(cls, example: E) -> Sequence[str]:
        """The texts of an example that the tokenizer is trained on."""

    @classmethod
    @abstractmethod
    def labels_of(cls, example: E) -> Iterable[str]:
        """The labels of an example, with repeats."""

    @classmethod
    def complete(cls, labels: Iterable[str]) -> list[str]:
        """The labels of the model from those of the training examples, in order."""
        return label_order(labels)

    @classmethod
    @abstractmethod
    def train_tokenizer(cls, config: C, examples: Sequence[E]) -> TextTokenizer:
        """A tokenizer of the configured kind."""

    @abstractmethod
    def encode(self, examples: Sequence[E]) -> list[T]:
        """Examples to tokens and label numbers.

        Raises:
            DataError: A label does not occur in the training set.
        """

    @abstractmethod
    def tokens_of(self, encoded: T) -> list[int]:
        """The tokens of an encoded example."""

    @abstractmethod
    def collate_encoded(self, encoded: Sequence[T], indices: list[int]) -> B:
        """Pad the chosen examples into one batch."""

    # Settling -------------------------------------------------------------------------------------------------

    def fields_from_data(self, given: dict[str, Any]) -> dict[str, Any]:
        """The width of the embeddings, from the word vectors."""
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
        """The named size, by the number of training examples."""
        return labelled_size(len(self.splits.examples["train"]))

    def count_of(self, kind: str) -> int:
        """The vocabulary size."""
        return self.tokenizer.vocab_size

    def check_labels(self) -> None:
        """Refuse labels that nothing can be learned from."""
        check_labels(self.labels)

    def follows_from_data(self) -> tuple[str, ...]:
        """The size fields, and the width of a token's further features."""
        return (*super().follows_from_data(), "d_features")

    def axes(self) -> dict[str, list[str]]:
        """Tokens and labels."""
        return {"tokens": self.tokenizer.tokens, "labels": self.labels}

    def tokenizers(self) -> dict[str, TextTokenizer]:
        """The tokenizer of the texts."""
        return {"tokens": self.tokenizer}

    def build_body(self, config: ModelConfig) -> Body:
        """The model's body, with frozen embeddings if `train_embeddings` is false."""
        body = self.body_class(config)
        if not self.config.model.train_embeddings:
            embedding_of(body).weight.requires_grad_(False)
        return body

    def start(self, model: Any) -> dict[str, Started]:
        """Initialise a new model with the word vectors, then with its parent's weights, which overwrite them."""
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

    def encoded(self, split: str) -> list[T]:
        """The examples of a split as tokens."""
        if split not in self._encoded:
            self._encoded[split] = self.encode(self.splits.examples[split])
        return self._encoded[split]

    def number_of(self, label: str, origin: str) -> int:
        """The number of a label; a DataError if it does not occur in the training set."""
        return self._number[label] if label in self._number else number_of(label, self.labels, origin)

    def overview(self) -> str:
        """Counts, findings in the files, lengths, labels, samples as the model sees them."""
        return overview_of(self)

    def label_counts(self, split: str) -> dict[str, int]:
        """How often each label occurs in a split."""
        counts = dict.fromkeys(self.labels, 0)
        for example in self.splits.examples[split]:
            for label in self.labels_of(example):
                counts[label] = counts.get(label, 0) + 1
        return counts

    def report_counts(self) -> dict[str, Any]:
        """For each split: examples, those left out by each rule, tokens, unknown tokens, labels."""
        result: dict[str, Any] = {}
        for name, examples in self.splits.examples.items():
            counts = self.splits.counts[name]
            tokens = [self.tokens_of(e) for e in self.encoded(name)]
            result[name] = {
                "examples": len(examples),
                **counts.as_values(),
                "tokens": sum(map(len, tokens)),
                "unknown": sum(ids.count(UNKNOWN) for ids in tokens),
                "labels": self.label_counts(name),
            }
        return result

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

    def cost(self, encoded: T) -> tuple[int, int]:
        """The cost of an example in a batch, in positions."""
        return max(1, self.framed * frame_size(False) + len(self.tokens_of(encoded))), 0

    def train_batches(self, epoch: int) -> list[list[int]]:
        """The batches of one pass over the training set."""
        training = self.config.training
        costs = [self.cost(e) for e in self.encoded("train")]
        return plan_batches(costs, training.batch_tokens, training.seed, epoch)

    def scoring_batches(self, encoded: Sequence[T]) -> list[list[int]]:
        """The batches for scoring examples."""
        return plan_batches([self.cost(e) for e in encoded], 4 * self.config.training.batch_tokens)

    def scoring_memory(self, model: Any, activations: float) -> int:
        """Bytes of a scoring batch, four times as large as in training, and of scikit-learn for a test set."""
        batch = round(4 * self.config.training.batch_tokens * activations)
        return batch + library_memory(self.split_names)

    def collate(self, indices: list[int], epoch: int = 0) -> B:
        """One batch of the training set."""
        return self.collate_encoded(self.encoded("train"), indices)

    def work(self, indices: list[int]) -> int:
        """Padded positions of a training batch."""
        encoded = self.encoded("train")
        return len(indices) * max(sum(self.cost(encoded[i])) for i in indices)

    def describe(self, indices: list[int]) -> str:
        """Name the first of some training examples, and their number."""
        example = self.splits.examples["train"][indices[0]]
        return f"{len(indices)} examples, the first {example.origin}: {' '.join(self.texts_of(example))[:80]!r}"
