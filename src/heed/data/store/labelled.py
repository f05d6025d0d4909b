"""Labelled examples as splits: read, filtered by named rules, held out by a hash of the text; everything counted."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from heed.config import LabelledData
from heed.data.examples import Sentence, Text
from heed.data.read.counts import Counts
from heed.data.read.findings import Findings, Found, found_lines
from heed.data.read.sentences import is_blank
from heed.data.read.survey import Survey, drop_overlap, drop_repeats
from heed.data.store.files import default_held_out, held_out_places
from heed.errors import DataError

__all__ = ["LabelledSplits", "generated", "label_order", "open_labelled"]

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
    def summary(self) -> str:
        """Counts and remarks, for people."""
        return "\n".join([*(f"{name}: {count}" for name, count in self.counts.items()), *self.remarks])

    @property
    def found(self) -> dict[str, list[Found]]:
        """What was found amiss or worth saying, by split."""
        return {name: counts.found for name, counts in self.counts.items()}

    @property
    def notes(self) -> str:
        """What was kept, left out and found, for people, one line each."""
        return "\n".join(
            [self.summary, *(line for name, found in self.found.items() for line in found_lines(name, found))]
        )


def open_labelled(
    data: LabelledData, read: Callable[[Sequence[str], Findings], Iterable[E]], unit: str
) -> LabelledSplits[E]:
    """Read every split.

    Args:
        data: Which files.
        read: Reads files; what is found in them and left out it tells the findings.
        unit: What is counted: "texts", "sentences".

    Raises:
        DataError: A file cannot be read, or nothing is left to train on.
    """
    splits: LabelledSplits[E] = LabelledSplits()

    surveys: dict[str, Survey] = {}

    def open_split(name: str, files: Sequence[str]) -> None:
        findings = Findings.of(data)
        counts = splits.counts[name] = Counts(unit=unit)
        survey = surveys[name] = Survey(("texts",), surveys.get("train"))
        kept = _without_blanks(read(files, findings), counts, findings)
        examples = list(survey.watch(kept, lambda e: (_content(e),), lambda e: e))
        counts.add(findings)
        counts.found += survey.found
        drop = name == "train" and data.duplicates == "drop"
        splits.examples[name] = list(drop_repeats(examples, survey, counts, drop))
        splits.remarks += [f"{name}: {remark}" for remark in findings.remarks]

    open_split("train", data.train)
    if isinstance(data.valid, list):
        open_split("valid", data.valid)
    else:
        train = splits.examples["train"]
        wanted = data.valid if data.valid is not None else default_held_out(len(train))
        inside, outside = held_out_places([_content(example) for example in train], wanted)
        surveys["train"].forget(Survey.keys_of(_content(train[i]) for i in outside))
        splits.examples |= {"train": [train[i] for i in inside], "valid": [train[i] for i in outside]}
        splits.counts["train"].kept = len(inside)
        splits.counts["train"].filtered["held out for validation"] = len(outside)
        splits.counts["valid"] = Counts(len(outside), {}, len(outside), unit)
        splits.remarks.append(f"{len(outside):,} {unit} held out for validation by a hash, equal ones together")
    if data.test is not None:
        open_split("test", data.test)
    splits.examples["train"] = list(drop_overlap(splits.examples, surveys, splits.counts, data.overlap == "drop"))
    if not splits.examples["train"]:
        raise DataError(f"no training example is left of {', '.join(data.train)}: {splits.counts['train']}")
    if not splits.examples["valid"]:
        raise DataError("no validation example is left; give more data, or validation files")
    return splits


def _without_blanks(examples: Iterable[E], counts: Counts, findings: Findings) -> Iterator[E]:
    """The examples that hold text; the others are counted."""
    for example in examples:
        counts.read += 1
        if not is_blank(_content(example)):
            counts.kept += 1
            yield example
        else:
            counts.leave_out("blank")
            findings.note("blank, left out", "", example.origin, unit=counts.unit.removesuffix("s"))


def generated(examples: dict[str, list[E]], name: str, unit: str) -> LabelledSplits[E]:
    """Examples that were drawn, as splits."""
    counts = {split: Counts(len(drawn), {}, len(drawn), unit) for split, drawn in examples.items()}
    return LabelledSplits(examples, counts, [f"embedded data: {name}"])


def _content(example: Text | Sentence) -> str:
    return example.text if isinstance(example, Text) else " ".join(example.words)


def label_order(labels: Iterable[str]) -> list[str]:
    """Labels in the order in which they are numbered and shown: numbers by value, then names by letter."""

    def key(label: str) -> tuple[bool, float, str]:
        is_number = label.removeprefix("-").isdecimal()
        return not is_number, float(label) if is_number else 0.0, label

    return sorted(set(labels), key=key)
