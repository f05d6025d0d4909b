"""Which runs are compared, and on which examples: opened, grouped by seed, and held to one test set."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

from heed.config import RunConfig
from heed.data.examples import Pair
from heed.errors import ConfigError, DataError, suggest
from heed.run import Run, load
from heed.uses.translation import TranslationRun

__all__ = ["Entry", "common_examples", "find_entry", "group_by_seed", "open_run", "open_runs"]


@dataclass(frozen=True)
class Entry:
    """One row of a comparison.

    Attributes:
        label: What the tables call it.
        runs: One run, or several that differ in their seed only.
    """

    label: str
    runs: tuple[TranslationRun, ...]

    @property
    def seeds(self) -> list[int]:
        """The seed of each run."""
        return [run.config.training.seed for run in self.runs]


def open_run(run: Run[Any, Any] | str | Path) -> TranslationRun:
    """Open one run.

    Raises:
        ConfigError: It is of a task that cannot be compared.
        RunError: The folder is none, or unfinished.
    """
    opened = run if isinstance(run, Run) else load(run)
    if not isinstance(opened, TranslationRun):
        raise ConfigError(
            f"'{opened.folder}' is a run of {opened.config.task}, which cannot be compared yet; runs of translation can"
        )
    return opened


def open_runs(runs: Sequence[TranslationRun | str | Path]) -> list[TranslationRun]:
    """Open what was named.

    Raises:
        ConfigError: Fewer than two runs, or one run twice.
        RunError: A folder is none, or unfinished.
    """
    opened = [open_run(run) for run in runs]
    if len(opened) < 2:
        raise ConfigError(f"{len(opened)} run was given; a comparison takes two or more")
    seen: dict[Path, TranslationRun] = {}
    for run in opened:
        if run.folder.absolute() in seen:
            raise ConfigError(f"run '{run.folder}' was given twice")
        seen[run.folder.absolute()] = run
    return opened


def group_by_seed(runs: Sequence[TranslationRun]) -> list[Entry]:
    """Runs that differ in nothing but their seed make one entry; where only one would be left, each run is one."""
    groups: dict[str, list[TranslationRun]] = {}
    for run in runs:
        groups.setdefault(_without_seed(run.config), []).append(run)
    kept = list(groups.values()) if len(groups) > 1 else [[run] for run in runs]
    labels = [_label([run.folder.name for run in group]) for group in kept]
    for i, group in enumerate(kept):  # folders of the same name in different places
        if labels.count(labels[i]) > 1:
            labels[i] = str(group[0].folder)
    return [Entry(label, tuple(group)) for label, group in zip(labels, kept, strict=True)]


def _without_seed(config: RunConfig) -> str:
    seedless = config.training.model_copy(update={"seed": 0})
    return config.model_copy(update={"training": seedless}).model_dump_json(by_alias=True)


def _label(names: list[str]) -> str:
    """What the names of a group's folders share: "luong-seed1" and "luong-seed2" are luong."""
    if len(names) == 1:
        return names[0]
    alike = takewhile(lambda letters: len(set(letters)) == 1, zip(*names, strict=False))
    shared = "".join(letters[0] for letters in alike)
    return re.sub(r"[-_. ]*(seed)?[-_. ]*$", "", shared) or names[0]


def find_entry(entries: Sequence[Entry], name: str) -> int:
    """Which entry is meant by its label or by one of its run folders.

    Raises:
        ConfigError: None is.
    """
    for i, entry in enumerate(entries):
        if name == entry.label or any(name in (str(run.folder), run.folder.name) for run in entry.runs):
            return i
    raise ConfigError(f"baseline '{name}' is none of the runs{suggest(name, [entry.label for entry in entries])}")


def common_examples(runs: Sequence[TranslationRun], split: str | None) -> tuple[str, list[Pair]]:
    """The examples that all runs are scored on.

    Args:
        runs: All runs.
        split: Which split; by default the test set, or where no run has one the validation set.

    Returns:
        Name of the split, and its examples.

    Raises:
        DataError: The runs do not have the same examples; the message says which differ and where.
        ConfigError: No such split.
    """
    opened: list[tuple[Any, dict[str, Sequence[Pair]]]] = []
    splits: list[dict[str, Sequence[Pair]]] = []
    for run in runs:  # runs of one configured data set read it once
        known = next((pairs for data, pairs in opened if data == run.config.data), None)
        if known is None:
            known = run.task.splits.pairs
            opened.append((run.config.data, known))
        splits.append(known)
    if split is None:
        split = "test" if any("test" in pairs for pairs in splits) else "valid"
    for run, pairs in zip(runs, splits, strict=True):
        if split not in pairs:
            have = ", ".join(name for name in pairs if name != "train")
            raise ConfigError(f"'{run.folder}' has no {split} set (it has {have}); name a --split that all runs have")
    first = list(splits[0][split])
    if not first:
        raise DataError(f"the {split} set of '{runs[0].folder}' is empty")
    for run, pairs in zip(runs[1:], splits[1:], strict=True):
        if pairs is not splits[0] and (problem := _difference(first, pairs[split])):
            raise DataError(
                f"the {split} sets of '{runs[0].folder}' and '{run.folder}' differ: {problem}; "
                "only runs with the same examples can be compared"
            )
    return split, first


def _difference(first: Sequence[Pair], second: Sequence[Pair]) -> str:
    if len(first) != len(second):
        return f"{len(first):,} examples and {len(second):,}"
    for i, (one, other) in enumerate(zip(first, second, strict=True), start=1):
        if one.source != other.source:
            return f"example {i} is {one.source!r} and {other.source!r}"
        if one.target != other.target:
            return f"the reference of example {i} is {one.target!r} and {other.target!r}"
    return ""
