"""One corpus as pairs: a list while it is small, else a file of the cache, found again by what was read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

from heed.data.examples import Pair
from heed.data.store.store import StoredPairs, write_pairs
from heed.errors import DataError
from heed.storage.cache import Entry, contents_of, find_entry, key_of, make_entry

__all__ = ["keep_files", "keep_pairs", "size_text"]


def keep_pairs(pairs: Iterator[Pair], in_memory: int) -> Sequence[Pair]:
    """Hold pairs in memory if there are at most `in_memory`, else in a file that goes with the process."""
    first = list(islice(pairs, in_memory + 1))
    return first if len(first) <= in_memory else StoredPairs.write(chain(first, pairs))


def keep_files(
    files: Sequence[str],
    settings: Mapping[str, Any],
    read: Callable[[], Iterator[Pair]],
    in_memory: int,
    report: Callable[[], dict[str, Any]],
) -> tuple[Sequence[Pair], dict[str, Any], str]:
    """Hold the pairs of files in memory if there are at most `in_memory`, else in the cache.

    Args:
        files: What is read.
        settings: Everything else that decides what is read of them, as JSON.
        read: Begins to read them.
        in_memory: Most pairs to hold.
        report: What to say of the pairs, as JSON, once they have all been read; kept with them.

    Returns:
        The pairs, the report, and a remark for the user where the cache was used.

    Raises:
        DataError: A file cannot be read or changed meanwhile, or the cache cannot be written to.
    """
    key = _key(files, settings)
    entry = None if key is None else find_entry(key)
    if entry is None:
        pairs = read()
        first = list(islice(pairs, in_memory + 1))
        if len(first) <= in_memory:
            return first, report(), ""
        if key is None:  # a pipe, say
            return StoredPairs.write(chain(first, pairs)), report(), ""

        def make(folder: Path) -> dict[str, Any]:
            record = write_pairs(chain(first, pairs), folder)
            if _key(files, settings) != key:
                raise DataError(f"{', '.join(files)} changed while being read; start again when nothing writes to them")
            return {**record, "report": report(), "files": [str(Path(file).absolute()) for file in files]}

        entry = make_entry(key, make)
    stored = StoredPairs.open(entry)
    if len(stored) <= in_memory:  # written when less was to be in memory
        return list(stored), entry.record["report"], entry.remark
    remark = f"{len(stored):,} pairs kept in {entry.path} ({size_text(entry)})"
    return stored, entry.record["report"], "\n".join(filter(None, [entry.remark, remark]))


def size_text(entry: Entry) -> str:
    """The size of an entry, for people."""
    return f"{sum(file.stat().st_size for file in entry.path.iterdir()) / 2**20:,.0f} MiB"


def _key(files: Sequence[str], settings: Mapping[str, Any]) -> str | None:
    """The key of what is read; None where it cannot be read twice."""
    contents = contents_of(files)
    if contents is None:
        return None
    names = [Path(file).name for file in files]  # they decide how it is read, and where a pair comes from
    return key_of(
        kind="corpus",
        names=names,
        contents=contents,
        settings=dict(settings),
    )
