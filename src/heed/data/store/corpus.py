"""Reading of one corpus as a `data` section says."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any, TypeVar

from heed.config import OwnData
from heed.data.examples import Example
from heed.data.read.counts import Counts
from heed.data.read.findings import Findings
from heed.data.read.reader import Reader
from heed.data.store.store import keep_examples
from heed.data.store.survey import Survey

E = TypeVar("E", bound=Example)
_NOT_OF_READING = {"train", "valid", "test", "extra", "max_length", "in_memory", "duplicates", "overlap"}
_NOT_OF_READING |= {"shuffle_source", "shuffle_seed"}  # in the settings of the reader


def read_corpus(
    name: str, files: Sequence[str], reader: Reader[E], data: OwnData, survey: Survey | None = None
) -> tuple[Sequence[E], Counts, list[str]]:
    """Read one corpus: examples (stored on disk if more than `data.in_memory`), counts, and remarks that name it.

    Raises:
        DataError: A file cannot be read, or a line is bad and not skipped.
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
    remarks = [*filter(None, [remark]), *remarks_of(name, said["remarks"])]
    return examples, Counts.of_values(said["counts"]), remarks


def remarks_of(name: str, lines: Sequence[str]) -> list[str]:
    """The readers' remarks, with the name of the corpus."""
    warned = "warning: "
    return [
        f"{warned}{name}, {line.removeprefix(warned)}" if line.startswith(warned) else f"{name}: {line}"
        for line in lines
    ]
