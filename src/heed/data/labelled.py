"""Labelled examples as splits: read, filtered by named rules, held out by a hash of the text; everything counted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from heed.config_tasks import LabelledData
from heed.data.examples import Sentence, Text
from heed.data.files import Counts, default_held_out, held_out_places
from heed.errors import DataError

__all__ = ["LabelledSplits", "label_order", "open_labelled"]

E = TypeVar("E", bound=Text | Sentence)


@dataclass
class LabelledSplits(Generic[E]):
    """Examples by purpose.

    Attributes:
        examples: "train", "valid" and, where given, "test".
        counts: What became of what was read, per split.
        remarks: What a user should know.
    """

    examples: dict[str, list[E]] = field(default_factory=dict)
    counts: dict[str, Counts] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)

    @property
    def notes(self) -> str:
        """Counts and remarks, for people."""
        return "\n".join([*(f"{name}: {count}" for name, count in self.counts.items()), *self.remarks])


def open_labelled(
    data: LabelledData, read: Callable[[Sequence[str], list[str]], Iterable[E]], unit: str
) -> LabelledSplits[E]:
    """Read every split.

    Args:
        data: Which files.
        read: Reads files; what a user should know of them it adds to the list.
        unit: What is counted: "texts", "sentences".

    Raises:
        DataError: A file cannot be read, or nothing is left to train on.
    """
    splits: LabelledSplits[E] = LabelledSplits()

    def open_split(name: str, files: Sequence[str]) -> None:
        remarks: list[str] = []
        counts = splits.counts[name] = Counts(unit=unit)
        splits.examples[name] = []
        for example in read(files, remarks):
            counts.read += 1
            if _content(example).strip():
                splits.examples[name].append(example)
                counts.kept += 1
            else:
                counts.filtered["blank"] = counts.filtered.get("blank", 0) + 1
        splits.remarks += [f"{name}: {remark}" for remark in remarks]

    open_split("train", data.train)
    if isinstance(data.valid, list):
        open_split("valid", data.valid)
    else:
        train = splits.examples["train"]
        wanted = data.valid if data.valid is not None else default_held_out(len(train))
        inside, outside = held_out_places([_content(example) for example in train], wanted)
        splits.examples |= {"train": [train[i] for i in inside], "valid": [train[i] for i in outside]}
        splits.counts["train"].kept = len(inside)
        splits.counts["train"].filtered["held out for validation"] = len(outside)
        splits.counts["valid"] = Counts(len(outside), {}, len(outside), unit)
        splits.remarks.append(f"{len(outside):,} {unit} held out for validation by a hash, equal ones together")
    if data.test is not None:
        open_split("test", data.test)
    if not splits.examples["train"]:
        raise DataError(f"no training example is left of {', '.join(data.train)}: {splits.counts['train']}")
    if not splits.examples["valid"]:
        raise DataError("no validation example is left; give more data, or validation files")
    known = {_content(example) for example in splits.examples["train"]}
    for name in ("valid", "test"):
        shared = sum(_content(example) in known for example in splits.examples.get(name, []))
        if shared:
            splits.remarks.append(f"warning: {shared:,} {unit} of the {name} set stand in the training set as well")
    return splits


def _content(example: Text | Sentence) -> str:
    return example.text if isinstance(example, Text) else " ".join(example.words)


def label_order(labels: Iterable[str]) -> list[str]:
    """Labels in the order in which they are numbered and shown: numbers by value, then names by letter."""

    def key(label: str) -> tuple[bool, float, str]:
        is_number = label.removeprefix("-").isdecimal()
        return not is_number, float(label) if is_number else 0.0, label

    return sorted(set(labels), key=key)
