"""The run folder: self-contained, versioned, without executable content.

config.yaml (effective, with every default), tokenizer.*.json, model.safetensors, report.json, metrics.jsonl,
checkpoints/step-N/, README.md, and checksums.json of all files except those that grow during training; export/ENGINE/
has exports for other programs, with their own checksums. Information that the task learned from the data is in separate
files (`labels.json`, `characters.json`, `standard.json`); `huggingface.json` is in imported runs and their children,
`data.json` has digests of the data files, and `curves.svg` is a picture for users. The folder can be moved, and packed
into one zip file.

Before files change, they are removed from `checksums.json`; afterwards they are added again, with new hashes for those
files only, so that damage to others stays visible. Weights that it lists are final. Hidden files are not sealed.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from enum import IntEnum
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any
from warnings import warn

from typing_extensions import TypedDict

from heed.config import RunConfig
from heed.errors import HeedWarning, RunError, nearest
from heed.storage.archive import unpacked
from heed.storage.disk import (
    make_folder,
    refuse_not_utf8,
    remove_file,
    remove_leftovers,
    write_checksums,
    write_folder,
    write_whole,
)
from heed.storage.files import (
    CHECKSUMS,
    MissingFileError,
    checksum,
    damaged,
    describe_damage,
    listed,
    read_object,
    read_yaml,
    recorded,
    refuse_other_format,
    validated,
)
from heed.storage.lock import LOCK, Ownership, check_not_owned
from heed.visible import shell_word

FORMAT = 2
CONFIG, WEIGHTS, REPORT = "config.yaml", "model.safetensors", "report.json"
METRICS = "metrics.jsonl"
ORIGIN = "huggingface.json"
"""The record of the checkpoint that a run, or its parent, was imported from."""
EXPORT = "export"
_FORMAT_FILE = "format.json"
_LARGEST = 1 << 30
"""Most bytes of a sealed file other than the weights."""
_FIRST_FILES = {"checkpoints", LOCK}
"""Files that a folder may contain if a run was killed at its start."""
SETTINGS_COPY = ".config.yaml"
"""The configuration as heed wrote it: trusted if it matches the checksum of `config.yaml`, which the user may have
edited since. Hidden, so that the user sees only one configuration."""
_RUNS = Path("runs")
EXAMPLE = "example"
"""The name of the run that comes with heed (`tools/make_example.py`), unless the working directory has that name."""
_PACKED_EXAMPLE = Path(__file__).parent / "example.zip"
_OTHER_FOLDER = "give another --out, or resume the run with --resume"
_FOR_PEOPLE = (".md", ".svg", ".html")
"""Endings of files that no command reads."""
_NOT_REACHED = {1: "has no checkpoint yet", 2: "has not finished"}
"""Description of a run that has not reached a state."""


class State(IntEnum):
    """The state of a run."""

    BEGUN = 0  # no weights were saved yet
    USABLE = 1  # a checkpoint can be used
    FINISHED = 2  # the weights to keep were written and the folder was sealed


def find(run: str | Path, minimum: State = State.USABLE) -> Path:
    """The folder of a run; "last" is the newest one under `runs/` that has reached the state `minimum`.

    A packed run is unpacked into the cache. "example" is the run that comes with heed, which a warning says, unless
    there is a folder or file of that name.

    Args:
        run: A folder, "last", a packed run (`heed pack`), or "example".
        minimum: The state that "last" requires.

    Raises:
        RunError: There is no such folder, or the file is not a packed run, or a damaged one.
    """
    if str(run) == "last":
        return _last(minimum)
    path = Path(run)
    if str(run) == EXAMPLE and not os.path.exists(path):
        path = _PACKED_EXAMPLE
        warn(f"'{EXAMPLE}' is the run that comes with heed: dates in 23 languages to ISO", HeedWarning, stacklevel=4)
    if os.path.isfile(path):
        return unpacked(path, partial(_check_packed, path))
    if not os.path.isdir(path):
        places = [place for place in (path.parent, _RUNS) if os.path.isdir(place)]
        runs = [str(config_file.parent) for place in places for config_file in place.glob(f"*/{CONFIG}")]
        raise RunError(f"no run folder '{run}'{nearest(str(path), [*runs, 'last'] if runs else ())}")
    return path


def _check_packed(file: Path, folder: Path) -> None:
    """Refuse an unpacked folder that is not a finished run of this format with all its files as they were packed."""
    try:
        check_format(folder)
        problems = describe_damage(folder)
        if WEIGHTS not in listed(folder):
            problems.setdefault(WEIGHTS, "missing")
        for name, problem in problems.items():
            raise RunError(f"{folder / name} is {problem}; get the file again")
    except RunError as error:  # the folder is only temporary
        raise RunError(str(error).replace(str(folder), str(file))) from None


def newest_or_example() -> str:
    """The default run to serve: "last", or the run that comes with heed if there are no runs."""
    return "last" if any(_RUNS.glob(f"*/{_FORMAT_FILE}")) else EXAMPLE


def is_packed(run: str | Path) -> bool:
    """True for the name of a zip file, not of a folder."""
    return str(run).endswith(".zip")


def check_finished(path: Path) -> None:
    """Refuse a run that has not finished.

    Raises:
        RunError: The message has the command that finishes it.
    """
    if state_of(path) is not State.FINISHED:
        raise RunError(f"'{path}' has no final {WEIGHTS}: training has not finished; {how_to_finish(path)}")


def was_only_begun(path: Path) -> bool:
    """True for a run folder whose process was killed before it wrote `config.yaml`: there is nothing to resume."""
    if (path / CONFIG).exists() or not (path / _FORMAT_FILE).is_file() or (path / CHECKSUMS).exists():
        return False
    return all(n.endswith((".json", ".part")) for n in _files(path)) and not any((path / "checkpoints").glob("*"))


def how_to_finish(path: Path) -> str:
    """Advice for a run that has not finished: resume it, or begin it again."""
    if was_only_begun(path):
        return (
            f"it was stopped before {CONFIG} was written: begin it again with the same command as before and "
            f"--out {shell_word(path)}"
        )
    return f"resume it with: heed train {shell_word(path)} --resume"


def state_of(path: Path) -> State:
    """The state of a run: it has finished if the checksums, written last, list the final weights."""
    if (path / WEIGHTS).is_file() and (WEIGHTS in listed(path) or CHECKSUMS in damage(path, ())):
        return State.FINISHED
    return State.USABLE if any((path / "checkpoints").glob("step-*/progress.json")) else State.BEGUN


def _last(minimum: State) -> Path:
    """The newest run that has reached a state; a warning names a newer one that has not."""
    files = sorted(_RUNS.glob(f"*/{_FORMAT_FILE}"), key=lambda p: p.stat().st_mtime_ns, reverse=True)
    where, last = _RUNS.absolute(), next((p.parent for p in files if state_of(p.parent) >= minimum), None)
    if not files:
        raise RunError(
            f"no run under {where}; train one, name its folder, or try the run that comes with heed: {EXAMPLE}"
        )
    newest = files[0].parent
    if last is None:
        finish = f"if it was interrupted, {how_to_finish(newest)}"
        raise RunError(f"no run under {where} can be used yet: {newest} {_NOT_REACHED[minimum]}; {finish}")
    if last != newest:
        warn(f"'last' is {last}: the newer {newest} {_NOT_REACHED[minimum]}", HeedWarning, stacklevel=4)
    return last


def check_format(path: Path) -> None:
    """Refuse a folder that is not a run of this format.

    Raises:
        RunError: It is not; the message says what it is.
    """
    try:
        number = read_object(path / _FORMAT_FILE).get("format")
    except MissingFileError:
        raise RunError(f"'{path}' is not a run folder: it has no {_FORMAT_FILE}") from None
    refuse_other_format(path / _FORMAT_FILE, number, FORMAT, f"'{path}' has format")


def create(out: str | Path | None, config: RunConfig, resume: bool, ownership: Ownership) -> Path:
    """Make the folder of a new run, or open the one to resume.

    Args:
        out: The folder; `runs/<data>-<model>-<n>` by default.
        config: The run's configuration.
        resume: Allow an existing run folder.
        ownership: Locks the folder before anything is written.

    Raises:
        RunError: The folder exists (a run is never overwritten), another process is training in it, or the folder to
            resume is not a run.
    """
    path = _claim(out, config, "" if resume else _OTHER_FOLDER)
    ownership.take(path)
    _clear(path)
    files = _files(path)
    if files and not resume:  # another process has begun meanwhile
        raise _not_free(path, _OTHER_FOLDER)
    if files:
        check_format(path)
    remove_leftovers(path)
    if not files:
        _begin(path)
    return path


def _clear(path: Path) -> None:
    """Remove the files of a run that was only begun."""
    if was_only_begun(path):
        for name in {file.name for file in path.iterdir()} - _FIRST_FILES:
            remove_file(path / name)
        with suppress(OSError):
            (path / "checkpoints").rmdir()


def _files(path: Path) -> set[str]:
    """The names of what a folder contains beyond the first files of a run."""
    names = {p.name for p in path.iterdir()} - _FIRST_FILES
    return {name for name in names if not (name.startswith(".format.json.") and name.endswith(".part"))}


@contextmanager
def create_whole(out: str | Path | None, config: RunConfig, needed: int) -> Iterator[tuple[Path, Path]]:
    """Make the folder of a run that needs no training; it appears only when complete.

    Args:
        out: The folder; `runs/DATA-MODEL-N` by default.
        config: The run's configuration.
        needed: Bytes of its weights.

    Yields:
        The run folder, and the temporary folder to write its files into; they are sealed at the end.

    Raises:
        RunError: The folder exists.
        DiskError: The disk is full or writing fails; no folder is left.
    """
    existed = out is not None and os.path.exists(out)
    path = _claim(out, config, "give another --out")
    try:
        if any(path.iterdir()):
            with Ownership() as ownership:
                ownership.take(path)
                _clear(path)
        with write_folder(path, needed, replace=False) as part:
            _begin(part)
            yield path, part
    except BaseException:
        if not existed:
            with suppress(OSError):
                path.rmdir()
        raise


def _claim(out: str | Path | None, config: RunConfig, advice: str) -> Path:
    """Make the empty folder of a new run; if `advice` is given, refuse one that is not empty, with this advice."""
    if out is None:
        paths = (_RUNS / f"{config.data.name}-{config.model.name}-{number}" for number in count(1))
        return next(path for path in paths if make_folder(path, exist_ok=False))
    path = Path(out)
    refuse_not_utf8(path)
    if advice:
        check_free(path, advice)
    make_folder(path)
    return path


def _begin(path: Path) -> None:
    """Write the first files of a run folder."""
    (path / "checkpoints").mkdir(exist_ok=True)
    _write_format(path)


def _write_format(path: Path, **more: str) -> None:
    text = json.dumps({"format": FORMAT, **more}) + "\n"
    write_whole(path / _FORMAT_FILE, lambda part: part.write_text(text))


def sign(path: Path, config: RunConfig) -> None:
    """Record the `fingerprint` of a new run, which its checkpoints carry."""
    model = config.model
    digest = hashlib.blake2b(repr((config.task, model.name, model.settings)).encode(), digest_size=16)
    files = (p for p in path.iterdir() if p.is_file() and p.name not in _FIRST_FILES | {_FORMAT_FILE})
    for file in sorted(files):
        digest.update(f"\n{file.name} {checksum(file)['blake2b']}".encode())
    _write_format(path, made_of=digest.hexdigest())


def fingerprint(path: Path) -> str:
    """The hash of a run's tokenizers, labels and model settings when it began; empty if it was stopped before."""
    return str(read_object(path / _FORMAT_FILE).get("made_of", ""))


def check_free(path: Path, advice: str = _OTHER_FOLDER) -> None:
    """Refuse a folder for a new run that has files, with advice on what to do instead.

    Raises:
        RunError: It has files, or another process is training in it.
    """
    check_not_owned(path)
    if os.path.isdir(path) and was_only_begun(path):
        return
    if os.path.exists(path) and (not os.path.isdir(path) or {p.name for p in path.iterdir()} - {LOCK}):
        raise _not_free(path, advice)


def _not_free(path: Path, advice: str) -> RunError:
    return RunError(f"'{path}' already exists, and runs are never overwritten; {advice}")


def record_files(path: Path, *, final: bool = True) -> None:
    """Write the checksums of a run folder's files, by which `load` and `heed check` find missing or altered files.

    Args:
        path: The folder.
        final: Its weights are final; otherwise they get no checksum, and the run counts as unfinished.
    """
    excluded = (CHECKSUMS, METRICS) if final else (CHECKSUMS, METRICS, WEIGHTS)
    files = [p for p in path.iterdir() if p.is_file() and not p.name.startswith(".") and p.name not in excluded]
    # heed writes no other files larger than this; reading one might never end
    write_checksums(path, [p.name for p in files if p.name == WEIGHTS or p.stat().st_size <= _LARGEST])


@contextmanager
def unsealed(path: Path, *changing: str, final: bool = False) -> Iterator[None]:
    """Context manager within which files of a run folder may change: those named, or all if none is named.

    Meanwhile they are not in the checksums, so that after a kill no file seems damaged. The checksums of other files
    stay, and files without one get none: only what was written here is sealed. Weights are sealed only if `final`: a
    finished run that is trained longer counts as unfinished meanwhile.

    If `checksums.json` was removed, by a user who trusts the files, preparing the run for training seals all files.
    """
    written = {name for name in changing if final or name != WEIGHTS}
    try:
        checksums = recorded(path)
    except RunError:
        checksums = {}
    changed = {*changing} if final else {*changing, WEIGHTS}
    unchanged = {name: content for name, content in (checksums or {}).items() if name not in changed}
    if changing and unchanged:
        write_checksums(path, unchanged, unchanged)
    else:
        remove_file(path / CHECKSUMS)
    yield
    if changing and (checksums is not None or final):
        write_checksums(path, {*unchanged, *(name for name in written if (path / name).is_file())}, unchanged)
    else:
        record_files(path, final=final)


def damage(path: Path, names: Collection[str] | None = None) -> dict[str, str]:
    """The missing or altered files of a run folder and their problems; empty if there are none.

    Args:
        path: The folder.
        names: The files to compare; by default all that commands read. Files that were never sealed are ignored.

    Returns:
        By name, the problem as "missing" or "altered: ..."; for `checksums.json` itself if it cannot be read.
        Empty if the folder has no `checksums.json`, like a run that was killed at its start.
    """
    problems = describe_damage(path, names=read_by_commands(path) if names is None else names)
    return {} if problems == {CHECKSUMS: "missing"} else problems


def verify(path: Path, names: Collection[str] | None = None, force: bool | None = False) -> None:
    """Refuse files of a run folder that are missing or altered.

    Args:
        path: The folder.
        names: The files to compare; by default all that commands read.
        force: True: only warn. None: the caller has no way to use a damaged file, so none is suggested.

    Raises:
        RunError: A file is damaged; the message names the first one, the problem, and what to do.
    """
    if not (problems := damage(path, names)):
        return
    (name, problem), *others = problems.items()
    more = f"; {len(others)} more damaged: {', '.join(name for name, _ in others)}" if others else ""
    message = f"{path / name} is {problem}{more}"
    if force:
        warn(f"{message}; using it anyway (--force)", HeedWarning, stacklevel=3)
        return
    ways = ["restore it from a copy"]
    if {*problems} <= {WEIGHTS, REPORT, CHECKSUMS} and any((path / "checkpoints").glob("step-*/progress.json")):
        ways.append(f"write it again with: heed train {shell_word(path)} --resume")
    if force is not None:
        ways.append("use the run as it is with --force (in Python force=True)")
    raise RunError(f"{message}; {', or '.join(ways)}")


def read_by_commands(path: Path) -> list[str]:
    """The sealed files of a run folder except those that only users read."""
    return [name for name in listed(path) if not name.endswith(_FOR_PEOPLE)]


def read_report(path: Path) -> dict[str, Any]:
    """The report of a run; empty if there is none yet.

    Raises:
        RunError: It is damaged.
    """
    try:
        report = read_object(path / REPORT)
    except MissingFileError:
        return {}
    validated(path / REPORT, json.dumps(report), _Report)
    return report


class _Training(TypedDict, total=False):
    """Fields of a report's `training` that commands read."""

    updates: int
    planned_updates: int | None
    warmup_updates: int | None
    passes: int
    ended: str
    kept: str
    target_tokens_per_second: float
    padding_share: float
    waiting_share: float
    device: str
    threads: int


class _Report(TypedDict, total=False):
    """Fields of a report that commands read."""

    parameters: int
    data: dict[str, dict[str, Any]]
    scores: dict[str, dict[str, Any]]
    training: _Training


def read_settings(path: Path) -> tuple[dict[str, Any], str]:
    """The values of a run's `config.yaml`, and the name of the file for errors about them.

    Raises:
        RunError: The file is missing or damaged.
    """
    file = path / CONFIG
    if was_only_begun(path):
        raise RunError(f"'{path}' has no settings: {how_to_finish(path)}")
    values = read_yaml(file)
    if not isinstance(values, dict) or not all(isinstance(key, str) for key in values):
        raise damaged(file, "it holds no fields such as 'task: ...'")
    return values, str(file)


def write_report(path: Path, report: dict[str, Any]) -> None:
    """Write `report.json`."""
    text = json.dumps(report, indent=1, ensure_ascii=False)
    write_whole(path / REPORT, lambda part: part.write_text(text + "\n", encoding="utf-8"))
