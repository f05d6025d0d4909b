"""Readers of sentences with one word a line and its tag in a column (CoNLL and similar formats).

Columns are separated by tabs, or by spaces in a file without tabs. A blank line ends a sentence; so does a line whose
first column is -DOCSTART-. Lines before a sentence that begin with # and have another number of columns are comments.
CoNLL-U, the format of Universal Dependencies, is recognised by its ten columns: words are FORM and tags UPOS, unless
others are chosen; multiword tokens (2-3) and empty nodes (2.1) are left out.

Files may be compressed (.gz, .xz). Entity tags are in one of these schemes, and converted to BIO:

| scheme | an entity of one word; one of two words; two adjacent ones of the same type |
|---|---|
| bio (IOB2) | B; B I; B B |
| iob1 | I; I I; I B |
| io | I; I I; I I (they become one) |
| bioes (BILOU) | S; B E; S S |
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import count, pairwise
from pathlib import Path

from heed.config import TagOptions
from heed.data.examples import OUTSIDE, Sentence, is_entity_tag
from heed.data.findings import BadLine, Findings
from heed.data.kinds.contents import CONLL_U, Advice, are_conll_u, content_of, no_advice
from heed.data.readers import Reader
from heed.data.tables import Head
from heed.data.text_files import lines_of, unless_bad
from heed.errors import DataError, suggest

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
_WORDS = ("word", "words", "token", "tokens", "form")
"""Names of the column of words in a header."""
_NAMES = {"bio": "BIO", "iob1": "IOB1", "io": "IO", "bioes": "BIOES"}


@dataclass(frozen=True)
class ColumnFile:
    """A file in columns, separated by tabs or spaces; `rows` has the columns of each line, None between sentences.

    A line of CoNLL-U that is no word of its sentence has no columns.
    """

    path: Path
    lines: list[str]
    rows: list[list[str] | BadLine | None]
    tabs: bool
    conll_u: bool

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
        first = next((line for line in known if not line.startswith("#")), known[0] if known else None)
        if first is None:
            raise DataError(f"'{path}' contains no words; expected one word a line, with its tag in another column")
        tabs = "\t" in first
        width = len(_split(first, tabs))
        conll_u = are_conll_u([_split(first, tabs)])
        rows: list[list[str] | BadLine | None] = []
        for number, line in enumerate(read, start=1):
            if isinstance(line, BadLine):
                rows.append(line)
                continue
            row = _split(line, tabs) if line.strip() else []
            inside = bool(rows) and rows[-1] is not None
            if not row or row[0] == "-DOCSTART-" or (line.startswith("#") and len(row) != width and not inside):
                rows.append(None)
            elif len(row) == width:
                if skips := conll_u and not row[0].isdigit():
                    findings.note("multiword token or empty node, left out", path, number)
                rows.append([] if skips else row)
            else:
                message = (
                    f"'{path}' line {number} has {len(row)} column{'s' if len(row) != 1 else ''} ({line[:60]!r}), but "
                    f"the lines before it have {width}, separated by {'tabs' if tabs else 'spaces'}"
                )
                rows.append(findings.bad("different number of columns", path, number, message))
        return cls(path, lines, rows, tabs, conll_u)

    def column(self, column: int | str, field: str) -> int:
        """The column of a field, counted from 0.

        Raises:
            DataError: The file has no such column.
        """
        line, row = next((n, row) for n, row in enumerate(self.rows, start=1) if row and isinstance(row, list))
        if self.conll_u and column == (0 if field == "word" else -1):
            column = "form" if field == "word" else "upos"
        if isinstance(column, str):
            names = CONLL_U if self.conll_u else [cell.casefold() for cell in row]
            if column.casefold() in names:
                return names.index(column.casefold())
        elif -len(row) <= column < len(row):
            return column % len(row)
        has = f"'{self.path}' line {line} has {len(row)} columns ({_listed(row)}), so data.columns.{field}"
        raise DataError(f"{has} cannot be {column}{suggest(str(column), CONLL_U) if self.conll_u else ''}")

    def refuse_odd(self, word: int, label: int, last: bool) -> None:
        """Refuse a column of words that numbers them, and a `last` column (taken by default) that contains no tags.

        Raises:
            DataError: The message lists the columns and names the setting that chooses another.
        """
        rows = [row for row in self.rows if row and isinstance(row, list)]
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
            raise DataError(
                f"'{self.path}': column {place} {what}; set data.columns.{field} to the column of the "
                f"{'word' if field == 'word' else 'tag'}, one of {_listed(rows[0])}"
            )

    def leave_out_header(self, word: int, label: int, findings: Findings) -> None:
        """Leave out a first line that names the columns, and note it."""
        row, *rest = self.rows
        if not row or not isinstance(row, list) or row[word].casefold() not in _WORDS:
            return
        if all(row[label] != one[label] for one in rest if one and isinstance(one, list)):
            self.rows[0] = None
            findings.note(f"a header ({' | '.join(row)[:40]}), left out", self.path, 1)

    def sentences(self) -> Iterator[tuple[int, list[list[str] | BadLine]]]:
        """Each sentence: the number of its first line, from 1, and its rows."""
        rows: list[list[str] | BadLine] = []
        first = 1
        for number, row in enumerate([*self.rows, None], start=1):
            if row is None:
                if rows:
                    yield first, rows
                rows, first = [], number + 1
            elif row:
                rows.append(row)


def _listed(row: Sequence[str]) -> str:
    return ", ".join(f"{i} {cell!r}" for i, cell in enumerate(row))


def _split(line: str, tabs: bool) -> list[str]:
    return [cell.strip() for cell in line.split("\t")] if tabs else line.split()


def sentence_reader(data: TagOptions, advice: Advice = no_advice) -> Reader[Sentence]:
    """The reader of sentences from files in columns; `advice` names commands for other kinds of files."""
    return Reader(Sentence, lambda files, findings: read_sentences(files, data, findings, advice))


def read_sentences(
    files: Sequence[str | Path], data: TagOptions, findings: Findings | None = None, advice: Advice = no_advice
) -> list[Sentence]:
    """Read sentences from files, one after the other; entity tags are converted to BIO.

    With a bad line its whole sentence is left out; without `findings` it is an error. A first line that names columns
    is left out and noted.

    Raises:
        DataError: A file is missing, empty, cut off, not text, or changes while it is read; it contains texts, not
            words with tags; a line is bad (not UTF-8, too long, with other columns or an illegal tag) and not skipped.
            The message names file, line, field and value.
    """
    findings = Findings() if findings is None else findings
    sentences: list[Sentence] = []
    places: list[tuple[Path | str, int | str]] = []
    for path in map(Path, files):
        _refuse_texts(path, data.columns.word, findings, advice)
        file = ColumnFile.read(path, findings)
        word, label = file.column(data.columns.word, "word"), file.column(data.columns.label, "label")
        file.leave_out_header(word, label, findings)
        file.refuse_odd(word, label, file.conll_u or data.columns.label == -1)
        if file.conll_u:
            findings.remark(f"CoNLL-U: the words are {CONLL_U[word].upper()}, the tags {CONLL_U[label].upper()}")
        make = partial(_sentence, word=word, label=label, file=file, findings=findings)
        for line, sentence in findings.usable(file.sentences(), make):
            sentences.append(sentence)
            places.append((path, line))
    scheme = find_scheme(sentence.tags for sentence in sentences) if data.scheme == "auto" else data.scheme
    if scheme == "plain":
        if data.scheme == "auto":
            findings.remarks.append(
                "the tags have no prefixes such as B- or I-, so scores are of single words, not of whole entities"
            )
        return sentences
    return in_bio(sentences, places, scheme, findings)


def _refuse_texts(path: Path, word: int | str, findings: Findings, advice: Advice) -> None:
    """Refuse a file of texts, whose lines have any number of words."""
    head = Head.of(path, findings)
    lines = [line for line in head.filled if not line.startswith(("#", "-DOCSTART-"))]
    if len(lines) < _FEW:
        return
    tabs = "\t" in lines[0]
    rows, most = [_split(line, tabs) for line in lines], 0.5 * len(lines)
    even = sum(len(row) == len(rows[0]) for row in rows) >= most
    blanks = sum(" " in row[0] or " " in row[-1] for row in rows) > most
    content = content_of(head)
    kind = "" if content is None else content.kind
    ends = {row[-1] for row in rows}
    texts = kind == "sentences" and (sum(line.endswith(_STOPS) for line in lines) > most or len(ends) > max(50, most))
    dense = (len(head.lines) - len(head.filled)) * 100 < len(lines)  # without blank lines, which end sentences
    texts |= kind == "labelled" and word == 0 and dense and len(rows[0]) > 2
    json = lines[0].startswith(("{", "["))
    alone = all(len(row) == 1 for row in rows)
    if kind == "tagged" or (even and not blanks and not texts and not alone):
        return
    why = "its lines have different numbers of words" if content is None else content.why
    if alone and kind != "rows":
        why = "its lines have one column"
    what = f"{why}; expected one word a line, with its tag in another column"
    raise DataError(f"'{path}': {what}{advice(kind or ('' if even or json else 'sentences'), path)}")


def _sentence(
    found: tuple[int, list[list[str] | BadLine]], word: int, label: int, file: ColumnFile, findings: Findings
) -> tuple[int, Sentence]:
    """A sentence and the number of its first line."""
    line, rows = found[0], [unless_bad(row) for row in found[1]]
    for row, number in zip(rows, (n for n in count(line) if file.rows[n - 1]), strict=False):
        if not row[label]:
            message = f"'{file.path}' line {number}: the tag is empty ({file.lines[number - 1]!r})"
            raise findings.bad("empty tag", file.path, number, message)
        if not row[word]:
            findings.note("empty word, read as an unknown word", file.path, number)
    words, tags = tuple(row[word] for row in rows), tuple(row[label] for row in rows)
    return line, Sentence(words, tags, origin=f"{file.path.name}:{line}")


def in_bio(
    sentences: Sequence[Sentence], places: Sequence[tuple[Path | str, int | str]], scheme: str, findings: Findings
) -> list[Sentence]:
    """Sentences with entity tags of a scheme converted to BIO; `places` are file and line of each."""
    result = []
    for sentence, (path, line) in zip(sentences, places, strict=True):
        if (bad := _without_entity_tag(sentence, path, line, findings)) is not None:
            findings.leave_out(bad.rule)
            continue
        found = entities(sentence.tags)
        renamed = {tag[0] for tag in sentence.tags} & set("LUM")  # BILOU and BMEWO are not compared
        if not renamed and write_tags(found, len(sentence.tags), scheme) != list(sentence.tags):
            what = f"tags that {_NAMES[scheme]} does not allow, read as in seqeval (a new type begins an entity)"
            findings.note(what, path, line, unit="sentence")
        result.append(Sentence(sentence.words, tuple(write_tags(found, len(sentence.tags))), sentence.origin))
    if scheme != "bio":
        findings.remarks.append(f"tags read as {_NAMES[scheme]} and written as BIO")
    return result


def _without_entity_tag(sentence: Sentence, path: Path | str, line: int | str, findings: Findings) -> BadLine | None:
    for number, tag in enumerate(sentence.tags, start=line if isinstance(line, int) else 0):
        if tag != OUTSIDE and not is_entity_tag(tag):
            message = f"'{path}' line {number}: '{tag}' is not an entity tag; expected O, or B-, I-, E- or S- followed "
            message += "by a type (data.scheme=plain uses any tags; data.columns.label selects the column of tags)"
            return findings.bad("illegal tag", path, number, message)
    return None
