"""Splits: examples are read, filtered by named rules, held out by a hash and compared; everything is counted.

For each split, a report has the numbers of examples read, filtered by each rule and kept, the findings with their first
places, and tokens and unknown tokens of each side. The number read is the number kept plus the numbers left out. Pairs
with the same source are held out together, by the smallest hashes of the source, so the choice does not depend on the
order of the files.

Further training corpora (back-translations, another domain) are weighted, perhaps tagged, and never held out. A weight
is how often a pair is seen in one pass over the training files; the pairs of a fractional part are drawn again in each
pass, by the seed and the number of the pass only. A tag is saved with the tokenizer; no text is ever tokenized into it,
and inputs for prediction have no tag. Tokenizers are trained on all corpora, each pair once. Pairs whose source is in
the validation or test set are left out and counted; shared targets are counted in a warning. `report.json` has the
counts by name (`extra bible.en`), with weight and tag.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from heed.config import CorpusData, ExtraData, HubSection, OwnData
from heed.config.data import InMemory
from heed.data.examples import Example
from heed.data.findings import Counts, Findings, Found, found_lines
from heed.data.readers import HubSet, Reader, taken
from heed.data.sequences import select
from heed.data.splits.stored import among, hashes_in, held_out, keep_examples
from heed.data.splits.stream import HELD_OUT, ExampleStream, NewestWindow
from heed.data.splits.survey import Survey, drop_overlap, drop_repeats
from heed.errors import DataError

E = TypeVar("E", bound=Example)
_NOT_OF_READING = {"train", "valid", "test", "extra", "max_length", "in_memory", "duplicates", "overlap"}
_NOT_OF_READING |= {"shuffle_source", "shuffle_seed"}  # in the settings of the reader


def read_corpus(
    name: str, files: Sequence[str], reader: Reader[E], data: OwnData, survey: Survey | None = None
) -> tuple[Sequence[E], Counts, list[str]]:
    """Read one corpus: examples (stored on disk if more than `data.in_memory`), counts, and remarks that name it.

    Raises:
        DataError: A file cannot be read, or a line is bad and not skipped.
    """
    counts, findings = Counts(unit=f"{reader.kind.unit}s"), Findings.of(data)

    def read() -> Iterator[E]:
        examples = reader.filled(files, counts, findings)
        return examples if survey is None else survey.watch(examples)

    def report() -> dict[str, Any]:
        counts.add(findings)
        counts.found += [] if survey is None else survey.found
        known = None if survey is None else survey.as_values()
        return {"counts": asdict(counts), "survey": known, "remarks": findings.remarks, "columns": reader.columns}

    settings = data.model_dump(mode="json", exclude=_NOT_OF_READING)
    settings |= {**reader.settings, "survey": None if survey is None else survey.basis}
    in_memory, again = getattr(data, "in_memory", None), files if reader.again else ()
    examples, said, remark = keep_examples(read, reader.kind, in_memory, again, settings, report)
    reader.columns.update(reader.columns or said["columns"])
    if survey is not None:
        survey.recall(said["survey"])
    remarks = [*filter(None, [remark]), *remarks_of(name, said["remarks"])]
    return examples, Counts.of_values(said["counts"]), remarks


def remarks_of(name: str, lines: Sequence[str]) -> list[str]:
    """The readers' remarks, with the name of the corpus."""
    warned = "warning: "
    return [
        f"{warned}{name}, {line.removeprefix(warned)}" if line.startswith(warned) else f"{name}: {line}"
        for line in lines
    ]


T = TypeVar("T")


@dataclass(frozen=True)
class ExtraCorpus(Generic[T]):
    """One further corpus, seen `weight` times a pass; `tag` is put before its first texts."""

    examples: Sequence[T]
    counts: Counts
    weight: float
    tag: str | None
    columns: Mapping[str, int | str] = field(default_factory=dict)  # that were read, by field

    def keep(self, indices: NDArray[np.int64], rule: str) -> ExtraCorpus[T]:
        """The corpus with these examples only; the others are counted as left out by `rule`."""
        gone = len(self.examples) - len(indices)
        if not gone:
            return self
        counts = replace(self.counts, filtered={**self.counts.filtered, rule: gone}, kept=len(indices))
        return replace(self, examples=select(self.examples, indices), counts=counts)

    def __str__(self) -> str:
        tag = "" if self.tag is None else f", tag {self.tag}"
        return f"{self.counts} (weight {self.weight:g}{tag})"


def open_extra(
    given: Sequence[tuple[ExtraData, Reader[E]]], data: OwnData, splits: Mapping[str, Sequence[E]]
) -> tuple[dict[str, ExtraCorpus[E]], list[str]]:
    """The further corpora by name ("extra bt.en"), without examples whose first text is held out; remarks for the user.

    Raises:
        DataError: A file cannot be read.
    """
    known = {split: hashes_in(splits[split]) for split in ("valid", "test") if given and split in splits}
    result: dict[str, ExtraCorpus[E]] = {}
    remarks = []
    for name, (section, reader) in zip(_names(section for section, _ in given), given, strict=True):
        sides, unit = reader.kind.sides, reader.kind.unit
        examples, counts, said = read_corpus(name, section.files, reader, data)
        remarks += said
        corpus = ExtraCorpus(examples, counts, section.weight, section.tag, reader.columns)
        for split, hashes in known.items():
            kept = np.flatnonzero(~among(hashes_in(corpus.examples)[:, 0], hashes[:, 0]))
            corpus = corpus.keep(kept, f"{sides[0]} in the {split} set")
        own = hashes_in(corpus.examples)
        # The real side of a back-translation is its target; a model trained on it has seen the reference.
        for (split, hashes), place in product(known.items(), range(1, min(len(sides), own.shape[1]))):
            if shared := int(among(own[:, place], hashes[:, place]).sum()):
                remarks.append(f"warning: {shared:,} {sides[place]}s of {name} are also in the {split} set")
        if not corpus.examples:
            remarks.append(f"warning: {name} has no {unit} to train on")
        result[name] = corpus
    return result, remarks


def _names(given: Iterable[ExtraData]) -> list[str]:
    """Names of corpora: the first file, and a number if that name is taken."""
    names = [f"extra {Path(one.files[0]).name}" for one in given]
    return [name if name not in names[:n] else f"{name} ({n + 1})" for n, name in enumerate(names)]


@dataclass
class Splits(Generic[T]):
    """Examples by split: "train", "valid", "test" if given, and others that the data has.

    `remarks` are for the user; `made` describes how examples were generated; `extra` are further training corpora by
    name; `stream` is the stream of which "train" is the newest window, if it is one; `left_out` are the training
    examples that `training.train_size` leaves out; `columns` are those of the training set, by field.
    """

    examples: dict[str, Sequence[T]]
    counts: dict[str, Counts] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    made: str = ""
    extra: dict[str, ExtraCorpus[T]] = field(default_factory=dict)
    stream: ExampleStream[Any] | None = None
    left_out: Sequence[T] = ()
    columns: Mapping[str, int | str] = field(default_factory=dict)

    @property
    def summary(self) -> str:
        """Counts and remarks, for people."""
        lines = [f"{name}: {count}" for name, count in (self.counts | self.extra).items()]
        of_stream = [] if self.stream is None else remarks_of("train", self.stream.remarks)
        return "\n".join([*([self.made] if self.made else []), *lines, *self.remarks, *of_stream])

    @property
    def found(self) -> dict[str, list[Found]]:
        """Findings by split and corpus."""
        every = self.counts | {name: corpus.counts for name, corpus in self.extra.items()}
        return {name: counts.found for name, counts in every.items()}

    @property
    def notes(self) -> str:
        """Counts, remarks and findings, for people, one line each."""
        found = [line for split, each in self.found.items() for line in found_lines(split, each)]
        return "\n".join([self.summary, *found])


def open_splits(data: OwnData, reader: Reader[E], given: Mapping[str, Sequence[E]] | None = None) -> Splits[E]:
    """Read every split: from files, a data set of the Hub, a stream, or the `given` examples in memory.

    Raises:
        DataError: A file cannot be read, or nothing is left to train on.
    """
    if given is None and isinstance(data, InMemory):
        raise DataError(data.missing)
    if given is None and isinstance(data, CorpusData) and data.stream:
        return _open_stream(data, reader)
    splits: Splits[E] = Splits({}, columns=reader.columns)
    examples, counts, unit = splits.examples, splits.counts, reader.kind.unit
    if given is not None:
        names = {split: [split] for split in ("train", "valid", "test") if split in given}
        splits.columns = getattr(given["train"], "columns", {})
        data = data.model_copy(update={"in_memory": None, **names})
        reader = replace(reader, read=lambda files, findings: taken(given[files[0]], findings), again=False)
    elif isinstance(data, HubSection):
        hub = HubSet(data)
        data, splits.remarks = hub.with_splits()
        reader = hub.reader(reader)
    surveys: dict[str, Survey] = {}

    def read(split: str, files: Sequence[str]) -> None:
        survey = surveys[split] = Survey(reader.kind, surveys.get("train"))
        examples[split], counts[split], remarks = read_corpus(split, files, reader, data, survey)
        splits.remarks += remarks
        survey.hashes = hashes_in(examples[split])
        keep = split != "train" or data.duplicates == "keep"
        examples[split] = drop_repeats(examples[split], survey, counts[split], drop=not keep)

    read("train", data.train)
    if isinstance(data.valid, list):
        read("valid", data.valid)
    else:
        wanted = data.valid if data.valid is not None else default_held_out(len(examples["train"]))
        examples["train"], examples["valid"] = hold_out(examples["train"], wanted)
        count = len(examples["valid"])
        surveys["train"].forget(hashes_in(examples["valid"])[:, 0])
        counts["train"].kept, counts["valid"] = len(examples["train"]), Counts(count, {}, count, f"{unit}s")
        counts["train"].filtered["held out for validation"] = count
        side = (*reader.kind.sides, unit)[0]
        equal = f"{unit}s with the same {side}" if side != unit else f"equal {unit}s"
        held = f"{count:,} {unit}{'' if count == 1 else 's'} held out for validation"
        splits.remarks.append(f"{held} by a hash of the {side}; {equal} stay together")
    if data.test is not None:
        read("test", data.test)
    examples["train"] = drop_overlap(examples, surveys, counts, drop=data.overlap == "drop")
    if not examples["train"]:
        hint = "; give more data, or validation files" if "held out for validation" in counts["train"].filtered else ""
        raise DataError(f"no training {unit}s left in {', '.join(data.train)}: {counts['train']}{hint}")
    if not examples["valid"]:
        raise DataError(f"no validation {unit}s left; give more data, or validation files")
    return splits


def _open_stream(data: CorpusData, reader: Reader[E]) -> Splits[E]:
    """A stream, whose newest window is "train", and its validation and test sets.

    Examples with the first text of a held-out one are left out as well; for the sets of files, `data.overlap` decides.
    """
    unit = reader.kind.unit
    held_out = not isinstance(data.valid, list)
    first = HELD_OUT if data.valid is None else data.valid if isinstance(data.valid, int) else 0
    stream = ExampleStream(data, reader, first)
    train = NewestWindow(stream)
    splits: Splits[E] = Splits({"train": train}, {"train": stream.counts}, stream=stream, columns=reader.columns)
    splits.remarks = [
        f"train is a stream, read in windows of {data.window:,} {unit}s, each shuffled and trained on as one pass; at "
        "its end it is read again from the beginning; counts cover what has been read so far"
    ]
    for split, files in (("valid", data.valid), ("test", data.test)):
        if isinstance(files, list):
            splits.examples[split], splits.counts[split], remarks = read_corpus(split, files, reader, data)
            splits.remarks += remarks
        elif split == "valid":
            held = splits.examples[split] = stream.first
            splits.counts[split] = Counts(len(held), {}, len(held), f"{unit}s")
            splits.remarks.append(f"the first {len(held):,} {unit}s of the stream are held out for validation")
    if not splits.examples["valid"]:
        raise DataError(f"no validation {unit}s left; give more data, or validation files")
    for split in ("valid", "test"):
        if split in splits.examples:
            drop = (split == "valid" and held_out) or data.overlap == "drop"
            stream.compare(split, splits.examples[split], drop)
    return splits


def drawn_splits(examples: Mapping[str, Sequence[E]], name: str, unit: str) -> Splits[E]:
    """Generated examples as splits."""
    counts = {split: Counts(len(drawn), {}, len(drawn), unit) for split, drawn in examples.items()}
    return Splits(dict(examples), counts, [f"embedded data: {name}"])


def default_held_out(count: int) -> int:
    """Default size of the validation set: a twentieth, at least 200, at most 1,000 and at most a fifth."""
    return min(max(200, min(1000, count // 20)), max(1, count // 5))


def hold_out(examples: Sequence[E], wanted: int) -> tuple[Sequence[E], Sequence[E]]:
    """Split off about `wanted` examples by a hash of their first field: the others, and these, both in file order.

    Examples with equal first fields stay together, and the choice does not depend on the order of the file.
    """
    out = held_out(hashes_in(examples)[:, 0], wanted)
    return select(examples, np.flatnonzero(~out)), select(examples, np.flatnonzero(out))
