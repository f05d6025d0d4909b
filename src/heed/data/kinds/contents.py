"""Recognition of what a file contains: words with tags, plain sentences, pairs, labelled texts, numbers or pictures.

Judged by the beginning of the file, or a small part of a folder, whatever it was given as; doubtful cases have no
result.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from heed.data.columns import facts_of, has_header, is_number, is_picture, is_regular, pick, regular_rows, some
from heed.data.examples import OUTSIDE, is_entity_tag
from heed.data.pictures.files import files_below, is_idx
from heed.data.tables import SEPARATORS, Head, is_table
from heed.errors import DataError

LABEL_PREFIX = "__label__"
CONLL_U = ("id", "form", "lemma", "upos", "xpos", "feats", "head", "deprel", "deps", "misc")
"""The columns of CoNLL-U, the format of Universal Dependencies."""
_NODE = re.compile(r"\d+([-.]\d+)?")
_FEW = 8
"""Lines below which nothing is judged."""
Advice = Callable[[str, Path], str]
"""The commands that can use a file of some kind, after a semicolon; "" if there is none."""


def no_advice(looks_like: str, path: Path) -> str:
    """For readers that no task uses."""
    return ""


class Content(NamedTuple):
    """The content of a file: "tagged", "sentences", "labelled", "pairs" or "rows" (of numbers); and the evidence."""

    kind: str
    why: str
    sure: bool = True  # False if another kind could look the same


def content_of(head: Head) -> Content | None:
    """The probable content of a file, by its beginning; None if it is unclear."""
    lines = head.filled
    if len(lines) < _FEW:
        return None
    if is_prefixed(lines):
        return Content("labelled", f"its lines begin with {LABEL_PREFIX}")
    if lines[0].lstrip().startswith(("{", "[")):
        return None
    if tagged := _tagged(head):
        return tagged
    tabs = "\t" if is_regular(head.rows("\t")) else None
    separator = head.separator("\t") if is_table(head.path) else tabs
    if separator is not None:
        return _of_columns(head, separator)
    if (first := FirstWords.of(lines)).of_sentences:
        return Content("sentences", "its lines are plain sentences")
    return Content("labelled", f"its lines begin with one of {first.values} words") if first.are_labels else None


def are_conll_u(rows: Sequence[Sequence[str]]) -> bool:
    """True if rows are words in CoNLL-U: ten columns, of which the first numbers the words."""
    return all(len(row) == len(CONLL_U) and _NODE.fullmatch(row[0]) and row[6][:1] in "_0123456789" for row in rows)


def is_prefixed(lines: Sequence[str]) -> bool:
    """True if lines are in fastText's format, `__label__a text`."""
    some_lines = lines[:1_000]
    return bool(some_lines) and sum(line.lstrip().startswith(LABEL_PREFIX) for line in some_lines) > len(some_lines) / 2


class FirstWords(NamedTuple):
    """The first words of lines, which are labels where lines are `label text`."""

    lines: int
    values: int  # different first words
    singles: int  # those that occur once
    inside: float  # share of the lines whose first word also occurs inside a line
    common: float  # average share of the lines with other first words that contain a line's first word

    @classmethod
    def of(cls, lines: Sequence[str]) -> FirstWords:
        """Count them."""
        words = [line.split() for line in lines if line.strip()]
        counts = Counter(line[0] for line in words)
        after = [set(map(_bare, line[1:])) for line in words]
        texts = Counter(word for others in after for word in others)
        repeated = Counter(line[0] for line, others in zip(words, after, strict=True) if _bare(line[0]) in others)
        inside = sum(count for word, count in counts.items() if texts[_bare(word)])
        common = sum(
            count * (texts[_bare(word)] - repeated[word]) / max(1, len(words) - count) for word, count in counts.items()
        )
        singles, size = sum(count == 1 for count in counts.values()), max(1, len(words))
        return cls(len(words), len(counts), singles, inside / size, common / size)

    @property
    def of_sentences(self) -> bool:
        """True if these are first words of sentences: many occur once, and inside other sentences too."""
        if self.lines < _FEW:
            return False
        if self.singles == self.lines or (self.common >= 0.2 and self.values > 1):
            return True
        many = self.lines >= 20 and self.values >= _FEW and self.singles >= 0.3 * self.values
        return many and (self.inside >= 0.25 or self.singles >= 0.3 * self.lines)

    @property
    def are_labels(self) -> bool:
        """True if these are surely labels: few different ones, each several times."""
        return 1 < self.values <= 0.1 * self.lines and not self.singles and self.common < 0.1


def _bare(word: str) -> str:
    return word.strip(".,;:!?\"'()").casefold()


def _tagged(head: Head) -> Content | None:
    """Words with tags: rows of equally many columns, where values repeat far more in the last than in the first."""
    lines = [line for line in head.filled if not line.startswith(("#", "-DOCSTART-"))]
    if len(lines) < _FEW:
        return None
    rows = [line.split("\t" if "\t" in lines[0] else None) for line in lines]
    if not is_regular(rows):
        return None
    rows = regular_rows(rows)
    if are_conll_u(rows):
        return Content("tagged", "it is CoNLL-U, with a word and its tag on each line")
    tags, words = [row[-1].strip() for row in rows], [row[0].strip() for row in rows]
    entities = sum(tag == OUTSIDE or is_entity_tag(tag) for tag in tags) >= 0.95 * len(tags)
    gaps, values = len(head.lines) - len(head.filled), len(set(tags))
    plain = gaps * 100 >= len(lines) and values <= 0.2 * len(tags) and values * 2 < len(set(words))
    one_word = sum(" " not in word for word in words) >= 0.95 * len(words)
    if not one_word or not (entities or plain) or all(map(is_number, tags)):
        return None
    example = next((n for n, tag in enumerate(tags) if tag != OUTSIDE), 0)
    return Content("tagged", f"each line is a word and its tag (such as '{words[example]} {tags[example]}')", entities)


def _of_columns(head: Head, separator: str) -> Content | None:
    rows = regular_rows(head.rows(separator))
    names: Sequence[int] = range(len(rows[0]))
    columns = facts_of(rows[1:] if has_header(rows) else rows, names)
    texts = [column for column in columns if column.is_text and column.words > 1.5 and not column.repeats]
    if sum(column.numbers > 0.9 for column in columns) >= len(columns) - 1 and not texts:
        return Content("rows", "its columns contain numbers")
    picked = pick(columns)
    between = f"separated by {SEPARATORS[separator]}"
    label = picked.label or next((column for column in columns if column.repeats and column is not picked.text), None)
    if picked.text is not None and label is not None and picked.text.words > 1:
        where = f"column {label.name} ({some(label.first)}) repeats its values next to the texts of column"
        return Content("labelled", f"{where} {picked.text.name}, {between}")
    if len(texts) > 1 and not any(column.repeats for column in columns):
        return Content("pairs", f"columns {texts[0].name} and {texts[1].name} contain texts, {between}")
    return None


_LOOKED_AT = 50
"""Files of a folder whose names are examined."""


def picture_in(path: Path) -> str:
    """The first picture or idx file of a folder most of whose files are such, or of a file alone; "" for others."""
    try:
        inside = files_below(str(path)) if os.path.isdir(path) else [()]
        files = [Path(path, *parts) for parts in islice(inside, _LOOKED_AT)]
    except DataError:  # reading the folder reports why
        return ""
    pictures = [file for file in files if is_picture(file.name) or (os.path.isfile(file) and is_idx(file))]
    return str(pictures[0]) if 2 * len(pictures) > len(files) else ""
