"""Training on data passed in Python: recognising it among the arguments, its examples, and the record a run keeps."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from heed import folder as folders
from heed.config import RunConfig
from heed.config.data import InMemory
from heed.data.findings import Findings
from heed.data.kinds.numbers import Numbers
from heed.errors import ConfigError
from heed.tasks import DEFAULT, check_config, task_class

C = TypeVar("C", bound=RunConfig)
_FILE_NAME = re.compile(r"[^\n]{0,250}\.[A-Za-z]\w{0,5}(\.gz|\.xz)?")
"""Pattern of file names, to recognise the name of a missing file."""


def is_data(value: Any, task: str) -> bool:
    """True if an argument is data rather than names of files or a number of examples."""
    if value is None or isinstance(value, str | Path | int | float):
        return False
    if isinstance(value, list | tuple) and value and all(isinstance(one, str | Path) for one in value):
        names = list(map(_names_a_file, value))
        return not all(names) if task_class(task).texts_are_examples else not any(names)
    return True


def _names_a_file(text: str | Path) -> bool:
    if isinstance(text, Path):
        return True
    if "\n" in text or len(text) > 4_000 or not text.strip():
        return False
    return Path(text).exists() or (" " not in text and ("/" in text or _FILE_NAME.fullmatch(text) is not None))


def handed_over(values: dict[str, Any], splits: Mapping[str, Any], others: Mapping[str, Any]) -> dict[str, Any]:
    """The splits that are data in memory; the `data` section of `values` is set to match.

    Args:
        values: The incomplete configuration; its `data` section changes.
        splits: The arguments "train", "valid" and "test".
        others: Further arguments that name data, by name.

    Raises:
        ConfigError: Only some of the data is in memory.
    """
    for name, value in splits.items():
        if isinstance(value, float):
            raise ConfigError(f"heed.train: {name} is {value}, expected files, data or a whole number of examples")
    task = str(values.get("task", DEFAULT))
    data = {name: value for name, value in splits.items() if is_data(value, task)}
    if not data:
        return {}
    elsewhere = [f"{name}={value!r:.60}" for name, value in others.items() if value is not None]
    elsewhere += [
        f"{name}={value!r:.60}"
        for name, value in splits.items()
        if name not in data and value is not None and (isinstance(value, str | Path | Sequence) or name == "train")
    ]
    if elsewhere or "train" not in data:
        what = elsewhere[0] if elsewhere else "no training data"
        raise ConfigError(
            f"heed.train: {next(iter(data))} is data in memory, but there is {what}; pass all splits as data, or all "
            "as files"
        )
    section = {
        k: v for k, v in (values.get("data") or {}).items() if k not in ("train", "valid", "test", "hub", "name")
    }
    values["data"] = {**section, "memory": {}, **{name: [name] for name in data if name != "train"}}
    return data


def hold_all(config: C, data: Mapping[str, Any]) -> tuple[C, dict[str, Sequence[Any]]]:
    """The examples of every split, and the configuration with a record of them.

    Raises:
        DataError: The data cannot be used; the message names the place and the value.
    """
    task = task_class(config.task)
    held = {name: task.hold(value, name, config, Findings.of(config.data)) for name, value in data.items()}
    record = {name: {"examples": _count(some), "content": content(some)} for name, some in held.items()}
    section = type(config.data).model_validate({**dict(config.data), "memory": record})
    return config.model_copy(update={"data": section}), held


def _count(examples: Sequence[Any]) -> int:
    """Number of examples; for series, of rows."""
    return sum(len(one) if isinstance(one, Numbers) else 1 for one in examples)


def content(examples: Sequence[Any]) -> str:
    """A hash of the fields of examples, in order."""
    digest = hashlib.blake2b(digest_size=16)
    for one in [examples] if isinstance(examples, Numbers) else examples:
        if isinstance(one, Numbers):
            digest.update(repr((one.columns, one.labels, one.values.shape)).encode() + one.values.tobytes())
        else:
            digest.update(repr(one.fields).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def check_same(folder: Path, config: RunConfig) -> None:
    """Refuse to resume a run with data other than it began with.

    Raises:
        ConfigError: A split differs; the message says which, and how.
    """
    where = folder / folders.CONFIG
    if not isinstance(config.data, InMemory) or not where.is_file():
        return
    began = check_config(*folders.read_settings(folder)).data
    before, now = (began.memory if isinstance(began, InMemory) else {}), config.data.memory
    for split in before.keys() | now.keys():
        old, new = before.get(split), now.get(split)
        if old != new:
            if old is None or new is None:
                what = f"it began {'without' if old is None else 'with'} data for {split}"
            elif old.examples != new.examples:
                what = f"{split} had {old.examples:,} examples when it began and has {new.examples:,} now"
            else:
                what = f"the {new.examples:,} examples of {split} are not those it began with, or are in another order"
            raise ConfigError(f"the run in {folder} cannot be resumed with this data: {what}; pass the same data")
