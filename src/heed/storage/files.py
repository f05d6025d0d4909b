"""Reading the files of a run folder, a checkpoint or an export, which may be damaged or malicious.

Only regular files are opened, and without blocking: never a pipe, a device or a socket, nor a link that leads out of
the folder. Sizes and nesting are bounded. Every problem is a `RunError` of one line with the file, the problem and the
remedy. Files are compared with `checksums.json`, which has the size and hash of each when it was written.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import stat
from ast import literal_eval
from collections.abc import Callable, Collection
from functools import cache
from itertools import chain, islice
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, cast

import yaml
from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict

from heed.errors import ConfigError, RunError, counted

T = TypeVar("T")
CHECKSUMS = "checksums.json"
LIMIT = 1 << 26
"""Largest size in bytes of a file of settings, labels or numbers."""
_DEPTH = 64
"""Deepest nesting of lists and objects; no file of heed has more than ten levels."""
_EXPANDED = 1 << 20
"""Most values and characters beyond twice those written: a few lines of YAML can expand to billions by aliases."""
_REMEDY = "restore the file from a copy, or create the folder again"
_KINDS = {stat.S_IFREG: "", stat.S_IFDIR: "a folder", stat.S_IFIFO: "a named pipe", stat.S_IFSOCK: "a socket"}
_KINDS |= {stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}


class MissingFileError(RunError):
    """A file of a run folder is not there."""


class OtherFormatError(RunError):
    """A folder was written by another version of heed."""


def cache_folder() -> Path:
    """`$HEED_CACHE`, else `heed` under `$XDG_CACHE_HOME` or `~/.cache`.

    Raises:
        ConfigError: None of them is set, and this user has no home folder.
    """
    if "HEED_CACHE" in os.environ:
        return Path(os.environ["HEED_CACHE"])
    folder = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    if folder.startswith("~"):
        raise ConfigError("no home folder for the cache: set HEED_CACHE to a folder that can be written to")
    return Path(folder) / "heed"


def check_regular(path: Path, links: bool = False) -> os.stat_result:
    """Refuse a path that is not a regular file in its folder: opening a pipe, for example, might block forever.

    Args:
        path: The file.
        links: Allow a link that leads out of its folder, as in caches of downloaded checkpoints.

    Returns:
        The status of the file.

    Raises:
        MissingFileError: There is no such file.
        RunError: It is a folder, a pipe, a device or a socket, or a link out of its folder.
    """
    try:
        target = path if links or not path.is_symlink() else path.resolve(strict=True)
        folder, status = path.parent.resolve(), path.stat()
    except FileNotFoundError:
        raise MissingFileError(f"{path} is missing; {_REMEDY}") from None
    except (OSError, RuntimeError, ValueError) as error:  # links in a circle, a NUL in the name
        raise _unreadable(path, error) from None
    if target is not path and not target.is_relative_to(folder):
        raise RunError(f"{path} is a link to {target}, outside of its folder; put the file itself there")
    if kind := kind_of(status):
        raise RunError(f"{path} is {kind}, expected a file; {_REMEDY}")
    return status


def open_regular(path: Path) -> BinaryIO:
    """A regular file opened for reading, without ever waiting for a pipe or device.

    Raises:
        OSError: There is none of this name, it is not regular, or cannot be read; `strerror` says which.
    """
    try:
        number = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    except ValueError:  # a NUL or half of a surrogate pair
        raise OSError(errno.EINVAL, "no file can have this name", str(path)) from None
    if kind := kind_of(os.fstat(number)):
        os.close(number)
        raise OSError(errno.EINVAL, f"it is {kind}, expected a file", str(path))
    return open(number, "rb")


def read_bytes(path: Path, limit: int = LIMIT, links: bool = False) -> bytes:
    """The content of a regular file of at most `limit` bytes; see `check_regular` for `links`.

    Raises:
        MissingFileError: There is none.
        RunError: It is not a regular file, is larger, or cannot be read.
    """
    size = check_regular(path, links).st_size
    try:
        with open_regular(path) as file:
            content = b"" if size > limit else file.read(limit + 1)
    except OSError as error:
        raise _unreadable(path, error) from None
    if max(size, len(content)) > limit:
        raise damaged(path, f"it has more than {limit:,} bytes")
    return content


def read_text(path: Path, limit: int = LIMIT, links: bool = False) -> str:
    """The content of a regular file in UTF-8; see `read_bytes`.

    Raises:
        MissingFileError: There is none.
        RunError: It is no such file.
    """
    content = read_bytes(path, limit, links)
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise damaged(path, f"byte {error.start + 1:,} is not UTF-8") from None


def read_object(path: Path, links: bool = False) -> dict[str, Any]:
    """A JSON file of one object; see `read_bytes`.

    Raises:
        MissingFileError: There is none.
        RunError: It is no such file.
    """
    return validated(path, read_text(path, links=links), dict[str, Any])


def read_list(path: Path, of: Any = Any) -> list[Any]:
    """A JSON file of one list, its elements all of the type `of` if given; see `read_bytes`.

    Raises:
        MissingFileError: There is none.
        RunError: It is no such file.
    """
    return validated(path, read_text(path), list[of])


def read_yaml(path: Path) -> Any:
    """A YAML file of plain values; see `read_bytes`.

    Raises:
        MissingFileError: There is none.
        RunError: It is no such file.
    """
    try:
        return plain(read_text(path), yaml.safe_load)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = "" if mark is None else f"line {mark.line + 1}: "
        raise damaged(path, f"it is not YAML: {where}{getattr(error, 'problem', None) or error}") from None
    except ValueError as error:  # also of half of a surrogate pair
        raise damaged(path, f"it is not YAML: {error}") from None


def plain(text: str, parse: Callable[[str], Any]) -> Any:
    """The plain values of a text.

    Raises:
        UnicodeEncodeError: A value contains half of a surrogate pair.
        ValueError: The text is not of that form, or its values are nested too deep or too many.
        yaml.YAMLError: `parse` raised it.
    """
    try:
        values = parse(text)
        check_values(values, 2 * len(text) + _EXPANDED)
        if "\\u" in text or "\\U" in text:  # an escape may be half of a surrogate pair, which cannot be written again
            json.dumps(values, ensure_ascii=False, default=str).encode()
    except RecursionError:
        raise ValueError("its values are nested too deep") from None
    except (TypeError, AttributeError, KeyError, OverflowError) as error:  # in PyYAML
        raise ValueError(str(error)) from None
    return values


_adapter: Callable[[Any], TypeAdapter[Any]] = cache(TypeAdapter)


def validated(path: Path, text: str, kind: type[T]) -> T:
    """The JSON `text` of a file as a class that pydantic knows.

    Raises:
        RunError: It is not of this class; the message names the first field.
    """
    try:
        return cast(T, _adapter(kind).validate_json(text, strict=True))
    except ValidationError as error:
        raise damaged(path, problem_of(error)) from None


def problem_of(error: ValidationError, place: str = "") -> str:
    """The first problem that pydantic has with the value at a place: its field, its value, and what is expected."""
    first = error.errors(include_url=False)[0]
    parts = [part[:_LONGEST] for part in (place, *map(str, first["loc"])) if part and not _BRANCH.match(part)]
    has = "" if first["type"] in ("missing", "extra_forbidden", "json_invalid") else f" is {shown(first['input'])}"
    message = _WORDS.sub(lambda word: json.dumps(literal_eval(word[0])), first["msg"].removeprefix("Value error, "))
    return f"{'.'.join(parts) or 'the content'}{has}: {message[:1].lower()}{message[1:]}"


_WORDS = re.compile(r"\b(True|False|None)$")
"""Python's words for what JSON has as true, false and null."""
_BRANCH = re.compile(r"(literal|dict|list|function-\w+|constrained-\w+)\[|(int|str|float)$")
"""Parts that pydantic adds to the path of a value of several possible types."""
_LONGEST = 200
"""Most characters of a value in a message."""


def shown(value: Any) -> str:
    """A value for a message: the labels of ImageNet have 20,000 characters."""
    text = json.dumps(value, default=str)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def check_values(values: Any, maximum: int) -> None:
    """Refuse plain values that are nested too deep, contain themselves, or are more than `most`, characters included.

    Raises:
        ValueError: They do; the message says which.
    """
    level, total = [values], 0
    for _ in range(_DEPTH + 1):
        outer = [value for value in level if isinstance(value, dict | list | tuple)]
        inner = chain.from_iterable(value.values() if isinstance(value, dict) else value for value in outer)
        level = list(islice(inner, maximum + 1))
        total += sum(1 + (len(value) if isinstance(value, str) else 0) for value in level)
        if total > maximum:
            raise ValueError("its aliases expand to too many values")
        if not level:
            return
    raise ValueError(f"its values are nested more than {_DEPTH} levels deep")


def refuse_other_format(path: Path, number: Any, read: int, what: str) -> None:
    """Refuse another format than the one that is read.

    Args:
        path: The file that gives the format.
        number: The value that it gives.
        read: The number of the format that this version reads.
        what: Beginning of the message, such as "'run' has format".

    Raises:
        RunError: The number is no number; an `OtherFormatError` if it is of another format.
    """
    if type(number) is not int:
        raise damaged(path, "the field 'format' is missing or not a number")
    if number != read:
        remedy = "train the run again, or use the version that wrote it"
        raise OtherFormatError(f"{what} {number}, and this version of heed reads format {read}: {remedy}")


def damaged(path: Path, problem: str) -> RunError:
    """The error for a file with unusable content."""
    return RunError(f"{path} is damaged: {' '.join(problem.split())}; {_REMEDY}")


def kind_of(status: os.stat_result) -> str:
    """The kind of a file that is not regular, such as "a named pipe"; empty for a regular file."""
    return _KINDS.get(stat.S_IFMT(status.st_mode), "no file")


def _unreadable(path: Path, error: Exception) -> RunError:
    return RunError(f"cannot read {path}: {getattr(error, 'strerror', None) or error}")


def checksum(path: Path) -> Content:
    """Size and BLAKE2b hash of a regular file.

    Raises:
        RunError: It is a folder, a pipe, a device or a socket; reading a pipe or device might never end.
    """
    if kind := kind_of(path.stat()):
        raise RunError(f"{path} is {kind}, expected a file")
    with path.open("rb") as file:
        return content_in(file)


def content_in(file: BinaryIO) -> Content:
    """Size and BLAKE2b hash of a file opened at its beginning."""
    hashed = hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=20))  # type: ignore[arg-type]
    return {"bytes": file.tell(), "blake2b": hashed.hexdigest()}


class Content(TypedDict):
    """Size and BLAKE2b hash of a file."""

    bytes: int
    blake2b: str


def recorded(folder: Path) -> dict[str, Content] | None:
    """The size and hash of each file in `checksums.json`, by name; None if there is no `checksums.json`.

    Raises:
        RunError: It cannot be read, or lists a file outside the folder.
    """
    path = folder / CHECKSUMS
    try:
        values = validated(path, read_text(path), dict[str, Content])
    except MissingFileError:
        return None
    if odd := [name for name in values if not _is_inside(name)]:
        raise damaged(path, f"it names {odd[0]!r}, which is not a file of the folder")
    if not values:
        raise damaged(path, "it names no file")
    return values


def listed(folder: Path) -> list[str]:
    """The files listed in a folder's checksums; none if they cannot be read."""
    try:
        return list(recorded(folder) or ())
    except RunError:
        return []


def describe_damage(
    folder: Path, checksum: Callable[[Path], Content] = checksum, names: Collection[str] | None = None
) -> dict[str, str]:
    """Damaged files of a folder and their problems ("missing", "altered: ..."); empty for a whole folder.

    Args:
        folder: A folder with `checksums.json`.
        checksum: Function that returns size and hash of a file.
        names: Only these files are read; all by default. Names that the checksums lack are ignored.
    """
    try:
        expected = recorded(folder)
    except RunError as error:
        return {CHECKSUMS: f"not readable: {_problem(error, folder / CHECKSUMS)}"}
    if expected is None:
        return {CHECKSUMS: "missing"}
    chosen = expected if names is None else [name for name in expected if name in names]
    problems = {name: difference(folder / name, expected[name], checksum) for name in chosen}
    return {name: problem for name, problem in problems.items() if problem}


def difference(path: Path, content: Content, checksum: Callable[[Path], Content] = checksum) -> str:
    """The difference of a file from its recorded size and hash: "missing" or "altered: ..."; empty if there is none."""
    try:
        size = check_regular(path).st_size
        if size != content["bytes"]:
            return f"altered: it has {counted(size, 'byte')}, but {content['bytes']:,} were written"
        is_same = checksum(path)["blake2b"] == content["blake2b"]
    except (MissingFileError, FileNotFoundError):
        return "missing"
    except RunError as error:
        return _problem(error, path)
    except OSError as error:
        return f"not readable: {error.strerror}"
    return "" if is_same else "altered: its checksum is not the one that was written"


def _is_inside(name: str) -> bool:
    """True if a name such as `model.safetensors` or `folder/file` is of a file inside the folder."""
    parts = name.split("/")
    return not os.path.isabs(name) and "\0" not in name and "\\" not in name and not {"", ".", ".."} & {*parts}


def _problem(error: RunError, path: Path) -> str:
    """The message of an error about a file, without the file's name and the remedy."""
    return str(error).removeprefix(f"{path} is ").removeprefix("damaged: ").rpartition("; ")[0] or str(error)
