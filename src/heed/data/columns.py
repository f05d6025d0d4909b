"""Recognition of columns: facts of their cells, known names, headers, and which column is the text or the label."""

from __future__ import annotations

import csv
import io
import math
import re
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from heed.errors import counted

R = TypeVar("R", bound=Sequence[str])
Column = int | str | None
"""A column: its number from 0, its name, or None for the default."""
_REGULAR = 0.95
"""Share of the rows that must have the same number of columns."""

TEXT_NAMES = (
    *("text", "texts", "sentence", "sentences", "review", "content", "body", "message", "document", "comment", "tweet"),
    *("utterance", "question", "query", "post", "headline", "title", "phrase", "input", "sms", "v2"),
)
"""Usual names of text columns, most reliable first."""
LABEL_NAMES = (
    *("label", "labels", "class", "category", "sentiment", "target", "intent", "topic", "emotion", "stars", "rating"),
    *("score", "polarity", "tag", "genre", "type", "y", "output", "v1"),
)
"""Usual names of label columns, most reliable first."""
_OTHER_NAMES = ("id", "idx", "index", "source", "src", "translation", "split", "date", "time", "author", "user", "name")
_LANGUAGES = (
    *("en", "de", "fr", "es", "it", "pt", "nl", "pl", "ru", "uk", "cs", "ro", "hu", "tr", "ar", "he", "fa", "hi", "ur"),
    *("bn", "ta", "zh", "ja", "ko", "vi", "th", "id", "ms", "sw", "yo", "ha", "ig", "zu", "el", "sv", "da", "no", "fi"),
    *("english", "german", "french", "spanish", "italian", "portuguese", "dutch", "polish", "russian", "ukrainian"),
    *("turkish", "arabic", "hindi", "chinese", "japanese", "korean", "vietnamese", "swahili", "yoruba", "hausa"),
)
HEADER_NAMES = frozenset((*TEXT_NAMES, *LABEL_NAMES, *_OTHER_NAMES, *_LANGUAGES))
"""Names of columns by which a header is recognised."""
NO_LABEL = "no column repeats its values, as a column of labels does"
ENDINGS = frozenset(
    ".jpg .jpeg .jpe .jfif .png .apng .gif .webp .bmp .dib .tif .tiff .ppm .pgm .pbm .pnm .avif .jp2 .j2k .jpx "
    ".ico .qoi .sgi .heic .heif".split()
)
"""Endings of picture files; the format is recognised from the content, whatever the ending."""
DECIMAL_COMMA = re.compile(r"[-+]?\d+,\d+")
_LISTED = 40
"""Most columns that a message lists."""
_SURE = 3
"""Number of names, the first ones, that win over other known names."""


@dataclass(frozen=True)
class Facts:
    """Statistics of one column's cells; `name` is its number from 0 or its name in the header."""

    name: int | str
    cells: int  # that are not blank
    values: int  # different ones
    singles: int  # values that occur once
    characters: float  # of a cell, on average
    words: float
    numbers: float  # share of the cells that are numbers
    labels: float  # share of the cells that are labels of the training set
    first: tuple[str, ...]  # the first few values
    lists: bool = False  # True if some cells are lists

    @classmethod
    def of(cls, name: int | str, values: Iterable[Any], labels: Collection[str] = ()) -> Facts:
        """The statistics of these values; only texts, numbers, booleans and lists count."""
        cells, lists = list[str](), False
        for value in values:
            if isinstance(value, str):
                cells.append(value)
            elif isinstance(value, list) and all(isinstance(part, str | int) for part in value):
                cells += map(str, value)
                lists = True
            else:
                cells.append(label_of(value) or "")
        filled = [cell.strip() for cell in cells if cell.strip()]
        counts, size = Counter(filled), max(1, len(filled))
        return cls(
            name,
            len(filled),
            len(counts),
            sum(count == 1 for count in counts.values()),
            sum(map(len, filled)) / size,
            sum(len(cell.split()) for cell in filled) / size,
            sum(map(is_number, filled)) / size,
            sum(cell in labels for cell in filled) / size,
            tuple(value for value, _ in counts.most_common(4)),
            lists,
        )

    @property
    def repeats(self) -> bool:
        """True if its values repeat as those of a label."""
        return self.values <= max(2, 0.5 * self.cells) and self.singles <= max(1, 0.4 * self.values)

    @property
    def is_text(self) -> bool:
        """True if it can be the text: no lists or names of pictures, and most of its cells are not numbers."""
        return self.cells > 0 and self.numbers < 0.5 and not self.lists and not all(map(is_picture, self.first))

    @property
    def shown(self) -> str:
        """The name in quotes, or the number."""
        return shown(self.name)

    def counted(self, whole: bool) -> str:
        """Its number of distinct values; says so if only the beginning of the file was read."""
        return counted(self.values, "value") + ("" if whole else " in the first part of the file")


class Picked(NamedTuple):
    """The columns of text and label; or, if they are `unclear`, why and which field to set."""

    text: Facts | None = None
    label: Facts | None = None
    unclear: str = ""


def facts_of(rows: Sequence[Sequence[str]], names: Iterable[int | str], labels: Collection[str] = ()) -> list[Facts]:
    """Statistics of each column of rows."""
    return [Facts.of(name, [row[n] for row in rows if n < len(row)], labels) for n, name in enumerate(names)]


def pick(columns: Sequence[Facts], text: Column = None, label: Column = None, whole: bool = True) -> Picked:
    """Choose the columns of text and label; specified ones stay."""
    labelled = [column for column in columns if column.labels >= 0.5]  # has labels of the training set
    if label is None and labelled:
        label = max(labelled, key=lambda column: (_rank(column, LABEL_NAMES) < _SURE, column.labels)).name
    named: dict[Column, Facts] = {column.name: column for column in columns}
    of_text = named.get(text) or pick_text(columns, label, pairs=True)
    of_label = named.get(label) or _label([column for column in columns if column is not of_text], whole)
    if isinstance(of_text, str):
        return Picked(unclear=NO_LABEL if of_label == NO_LABEL else of_text)
    return Picked(of_text, unclear=of_label) if isinstance(of_label, str) else Picked(of_text, of_label)


def _rank(column: Facts, names: Sequence[str]) -> int:
    name = str(column.name).strip().casefold()
    return names.index(name) if name in names else len(names)


def _named(columns: Sequence[Facts], names: Sequence[str]) -> list[Facts]:
    """The columns with known names: all, or the first alone if its name is one of the most reliable."""
    named = sorted((c for c in columns if _rank(c, names) < len(names)), key=lambda c: _rank(c, names))
    return named[:1] if named and _rank(named[0], names) < _SURE else named


def pick_text(columns: Sequence[Facts], label: Column = None, pairs: bool = False) -> Facts | str:
    """The column of texts, or why it is unclear; with `pairs`, a message may advise to read two columns as a pair."""
    candidates = [column for column in columns if column.is_text and column.name != label]
    if not candidates:
        return "no column contains texts"
    if len(named := _named(candidates, TEXT_NAMES)) == 1:
        return named[0]
    candidates.sort(key=lambda column: -column.characters)
    longest = candidates[0]
    rivals = [c for c in candidates if c.words >= 3 and c.characters >= longest.characters / 3 and not c.repeats]
    if len(rivals) > 1:
        rivals.sort(key=columns.index)
        which = " and ".join(column.shown for column in rivals)
        which = f"columns {which}" if isinstance(longest.name, int) else which
        pair = f", data.columns.text=[{rivals[0].name},{rivals[1].name}] reads both as a pair"
        both = pair if len(rivals) == 2 and pairs else ""
        verb = "both contain" if len(rivals) == 2 else "contain"
        return f"{which} {verb} texts; data.columns.text={rivals[0].name} chooses the first{both}"
    return longest


def _label(columns: Sequence[Facts], whole: bool) -> Facts | str:
    candidates = [c for c in columns if c.cells and (c.repeats or _rank(c, LABEL_NAMES) < _SURE)]
    if len(named := _named(candidates, LABEL_NAMES)) == 1:
        return named[0]
    candidates = [column for column in columns if column.repeats and column.cells]
    # A file sorted by label begins with one value.
    several = [column for column in candidates if column.values > 1] or candidates
    if len(several) == 1:
        return several[0]
    if not candidates:
        return NO_LABEL
    which = ", ".join(f"{c.shown} ({c.counted(whole)}: {some(c.first)})" for c in candidates)
    return f"several columns could be the label: {which}; data.columns.label={candidates[0].name} chooses the first"


def has_header(rows: Sequence[Sequence[str]], few: int = 20) -> bool:
    """True if the first row is a header: it has known names, or is unlike the rows after it (`few` at least)."""
    if len(rows) < 2 or len(set(map(str.strip, rows[0]))) < len(rows[0]):
        return False
    first, others = [cell.strip() for cell in rows[0]], rows[1:]
    alone = [all(row[n].strip() != cell for row in others if n < len(row)) for n, cell in enumerate(first)]
    columns = list(zip(first, alone, facts_of(others, range(len(first))), strict=True))
    named = [new and cell.casefold() in HEADER_NAMES for cell, new, _ in columns]
    if sum(named) > 1 or (any(named) and all(alone) and all(len(cell.split()) <= 3 for cell in first)):
        return True
    if any(is_number(cell) for cell in first):
        return False
    if len(others) >= few and all(alone) and all(cell.replace("_", "").isalpha() for cell in first):
        texts = [n for n, (_, _, facts) in enumerate(columns) if facts.words >= 3]
        if texts and not any(all(len(row[n].split()) < 2 for n in texts if n < len(row)) for row in others):
            return True
    if any(cell and facts.numbers > 0.9 for cell, _, facts in columns):
        return True
    unlike = any(new and facts.repeats and facts.values <= 0.2 * facts.cells for _, new, facts in columns)
    return unlike and any(len(cell.split()) <= 2 and facts.words >= 5 for cell, _, facts in columns)


def is_picture(name: str) -> bool:
    """True if a name has the ending of a picture."""
    return Path(name).suffix.lower() in ENDINGS


def is_number(text: str) -> bool:
    """True if a cell is a number, perhaps with a decimal comma."""
    return is_float(text) or DECIMAL_COMMA.fullmatch(text.strip()) is not None


def is_float(text: str) -> bool:
    """True if `float` reads it."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def python_value(value: Any) -> Any:
    """A single value as a Python object: NumPy numbers as numbers, missing values as None, 3.0 as 3."""
    if hasattr(value, "item") and getattr(value, "ndim", 0) == 0:
        value = value.item()
    if isinstance(value, float):
        return None if math.isnan(value) else int(value) if value.is_integer() else repr(value)
    return None if type(value).__name__ in ("NAType", "NaTType") else value


def label_of(value: Any) -> str | None:
    """A label as a text: true or false, and an integral number without its fraction; None if it is not a label."""
    value = python_value(value)
    if not isinstance(value, str | int):
        return None
    return str(value).lower() if isinstance(value, bool) else re.sub(r"^([-+]?\d+)\.0+$", r"\1", str(value).strip())


def shown(name: int | str) -> str:
    """A column in a message: its number, or its name in quotes."""
    return f"'{name}'" if isinstance(name, str) else str(name)


@lru_cache(maxsize=16)
def rows_of(lines: tuple[str, ...], separator: str) -> list[list[str]]:
    """Rows of lines, without blank ones."""
    if separator == "\t":
        return [line.split("\t") for line in lines if line.strip()]
    rows: list[list[str]] = []
    with suppress(csv.Error):  # the rows before the error are used
        rows += (row for row in csv.reader(io.StringIO("\n".join(lines)), delimiter=separator) if row)
    return rows


def is_regular(rows: Sequence[Sequence[str]]) -> bool:
    """True if nearly all rows have the same number of columns, two at least."""
    usual = regular_rows(rows)
    return bool(usual) and len(usual[0]) > 1 and len(usual) >= _REGULAR * len(rows)


def regular_rows(rows: Sequence[R]) -> list[R]:
    """The rows that have the usual number of columns."""
    widths = Counter(map(len, rows)).most_common(1)
    return [row for row in rows if len(row) == widths[0][0]]


def some(values: Iterable[str], maximum: int = 3) -> str:
    """The first few values, for messages."""
    listed = list(dict.fromkeys(values))
    shown = ", ".join(value if len(value) <= 20 else value[:18] + "..." for value in listed[:maximum])
    return shown + (", ..." if len(listed) > maximum else "")


def listing(facts: Sequence[Facts]) -> str:
    """The columns with a few values of each, for messages."""
    listed = ", ".join(f"{column.shown} ({some(column.first)})" for column in facts[:_LISTED])
    return listed + ", ..." * (len(facts) > _LISTED)
