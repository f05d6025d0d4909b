"""Readers of conversations; errors name file and line.

| given | read as |
|---|---|
| .jsonl, .json | objects, a line each or in an array: a list of turns, each a text or an object with text, speaker |
| anything else | one conversation a line, its turns separated by `__eou__`, tabs or `data.separator` |
| anything else, `data.separator` "" | one turn a line, with an empty line between conversations |

Files may be compressed (.gz, .xz). Line breaks inside a turn become spaces; blank turns are left out and counted. If
turns are not separated by tabs and a line has tabs, its first column contains the conversation.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import groupby, islice
from pathlib import Path
from typing import Any

from heed.data.columns import Column
from heed.data.examples import Conversation, is_empty
from heed.data.findings import BadLine, Findings
from heed.data.readers import PythonExamples, Reader
from heed.data.tables import Head, Items, JsonTable, Row, characters_of, described, has_items
from heed.data.text_files import ending_of
from heed.errors import DataError, suggest

TURNS_NAMES = ("turns", "messages", "conversation", "conversations", "dialogue", "dialog", "utterances", "log")
"""Usual names of the field with the turns, most reliable first."""
TEXT_NAMES = ("text", "utterance", "content", "value", "message", "transcript")
"""Usual names of the field of a turn with its text."""
SPEAKER_NAMES = ("speaker", "role", "from", "author", "agent", "name", "user")
"""Usual names of the field of a turn with its speaker."""
END_OF_UTTERANCE = "__eou__"
"""Separator of turns in DailyDialog and sets made from it."""
_SHAPES = '{"turns": ["...", "..."]} or {"turns": [{"speaker": "...", "text": "..."}, ...]}'


def conversation_reader(data: Any, again: bool = False) -> Reader[Conversation]:
    """The reader of conversations for a `data` section, which reads only `data.first` of a split, unless `again`."""
    lists = ((getattr(data, split), getattr(data.first, split)) for split in ("valid", "test", "train"))
    counts = {tuple(files): count for files, count in lists if isinstance(files, list)}

    def read(files: Sequence[str], findings: Findings) -> Iterator[Conversation]:
        count = None if again else counts.get(tuple(files))
        if count is not None:
            findings.remark(f"only the first {count:,} conversations are read (data.first)")
        return islice(read_conversations(files, data, findings), count)

    return Reader(Conversation, read)


def read_conversations(
    files: Sequence[str | Path], data: Any, findings: Findings | None = None
) -> Iterator[Conversation]:
    """Read conversations, those of one turn and of none included; bad lines are errors without `findings`.

    A `data` section gives their format, as far as it is not recognised.

    Raises:
        DataError: A file is missing, empty, cut off, not text, or changes while it is read; a line is bad and not
            skipped; or the separator of turns is neither given nor recognised.
    """
    findings = Findings() if findings is None else findings
    columns = data.columns
    for path in map(Path, files):
        if ending_of(path) in (".jsonl", ".json"):
            yield from JsonTable(path, findings).usable(partial(conversation_of, columns=columns))
        elif (separator := _separator(path, findings) if data.separator is None else data.separator) == "":
            yield from _paragraphs(path, findings)
        else:
            yield from _lines(path, columns.turns, separator, findings)


def conversation_of(row: Row, columns: Any, where: str = "") -> Conversation | None:
    """The conversation in a row, from JSON or Python: an object with a list of turns, or the list itself.

    Messages call it `where`, by default as the row.

    Raises:
        DataError: It is not a conversation.
        BadLine: As before, and bad lines are skipped.
    """
    value, where = row.object(), where or row.where
    if isinstance(value, Conversation) or (row.blank and isinstance(row.table, JsonTable)):
        return value  # type: ignore[no-any-return]  # None for a blank line
    if isinstance(value, Mapping):
        lists = [name for name, cell in value.items() if isinstance(cell, list | tuple)]
        usual = [*(name for name in TURNS_NAMES if name in lists), *(lists if len(lists) == 1 else TURNS_NAMES)]
        name = _field(value, columns.turns, usual)
        if name is None:
            raise row.bad("no list of turns", f"{where} has {_no_field(value, columns, 'turns')}; expected {_SHAPES}")
        value, where = value[name], f"{where}: field '{name}'"
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise row.bad("no list of turns", f"{where} is {described(value)}, expected a list of turns")
    turns = []
    for n, turn in enumerate(value):
        text, speaker = _turn_of(turn, columns, f"{where}[{n}]", row.bad)
        turns.append((characters_of(text, f"{where}[{n}]", row.bad, partial(row.note, unit="turn")), speaker))
    first = value[0] if isinstance(row.table, JsonTable) and value else None
    if isinstance(first, Mapping) and _field(first, columns.speaker, SPEAKER_NAMES) is None:
        of_text = _field(first, columns.text, TEXT_NAMES)
        others = ", ".join(repr(name) for name, cell in first.items() if name != of_text and isinstance(cell, str))
        if others:
            row.table.findings.remark(
                f"{row.table.name}: no field of the turns has a usual name for the speaker (other fields: {others}); "
                "if one of these is the speaker, set data.columns.speaker to its name"
            )
    return _conversation(turns, row)


def _conversation(turns: Iterable[tuple[str, str]], row: Row) -> Conversation:
    """The conversation of turns with their speakers, without the blank ones, which are counted."""
    every = [(" ".join(text.split()), speaker) for text, speaker in turns]
    filled = [turn for turn in every if not is_empty(turn[0])]
    if len(filled) < len(every):
        row.note("blank turns, left out", "turn", len(every) - len(filled))
    speakers = tuple(speaker for _, speaker in filled)
    return Conversation(tuple(text for text, _ in filled), speakers if any(speakers) else (), row.origin)


def object_of(conversation: Conversation, columns: Any) -> dict[str, Any]:
    """A conversation as a JSON object; inverse of `conversation_of`."""
    turns = columns.turns if isinstance(columns.turns, str) else "turns"
    if not conversation.speakers:
        return {turns: list(conversation.turns)}
    pairs = zip(conversation.speakers, conversation.turns, strict=True)
    return {turns: [{columns.speaker or "speaker": who, columns.text or "text": text} for who, text in pairs]}


def _field(fields: Mapping[str, Any], column: Column, usual: Iterable[str]) -> str | None:
    """The name of a field of an object: that of `column`, else the first usual one; None if it has none of them."""
    return next((name for name in ((column,) if isinstance(column, str) else usual) if name in fields), None)


def _no_field(values: Mapping[str, Any], columns: Any, part: str) -> str:
    """Message about the missing field of an object for a part of a conversation."""
    if isinstance(column := getattr(columns, part), str):
        return f"no field '{column}'{suggest(column, values)}"
    fields = f"(fields: {', '.join(map(repr, values)) or 'none'}); set data.columns.{part} to the name of its field"
    return f"no field with a usual name for the {part} {fields}"


def _turn_of(turn: Any, columns: Any, where: str, bad: Callable[[str, str], BadLine]) -> tuple[str, str]:
    """The text and the speaker of a turn."""
    if isinstance(turn, str):
        return turn, ""
    if not isinstance(turn, Mapping):
        raise bad("a turn is not text", f"{where} is {described(turn)}, expected a text or an object")
    text, speaker = _field(turn, columns.text, TEXT_NAMES), _field(turn, columns.speaker, SPEAKER_NAMES)
    if text is None:
        raise bad("a turn without text", f"{where} has {_no_field(turn, columns, 'text')}")
    if speaker is None and columns.speaker is not None:
        raise bad("a turn without speaker", f"{where} has {_no_field(turn, columns, 'speaker')}")
    if not isinstance(turn[text], str):
        raise bad("a turn is not text", f"{where}: field '{text}' is {described(turn[text])}, expected text")
    who = None if speaker is None else turn[speaker]
    return turn[text], "" if who is None else " ".join(str(who).split())


def _lines(path: Path, turns: Column, separator: str, findings: Findings) -> Iterator[Conversation]:
    """A conversation in each line, or in a column of each."""
    column = 0 if turns is None else turns
    if isinstance(column, str):
        raise DataError(
            f"data.columns.turns is '{column}', but '{path.name}' is a text file, whose columns are numbered from 0; "
            "only fields of JSON lines (.jsonl) have names"
        )

    def conversation(row: Row) -> Conversation | None:
        line = row.object()
        if not line.strip():
            return None
        if separator != "\t" and "\t" in line:
            cells = line.split("\t")
            if not column < len(cells):
                message = f"{row.where} has {len(cells)} columns, so data.columns.turns cannot be {column}"
                raise row.bad(f"no column {column}", message)
            findings.remark(f"{path.name}: column {column} (counted from 0) contains the turns")
            line = cells[column]
        return _conversation(((turn, "") for turn in line.split(separator) if turn.strip()), row)

    return Items.lines(path, findings).usable(conversation)


def _separator(path: Path, findings: Findings) -> str:
    """The separator of turns, recognised from the first lines of a file.

    Raises:
        DataError: They contain no known separator.
    """
    lines = Head.of(path, findings).filled
    for separator in (END_OF_UTTERANCE, "\t"):
        if any(separator in line for line in lines):
            return separator
    if not lines:  # missing or empty: reading the file reports it
        return "\t"
    raise DataError(
        f"'{path}' has neither {END_OF_UTTERANCE} nor a tab between turns (its first line: {lines[0]!r:.50}); set "
        "data.separator to the text between turns; use 'data.separator=\"\"' for one turn a line and an empty line "
        "between conversations; or give JSON lines (.jsonl) with a list of turns"
    )


def _paragraphs(path: Path, findings: Findings) -> Iterator[Conversation]:
    """A turn in each line; an empty line ends a conversation."""
    usable = Items.lines(path, findings).usable(lambda row: (row.origin, row.object()))
    for filled, group in groupby(usable, key=lambda line: bool(line[1].strip())):
        (origin, _), *_ = lines = list(group)
        if filled:
            yield Conversation(tuple(" ".join(line.split()) for _, line in lines), (), origin)


def conversations_from_python(data: Any, split: str, columns: Any, findings: Findings) -> PythonExamples[Conversation]:
    """Conversations passed in Python, each a list of turns, a dict as in JSON lines, or a `Conversation`.

    Raises:
        DataError: An item is not a conversation; the message names its position.
    """
    if isinstance(data, str | bytes | Mapping) or not has_items(data):
        raise DataError(f"{split} is {described(data)}, expected a list of conversations, each a list of turns")
    items = Items(data, findings, "", f"{split}[", "]")
    return PythonExamples(items.usable(partial(conversation_of, columns=columns)), findings)
