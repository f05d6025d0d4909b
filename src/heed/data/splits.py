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
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from heed.config import Source
from heed.data.columns import is_float
from heed.data.corpus import hashes_in, label_sets_in, read_corpus
from heed.data.examples import LABELS, STEP, Example, Hashes, LabelSet, hashes_of, mixed, select
from heed.data.findings import Counts, Found
from heed.data.readers import Reader, of_hub, taken
from heed.errors import ConfigError, DataError, counted

E = TypeVar("E", bound=Example)
T = TypeVar("T")


@dataclass
class ExtraCorpus(Generic[T]):
    """One further corpus, seen `weight` times a pass; `tag` is put before its first texts."""

    examples: Sequence[T]
    counts: Counts
    weight: float
    tag: str | None
    columns: Mapping[str, int | str] = field(default_factory=dict)  # that were read, by field
    languages: tuple[str | None, str | None] = (None, None)  # of both sides; None: that of the training set

    def __str__(self) -> str:
        tag = "" if self.tag is None else f", tag {self.tag}"
        return f"{self.counts} (weight {self.weight:g}{tag})"


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

    def keep(self, name: str, indices: NDArray[np.int64], rule: str) -> None:
        """Keep only these examples of a split or further corpus; the others are counted as left out by `rule`."""
        held = self.extra[name].examples if name in self.extra else self.examples[name]
        if not (gone := len(held) - len(indices)):
            return
        kept = select(held, indices)
        if name in self.extra:
            self.extra[name].examples = kept
        else:
            self.examples[name] = kept
        if (counts := self._counts.get(name)) is not None:
            counts.leave_out(rule, gone)
            counts.kept = len(indices)

    @property
    def _counts(self) -> dict[str, Counts]:
        return self.counts | {name: corpus.counts for name, corpus in self.extra.items()}

    @property
    def summary(self) -> str:
        """Counts and remarks, for people."""
        lines = [f"{name}: {count}" for name, count in (self.counts | self.extra).items()]
        return "\n".join([*([self.made] if self.made else []), *lines, *self.remarks])

    @property
    def found(self) -> dict[str, list[Found]]:
        """Findings by split and corpus."""
        return {name: counts.found for name, counts in self._counts.items()}

    @property
    def notes(self) -> str:
        """Counts, remarks and findings, for people, one line each."""
        found = [one.line(split) for split, each in self.found.items() for one in each]
        return "\n".join([self.summary, *found])


@dataclass
class Candidates(Generic[E]):
    """A split or a further corpus in the making."""

    kind: type[E]
    examples: Sequence[E]
    counts: Counts
    remarks: list[str] = field(default_factory=list)
    hashes: Hashes = field(init=False)  # of every field, `(examples, fields)`

    def __post_init__(self) -> None:
        self.hashes = hashes_in(self.examples).reshape(-1, len(self.kind.compared))

    @classmethod
    def read(cls, name: str, files: Sequence[str], reader: Reader[E], data: Source) -> Candidates[E]:
        return cls(reader.kind, *read_corpus(name, files, reader, data))

    @property
    def groups(self) -> Hashes:
        return self.kind.of_groups(self.hashes)

    def shared(self, other: Candidates[E]) -> NDArray[np.intp]:
        """The places of the examples whose groups the other part has too."""
        return np.flatnonzero(np.isin(self.groups, other.groups))

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

    def find_repeats(self, drop: bool) -> None:
        """Note repeated examples, and leave them out if `drop`."""
        unit, wholes = self.kind.unit, combined(self.hashes)
        again = np.flatnonzero(_first(wholes) < np.arange(len(wholes)))
        texts = [bool(role.side) for role in self.kind.compared.values()]
        if any(texts) and not all(texts):  # a source may have several translations, a text has its labels
            other = np.flatnonzero(wholes != wholes[_first(combined(self.hashes[:, texts]))])
            if len(other):
                self.note(f"duplicate {unit} with different labels, kept", other, True)
        if len(again):
            rule = f"duplicate {unit}"
            self.note(f"{rule}, {'left out' if drop else 'kept'}", again, not drop)
            if drop:
                self.leave_out(again, rule)


def open_splits(
    data: Source,
    reader: Reader[E],
    given: Mapping[str, Sequence[E]] | None = None,
    halve: Callable[[E], tuple[E, E, str]] | None = None,
    has_classes: Callable[[Sequence[E]], bool] | None = None,
) -> Splits[E]:
    """Read every split: from files, a data set of the Hub, or the `given` examples in memory.

    `halve` cuts an only training example into one to train on and one to validate on, and says so. `has_classes` says
    whether labels are classes, which are held out in their shares; by default all labels are.

    Raises:
        DataError: A file cannot be read, or nothing is left to train on.
    """
    if given is None and data.origin == "memory":
        raise DataError(data.not_kept)
    splits: Splits[E] = Splits({}, columns=reader.columns)
    if given is not None:
        names = {split: [split] for split in ("train", "valid", "test") if split in given}
        splits.columns = getattr(given["train"], "columns", {})
        data = data.model_copy(update={"in_memory": None, **names})
        reader = replace(reader, read=lambda files, findings: taken(given[files[0]], findings), again=False)
    elif data.origin == "hub":
        data, reader, splits.remarks = of_hub(data, reader)

    train = Candidates.read("train", data.train, reader, data)
    train.find_repeats(data.duplicates == "drop")
    parts = {"train": train}
    if not isinstance(data.valid, list):
        if halve is not None and len(train.examples) == 1:
            train, valid = _halved(train, halve)
        else:
            kept = train.examples
            shares = len(kept) > 0 and is_stratified(kept) and (has_classes is None or has_classes(kept))
            valid = _held_out(train, data.valid, data.labelled, shares)
        parts = {"train": train, "valid": valid}
    for split, files in (("valid", data.valid), ("test", data.test)):
        if isinstance(files, list):  # what is held out shares no group, or that is said
            parts[split] = Candidates.read(split, files, reader, data)
            parts[split].find_repeats(drop=False)
            _find_overlap(train, parts[split], split, data.overlap == "drop")

    for split, part in parts.items():
        splits.examples[split], splits.counts[split] = part.examples, part.counts
        splits.remarks += part.remarks
    unit = reader.kind.unit
    if not train.examples:
        hint = "; give more data, or validation files" if _HELD_OUT in train.counts.filtered else ""
        raise DataError(f"no training {unit}s left in {', '.join(data.train)}: {train.counts}{hint}")
    if not parts["valid"].examples:
        raise DataError(f"no validation {unit}s left; give more data, or validation files")
    return splits


_HELD_OUT = "held out for validation"
_ALIKE = ", with labels in the same shares"


def _halved(train: Candidates[E], halve: Callable[[E], tuple[E, E, str]]) -> tuple[Candidates[E], Candidates[E]]:
    """The training and validation sets made of the only training example."""
    first, second, remark = halve(train.examples[0])
    halves = (
        Candidates(train.kind, [first], train.counts, train.remarks),
        Candidates(train.kind, [second], Counts(1, {}, 1, train.counts.unit), [remark]),
    )
    for half in halves:
        if rule := half.examples[0].blank:
            half.leave_out(np.array([0]), rule)
    return halves


def _held_out(train: Candidates[E], wanted: int | None, labelled: bool, shares: bool) -> Candidates[E]:
    """The validation set made of about `wanted` of the training examples (None: the usual number)."""
    kind, unit, side = train.kind, train.kind.unit, train.kind.group_name()
    if wanted is None:
        wanted = default_held_out(len(train.examples), labelled)
    out = np.flatnonzero(hold_out(train.examples, train.hashes, wanted, shares))
    valid = Candidates(kind, select(train.examples, out), Counts(len(out), {}, len(out), train.counts.unit))
    train.leave_out(out, _HELD_OUT)
    held = f"{counted(len(out), unit)} {_HELD_OUT}"
    if len(valid.shared(train)):
        copies = f"are copies of training {unit}s, since each label has one {side} only: scores on them say nothing"
        valid.remarks.append(f"warning: {held} {copies} about other {unit}s; give more, or validation files")
    else:
        equal = f"{unit}s with the same {side}" if side != unit else f"equal {unit}s"
        alike = _ALIKE if len(out) and shares else ""
        valid.remarks.append(f"{held} by a hash of the {side}{alike}; {equal} stay together")
    return valid


def _find_overlap(train: Candidates[E], part: Candidates[E], split: str, drop: bool) -> None:
    """Find groups of another set in the training set: note them there, or leave them out of the training set."""
    side = train.kind.group_name()
    rule = f"{side} in the {split} set"
    if drop and len(shared := train.shared(part)):
        train.note(f"{rule}, left out", shared)
        train.leave_out(shared, rule)
    elif not drop and len(shared := part.shared(train)):
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


def hold_out(
    examples: Sequence[E], hashes: NDArray[np.uint64], wanted: int, shares: bool | None = None
) -> NDArray[np.bool_]:
    """Mask of about `wanted` examples to hold out, chosen by hashes of their fields, `(examples, fields)`.

    Groups stay together, and the choice does not depend on the order of the file. Without labels, or if `shares` is
    False, those with the smallest hashes are held out. Otherwise each stratum (`stratum_of`) has its share, as far as
    whole groups fit into `wanted`, and no label loses its last group. If all labels have one group only, copies of
    training examples are held out.

    Raises:
        DataError: There is one group only, or no label has two examples.
    """
    if wanted <= 0 or len(examples) < 2:
        return _smallest(hashes[:, 0], wanted)
    kind, unit = type(examples[0]), examples[0].unit
    keys = kind.of_groups(hashes)
    if (keys == keys[0]).all():
        what = f"have the same {kind.group_name()}" if kind.group_name() != unit else "are equal"
        raise DataError(f"all {len(keys):,} {unit}s {what}; {_NONE_LEFT}")
    if not (is_stratified(examples) if shares is None else shares):
        return _smallest(keys, wanted)
    sets, numbers = strata_in(examples)
    out = np.zeros(len(keys), dtype=bool)
    out[_in_shares(sets, numbers, keys, wanted, 1)] = True
    if not out.any():
        copies = np.flatnonzero(_first(combined(hashes)) < np.arange(len(hashes)))
        each = np.arange(len(copies), dtype=np.uint64)
        out[copies[_in_shares(sets, numbers[copies], each, wanted, 0)]] = True
    if not out.any():
        numbers_too = all(is_float(str(label)) for labels in sets for label in labels)
        hint = "; if the labels are numbers to predict, set data.target=number" * numbers_too
        raise DataError(f"each label has only one of the {len(keys):,} {unit}s; {_NONE_LEFT}{hint}")
    return out


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
    splits.left_out = select(train, np.sort(order[size:]))
    splits.keep("train", np.sort(order[:size]), f"not drawn for training.train_size {size:,}")
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


# Arithmetic of hashes


def combined(hashes: Hashes) -> Hashes:
    """One hash of all fields, `(examples, fields)` to `(examples,)`; the hash of a single field is unchanged."""
    result = hashes[:, 0]
    for column in hashes.T[1:]:
        result = result * STEP + column
    return result


def _first(hashes: Hashes) -> NDArray[np.intp]:
    """For each hash, the place of the first equal one."""
    _, first, inverse = np.unique(hashes, return_index=True, return_inverse=True)
    return np.asarray(first[inverse])


def _smallest(hashes: Hashes, wanted: int) -> NDArray[np.bool_]:
    """Mask of at least `wanted` hashes, the smallest ones and all that equal these."""
    last = min(wanted, len(hashes)) - 1
    return hashes <= np.partition(hashes, last)[last] if last >= 0 else np.zeros(len(hashes), dtype=bool)


def _mixed(hashes: Hashes, seed: int) -> Hashes:
    """Numbers that look random and follow from hashes and a seed."""
    return mixed(hashes + np.full(1, (seed + 1) * int(STEP) % 2**64, np.uint64))
