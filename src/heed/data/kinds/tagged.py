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
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from itertools import chain, groupby, pairwise
from pathlib import Path
from typing import Any, NamedTuple

from heed.data.columns import Column, Facts, has_header, is_regular, python_value, shown
from heed.data.examples import OUTSIDE, Sentence, is_entity_tag
from heed.data.findings import BadLine, Findings
from heed.data.kinds.contents import CONLL_U, Advice, are_conll_u, content_of, no_advice
from heed.data.readers import Reader
from heed.data.tables import SEPARATORS, Field, Head, JsonTable, Row, Table, characters_of, described, is_list
from heed.data.text_files import MARK, MARKED, ending_of, lines_of
from heed.data.tokens import split_words
from heed.errors import DataError, counted, nearest, whole_number

Entity = tuple[str, int, int]
"""Type, first word, word after the last."""

_SCHEMES = {"bio": tuple("BBII"), "io": tuple("IIII"), "iob1": tuple("IIII"), "bioes": tuple("SBIE")}
"""The letters of a word that is an entity, and of the first, the middle and the last ones of a longer entity."""
_SAME = {"L": "E", "U": "S", "M": "I"}
"""BILOU and BMEWO letters for those of BIOES."""


@lru_cache(maxsize=1_000)
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
    parts = [*map(_parts, tags)]
    starts = [
        n
        for n, ((before, kind_before), (letter, kind)) in enumerate(pairwise([(OUTSIDE, ""), *parts]))
        if letter in "BS" or (letter != OUTSIDE and (before in "OES" or kind != kind_before))
    ]
    outside = [n for n, (letter, _) in enumerate(parts) if letter == OUTSIDE]
    ends = dict(pairwise(sorted({*starts, *outside, len(parts)})))  # each at the next start, O or the end
    return [(parts[n][1], n, ends[n]) for n in starts]


def may_follow(before: str | None, tag: str) -> bool:
    """True if BIO allows a tag after `before` (None: at the start of a sentence): I only inside its entity."""
    letter, kind = _parts(tag)
    return not (letter == "I" and is_entity_tag(tag)) or before in (f"B-{kind}", f"I-{kind}")


def write_tags(entities: Iterable[Entity], length: int, scheme: str = "bio") -> list[str]:
    """The tags of entities, in the order of their words, in a scheme: bio, iob1, io or bioes."""
    tags = [OUTSIDE] * length
    for kind, start, end in entities:
        touches = scheme == "iob1" and start > 0 and tags[start - 1][2:] == kind
        single, first, middle, last = _SCHEMES["bio" if touches else scheme]
        letters = [single] if end - start == 1 else [first, *[middle] * (end - start - 2), last]
        tags[start:end] = [f"{letter}-{kind}" for letter in letters]
    return tags


def _is_written_in(scheme: str, tags: Sequence[str], entities: Sequence[Entity]) -> bool:
    """True if these are the tags of their entities in a scheme."""
    return [*map(_parts, write_tags(entities, len(tags), scheme))] == [*map(_parts, tags)]


def find_scheme(sentences: Iterable[Sequence[str]]) -> str:
    """The scheme in which most sentences are written: bio, io, iob1 or bioes; plain if no tag marks an entity."""
    fitting: Counter[str] = Counter()
    for tags, count in Counter(map(tuple, sentences)).items():
        if any(map(is_entity_tag, tags)):
            present = entities(tags)
            fitting.update({scheme: count * _is_written_in(scheme, tags, present) for scheme in _SCHEMES})
    return max(_SCHEMES, key=lambda scheme: fitting[scheme]) if fitting else "plain"


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
_USUAL = {"word": _WORDS, "label": _TAGS, "sentence": _SENTENCES}
"""Usual names of columns, in lower case, most reliable first."""
_AGAIN = "the name of an earlier sentence, read as another sentence"


class _Located(NamedTuple):
    """A sentence as it was read; `at` gives the row of its tag n and the tag's place in messages."""

    sentence: Sentence
    at: Callable[[int], tuple[Row, str]]


def _remark(word: str, columns: Mapping[str, int | str]) -> str:
    return f"{word}s: " + ", ".join(f"{field} is {shown(column)}" for field, column in columns.items())


def _field(table: Table, field: str, columns: Any, usual: Sequence[str]) -> Field:
    """A field with its usual names as the table spells them."""
    names = [name for usual_name in usual for name in table.names if name.casefold() == usual_name]
    return Field(field, getattr(columns, field), names)


class ColumnFile(Table):
    """A file with a word in each line, as a table whose rows are blank between sentences.

    Lines of CoNLL-U that are no words of their sentence are no rows. Without a `separator`, spaces separate columns.
    """

    plain = True

    def __init__(self, path: Path, findings: Findings | None = None) -> None:
        """Read a file; bad lines are errors without `findings`.

        Raises:
            DataError: The file cannot be read or contains no word, or a line is bad (for example, has another number
                of columns than the lines before it) and not skipped.
        """
        super().__init__(Findings() if findings is None else findings, path)
        read = list(lines_of(path, self.findings))
        self.lines = [line.text if isinstance(line, BadLine) else line for line in read]
        candidates = [s for s in read if isinstance(s, str) and s.strip() and not s.startswith("-DOCSTART-")]
        filled = [line for line in candidates if not line.startswith("#")] or candidates
        if not filled:
            raise DataError(f"'{path}' contains no words; expected one word a line, with its tag in another column")
        self.separator = _separator(filled)
        self.is_csv = self.separator in (",", ";")
        self.width = len(first := _split(filled[0], self.separator))
        self.is_conll_u = are_conll_u([first])
        self._rows = list[Row]()
        for number, line in enumerate(read, start=1):
            row = Row(self, number, line)
            if isinstance(line, BadLine) or self._read(row, line):
                self._rows.append(row)

    def _read(self, row: Row, line: str) -> bool:
        """Set the cells of a row; False if it is none."""
        row.cells = cells = _split(line, self.separator)
        comment = line.startswith("#") and len(cells) != self.width and not (self._rows and self._rows[-1].cells)
        if not any(cells) or cells[0] == "-DOCSTART-" or comment:
            row.cells = None
        elif len(cells) != self.width:
            has = f"{counted(len(cells), 'column')} ({line[:60]!r})"
            expected = f"{self.width}, separated by {SEPARATORS.get(self.separator or '', 'spaces')}"
            message = f"{row.where} has {has}, but the lines before it have {expected}"
            row.cells = row.bad("different number of columns", message)
        elif self.is_conll_u and not cells[0].isdigit():
            row.note("multiword token or empty node, left out")
            return False
        return True

    def rows(self) -> Iterator[Row]:
        return iter(self._rows)

    def facts(self, labels: object = (), specified: object = ()) -> list[Facts]:
        rows = [*([self.names] if self.header else []), *(row.cells for row in self.words[:_JUDGED])]
        columns = enumerate(zip(*rows, strict=True))
        return [replace(Facts.of(n, cells), first=tuple(dict.fromkeys(cells))) for n, cells in columns]

    @property
    def words(self) -> list[Row]:
        """The rows that are words."""
        return [row for row in self._rows if isinstance(row.cells, list)]

    def written(self, cells: Sequence[str]) -> str:
        """A line of the file with these cells."""
        if not self.is_csv:
            return (self.separator or ("\t" if self.width == 1 else " ")).join(cells)
        line = io.StringIO()
        csv.writer(line, delimiter=str(self.separator), lineterminator="").writerow(cells)
        return line.getvalue()

    def choose_columns(self, specified: Any, tagged: bool = True) -> None:
        """Set the columns of word, label (unless the file is not `tagged`) and sentence (if there is one), by number.

        Raises:
            DataError: The file lacks a column, or which one is meant is unclear; or the column of words numbers them,
                or the last one, the tags by default, contains none. The message lists the columns.
        """
        if not self.words:
            return  # reading the rows reports what is wrong
        first, *others = self.words
        rows, by_default = [row.cells for row in others], self.is_conll_u or specified.label in (None, -1)
        gaps = self.is_conll_u or any(row.blank for row in self._rows[self._rows.index(first) :])
        if self.is_conll_u:
            self.names = CONLL_U
        elif self._is_header(first.cells, rows, specified):
            first.note(f"a header ({' | '.join(first.cells)[:40]}), left out")
            self.names, first.cells = first.cells, None
        self.header = bool(self.names)
        columns = {field: place for field in _USUAL if (place := self._place(field, specified, tagged)) is not None}
        unused = [n for n in range(self.width) if n not in columns.values()]
        if "sentence" not in columns and not gaps:
            candidates = unused if self.header or "label" in columns else unused[:-1]
            ids = [n for n in candidates if self.width > 2 and _are_ids([row[n] for row in rows])]
            if len(ids) == 1:
                columns["sentence"] = ids[0]
                unused.remove(ids[0])
            elif tagged and self.is_csv and len(rows) >= _FEW:
                why = "no blank line ends a sentence, and which column numbers the sentences is unclear"
                self._refuse(why, "sentence")
        lacks_tags = not tagged and specified.label in (self.width, -1 - self.width)
        open_ = [field for field in ("word", "label") if field not in columns and not (lacks_tags and field == "label")]
        if open_ and ((self.header and len(unused) > 1) or (tagged and len(unused) < len(open_))):
            self._refuse(f"the {open_[-1]} column is unclear", *open_)
        columns |= {field: unused[-1 if field == "label" else 0] for field in open_[: len(unused)]}
        if tagged:
            read = [row.cells for row in self.words]
            tags = {row[columns["label"]] for row in read}
            self._refuse_odd([row[columns["word"]] for row in read], tags, by_default)
        elif columns.get("label") == columns.get("word"):
            columns.pop("label", None)
        self.columns = {field: columns[field] for field in _USUAL if field in columns}
        if self.is_conll_u and tagged:
            word, label = (CONLL_U[columns[field]].upper() for field in ("word", "label"))
            self.findings.remark(f"CoNLL-U: the words are {word}, the tags {label}")
        elif self.header or columns.get("sentence") != specified.sentence:
            shown_columns = {field: self.names[place] if self.header else place for field, place in columns.items()}
            self.findings.remark(_remark(self.column_word, shown_columns))

    def _place(self, field: str, specified: Any, tagged: bool) -> int | None:
        """The number of the column of a field that is given or named as usual."""
        names, column = [name.casefold() for name in self.names], getattr(specified, field)
        if self.is_conll_u and (field, column) in (("word", 0), ("label", -1)):
            column = None  # numbers that were the defaults
        usual = _USUAL[field] if column is None else [column.casefold()] if isinstance(column, str) else ()
        place = next((names.index(name) for name in usual if name in names), column)
        if not tagged and field == "label" and place in (self.width, -1 - self.width):
            return None  # the file lacks the tags
        if isinstance(place, str) or (isinstance(place, int) and not -self.width <= place < self.width):
            hint = nearest(place, self.names) if isinstance(place, str) else ""
            self._refuse(f"data.columns.{field} cannot be {place}{hint}", field)
        return None if place is None else place % self.width

    def _refuse(self, why: str, *fields: str) -> None:
        """Refuse the columns of fields; the message lists all columns."""
        without_column = [Field(field, usual=["\n"]) for field in fields]  # a name that no column has
        self.choose(without_column, lambda *_: why, minimum_rows=0)

    def _is_header(self, names: list[str], cells: list[list[str]], specified: Any) -> bool:
        """True if the first line names the columns, the others of which have these cells."""
        lowered = [name.casefold() for name in names]
        usual = _WORDS, _TAGS
        word, label = (next((lowered.index(name) for name in each if name in lowered), -1) for each in usual)
        named = word not in (-1, label % self.width) and all(row[label] != names[label] for row in cells)
        by_name = any(isinstance(column, str) for column in (specified.word, specified.label, specified.sentence))
        return by_name or named or (self.is_csv and has_header([names, *cells[:_JUDGED]]))

    def _refuse_odd(self, words: list[str], tags: set[str], last: bool) -> None:
        """Refuse words that are numbers, and tags of a `last` column, taken by default, that are one or only marks."""
        if self.width > 2 and len(words) > 2 and all(map(str.isdecimal, words)):
            self._refuse("the words are numbers", "word")
        is_odd = len(tags) == 1 or not any(map(str.isalnum, "".join(tags)))
        if last and tags != {OUTSIDE} and is_odd and (tags == {""} or (self.width > 2 and len(words) >= _FEW)):
            self._refuse(f"the last column contains only {' and '.join(sorted(tags)) or 'blanks'}", "label")


def _are_ids(cells: Sequence[str]) -> bool:
    """True if cells number sentences of several words: equal ones, and the blank ones after them, are neighbours."""
    runs = [cell for cell, _ in groupby(filter(None, cells))]
    return len(cells) >= 2 * len(runs) > 2 and len({*runs}) == len(runs) and all(re.search(r"\d", run) for run in runs)


def _split(line: str, separator: str | None) -> list[str]:
    if separator is None:
        return line.split()
    if separator == "\t" or '"' not in line:
        return [cell.strip() for cell in line.split(separator)]
    return [cell.strip() for cell in next(csv.reader([line], delimiter=separator), [])]


def _separator(lines: Sequence[str]) -> str | None:
    """The separator of the columns; None for spaces."""
    if "\t" in lines[0]:
        return "\t"
    by_spaces = [line.split() for line in lines[:_JUDGED]]
    wide = len(by_spaces[0]) if is_regular(by_spaces) else 0
    for separator in (",", ";"):
        rows = [_split(line, separator) for line in lines[:_JUDGED]]
        inside = any(" " in cell for row in rows for cell in row)  # as in "a;b T", a word and its tag
        if is_regular(rows) and all(rows[0]) and (len(rows[0]) > wide or not inside):
            return separator
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
    read: list[_Located] = []
    for path in map(Path, files):
        head = Head.of(path, findings)
        if ending_of(path) in (".jsonl", ".json") or 2 * len(head.objects) > len(head.filled):
            read += _of_table(JsonTable(path, findings), data)
        else:
            _refuse_texts(head, data.columns, advice)
            read += _of_table(ColumnFile(path, findings), data)
    return _in_bio(read, data.scheme, findings)


def _of_table(table: Table, data: Any) -> Iterable[_Located]:
    """The sentences of a table whose rows are words or sentences."""
    if isinstance(table, ColumnFile):
        table.choose_columns(data.columns)
    else:
        _choose(table, data.columns)
    if isinstance(table, ColumnFile) or "sentence" in table.columns:
        return table.findings.usable(by_sentence(table), partial(_of_words, data=data))
    return table.usable(partial(_of_row, data=data))


def _choose(table: Table, specified: Any) -> None:
    """Set the columns of words and tags, or of a text and its entities; and of sentences, if each row is a word.

    Raises:
        DataError: Which column is which is unclear; the message lists the columns.
    """
    usual = (_WORDS, _TAGS), (_TEXTS, (*_SPANS, *_TAGS))
    field = partial(_field, table, columns=specified)
    pairs = [(field("word", usual=words), field("label", usual=tags)) for words, tags in usual]
    fields = next((pair for pair in pairs if all(field.usual for field in pair)), pairs[0])

    def recognise(facts: object, columns: Mapping[str, Column]) -> str:
        return f"the {next(field for field, column in columns.items() if column is None)} column is unclear"

    table.choose(fields, recognise, minimum_rows=1)
    columns, first = table.columns, table.first
    values = [first[column] for column in map(str, columns.values()) if column in first]
    if len(values) == len(columns) and not any(map(is_list, values)):
        why = "each row is a word, and which column numbers the sentences is unclear"
        table.choose([_field(table, "sentence", specified, _SENTENCES)], lambda *_: why, minimum_rows=1)
        table.columns = columns | table.columns
    if first:
        table.findings.remark(_remark(table.column_word, table.columns))


def by_sentence(table: Table) -> Iterator[list[Row]]:
    """The rows of each sentence of a table whose rows are words."""
    rows, current, seen = list[Row](), "", set[str]()
    for row in chain(table.rows(), [Row(table, 0, None)]):
        is_named = "sentence" in table.columns and not row.blank and not isinstance(row.cells, BadLine)
        value = python_value(row.value("sentence")) if is_named else None
        name = current if value in (None, "") else str(value)
        if rows and (row.blank or name != current):
            yield rows
            rows = []
        if name != current and name in seen:
            row.note(_AGAIN)
        current = name
        seen.add(name)
        if not row.blank:
            rows.append(row)


def _cell(row: Row, field: str) -> str:
    value = row.value(field)
    if row.table.plain and isinstance(value, str):
        return value
    value = python_value(value)
    return "" if value is None else characters_of(str(value), row.where, row.bad, row.note)


def _of_words(rows: list[Row], data: Any) -> _Located:
    """The sentence whose words are rows."""
    words, tags, table = [], [], rows[0].table
    numbered = not isinstance(table, ColumnFile) or table.is_csv
    for row in rows:
        word, tag = _cell(row, "word"), _cell(row, "label")
        if not tag:
            raise row.bad("empty tag", f"{row.where}: the tag is empty (of the word {word!r})")
        if not word:
            row.note("empty word, read as an unknown word")
        words.append(word)
        is_number = tag.isdecimal() and (numbered or data.tag_names)
        tags.append(_tag(whole_number(tag), data, row.where, row.bad) if is_number else tag)
    return _Located(Sentence(tuple(words), tuple(tags), origin=rows[0].origin), lambda n: (rows[n], rows[n].where))


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


def _of_row(row: Row, data: Any) -> _Located | None:
    """The sentence in a row: lists of words and tags, or a text and its entities; None for a blank line."""
    words, tags = row.value("word"), row.value("label")
    if row.blank:
        return None
    if isinstance(words, str) and is_list(tags):
        words, tags = _with_entities(row, words, tags, data)
    lists = {"word": words, "tag": tags}
    for name, values in lists.items():
        if not is_list(values):
            message = f"{row.where}: the {name}s are {described(values)}, expected a list of texts, one for each word"
            raise row.bad(f"no list of {name}s", message)
    if len(words) != len(tags):
        counts = " and ".join(counted(len(values), name) for name, values in lists.items())
        raise row.bad("different numbers of words and tags", f"{row.where} has {counts}; each word needs one tag")
    read: dict[str, list[str]] = {"word": [], "tag": []}
    for name, values in lists.items():
        for number, value in enumerate(map(python_value, values)):
            where = f"{row.where}: {name} {number}"
            value = _tag(value, data, where, row.bad) if name == "tag" else value
            if not isinstance(value, str):
                raise row.bad("not text", f"{where} is {described(value)}, expected text")
            read[name].append(characters_of(value, where, row.bad, row.note))
    sentence = Sentence(tuple(read["word"]), tuple(read["tag"]), origin=row.origin)
    return _Located(sentence, lambda n: (row, f"{row.where}: tag {n}"))


def _with_entities(row: Row, text: str, spans: Any, data: Any) -> tuple[list[str], list[str]]:
    """The words of a text, and their tags in BIO for entities given as spans of characters."""
    if MARK in text:
        row.note(MARKED)
    text = text.replace(MARK, " ")  # spans stay where they are
    places, entities = split_words(text), list[Entity]()
    for span in spans:
        is_object = isinstance(span, dict)
        parts = [next((span[key] for key in keys if key in span), None) for keys in _SPAN] if is_object else span
        start, end, kind = parts if is_list(parts) and len(parts) == 3 else (None, None, None)
        if not isinstance(start, int) or not isinstance(end, int) or not isinstance(kind, str | int):
            expected = "expected [start, end, type] in characters of the text"
            raise row.bad("an entity is no span", f"{row.where}: an entity is {described(span)}, {expected}")
        inside = [n for n, (first, last) in enumerate(places) if first < end and last > start]
        what = f"{row.where}: the entity {span!r:.60} ({text[max(start, 0) : end]!r:.40})"
        if not inside or start < 0 or end > len(text):
            raise row.bad("an entity without words", f"{what} has no words in a text of {len(text)} characters")
        if cut := [text[a:b] for a, b in map(places.__getitem__, inside) if a < start or b > end]:
            raise row.bad("an entity cuts a word", f"{what} cuts the word {cut[0]!r}; expected whole words")
        entities.append((str(_tag(kind, data, what, row.bad)), inside[0], inside[-1] + 1))
    entities.sort(key=lambda entity: entity[1])
    for (_, _, end), (kind, start, _) in pairwise(entities):
        if start < end:
            word = text[slice(*places[start])]
            raise row.bad("entities overlap", f"{row.where}: the entity {kind!r} overlaps another in the word {word!r}")
    return [text[start:end] for start, end in places], write_tags(entities, len(places))


def _in_bio(read: Iterable[_Located], scheme: str, findings: Findings) -> list[Sentence]:
    """Sentences with entity tags converted to BIO, from a scheme or, if it is auto, the one that the tags have."""
    every = list(read)
    used = find_scheme(item.sentence.tags for item in every) if scheme == "auto" else scheme

    def in_bio(item: _Located) -> Sentence:
        tags = item.sentence.tags
        for n, tag in enumerate(tags):
            if tag != OUTSIDE and not is_entity_tag(tag):
                row, where = item.at(n)
                message = f"{where}: '{tag}' is not an entity tag; expected O, or B-, I-, E- or S- followed by a type"
                hint = "(data.scheme=plain uses any tags; data.columns.label selects the column of tags)"
                raise row.bad("illegal tag", f"{message} {hint}")
        present = entities(tags)
        if not _is_written_in(used, tags, present):
            row, _ = item.at(0)
            what = f"tags that {used.upper()} does not allow, read as in seqeval (a new type begins an entity)"
            findings.note(what, row.table.path, row.table.place(row.number), unit="sentence")
        return replace(item.sentence, tags=tuple(write_tags(present, len(tags))))

    if used != "plain":
        result = list(findings.usable(every, in_bio))
        if used != "bio":
            findings.remark(f"tags read as {used.upper()} and written as BIO")
        return result
    if scheme == "auto":
        prefixes = "the tags have no prefixes such as B- or I-"
        findings.remark(f"{prefixes}, so scores are of single words, not of whole entities")
    return [item.sentence for item in every]


def _refuse_texts(head: Head, columns: Any, advice: Advice) -> None:
    """Refuse a file of texts, whose lines have any number of words."""
    lines = [line for line in head.filled if not line.startswith(("#", "-DOCSTART-"))]
    if len(lines) < _FEW:
        return
    separator = _separator(lines)
    rows, half = [_split(line, separator) for line in lines], 0.5 * len(lines)
    names = {cell.casefold() for cell in rows[0]}
    if columns.sentence is not None or (names & {*_WORDS} and names & {*_TAGS}):
        return
    even = sum(len(row) == len(rows[0]) for row in rows) >= half
    blanks = sum(" " in row[0] or " " in row[-1] for row in rows) > half
    content = content_of(head)
    kind = "" if content is None else content.kind
    ends = {row[-1] for row in rows}
    texts = kind == "sentences" and (sum(line.endswith(_STOPS) for line in lines) > half or len(ends) > max(50, half))
    dense = (len(head.lines) - len(head.filled)) * 100 < len(lines)  # without blank lines, which end sentences
    texts |= kind == "labelled" and columns.word in (None, 0) and dense and len(rows[0]) > 2
    alone = all(len(row) == 1 for row in rows)
    if kind == "tagged" or (even and not blanks and not texts and not alone):
        return
    why = "its lines have different numbers of words" if content is None else content.why
    why = "its lines have one column" if alone and kind != "rows" else why
    what = f"{why}; expected one word a line, with its tag in another column"
    raise DataError(f"'{head.path}': {what}{advice(kind or ('' if even else 'sentences'), head.path)}")
