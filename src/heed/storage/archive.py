"""A folder of files as one zip file, and such zip files unpacked safely, once, into the cache.

The name in the cache is a hash of the zip file's content. Only `FOLDER/FILE` of plain names is unpacked, each to a
regular file (a link becomes the text of its target), and at most the bytes that the zip file's directory declares,
which are bounded before anything is written. What is damaged or half unpacked is never used (`heed.storage.cache`).
"""

from __future__ import annotations

import errno
import io
import re
import shutil
import struct
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZIP_STORED, BadZipFile, ZipFile, ZipInfo, is_zipfile

from heed.errors import HeedError, RunError
from heed.storage.cache import content_of, find_entry, key_of, make_entry
from heed.storage.disk import write_whole
from heed.storage.files import LIMIT, Content, content_in, open_regular

_MEMBER = re.compile(r"(?!\.)[^/\\:\x00-\x1f]{1,200}/[A-Za-z0-9_][A-Za-z0-9_.-]{0,200}")
_MOST_FILES = 1_000
_MOST_TIMES = 50
"""Maximum size of the unpacked files, beyond `LIMIT`, as a multiple of the zip file; settings shrink to a tenth."""
_BLOCK = 1 << 20
_ERRORS = BadZipFile, EOFError, LookupError, OverflowError, RuntimeError, ValueError, struct.error, zlib.error


def write_archive(out: Path, folder: str, files: Mapping[str, bytes | Path]) -> None:
    """Write files, by name, as a zip file with one folder: content is compressed, a file (weights) stored as it is.

    The same files give the same bytes.

    Raises:
        DiskError: The disk is full or writing fails; no file is left.
        RunError: The file exists.
    """

    def write(part: Path) -> None:
        with ZipFile(part, "w") as archive:
            for name, content in sorted(files.items()):
                member = ZipInfo(f"{folder}/{name}")  # dated 1980
                member.compress_type = ZIP_STORED if isinstance(content, Path) else ZIP_DEFLATED
                member.external_attr = 0o644 << 16
                source = content.open("rb") if isinstance(content, Path) else io.BytesIO(content)
                with source, archive.open(member, "w", force_zip64=True) as target:
                    shutil.copyfileobj(source, target, _BLOCK)

    write_whole(out, write, replace=False)


def unpacked(path: Path, check: Callable[[Path], object]) -> Path:
    """The folder in a zip file of `write_archive`, unpacked into the cache if it is not there yet.

    `check` is called with the folder before it is kept, and raises an error to refuse it.

    Raises:
        RunError: The file is not such a zip file, is damaged, or would unpack to far more than its size.
        CacheError: The cache folder cannot be written to, or is full.
    """
    with _readable(path):
        content = content_of(path)
    key = key_of(unpacked=content)
    entry = find_entry(key) or make_entry(key, lambda part: {"folder": _unpack(path, content, part / "run", check)})
    return entry.path / "run" / str(entry.record["folder"])


def _unpack(path: Path, content: Content, into: Path, check: Callable[[Path], object]) -> str:
    """Unpack a file of this content; its name may meanwhile be that of another file."""
    with _readable(path), ExitStack() as stack:
        file = stack.enter_context(open_regular(path))
        if not is_zipfile(file):
            raise RunError(f"'{path}' is neither a run folder nor a packed run: it is not a zip file, or was cut off")
        archive = stack.enter_context(ZipFile(file))
        opened = stack.pop_all()
    with opened:
        members = [member for member in archive.infolist() if not member.is_dir()]
        folder = _folder_of(path, members)
        (into / folder).mkdir(parents=True)
        for member in members:
            with (into / member.filename).open("xb") as target:
                for block in _blocks(path, archive, member):
                    target.write(block)
        file.seek(0)
        if content_in(file) != content:
            raise RunError(f"'{path}' was replaced or written to while it was unpacked; give the command again")
    check(into / folder)
    return folder


def _folder_of(path: Path, members: list[ZipInfo]) -> str:
    """The one folder of a zip file, if all its members may be unpacked."""
    names = [member.filename for member in members]
    folders = {name.partition("/")[0] for name in names}
    size, maximum = sum(member.file_size for member in members), LIMIT + _MOST_TIMES * path.stat().st_size
    problem = ""
    if odd := next((name for name in names if not _MEMBER.fullmatch(name)), None):
        problem = f"it contains {odd!r}"
    elif len(folders) != 1 or len({name.casefold() for name in names}) < len(names) or len(names) > _MOST_FILES:
        problem = f"it contains {len(names):,} files in {len(folders):,} folders, or names a file twice"
    elif odd := next((m.filename for m in members if m.flag_bits & 1 or m.compress_type not in (0, 8)), None):
        problem = f"{odd!r} is encrypted, or compressed by another method than deflate"
    elif size > maximum:
        problem = f"it would unpack to {size:,} bytes, more than the {maximum:,} expected of its size"
    if problem:
        raise RunError(f"'{path}' is not a run packed by heed: {problem}; pack a run with: heed pack RUN")
    return folders.pop()


def _blocks(path: Path, archive: ZipFile, member: ZipInfo) -> Iterator[bytes]:
    with _readable(path), archive.open(member) as source:
        while block := source.read(_BLOCK):
            yield block


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Context manager that turns errors of the zip library, and of reading, into a `RunError` that names the file."""
    try:
        yield
    except HeedError:
        raise
    except (OSError, *_ERRORS) as error:
        if getattr(error, "errno", errno.EINVAL) not in (None, errno.EINVAL):  # which is a seek before the beginning
            raise RunError(f"cannot read '{path}': {getattr(error, 'strerror', None) or error}") from None
        raise RunError(f"'{path}' is damaged: {str(error) or type(error).__name__}; get the file again") from None
