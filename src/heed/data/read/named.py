"""Source and target columns found by name, among the names that a task gives."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from heed.config import Columns
from heed.data.read.findings import Findings
from heed.data.read.head import Head, excel_head
from heed.data.read.lines import ending_of
from heed.data.read.rows import flat
from heed.errors import DataError, suggest

_OBJECTS = 100
"""Number of objects whose fields are examined."""
_OF_OBJECTS = (".jsonl", ".json")


def named_columns(
    files: Sequence[str | Path], columns: Columns, sources: Sequence[str], targets: Sequence[str], findings: Findings
) -> Columns:
    """The columns of a file of pairs; those not given are found by the names of its columns or JSON fields.

    Args:
        files: The file; two parallel files have no columns.
        columns: Those that the user gave.
        sources: Possible names of the source column, most reliable first.
        targets: Possible names of the target column, most reliable first.
        findings: Encoding and other settings for reading the file.

    Raises:
        DataError: JSON objects have a field with such a name for only one side.
    """
    if len(files) != 1 or (columns.source is not None and columns.target is not None):
        return columns
    names = _names(Path(files[0]), findings)
    source = columns.source if columns.source is not None else _first(sources, names, columns.target)
    target = columns.target if columns.target is not None else _first(targets, names, source)
    if (
        not findings.skips
        and names
        and ending_of(Path(files[0])) in _OF_OBJECTS
        and (source is None) != (target is None)
    ):
        side, usual = ("source", sources) if source is None else ("target", targets)
        others = [name for name in names if name not in (source, target)]
        raise DataError(
            f"'{files[0]}' has no field '{usual[0]}' (or {', '.join(usual[1:])}){suggest(usual[0], others)}; "
            f"data.columns.{side}=NAME selects another field"
        )
    # One name alone is a chance match: "text" may be the first word of a file without a header.
    return columns if source is None or target is None else Columns(source=source, target=target)


def _first(wanted: Sequence[str], names: Sequence[str], taken: int | str | None) -> str | None:
    return next((name for name in wanted if name in names and name != taken), None)


def _names(path: Path, findings: Findings) -> Sequence[str]:
    if ending_of(path) in _OF_OBJECTS:
        objects = []
        for line in Head.of(path, findings).filled[:_OBJECTS]:
            try:
                value = json.loads(line)
            except (ValueError, RecursionError):
                continue
            objects += [flat(value)] if isinstance(value, dict) else []
        counts = Counter(name for one in objects for name in one)  # in the order in which they come
        return [name for name, count in counts.items() if 2 * count >= len(objects)]
    table = ending_of(path) == ".csv"
    head = excel_head(path, findings) if table else Head.of(path, findings)
    separator = (head.separator(",") or ",") if table else "\t"
    rows = head.rows(separator)
    return rows[0] if rows else []
