"""Base of classification and tagging: texts with labels."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Generic, Self, TypeVar

from heed.data.embedded.generated import Split
from heed.data.examples import Sentence, Text, label_order
from heed.data.splits.splits import Splits, drawn_splits
from heed.data.tokens.tokenizer import TextTokenizer
from heed.tasks.base.labels import check_labels, library_memory, load_labels, number_of, save_labels
from heed.tasks.base.text_task import B, C, T, TextTask
from heed.visible import escaped

E = TypeVar("E", bound=Text | Sentence)


def drawn(data: Any, draw: Callable[[Split, int], Sequence[E]], unit: str) -> Splits[E]:
    """The splits of embedded data, of the sizes given in `data`."""
    sizes: dict[Split, int] = {"train": data.train, "valid": data.valid, "test": data.test}
    return drawn_splits({name: [*draw(name, size)] for name, size in sizes.items()}, data.name, unit)


class LabelledTask(TextTask[C, E, T, B], Generic[C, E, T, B]):
    """A task whose examples are texts with labels; a label's number is its place in `labels`."""

    def __init__(self, config: C, tokenizer: TextTokenizer, labels: Sequence[str], splits: Splits[E] | None) -> None:
        super().__init__(config, tokenizer, splits)
        self.labels = list(labels)
        self._number = {label: i for i, label in enumerate(self.labels)}

    @classmethod
    def made(cls, config: C, tokenizer: TextTokenizer, splits: Splits[E]) -> Self:
        # A subset of the training set keeps the labels of the whole.
        given_valid = isinstance(config.data.valid, list)
        known = [*splits.examples["train"], *splits.left_out, *([] if given_valid else splits.examples["valid"])]
        task = cls(config, tokenizer, cls.complete(label for e in known for label in cls.labels_of(e)), splits)
        task.check_labels()
        return task

    @classmethod
    def restore(cls, config: C, folder: Path) -> Self:
        return cls(config, cls.load_tokenizer(folder), load_labels(folder), None)

    def save(self, folder: Path) -> None:
        super().save(folder)
        save_labels(folder, self.labels)

    @classmethod
    @abstractmethod
    def labels_of(cls, example: E) -> Iterable[str]:
        """The labels of an example, with repeats."""

    @classmethod
    def complete(cls, labels: Iterable[str]) -> list[str]:
        """The labels of the model from those of the training examples, in order."""
        return label_order(labels)

    def check_labels(self) -> None:
        """Refuse labels that nothing can be learned from."""
        check_labels(self.labels)

    def axes(self) -> dict[str, list[str]]:
        return {**super().axes(), "labels": self.labels}

    def number_of(self, label: str, origin: str) -> int:
        """The number of a label; a DataError if it does not occur in the training set."""
        return self._number[label] if label in self._number else number_of(label, self.labels, origin)

    def label_lines(self) -> list[str]:
        lines = ["\nlabels:"]
        for split in self.split_names:
            counts = self.label_counts(split).items()
            lines.append(f"{split:20}" + "  ".join(f"{escaped(label)} {count:,}" for label, count in counts))
        return lines

    def shown_truth(self, example: E) -> str:
        return " ".join(dict.fromkeys(self.labels_of(example)))

    def label_counts(self, split: str) -> dict[str, int]:
        """How often each label occurs in a split."""
        counts = dict.fromkeys(self.labels, 0)
        for example in self.splits.examples[split]:
            for label in self.labels_of(example):
                counts[label] = counts.get(label, 0) + 1
        return counts

    def report_counts(self) -> dict[str, Any]:
        return {
            split: {**counts, "labels": self.label_counts(split)} for split, counts in super().report_counts().items()
        }

    def scoring_memory(self, model: Any, activations: float) -> int:
        return super().scoring_memory(model, activations) + library_memory(self.split_names)
