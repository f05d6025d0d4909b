"""The runs of a comparison (opened, grouped by seed) and their common examples."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from pathlib import Path
from typing import Any

from heed.config import RunConfig
from heed.errors import ConfigError, DataError, suggest
from heed.runs.loading import load
from heed.tasks.base.comparison import Examiner
from heed.tasks.base.run import Run


@dataclass(frozen=True)
class Entry:
    """One row of a comparison."""

    label: str  # label in tables
    runs: tuple[Run[Any, Any], ...]  # one run, or several that differ only in their seed

    @property
    def seeds(self) -> list[int]:
        """The seed of each run."""
        return [run.config.training.seed for run in self.runs]


def open_runs(runs: Sequence[Run[Any, Any] | str | Path], force: bool = False) -> list[Run[Any, Any]]:
    """Open runs; `force` opens them despite missing or altered files, with a warning.

    Raises:
        ConfigError: Fewer than two runs, or one run twice.
        RunError: A folder is not a run, or its training has not finished.
    """
    opened = [run if isinstance(run, Run) else load(run, finished=True, force=force) for run in runs]
    if len(opened) < 2:
        raise ConfigError(f"{'1 run' if opened else 'no run'} was given; a comparison takes two or more")
    seen: dict[Path, Run[Any, Any]] = {}
    for run in opened:
        if run.folder.absolute() in seen:
            raise ConfigError(f"run '{run.folder}' was given twice")
        seen[run.folder.absolute()] = run
    return opened


def group_by_seed(runs: Sequence[Run[Any, Any]]) -> list[Entry]:
    """Group runs that differ only in their seed into one entry; if only one would be left, each run is an entry."""
    groups: dict[str, list[Run[Any, Any]]] = {}
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
    """The common part of the names of a group's folders: "luong-seed1" and "luong-seed2" give "luong"."""
    if len(names) == 1:
        return names[0]
    alike = takewhile(lambda letters: len(set(letters)) == 1, zip(*names, strict=False))
    shared = "".join(letters[0] for letters in alike)
    return re.sub(r"[-_. ]*(seed)?[-_. ]*$", "", shared) or names[0]


def find_entry(entries: Sequence[Entry], name: str) -> int:
    """The number of the entry with a label or run folder.

    Raises:
        ConfigError: There is no such entry.
    """
    for i, entry in enumerate(entries):
        if name == entry.label or any(name in (str(run.folder), run.folder.name) for run in entry.runs):
            return i
    raise ConfigError(f"baseline '{name}' is not one of the runs{suggest(name, [entry.label for entry in entries])}")


def common_examples(
    runs: Sequence[Run[Any, Any]],
    split: str | None,
    kind: type[Examiner[Any, Any, Any]],
    files: Sequence[str] = (),
) -> tuple[str, list[Any]]:
    """The name of a split, and its examples, that all runs are scored on.

    By default it is the test set, or the validation set if no run has a test set; with `files` it is these, as read by
    the first run. An imported run has no data and is scored on that of the others.

    Raises:
        DataError: The runs do not have the same examples; the message says which runs differ and where.
        ConfigError: No such split.
    """
    if files:
        name = ", ".join(Path(file).name for file in files)
        if not (read := list(runs[0].read(files))):
            raise DataError(f"there is nothing to score in {', '.join(files)}")
        return name, read
    owners = [run for run in runs if getattr(run.config.data, "imported", None) is None]
    if not owners:
        raise DataError(
            f"'{runs[0].folder}' and the other runs were imported and have no data; give a test file: heed compare RUN "
            "RUN --test FILE"
        )
    runs = owners
    readers: list[Run[Any, Any]] = []  # a data set that several runs share is read once
    for run in runs:
        readers.append(next((other for other in readers if other.config.data == run.config.data), run))
    if split is None:
        split = "test" if any("test" in run.task.split_names for run in readers) else "valid"
    for run, reader in zip(runs, readers, strict=True):
        if split not in reader.task.split_names:
            have = ", ".join(name for name in reader.task.split_names if name != "train")
            raise ConfigError(f"'{run.folder}' has no {split} set (it has {have}); give a --split that all runs have")
    first = list(readers[0].examples(split))
    if not first:
        raise DataError(f"the {split} set of '{runs[0].folder}' is empty")
    for run, reader in zip(runs[1:], readers[1:], strict=True):
        if reader is not readers[0] and (problem := _difference(first, reader.examples(split), kind)):
            raise DataError(
                f"the {split} sets of '{runs[0].folder}' and '{run.folder}' differ: {problem}; "
                "only runs with the same examples can be compared"
            )
    return split, first


def _difference(first: Sequence[Any], second: Sequence[Any], kind: type[Examiner[Any, Any, Any]]) -> str:
    if len(first) != len(second):
        return f"{len(first):,} examples and {len(second):,}"
    for i, (one, other) in enumerate(zip(first, second, strict=True), start=1):
        if (a := kind.source_of(one)) != (b := kind.source_of(other)):
            return f"example {i} is {a!r} and {b!r}"
        if (a := kind.truth_of(one)) != (b := kind.truth_of(other)):
            return f"the {kind.names[1]} of example {i} is {a!r} and {b!r}"
    return ""
