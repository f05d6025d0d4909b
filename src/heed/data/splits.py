"""Splits: examples are read, filtered by named rules, held out by a hash and compared; everything is counted.

For each split, a report has the numbers of examples read, filtered by each rule and kept, the findings with their first
places, and tokens and unknown tokens of each side. The number read is the number kept plus the numbers left out. Groups
of examples (`Example.groups`: pairs with the same source, say) are held out together, by the smallest hashes of the
group, so the choice does not depend on the order of the files. Labelled examples are held out in the shares of their
labels, and no label loses its last training example; only if every text has a label of its own are copies of training
texts held out, which is said.

Repeats and overlap are found by 64-bit hashes; among ten million examples the chance of a false repeat is three in a
million. They have separate fields: how often a pair is seen is the user's decision, while a training set that contains
the test set makes the score worthless. In labelled texts, the same text with other labels is a warning.

Further training corpora (back-translations, another domain) are weighted, perhaps tagged, and never held out. A weight
is how often a pair is seen in one pass over the training files; the pairs of a fractional part are drawn again in each
pass, by the seed and the number of the pass only. A tag is saved with the tokenizer; no text is ever tokenized into it,
and inputs for prediction have no tag. Tokenizers are trained on all corpora, each pair once. Pairs whose source is in
the validation or test set are left out and counted; shared targets are counted in a warning.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from heed.config import Extra, Source
from heed.data.corpus import among, bytes_of, combined, hashes_in, held_out, keep_examples, label_sets_in
from heed.data.examples import LABELS, STEP, Example, Hashes, LabelSet, hashes_of, mixed, select
from heed.data.findings import Counts, Findings, Found
from heed.data.readers import Reader, of_hub, taken
from heed.errors import ConfigError, DataError
from heed.memory import free_memory

E = TypeVar("E", bound=Example)
_GROWN, _SHARE = 8, 0.25
"""Memory of a corpus as texts and tokens, as a multiple of its files; the largest share of the free memory for it."""
_NOT_OF_READING = {"train", "valid", "test", "extra", "max_length", "in_memory", "duplicates", "overlap"}


def read_corpus(
    name: str, files: Sequence[str], reader: Reader[E], data: Source
) -> tuple[Sequence[E], Counts, list[str]]:
    """Read one corpus: examples (stored on disk if more than `data.in_memory`), counts, and remarks that name it.

    Raises:
        DataError: A file cannot be read, or a line is bad and not skipped.
    """
    counts, findings = Counts(unit=f"{reader.kind.unit}s"), Findings.of(data)

    def report() -> dict[str, Any]:
        counts.add(findings)
        return {"counts": asdict(counts), "remarks": findings.remarks, "columns": reader.columns}

    settings = data.model_dump(mode="json", exclude=_NOT_OF_READING)
    settings |= {**reader.settings, "columns_before": dict(reader.columns)}  # those of the training set
    in_memory, again = getattr(data, "in_memory", None), files if reader.again else ()
    if in_memory is not None and _GROWN * bytes_of(files) > _SHARE * (free_memory() or sys.maxsize):
        in_memory = 0
    read = partial(reader.filled, files, counts, findings)
    examples, said, remark = keep_examples(read, reader.kind, in_memory, again, settings, report)
    reader.columns.update(reader.columns or said["columns"])
    remarks = [remark] if remark else []
    for line in said["remarks"]:
        rest = line.removeprefix(_WARNING)
        remarks.append(f"{name}: {line}" if rest == line else f"{_WARNING}{name}, {rest}")
    return examples, Counts.of_values(said["counts"]), remarks


_WARNING = "warning: "
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
    given: Sequence[tuple[Extra, Reader[E]]], data: Source, splits: Mapping[str, Sequence[E]]
) -> tuple[dict[str, ExtraCorpus[E]], list[str]]:
    """The further corpora by name ("extra bt.en"), without examples of groups that are held out; remarks for the user.

    Raises:
        DataError: A file cannot be read.
    """
    known = {
        split: _hashes(splits[split], given[0][1].kind) for split in ("valid", "test") if given and split in splits
    }
    result: dict[str, ExtraCorpus[E]] = {}
    remarks = []
    for name, (section, reader) in zip(_names(section for section, _ in given), given, strict=True):
        kind = reader.kind
        examples, counts, said = read_corpus(name, section.files, reader, data)
        remarks += said
        corpus = ExtraCorpus(examples, counts, section.weight, section.tag, reader.columns)
        for split, hashes in known.items():
            groups = kind.of_groups(_hashes(corpus.examples, kind))
            kept = np.flatnonzero(~among(groups, kind.of_groups(hashes)))
            corpus = corpus.keep(kept, f"{kind.group_name()} in the {split} set")
        own = _hashes(corpus.examples, kind)
        # The real side of a back-translation is its target; a model trained on it has seen the reference.
        for (split, hashes), (place, (side, role)) in product(known.items(), enumerate(kind.compared.items())):
            shared = int(among(own[:, place], hashes[:, place]).sum()) if role.side and side != kind.groups else 0
            if shared:
                remarks.append(f"warning: {shared:,} {role.side}s of {name} are also in the {split} set")
        if not corpus.examples:
            remarks.append(f"warning: {name} has no {kind.unit} to train on")
        result[name] = corpus
    return result, remarks


def _hashes(examples: Sequence[E], kind: type[E]) -> Hashes:
    """The hash of every field, `(examples, fields)`, even of no examples."""
    return hashes_in(examples).reshape(-1, len(kind.compared))


def _names(given: Iterable[Extra]) -> list[str]:
    """Names of corpora: the first file, and a number if that name is taken."""
    names = [f"extra {Path(one.files[0]).name}" for one in given]
    return [name if name not in names[:n] else f"{name} ({n + 1})" for n, name in enumerate(names)]


@dataclass
class Splits(Generic[T]):
    """Examples by split: "train", "valid", "test" if given, and others that the data has.

    `remarks` are for the user; `made` describes how examples were generated; `extra` are further training corpora by
    name; `left_out` are the training examples that `training.train_size` leaves out; `columns` are those of the
    training set, by field.
    """

    examples: dict[str, Sequence[T]]
    counts: dict[str, Counts] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)
    made: str = ""
    extra: dict[str, ExtraCorpus[T]] = field(default_factory=dict)
    left_out: Sequence[T] = ()
    columns: Mapping[str, int | str] = field(default_factory=dict)

    @property
    def summary(self) -> str:
        """Counts and remarks, for people."""
        lines = [f"{name}: {count}" for name, count in (self.counts | self.extra).items()]
        return "\n".join([*([self.made] if self.made else []), *lines, *self.remarks])

    @property
    def found(self) -> dict[str, list[Found]]:
        """Findings by split and corpus."""
        every = self.counts | {name: corpus.counts for name, corpus in self.extra.items()}
        return {name: counts.found for name, counts in every.items()}

    @property
    def notes(self) -> str:
        """Counts, remarks and findings, for people, one line each."""
        found = [one.line(split) for split, each in self.found.items() for one in each]
        return "\n".join([self.summary, *found])


@dataclass
class _Part(Generic[E]):
    """A split in the making, with the hashes of the fields of its examples."""

    kind: type[E]
    examples: Sequence[E]
    counts: Counts
    hashes: Hashes

    @property
    def groups(self) -> Hashes:
        return self.kind.of_groups(self.hashes)

    def note(self, what: str, places: NDArray[np.intp], warning: bool = False) -> None:
        """Note examples as findings."""
        first = [self.examples[int(i)].origin for i in places[:3]]
        self.counts.found.append(Found("", what, self.kind.unit, len(places), first, warning))

    def leave_out(self, places: NDArray[np.intp], rule: str) -> None:
        """Leave examples out, and count them."""
        kept = np.setdiff1d(np.arange(len(self.examples)), places, assume_unique=True)
        self.counts.leave_out(rule, len(places))
        self.counts.kept = len(kept)
        self.examples, self.hashes = select(self.examples, kept), self.hashes[kept]


def open_splits(
    data: Source,
    reader: Reader[E],
    given: Mapping[str, Sequence[E]] | None = None,
    halve: Callable[[E], tuple[E, E, str]] | None = None,
) -> Splits[E]:
    """Read every split: from files, a data set of the Hub, or the `given` examples in memory.

    `halve` cuts an only training example into one to train on and one to validate on, and says so.

    Raises:
        DataError: A file cannot be read, or nothing is left to train on.
    """
    if given is None and data.origin == "memory":
        raise DataError(data.not_kept)
    splits: Splits[E] = Splits({}, columns=reader.columns)
    parts: dict[str, _Part[E]] = {}
    kind, unit = reader.kind, reader.kind.unit
    if given is not None:
        names = {split: [split] for split in ("train", "valid", "test") if split in given}
        splits.columns = getattr(given["train"], "columns", {})
        data = data.model_copy(update={"in_memory": None, **names})
        reader = replace(reader, read=lambda files, findings: taken(given[files[0]], findings), again=False)
    elif data.origin == "hub":
        data, reader, splits.remarks = of_hub(data, reader)

    def read(split: str, files: Sequence[str]) -> None:
        every, counts, remarks = read_corpus(split, files, reader, data)
        splits.remarks += remarks
        parts[split] = _Part(kind, every, counts, _hashes(every, kind))
        _find_repeats(parts[split], split == "train" and data.duplicates == "drop")

    read("train", data.train)
    train = parts["train"]
    if isinstance(data.valid, list):
        read("valid", data.valid)
    elif halve is not None and len(train.examples) == 1:
        first, rest, remark = halve(train.examples[0])
        for split, example, counts in (("train", first, train.counts), ("valid", rest, Counts(1, {}, 1, f"{unit}s"))):
            parts[split] = _Part(kind, [example], counts, _hashes([example], kind))
            if example.blank:
                parts[split].leave_out(np.array([0]), example.blank)
        train = parts["train"]
        splits.remarks.append(remark)
    else:
        wanted = data.valid
        if wanted is None:
            wanted = default_held_out(len(train.examples), data.labelled)
        out = np.flatnonzero(hold_out(train.examples, train.hashes, wanted))
        counts = Counts(len(out), {}, len(out), f"{unit}s")
        valid = parts["valid"] = _Part(kind, select(train.examples, out), counts, train.hashes[out])
        train.leave_out(out, "held out for validation")
        held = f"{len(out):,} {unit}{'' if len(out) == 1 else 's'} held out for validation"
        side = kind.group_name()
        if among(valid.groups, train.groups).any():
            splits.remarks.append(
                f"warning: {held} are copies of training {unit}s, since each label has one {side} only: scores on them "
                f"say nothing about other {unit}s; give more, or validation files"
            )
        else:
            equal = f"{unit}s with the same {side}" if side != unit else f"equal {unit}s"
            alike = _ALIKE if len(out) and is_stratified(valid.examples) else ""
            splits.remarks.append(f"{held} by a hash of the {side}{alike}; {equal} stay together")
    if data.test is not None:
        read("test", data.test)
    for split in ("valid", "test"):
        if isinstance(getattr(data, split), list):  # what is held out shares no group, or that is said
            _find_overlap(train, parts[split], split, data.overlap == "drop")
    splits.examples = {split: part.examples for split, part in parts.items()}
    splits.counts = {split: part.counts for split, part in parts.items()}
    if not train.examples:
        hint = "; give more data, or validation files" if "held out for validation" in train.counts.filtered else ""
        raise DataError(f"no training {unit}s left in {', '.join(data.train)}: {train.counts}{hint}")
    if not parts["valid"].examples:
        raise DataError(f"no validation {unit}s left; give more data, or validation files")
    return splits


def _find_repeats(part: _Part[E], drop: bool) -> None:
    """Find repeated examples, note them, and leave them out if `drop`."""
    unit, wholes = part.kind.unit, combined(part.hashes)
    places, first, _ = _repeated(wholes)
    again = np.delete(places, first)
    texts = [bool(role.side) for role in part.kind.compared.values()]
    if any(texts) and not all(texts):  # a source may have several translations, a text has its labels
        places, first, which = _repeated(combined(part.hashes[:, texts]))
        other = places[wholes[places] != wholes[places[first]][which]]
        if len(other):
            part.note(f"duplicate {unit} with different labels, kept", other, True)
    if len(again):
        rule = f"duplicate {unit}"
        part.note(f"{rule}, {'left out' if drop else 'kept'}", again, not drop)
        if drop:
            part.leave_out(again, rule)


def _repeated(hashes: Hashes) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
    """The places of hashes that occur more than once; which of these are the first ones; the first one of each."""
    ordered = np.sort(hashes)
    places = np.flatnonzero(among(hashes, np.unique(ordered[1:][ordered[1:] == ordered[:-1]])))
    _, first, which = np.unique(hashes[places], return_index=True, return_inverse=True)
    return places, first, which


def _find_overlap(train: _Part[E], part: _Part[E], split: str, drop: bool) -> None:
    """Find groups of another set in the training set: note them there, or leave them out of the training set."""
    side = train.kind.group_name()
    rule = f"{side} in the {split} set"
    if drop and len(shared := np.flatnonzero(among(train.groups, part.groups))):
        train.note(f"{rule}, left out", shared)
        train.leave_out(shared, rule)
    elif not drop and len(shared := np.flatnonzero(among(part.groups, train.groups))):
        part.note(f"{side} is in the training set as well (data.overlap=drop leaves it out there)", shared, True)


def drawn_splits(examples: Mapping[str, Sequence[E]], name: str, unit: str) -> Splits[E]:
    """Generated examples as splits."""
    counts = {split: Counts(len(drawn), {}, len(drawn), unit) for split, drawn in examples.items()}
    return Splits(dict(examples), counts, [f"embedded data: {name}"])


def default_held_out(count: int, labelled: bool) -> int:
    """Default size of the validation set: a twentieth, at least 200, at most 1,000 and at most a fifth.

    Of few labelled examples, a tenth, or 50 if that is more: training needs the others.
    """
    few = max(count // 10, min(50, count // 5)) if labelled else count // 5
    return min(max(200, min(1000, count // 20)), max(1, few))


def hold_out(examples: Sequence[E], hashes: NDArray[np.uint64], wanted: int) -> NDArray[np.bool_]:
    """Mask of about `wanted` examples to hold out, chosen by hashes of their fields, `(examples, fields)`.

    Groups stay together, and the choice does not depend on the order of the file. Without labels, those with the
    smallest hashes are held out. Otherwise each stratum (`stratum_of`) has its share, as far as whole groups fit into
    `wanted`, and no label loses its last group. If all labels have one group only, copies of training examples are
    held out.

    Raises:
        DataError: There is one group only, or no label has two examples.
    """
    if wanted <= 0 or len(examples) < 2:
        return held_out(hashes[:, 0], wanted)
    kind, unit = type(examples[0]), examples[0].unit
    keys = kind.of_groups(hashes)
    if (keys == keys[0]).all():
        what = f"have the same {kind.group_name()}" if kind.group_name() != unit else "are equal"
        raise DataError(f"all {len(keys):,} {unit}s {what}; {_NONE_LEFT}")
    if not is_stratified(examples):
        return held_out(keys, wanted)
    sets, numbers = strata_in(examples)
    out = np.zeros(len(keys), dtype=bool)
    out[_in_shares(sets, numbers, keys, wanted, 1)] = True
    if not out.any():
        wholes = combined(hashes)
        copies = np.setdiff1d(np.argsort(wholes, kind="stable"), np.unique(wholes, return_index=True)[1])
        each = np.arange(len(copies), dtype=np.uint64)
        out[copies[_in_shares(sets, numbers[copies], each, wanted, 0)]] = True
    if not out.any():
        raise DataError(f"each label has only one of the {len(keys):,} {unit}s; {_NONE_LEFT}")
    return out


_ALIKE = ", with labels in the same shares"
_NONE_LEFT = "none can be held out for validation; give more data, or validation files"


def strata_in(examples: Sequence[Any]) -> tuple[list[LabelSet], NDArray[np.int64]]:
    """The strata of examples (`Example.stratum_of`), and the number of each example's."""
    sets, numbers = label_sets_in(examples)
    strata: dict[LabelSet, int] = {}
    of_set = [strata.setdefault(type(examples[0]).stratum_of(labels), len(strata)) for labels in sets]
    return list(strata), np.array(of_set, dtype=np.int64)[numbers]


def _in_shares(
    strata: Sequence[LabelSet], numbers: NDArray[np.int64], keys: NDArray[np.uint64], wanted: int, least: int
) -> NDArray[np.intp]:
    """Indices of about `wanted` examples, groups with equal keys together; `least` groups of each label are left.

    `numbers` are those of the examples' `strata`.
    """
    distinct, groups, sizes = np.unique(keys, return_inverse=True, return_counts=True)
    own = np.empty(len(distinct), dtype=np.int64)  # the stratum of each group: the labels of all its examples
    own[groups] = numbers
    known = {labels: n for n, labels in enumerate(strata)}
    several = np.flatnonzero(np.isin(groups, groups[numbers != own[groups]]))
    joined: dict[int, set[str]] = {}
    for group, number in zip(groups[several].tolist(), numbers[several].tolist(), strict=True):
        joined.setdefault(group, set()).update(strata[number])
    for group, each in joined.items():
        own[group] = known.setdefault(tuple(sorted(each)), len(known))
    labels = list(known)
    left: Counter[str] = Counter()
    for of_stratum, count in zip(labels, np.bincount(own, minlength=len(known)).tolist(), strict=True):
        left.update(dict.fromkeys(of_stratum, count))
    order = _in_turns(_mixed(distinct, 0), labels, own, 0, sizes)
    spare = order[np.array([all(left[label] > least for label in each) for each in labels])[own[order]]]
    chosen: list[int] = []
    for group in spare.tolist():
        if not wanted:
            break
        if sizes[group] <= wanted and all(left[label] > least for label in labels[own[group]]):
            chosen.append(group)
            left.subtract(labels[own[group]])
            wanted -= int(sizes[group])
    if not chosen and len(spare):  # none fits: the smallest
        chosen = [int(spare[sizes[spare].argmin()])]
    return np.flatnonzero(np.isin(groups, chosen))


def take_subset(splits: Splits[T], size: int, seed: int) -> Splits[T]:
    """The splits with `size` of the training examples; the others are counted, moved to `left_out`, never trained on.

    Validation and test sets, and further corpora, stay as they are.

    Raises:
        ConfigError: There are fewer training examples.
    """
    train = splits.examples["train"]
    unit = f"{getattr(train[0], 'unit', 'example')}s"
    if size > len(train):
        raise ConfigError(
            f"training.train_size is {size:,}, but there are {len(train):,} training {unit}; give at most "
            "that many, or remove the field to train on all"
        )
    if size == len(train):
        return splits
    order = drawing_order(train, seed)
    splits.examples["train"] = select(train, np.sort(order[:size]))
    splits.left_out = select(train, np.sort(order[size:]))
    if (counts := splits.counts.get("train")) is not None:
        counts.leave_out(f"not drawn for training.train_size {size:,}", len(train) - size)
        counts.kept = size
    alike = _ALIKE if is_stratified(train) else ""
    splits.remarks.append(f"train: {size:,} of {len(train):,} {unit}, drawn at random by seed {seed}{alike}")
    return splits


def drawing_order(examples: Sequence[Any], seed: int) -> NDArray[np.intp]:
    """The indices of all examples in the order in which a growing subset takes them.

    The first n are a random subset for every n, so smaller subsets are parts of larger ones; each stratum
    (`Example.stratum_of`) has its share of the n, to within one example. The order depends on the seed and on the
    examples' content, not on their order in the file, except among equal examples.
    """
    keys = _mixed(combined(hashes_in(examples)), seed)
    if not is_stratified(examples):
        return np.argsort(keys, kind="stable")
    return _in_turns(keys, *strata_in(examples), seed, np.ones(len(keys), dtype=np.int64))


def _in_turns(
    keys: NDArray[np.uint64],
    strata: Sequence[LabelSet],
    numbers: NDArray[np.int64],
    seed: int,
    sizes: NDArray[np.int64],
) -> NDArray[np.intp]:
    """The indices of items in the order of their keys, strata taking turns so that each has its share of the sizes."""
    used, stratum = np.unique(numbers, return_inverse=True)
    names = [LABELS.key(strata[i]) for i in used]
    # What comes before an item of its stratum, and a share u of the item, drawn for each stratum so that rare ones
    # take turns, is its place.
    shifts = (_mixed(hashes_of(name.encode() for name in names), seed) >> np.uint64(11)).astype(np.float64) / 2**53
    place = np.empty(len(keys))
    for number, shift in enumerate(shifts):
        inside = np.flatnonzero(stratum == number)
        inside = inside[np.argsort(keys[inside], kind="stable")]
        ends = np.cumsum(sizes[inside])
        place[inside] = (ends - sizes[inside] + sizes[inside] * shift) / ends[-1]
    return np.lexsort((keys, place))


def is_stratified(examples: Sequence[Any]) -> bool:
    """True if the kind of example has labels."""
    kind = type(examples[0])
    return issubclass(kind, Example) and any(role.stratum is not None for role in kind.roles.values())


def _mixed(hashes: NDArray[np.uint64], seed: int) -> NDArray[np.uint64]:
    """Numbers that look random and follow from hashes and a seed."""
    return mixed(hashes + np.full(1, (seed + 1) * int(STEP) % 2**64, np.uint64))
