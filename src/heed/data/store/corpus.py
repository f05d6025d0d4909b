"""One corpus: a list while it is small, else a file, of the cache where it can be found again by what was read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import chain, islice
from pathlib import Path
from typing import Any, TypeVar

from heed.config import OwnData
from heed.data.examples import Example
from heed.data.read.counts import Counts
from heed.data.read.findings import Findings
from heed.data.read.reader import Reader
from heed.data.store.store import StoredExamples, write_examples
from heed.data.store.survey import Survey
from heed.errors import DataError
from heed.storage.cache import contents_of, find_entry, key_of, make_entry

E = TypeVar("E", bound=Example)
_NOT_OF_READING = {"train", "valid", "test", "extra", "max_length", "in_memory", "duplicates", "overlap"}
"""Fields that do not change what is read of a file."""


def read_corpus(
    name: str, files: Sequence[str], reader: Reader[E], data: OwnData, survey: Survey | None = None
) -> tuple[Sequence[E], Counts, list[str]]:
    """Read one corpus and keep what the rules let pass.

    Args:
        name: What the user knows it by.
        files: What is read.
        reader: How.
        data: What becomes of bad lines; more examples than its `in_memory` are kept in a file.
        survey: Gathers what the corpus holds as a whole.

    Returns:
        The examples; what became of the lines; and remarks for the user.

    Raises:
        DataError: A file cannot be read, or a line is bad and that is an error.
    """
    counts, findings = Counts(unit=f"{reader.kind.unit}s"), Findings.of(data)

    def read() -> Iterator[E]:
        examples = reader.filled(files, counts, findings)
        return examples if survey is None else survey.watch(examples)

    def report() -> dict[str, Any]:
        counts.add(findings)
        counts.found += [] if survey is None else survey.found
        known = None if survey is None else survey.as_values()
        return {"counts": asdict(counts), "survey": known, "remarks": findings.remarks}

    settings = data.model_dump(mode="json", exclude=_NOT_OF_READING)
    settings |= {**reader.settings, "survey": None if survey is None else survey.basis}
    in_memory, again = getattr(data, "in_memory", None), files if reader.again else ()
    examples, said, remark = keep_examples(read, reader.kind, in_memory, again, settings, report)
    if survey is not None:
        survey.recall(said["survey"])
    remarks = [remark] if remark else []
    return examples, Counts.of_values(said["counts"]), remarks + [f"{name}: {line}" for line in said["remarks"]]


def keep_examples(
    read: Callable[[], Iterator[E]],
    kind: type[E],
    in_memory: int | None,
    files: Sequence[str] = (),
    settings: Mapping[str, Any] | None = None,
    report: Callable[[], dict[str, Any]] = dict,
) -> tuple[Sequence[E], dict[str, Any], str]:
    """Hold examples in memory if there are at most `in_memory`, else in a file.

    Args:
        read: Begins to read them.
        kind: Their class.
        in_memory: Most examples to hold; None for all.
        files: What is read; without, the file goes with the process.
        settings: Everything else that decides what is read of the files, as JSON.
        report: What to say of the examples, as JSON, once they have all been read; kept with them.

    Returns:
        The examples, the report, and a remark for the user where the cache was used.

    Raises:
        DataError: A file cannot be read or changed meanwhile, or the cache cannot be written to.
    """
    if in_memory is None:
        return list(read()), report(), ""
    key = _key(files, kind, settings)
    entry = None if key is None else find_entry(key)
    if entry is None:
        examples = read()
        first = list(islice(examples, in_memory + 1))
        if len(first) <= in_memory:
            return first, report(), ""
        if key is None:
            return StoredExamples.write(chain(first, examples), kind), report(), ""

        def make(folder: Path) -> dict[str, Any]:
            record = write_examples(chain(first, examples), folder)
            if _key(files, kind, settings) != key:
                raise DataError(f"{', '.join(files)} changed while being read; start again when nothing writes to them")
            return {**record, "report": report(), "files": [str(Path(file).absolute()) for file in files]}

        entry = make_entry(key, make)
    stored = StoredExamples.open(entry, kind)
    if len(stored) <= in_memory:  # written when less was to be in memory
        return list(stored), entry.record["report"], entry.remark
    size = sum(file.stat().st_size for file in entry.path.iterdir()) / 2**20
    remark = f"{len(stored):,} {kind.unit}s kept in {entry.path} ({size:,.0f} MiB)"
    return stored, entry.record["report"], "\n".join(filter(None, [entry.remark, remark]))


def _key(files: Sequence[str], kind: type[Example], settings: Mapping[str, Any] | None) -> str | None:
    """The key of what is read; None where it cannot be read twice (a pipe, say)."""
    contents = contents_of(files) if files else None
    if contents is None:
        return None
    names = [Path(file).name for file in files]  # they decide how it is read, and where an example comes from
    return key_of(kind="corpus", of=kind.__name__, names=names, contents=contents, settings=dict(settings or {}))
