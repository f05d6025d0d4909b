"""Readers of sentences with a tag for each word; errors name file and line.

| given | read as |
|---|---|
| .jsonl, .json | objects with lists of words and tags, or a text and its entities, `[start, end, type]` in characters |
| anything else | one word a line, its tag in a column (CoNLL and similar formats) |

Columns are separated by tabs, commas or semicolons, or by spaces. A blank line ends a sentence; so does a line whose
first column is -DOCSTART-, and another value in a column of sentences, where blank cells repeat the one above. Columns
are those with usual names in the first line, else the first and the last. Lines before a sentence that begin with # and
have another number of columns are comments. CoNLL-U, the format of Universal Dependencies, is recognised by its ten
columns: words are FORM and tags UPOS, unless others are chosen; multiword tokens (2-3) and empty nodes (2.1) are left
out. The words of a text with entities are those of raw text in prediction.

Files may be compressed (.gz, .xz). Entity tags are in one of these schemes, and converted to BIO:

| scheme | an entity of one word; one of two words; two adjacent ones of the same type |
|---|---|
| bio (IOB2) | B; B I; B B |
| iob1 | I; I I; I B |
| io | I; I I; I I (they become one) |
| bioes (BILOU) | S; B E; S S |
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

from heed.data.columns import Column, has_header, is_regular, shown
from heed.data.examples import OUTSIDE, Sentence, is_entity_tag
from heed.data.findings import BadLine, Findings
from heed.data.kinds.contents import CONLL_U, Advice, are_conll_u, content_of, no_advice
from heed.data.readers import HeldTable, Reader, python_value
from heed.data.tables import SEPARATORS, CsvTable, Field, Head, JsonTable, Row, Table, characters_of, described
from heed.data.text_files import MARK, MARKED, ending_of, lines_of, unless_bad
from heed.data.tokens.special import split_words
from heed.errors import DataError, suggest, whole_number

Entity = tuple[str, int, int]
"""Type, first word, word after the last."""

_SAME = {"L": "E", "U": "S", "M": "I"}
"""BILOU and BMEWO letters for those of BIOES."""


def _parts(tag: str) -> tuple[str, str]:
    if tag == OUTSIDE:
        return OUTSIDE, ""
    letter, _, kind = tag.partition("-")
    return _SAME.get(letter, letter), kind


def entities(tags: Sequence[str]) -> list[Entity]:
    """The entities of a sentence in any scheme, even if the sequence of tags is illegal.

    An entity begins at B and S, and at I and E after O, after a finished entity or where the type changes, as in
    conlleval and in seqeval's default mode.
    """
    found: list[Entity] = []
    begun: int | None = None
    before, kind_before = OUTSIDE, ""
    for i, tag in enumerate([*tags, OUTSIDE]):
        letter, kind = _parts(tag)
        begins = letter in "BS" or (letter != OUTSIDE and (before in "OES" or kind != kind_before))
        if begun is not None and (letter == OUTSIDE or begins):
            found.append((kind_before, begun, i))
            begun = None
        if begins:
            begun = i
        before, kind_before = letter, kind
    return found


def may_follow(before: str | None, tag: str) -> bool:
    """True if BIO allows a tag after `before` (None: at the start of a sentence): I only inside its entity."""
    letter, kind = _parts(tag)
    return not (letter == "I" and is_entity_tag(tag)) or before in (f"B-{kind}", f"I-{kind}")


def write_tags(found: Iterable[Entity], length: int, scheme: str = "bio") -> list[str]:
    """The tags of entities in a scheme: bio, iob1, io or bioes."""
    tags = [OUTSIDE] * length
    ends: dict[int, str] = {}
    for kind, start, end in found:
        letters = ["I"] * (end - start)
        if scheme == "bio" or (scheme == "iob1" and ends.get(start) == kind):
            letters[0] = "B"
        elif scheme == "bioes":
            letters[0], letters[-1] = "B", "E"
            letters = ["S"] if len(letters) == 1 else letters
        ends[end] = kind
        tags[start:end] = [f"{letter}-{kind}" for letter in letters]
    return tags


def find_scheme(sentences: Iterable[Sequence[str]]) -> str:
    """The tagging scheme of a corpus: bio, iob1, io, bioes, or plain (no tag marks an entity)."""
    letters: set[str] = set()
    starts_with_i = b_alone = False
    for tags in sentences:
        before = (OUTSIDE, "")
        for tag in tags:
            if tag != OUTSIDE and not is_entity_tag(tag):
                before = (OUTSIDE, "")
                continue
            letter, kind = _parts(tag)
            letters.add(letter)
            follows = before[0] != OUTSIDE and before[1] == kind
            starts_with_i |= letter == "I" and not follows
            b_alone |= letter == "B" and not follows
            before = letter, kind
    letters.discard(OUTSIDE)
    if not letters:
        return "plain"
    if letters & {"E", "S"}:
        return "bioes"
    if "B" not in letters:
        return "io"
    return "iob1" if starts_with_i and not b_alone else "bio"


_FEW = 8
"""Lines below which a file is not judged."""
_STOPS = (".", "!", "?", "\u0964", "\u3002")
_WORDS = ("words", "tokens", "word", "token", "form")
_TEXTS = ("text", "sentence", "content")
_TAGS = ("ner_tags", "tags", "labels", "label", "tag", "ner", "upos", "pos_tags", "pos")
_SPANS = ("spans", "entities")
_SPAN = ("start", "start_offset"), ("end", "end_offset"), ("label", "type", "entity")
"""Keys of an entity that is an object."""
_JUDGED = 1_000
"""Lines by which separator and header are recognised."""
_SENTENCES = ("sentence #", "sentence_id", "sent_id", "sentence id", "sentence")
"""Usual names of columns, in lower case, most reliable first."""
_FIELDS = {"word": _WORDS, "label": _TAGS, "sentence": _SENTENCES}
_CALLED = {"word": "words", "label": "tags", "sentence": "sentences"}
_AGAIN = "the name of an earlier sentence, read as another sentence"


@dataclass(frozen=True)
class _Read:
    """A sentence as it was read; `at` gives the place of its tag n for findings and for messages."""

    sentence: Sentence
    path: Path | str
    at: Callable[[int], tuple[int | str, str]]


def _unclear(name: str, field: str, names: Iterable[object], why: str = "") -> DataError:
    what = why or f"which column has the {_CALLED[field]} is unclear"
    listed = ", ".join(map(str, names))
    return DataError(f"{name}: {what}; set data.columns.{field} to the column of the {_CALLED[field]}, one of {listed}")


def _said(columns: Mapping[str, int | str], word: str = "column") -> str:
    return f"{word}s: " + ", ".join(
        f"the {_CALLED[field]} are {shown(columns[field])}" for field in _CALLED if field in columns
    )


Cells = list[str] | BadLine | None
"""The columns of a line."""


@dataclass(frozen=True)
class ColumnFile:
    """A word in each line of a file, or row of a `table`.

    `rows` has the number and the columns of each line, None between sentences, and none for a line of CoNLL-U that is
    no word of its sentence. Without a `separator`, spaces separate columns.
    """

    table: Table
    rows: list[tuple[int, Cells]]
    lines: Sequence[str] = ()
    separator: str | None = None
    conll_u: bool = False

    @classmethod
    def read(cls, path: Path, findings: Findings | None = None) -> ColumnFile:
        """Read a file; bad lines are errors without `findings`.

        Raises:
            DataError: The file cannot be read or contains no word, or a line is bad (for example, has another number
                of columns than the lines before it) and not skipped.
        """
        findings = Findings() if findings is None else findings
        read = list(lines_of(path, findings))
        lines = [line.text if isinstance(line, BadLine) else line for line in read]
        known = [s for s in read if isinstance(s, str) and s.strip() and not s.startswith("-DOCSTART-")]
        filled = [line for line in known if not line.startswith("#")] or known
        if not filled:
            raise DataError(f"'{path}' contains no words; expected one word a line, with its tag in another column")
        separator = _separator(filled)
        first = _split(filled[0], separator)
        width, conll_u = len(first), are_conll_u([first])
        rows: list[tuple[int, Cells]] = []
        for number, line in enumerate(read, start=1):
            row: Cells = line if isinstance(line, BadLine) else _split(line, separator)
            if isinstance(row, list):
                comment = lines[number - 1].startswith("#") and len(row) != width and not (rows and rows[-1][1])
                if not any(row) or row[0] == "-DOCSTART-" or comment:
                    row = None
                elif len(row) != width:
                    has = f"{len(row)} column{'s' if len(row) != 1 else ''} ({lines[number - 1][:60]!r})"
                    expected = f"{width}, separated by {SEPARATORS.get(separator or '', 'spaces')}"
                    message = f"'{path}' line {number} has {has}, but the lines before it have {expected}"
                    row = findings.bad("different number of columns", path, number, message)
                elif conll_u and not row[0].isdigit():
                    findings.note("multiword token or empty node, left out", path, number)
                    row = []
            rows.append((number, row))
        return cls(CsvTable(path, findings, separator or "\t", fixed=True), rows, lines, separator, conll_u)

    @classmethod
    def of_table(cls, table: Table) -> ColumnFile:
        """Rows that are words, with the columns sentence, word and label of the table."""
        rows: list[tuple[int, Cells]] = []
        for row in table.rows():
            try:
                values = [python_value(row.value(field)) for field in ("sentence", "word", "label")]
                cells = ["" if one is None else characters_of(str(one), row.where, row.bad, row.note) for one in values]
                rows.append((row.number, None if row.blank else cells))
            except BadLine as bad:
                rows.append((row.number, bad))
        return cls(table, rows)

    @property
    def words(self) -> list[tuple[int, list[str]]]:
        """The number and the columns of each line with a word."""
        return [(number, row) for number, row in self.rows if row and isinstance(row, list)]

    @property
    def width(self) -> int:
        """Number of columns."""
        return len(self.words[0][1])

    def columns(self, given: Any, findings: Findings, tagged: bool = True) -> dict[str, int]:
        """The columns of word, label (unless the file is not `tagged`) and sentence (if there is one), from 0.

        A first line that names them is left out and noted, and what it names is remarked.

        Raises:
            DataError: The file lacks a column, or which one is meant is unclear; the message lists the columns.
        """
        (line, row), *others = self.words
        cells = [one for _, one in others]
        names, width = CONLL_U if self.conll_u else [cell.casefold() for cell in row], len(row)
        wanted: dict[str, Column] = {field: getattr(given, field) for field in _FIELDS}
        if self.conll_u:
            wanted["word"] = wanted["word"] or "form"
            wanted["label"] = "upos" if wanted["label"] in (None, -1) else wanted["label"]
        places = {field: names.index(one) for field, every in _FIELDS.items() for one in every[::-1] if one in names}
        for field, column in wanted.items():
            if isinstance(column, str) and column.casefold() in names:
                places[field] = names.index(column.casefold())
            elif isinstance(column, int) and -width <= column < width:
                places[field] = column % width
            elif column is not None and (tagged or field != "label" or column not in (width, -1 - width)):
                has = f"'{self.table.path}' line {line} has {width} columns ({_listed(row)}), so data.columns.{field}"
                raise DataError(f"{has} cannot be {column}{suggest(str(column), CONLL_U) if self.conll_u else ''}")
        if self.conll_u:
            return {field: places[field] for field in ("word", "label")}
        word, label = places.get("word", 0), places.get("label", width - 1)
        header = any(isinstance(one, str) for one in wanted.values()) or (
            names[word] in _WORDS and label != word and all(one[label] != row[label] for one in cells)
        )
        if header := header or (self.is_table and has_header([row, *cells[:_JUDGED]])):
            self.rows[line - 1] = line, None
            findings.note(f"a header ({' | '.join(row)[:40]}), left out", self.table.path, line)
        else:
            places = {field: place for field, place in places.items() if wanted[field] is not None}
        rest = [n for n in range(width) if n not in places.values()]
        if "sentence" not in places and all(one is not None for _, one in self.rows[line:]):
            able = rest if header or "label" in places else rest[:-1]
            ids = [n for n in able if width > 2 and _are_ids([one[n] for one in cells])]
            if len(ids) == 1:
                places["sentence"] = ids[0]
                rest.remove(ids[0])
            elif tagged and self.is_table and len(cells) >= _FEW:
                why = "no blank line ends a sentence, and which column numbers the sentences is unclear"
                raise _unclear(f"'{self.table.path}'", "sentence", [_listed(row)], why)
        for field, place in (("word", 0), ("label", -1)):
            if field in places or (wanted[field] is not None and not tagged):
                continue
            if (header and len(rest) > 1) or (tagged and not rest):
                raise _unclear(f"'{self.table.path}'", field, [_listed(row)])
            if rest:
                places[field] = rest.pop(place)
        if not tagged and places.get("label") == places["word"]:
            del places["label"]
        if header or places.get("sentence") not in (None, wanted["sentence"]):
            findings.remark(_said({field: row[n] if header else n for field, n in places.items()}))
        return places

    def refuse_odd(self, word: int, label: int, last: bool) -> None:
        """Refuse a column of words that numbers them, and a `last` column (taken by default) that contains no tags.

        Raises:
            DataError: The message lists the columns and names the setting that chooses another.
        """
        rows = [row for _, row in self.words]
        numbers = [int(row[word]) if row[word].isdecimal() else -1 for row in rows]
        tags = sorted({row[label] for row in rows})
        wide, field, place, what = bool(rows) and len(rows[0]) > 2, "label", label, ""
        if wide and len(rows) > 2 and all(b in (0, 1, a + 1) for a, b in pairwise(numbers)):
            field, place, what = "word", word, "numbers the words"
        elif last and tags == [""]:
            what = "is blank"
        elif last and wide and len(rows) >= _FEW and (len(tags) == 1 or not any(map(str.isalnum, "".join(tags)))):
            what = "" if tags == [OUTSIDE] else f"contains only {' and '.join(tags)}"
        if what:
            raise _unclear(f"'{self.table.path}'", field, [_listed(rows[0])], f"column {place} {what}")

    @property
    def is_table(self) -> bool:
        """True if its columns are those of CSV."""
        return self.separator in (",", ";")

    def written(self, cells: Sequence[str]) -> str:
        """A line of the file with these cells."""
        if not self.is_table:
            return (self.separator or ("\t" if self.width == 1 else " ")).join(cells)
        line = io.StringIO()
        csv.writer(line, delimiter=str(self.separator), lineterminator="").writerow(cells)
        return line.getvalue()

    def sentences(self, column: int | None = None) -> Iterator[list[tuple[int, list[str] | BadLine]]]:
        """The rows of each sentence with their numbers; `column` is that of the sentences."""
        rows: list[tuple[int, list[str] | BadLine]] = []
        current, known = "", set[str]()
        for number, row in [*self.rows, (0, None)]:
            name = row[column] if column is not None and row and isinstance(row, list) else ""
            begins = bool(name) and name != current
            if rows and (row is None or begins):
                yield rows
                rows = []
            if begins and name in known:
                self.table.findings.note(_AGAIN, self.table.path, self.table.place(number))
            current = name or current
            known.add(current)
            if row:
                rows.append((number, row))


def _are_ids(cells: Sequence[str]) -> bool:
    """True if cells number sentences of several words: equal ones, and the blank ones after them, are neighbours."""
    runs = [cell for cell, _ in groupby(filter(None, cells))]
    return len(cells) >= 2 * len(runs) > 2 and len({*runs}) == len(runs) and all(re.search(r"\d", one) for one in runs)


def _listed(row: Sequence[str]) -> str:
    return ", ".join(f"{i} {cell!r}" for i, cell in enumerate(row))


def _split(line: str, separator: str | None) -> list[str]:
    if separator in (None, "\t") or '"' not in line:
        return [cell.strip() for cell in line.split(separator)]
    return [cell.strip() for cell in next(csv.reader([line], delimiter=separator), [])]


def _separator(lines: Sequence[str]) -> str | None:
    """The separator of the columns; None for spaces."""
    if "\t" in lines[0]:
        return "\t"
    some = lines[:_JUDGED]
    by_spaces = [_split(line, None) for line in some]
    for one in (",", ";"):
        rows = [_split(line, one) for line in some]
        inside = any(" " in cell for row in rows for cell in row)  # as in "a;b T", a word and its tag
        fewer = is_regular(by_spaces) and inside and len(rows[0]) <= len(by_spaces[0])
        if is_regular(rows) and all(rows[0]) and not fewer:
            return one
    return None


def sentence_reader(data: Any, advice: Advice = no_advice) -> Reader[Sentence]:
    """The reader of sentences from files, data sets and Python; `advice` names commands for other kinds of files."""
    return Reader(
        Sentence,
        lambda files, findings: read_sentences(files, data, findings, advice),
        lambda table: _in_bio(_of_table(table, data), data.scheme, table.findings),
    )


def read_sentences(
    files: Sequence[str | Path], data: Any, findings: Findings | None = None, advice: Advice = no_advice
) -> list[Sentence]:
    """Read sentences from files, one after the other; entity tags are converted to BIO.

    With a bad line its whole sentence is left out; without `findings` it is an error. A first line that names columns
    is left out and noted.

    Raises:
        DataError: A file is missing, empty, cut off, not text, or changes while it is read; it contains texts, not
            words with tags; which column is which is unclear; a line is bad (not UTF-8, too long, with other columns,
            an illegal tag, or entities that cut a word or overlap) and not skipped. The message names file, line, field
            and value.
    """
    findings = Findings() if findings is None else findings
    read: list[_Read] = []
    for path in map(Path, files):
        head = Head.of(path, findings)
        if ending_of(path) in (".jsonl", ".json") or 2 * len(head.objects) > len(head.filled):
            read += _of_table(JsonTable(path, findings), data)
        else:
            _refuse_texts(head, data.columns, advice)
            read += _of_columns(ColumnFile.read(path, findings), data)
    return _in_bio(read, data.scheme, findings)


def _of_columns(file: ColumnFile, data: Any) -> Iterator[_Read]:
    """The sentences of a file with one word a line."""
    findings = file.table.findings
    columns = {"sentence": 0, "word": 1, "label": 2}
    if file.lines and file.words:
        columns = file.columns(data.columns, findings)
        file.refuse_odd(columns["word"], columns["label"], file.conll_u or data.columns.label in (None, -1))
    if file.conll_u:
        word, label = (CONLL_U[columns[field]].upper() for field in ("word", "label"))
        findings.remark(f"CoNLL-U: the words are {word}, the tags {label}")
    return findings.usable(
        file.sentences(columns.get("sentence")), partial(_sentence, file=file, columns=columns, data=data)
    )


def _sentence(
    rows: list[tuple[int, list[str] | BadLine]], file: ColumnFile, columns: Mapping[str, int], data: Any
) -> _Read:
    table, numbered = file.table, file.is_table or not file.lines
    words, tags = [], []
    for number, cells in [(number, unless_bad(cells)) for number, cells in rows]:
        word, tag, bad = cells[columns["word"]], cells[columns["label"]], Row(table, number, cells).bad
        if not tag:
            raise bad("empty tag", f"{table.where(number)}: the tag is empty ({' | '.join(cells)!r})")
        if not word:
            table.findings.note("empty word, read as an unknown word", table.path, table.place(number))
        value = whole_number(tag) if numbered and tag.isdecimal() else tag
        words.append(word)
        tags.append(_tag(value, data, table.where(number), bad))

    def at(n: int) -> tuple[int | str, str]:
        return table.place(rows[n][0]), table.where(rows[n][0])

    return _Read(Sentence(tuple(words), tuple(tags), origin=table.origin(rows[0][0])), table.path, at)


def _tag(value: Any, data: Any, where: str, bad: Callable[[str, str], BadLine]) -> Any:
    """A tag: numbers have the names in `data.tag_names`, or are tags themselves where the scheme is plain."""
    names = data.tag_names
    number = whole_number(value) if names and isinstance(value, str) and value.isdecimal() else value
    if not isinstance(number, int):
        return value
    if names and not 0 <= number < len(names):
        what = f"the tag is {number}, but data.tag_names has {len(names)} names, for the numbers from 0"
        raise bad("a tag without a name", f"{where}: {what}")
    if names or data.scheme == "plain":
        return names[number] if names else str(number)
    raise DataError(
        f"{where}: the tag is the number {number}; set data.tag_names to the names of the tags in the order of their "
        "numbers, as in data.tag_names=[O,B-PER,I-PER]; or data.scheme=plain, for numbers as tags"
    )


def _of_table(table: Table, data: Any) -> Iterable[_Read]:
    """The sentences of JSON, of a data set, or of data in Python, whose rows are sentences or words."""
    _choose(table, data.columns)
    if "sentence" in table.columns:
        return _of_columns(ColumnFile.of_table(table), data)
    return table.made(partial(_of_row, data=data))


def _choose(table: Table, given: Any) -> None:
    """Set the columns of words and tags, or of a text and its entities; and of sentences, if each row is a word.

    Raises:
        DataError: Which column is which is unclear; the message lists the columns.
    """
    wanted: dict[str, Column] = {"word": given.word, "label": given.label}
    if isinstance(table, HeldTable) and not table.names:
        table.choose([Field(*one) for one in wanted.items()])
        return
    name = table.called
    first, names = table.first, {one.casefold(): one for one in reversed(table.names)}

    def usual(known: Sequence[str]) -> str | None:
        return next((names[one] for one in known if one in names), None)

    both = [(usual(_WORDS), usual(_TAGS)), (usual(_TEXTS), usual((*_SPANS, *_TAGS)))]
    for field, column in zip(wanted, next((one for one in both if None not in one), both[0]), strict=True):
        wanted[field] = column if wanted[field] is None else wanted[field]
    open_ = [field for field, column in wanted.items() if column is None]
    lists = [one for one, value in first.items() if _is_list(value) and one not in wanted.values()]
    lists.sort(key=lambda one: _are_tags(first[one]))  # words before tags
    if len(lists) == len(open_):
        wanted |= zip(open_, lists, strict=True)
    if unclear := next((field for field, one in wanted.items() if one is None), ""):
        raise _unclear(name, unclear, table.names)
    if not any(_is_list(first.get(one)) for one in map(str, wanted.values())) and first:
        wanted["sentence"] = usual(_SENTENCES) if given.sentence is None else given.sentence
        if wanted["sentence"] in (None, wanted["word"]):
            why = "each row is a word, and which column numbers the sentences is unclear"
            raise _unclear(name, "sentence", table.names, why)
    table.choose([Field(*one) for one in wanted.items()])
    table.findings.remark(_said(table.columns, table.column_word))


def _is_list(value: Any) -> bool:
    return hasattr(value, "__len__") and not isinstance(value, str | bytes | Mapping)


def _are_tags(values: Any) -> bool:
    return all(isinstance(one, int) or one == OUTSIDE or is_entity_tag(str(one)) for one in map(python_value, values))


def _of_row(row: Row, data: Any) -> _Read | None:
    """The sentence in a row: lists of words and tags, or a text and its entities; None for a blank line."""
    words, tags = row.value("word"), row.value("label")
    if row.blank:
        return None
    if isinstance(words, str) and _is_list(tags):
        words, tags = _with_entities(row, words, tags, data)
    lists = {"word": words, "tag": tags}
    for name, values in lists.items():
        if not _is_list(values):
            message = f"{row.where}: the {name}s are {described(values)}, expected a list of texts, one for each word"
            raise row.bad(f"no list of {name}s", message)
    if len(words) != len(tags):
        counts = " and ".join(f"{len(one)} {name}{'' if len(one) == 1 else 's'}" for name, one in lists.items())
        raise row.bad("different numbers of words and tags", f"{row.where} has {counts}; each word needs one tag")
    read: dict[str, list[str]] = {"word": [], "tag": []}
    for name, values in lists.items():
        for number, value in enumerate(map(python_value, values)):
            where = f"{row.where}: {name} {number}"
            value = _tag(value, data, where, row.bad) if name == "tag" else value
            if not isinstance(value, str):
                raise row.bad("not text", f"{where} is {described(value)}, expected text")
            read[name].append(characters_of(value, where, row.bad, row.note))
    place, where = row.table.place(row.number), row.where
    sentence = Sentence(tuple(read["word"]), tuple(read["tag"]), origin=row.origin)
    return _Read(sentence, row.table.path, lambda n: (place, f"{where}: tag {n}"))


def _with_entities(row: Row, text: str, spans: Any, data: Any) -> tuple[list[str], list[str]]:
    """The words of a text, and their tags in BIO for entities given as spans of characters."""
    if MARK in text:
        row.note(MARKED)
    text = text.replace(MARK, " ")  # spans stay where they are
    places, found = split_words(text), list[Entity]()
    for span in spans:
        values = (
            [next((span[k] for k in keys if k in span), None) for keys in _SPAN] if isinstance(span, dict) else span
        )
        start, end, kind = values if _is_list(values) and len(values) == 3 else (None, None, None)
        if not isinstance(start, int) or not isinstance(end, int) or not isinstance(kind, str | int):
            message = (
                f"{row.where}: an entity is {described(span)}, expected [start, end, type] in characters of the text"
            )
            raise row.bad("an entity is no span", message)
        inside = [n for n, (first, last) in enumerate(places) if first < end and last > start]
        what = f"{row.where}: the entity {span!r:.60} ({text[max(start, 0) : end]!r:.40})"
        if not inside or start < 0 or end > len(text):
            raise row.bad("an entity without words", f"{what} has no words in a text of {len(text)} characters")
        if cut := [text[a:b] for a, b in map(places.__getitem__, inside) if a < start or b > end]:
            raise row.bad("an entity cuts a word", f"{what} cuts the word {cut[0]!r}; expected whole words")
        found.append((str(_tag(kind, data, what, row.bad)), inside[0], inside[-1] + 1))
    found.sort(key=lambda one: one[1])
    for (_, _, end), (kind, start, _) in pairwise(found):
        if start < end:
            word = text[slice(*places[start])]
            raise row.bad("entities overlap", f"{row.where}: the entity {kind!r} overlaps another in the word {word!r}")
    return [text[start:end] for start, end in places], write_tags(found, len(places))


def _in_bio(read: Iterable[_Read], scheme: str, findings: Findings) -> list[Sentence]:
    """Sentences with entity tags converted to BIO, from a scheme or, if it is auto, the one that the tags have."""
    every = list(read)
    used = find_scheme(one.sentence.tags for one in every) if scheme == "auto" else scheme
    if used == "plain":
        if scheme == "auto":
            findings.remark(
                "the tags have no prefixes such as B- or I-, so scores are of single words, not of whole entities"
            )
        return [one.sentence for one in every]
    result = []
    for one in every:
        tags = one.sentence.tags
        wrong = next((n for n, tag in enumerate(tags) if tag != OUTSIDE and not is_entity_tag(tag)), None)
        if wrong is not None:
            place, where = one.at(wrong)
            message = f"{where}: '{tags[wrong]}' is not an entity tag; expected O, or B-, I-, E- or S- followed "
            message += "by a type (data.scheme=plain uses any tags; data.columns.label selects the column of tags)"
            findings.leave_out(findings.bad("illegal tag", one.path, place, message).rule)
            continue
        found = entities(tags)
        renamed = {tag[0] for tag in tags} & set("LUM")  # BILOU and BMEWO are not compared
        if not renamed and write_tags(found, len(tags), used) != list(tags):
            what = f"tags that {used.upper()} does not allow, read as in seqeval (a new type begins an entity)"
            findings.note(what, one.path, one.at(0)[0], unit="sentence")
        result.append(replace(one.sentence, tags=tuple(write_tags(found, len(tags)))))
    if used != "bio":
        findings.remark(f"tags read as {used.upper()} and written as BIO")
    return result


def _refuse_texts(head: Head, given: Any, advice: Advice) -> None:
    """Refuse a file of texts, whose lines have any number of words."""
    lines = [line for line in head.filled if not line.startswith(("#", "-DOCSTART-"))]
    if len(lines) < _FEW:
        return
    separator = _separator(lines)
    rows, most = [_split(line, separator) for line in lines], 0.5 * len(lines)
    names = {cell.casefold() for cell in rows[0]}
    if given.sentence is not None or (names & {*_WORDS} and names & {*_TAGS}):
        return
    even = sum(len(row) == len(rows[0]) for row in rows) >= most
    blanks = sum(" " in row[0] or " " in row[-1] for row in rows) > most
    content = content_of(head)
    kind = "" if content is None else content.kind
    ends = {row[-1] for row in rows}
    texts = kind == "sentences" and (sum(line.endswith(_STOPS) for line in lines) > most or len(ends) > max(50, most))
    dense = (len(head.lines) - len(head.filled)) * 100 < len(lines)  # without blank lines, which end sentences
    texts |= kind == "labelled" and given.word in (None, 0) and dense and len(rows[0]) > 2
    alone = all(len(row) == 1 for row in rows)
    if kind == "tagged" or (even and not blanks and not texts and not alone):
        return
    why = "its lines have different numbers of words" if content is None else content.why
    why = "its lines have one column" if alone and kind != "rows" else why
    what = f"{why}; expected one word a line, with its tag in another column"
    raise DataError(f"'{head.path}': {what}{advice(kind or ('' if even else 'sentences'), head.path)}")
