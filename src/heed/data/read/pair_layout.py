"""Layout of a file of pairs, recognised from its beginning; other kinds of data are refused."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from heed.data.read.columns import Facts, facts_of, has_header
from heed.data.read.contents import Advice, content_of, no_advice
from heed.data.read.findings import Findings
from heed.data.read.head import Head, excel_head, is_regular, note_header, regular_rows, some
from heed.data.read.lines import ending_of
from heed.data.read.rows import SEPARATORS, Column, flat
from heed.errors import DataError

_FEW = 4
"""Objects below which fields are not recognised."""
_MANY = 50
"""Pairs below which sides are not compared with labels."""


@dataclass(frozen=True)
class PairColumns:
    """The columns of both sides in a file, by number from 0 or by name, and their `separator`."""

    source: int | str
    target: int | str
    separator: str = "\t"


def pair_columns(path: Path, source: Column, target: Column, findings: Findings, advice: Advice) -> PairColumns:
    """The columns of a file of pairs; what was recognised and what looks odd is added to the findings.

    Raises:
        DataError: The file looks like another kind of data.
    """
    table = ending_of(path) == ".csv"
    usual = "," if table else "\t"
    given = PairColumns(0 if source is None else source, 1 if target is None else target, usual)
    head = excel_head(path, findings) if table else Head.of(path, findings)
    if not head.filled:
        return given
    separator = head.separator(usual) if table else usual
    if separator is None:
        separator = usual
    elif separator != usual:
        findings.remark(f"columns separated by {SEPARATORS[separator]}")
    rows = head.rows(separator)
    if not is_regular(rows):
        if all(len(row) < 2 for row in rows[:_MANY]):
            _refuse(head, advice)
        return PairColumns(given.source, given.target, separator)
    if (content := content_of(head)) is not None and content.kind == "tagged" and content.sure:
        raise DataError(f"'{path}': {content.why}; expected a pair of texts on each line{advice('tagged', path)}")
    rows = regular_rows(rows)
    header = has_header(rows)
    by_number = isinstance(given.source, int) and isinstance(given.target, int)
    if header and by_number and max(int(given.source), int(given.target)) < len(rows[0]):
        names = rows[0][int(given.source)].strip(), rows[0][int(given.target)].strip()
        fix = f"set data.columns.source='{names[0]}' data.columns.target='{names[1]}' to skip it"
        note_header(rows[0], path, "pair", findings, fix)
    body, width = rows[1:] if header else rows, len(rows[0])
    places = [
        rows[0].index(column) if isinstance(column, str) and column in rows[0] else column
        for column in (given.source, given.target)
    ]
    if all(isinstance(place, int) and 0 <= place < width for place in places):
        columns = facts_of(body, range(width))
        note_labels([columns[int(place)] for place in places], path, findings, advice("labelled", path))
    return PairColumns(given.source, given.target, separator)


def note_labels(sides: Sequence[Facts], where: Path | str, findings: Findings, advice: str = "") -> None:
    """Remark that one side of the pairs looks like labels: few different texts, each many times."""
    for name, side, other in zip(("source", "target"), sides, reversed(sides), strict=True):
        if side.cells < _MANY or side.values > 0.1 * side.cells or not side.repeats or other.repeats or other.words < 2:
            continue
        what = f"the {name}s look like labels ({side.values:,} different: {some(side.first)}), read as texts{advice}"
        findings.remark(f"warning: {Path(where).name}: {what}")


def _refuse(head: Head, advice: Advice) -> None:
    """Refuse a file of one column with another kind of data; for sentences, reading reports the missing column."""
    content = content_of(head)
    if content is None or content.kind in ("pairs", "sentences"):
        return
    what = f"{content.why}; expected both sides of a pair on each line, with a tab between them, or two parallel files"
    raise DataError(f"'{head.path}': {what}{advice(content.kind, head.path)}")


def pair_fields(
    path: Path, source: Column, target: Column, findings: Findings, advice: Advice = no_advice
) -> tuple[str, str]:
    """The fields of both sides in JSON objects: those given, "source" and "target", or the only two texts.

    A text in a nested object counts too, named as in "translation.en".

    Raises:
        DataError: The objects are conversations: they have no two texts, but a list of turns.
    """
    names = ["source" if source is None else str(source), "target" if target is None else str(target)]
    objects: list[dict[str, Any]] = []
    for line in Head.of(path, findings).filled[:1_000]:
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        objects += [flat(value)] if isinstance(value, dict) else []
    given = source is not None or target is not None
    if given or len(objects) < _FEW or any(name in one for one in objects for name in names):
        return names[0], names[1]
    texts = [
        name
        for name in objects[0]
        if all(isinstance(one.get(name), str) for one in objects)
        and Facts.of(name, [one[name] for one in objects]).numbers < 0.5
    ]
    if len(texts) != 2:
        turns = [name for name in objects[0] if all(_are_turns(one.get(name)) for one in objects)]
        if turns:
            why = (
                f"each line is a conversation (field '{turns[0]}' is a list of turns); expected two texts in each line"
            )
            raise DataError(f"'{path}': {why}{advice('conversations', path)}")
        return names[0], names[1]
    findings.remark(f"fields: source is '{texts[0]}', target is '{texts[1]}'")
    return texts[0], texts[1]


def _are_turns(value: Any) -> bool:
    return (
        isinstance(value, list)
        and bool(value)
        and (all(isinstance(turn, dict) for turn in value) or all(isinstance(turn, str) for turn in value))
    )
