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
from itertools import chain, islice
from pathlib import Path
from typing import Any

from heed.data.columns import Column
from heed.data.examples import Conversation, is_empty
from heed.data.findings import BadLine, Findings
from heed.data.readers import Held, Reader
from heed.data.tables import Head, JsonTable, Row, characters_of, described, has_items
from heed.data.text_files import ending_of, lines_of, unless_bad
from heed.errors import DataError, suggest

TURNS_NAMES = ("turns", "messages", "conversation", "conversations", "dialogue", "dialog", "utterances", "log")
"""Usual names of the field with the turns, most reliable first."""
TEXT_NAMES = ("text", "utterance", "content", "value", "message", "transcript")
"""Usual names of the field of a turn with its text."""
SPEAKER_NAMES = ("speaker", "role", "from", "author", "agent", "name", "user")
"""Usual names of the field of a turn with its speaker."""
END_OF_UTTERANCE = "__eou__"
"""Separator of turns in DailyDialog and sets made from it."""
_BLANK_TURNS = "blank turns, left out"
_SHAPES = '{"turns": ["...", "..."]} or {"turns": [{"speaker": "...", "text": "..."}, ...]}'


def conversation_reader(data: Any) -> Reader[Conversation]:
    """The reader of conversations for a `data` section, which reads only `data.first` of a split."""
    lists = ((getattr(data, split), getattr(data.first, split)) for split in ("valid", "test", "train"))
    most = {tuple(files): count for files, count in lists if isinstance(files, list)}

    def read(files: Sequence[str], findings: Findings) -> Iterator[Conversation]:
        count = most.get(tuple(files))
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
    for path in map(Path, files):
        if ending_of(path) in (".jsonl", ".json"):
            yield from _objects(path, data.columns, findings)
        else:
            yield from _texts(path, data.columns.turns, data.separator, findings)


def _objects(path: Path, columns: Any, findings: Findings) -> Iterator[Conversation]:
    table = JsonTable(path, findings)

    def conversation(row: Row) -> Conversation | None:
        value = row.object()
        if value is None:
            return None
        if columns.speaker is None and (others := _possible_speakers(value, columns)):
            fields = ", ".join(map(repr, others))
            findings.remark(
                f"{path.name}: no field of the turns has a usual name for the speaker (other fields: {fields}); "
                "if one of these is the speaker, set data.columns.speaker to its name"
            )
        return conversation_of(value, columns, row.where, row.origin, path, findings)

    return table.made(conversation)


def conversation_of(
    value: Any, columns: Any, where: str, origin: str, path: Path | str, findings: Findings
) -> Conversation:
    """The conversation in a value from JSON or Python: an object with a list of turns, or the list itself.

    Messages call it `where`; findings are counted under `path`, "" for none.

    Raises:
        DataError: The value is not a conversation.
        BadLine: As before, and bad lines are skipped.
    """
    place = origin.rpartition(":")[2]
    note = partial(findings.note, where=path, place=place, unit="turn")

    def bad(rule: str, message: str) -> BadLine:
        return findings.bad(rule, path, place, message)

    if isinstance(value, Mapping):
        name = _turns_field(value, columns)
        if name is None:
            raise bad("no list of turns", f"{where} has {_no_turns(value, columns)}; expected {_SHAPES}")
        value, where = value[name], f"{where}: field '{name}'"
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise bad("no list of turns", f"{where} is {described(value)}, expected a list of turns")
    turns, speakers = [], []
    for n, turn in enumerate(value):
        said, speaker = _turn_of(turn, columns, f"{where}[{n}]", bad)
        text = characters_of(" ".join(said.split()), f"{where}[{n}]", bad, note)
        if not is_empty(text):
            turns.append(text)
            speakers.append(speaker)
        else:
            note(_BLANK_TURNS)
    return Conversation(tuple(turns), tuple(speakers) if any(speakers) else (), origin)


def object_of(conversation: Conversation, columns: Any) -> dict[str, Any]:
    """A conversation as a JSON object; inverse of `conversation_of`."""
    turns = columns.turns if isinstance(columns.turns, str) else "turns"
    if not conversation.speakers:
        return {turns: list(conversation.turns)}
    pairs = zip(conversation.speakers, conversation.turns, strict=True)
    return {turns: [{columns.speaker or "speaker": who, columns.text or "text": text} for who, text in pairs]}


def _turns_field(row: Mapping[str, Any], columns: Any) -> str | None:
    if isinstance(columns.turns, str):
        return columns.turns if columns.turns in row else None
    lists = [name for name, value in row.items() if isinstance(value, list | tuple)]
    known = [name for name in TURNS_NAMES if name in lists]
    if not known and len(lists) == 1:
        return lists[0]
    return next(iter(known or [name for name in TURNS_NAMES if name in row]), None)


def _no_turns(row: Mapping[str, Any], columns: Any) -> str:
    if isinstance(columns.turns, str):
        return f"no field '{columns.turns}'{suggest(columns.turns, row)}"
    names = ", ".join(map(repr, row)) or "none"
    return f"no field with a usual name for turns (fields: {names}); set data.columns.turns to the name of its field"


def _turn_of(turn: Any, columns: Any, where: str, bad: Callable[[str, str], BadLine]) -> tuple[str, str]:
    """The text and the speaker of a turn."""
    if isinstance(turn, str):
        return turn, ""
    if not isinstance(turn, Mapping):
        raise bad("a turn is not text", f"{where} is {described(turn)}, expected a text or an object")
    text = _named(turn, columns.text, TEXT_NAMES)
    if text is None:
        wanted = "no field with a usual name for the text" if columns.text is None else f"no field '{columns.text}'"
        fields = ", ".join(map(repr, turn)) or "none"
        message = f"{where} has {wanted} (fields: {fields}); set data.columns.text to the name of its field"
        raise bad("a turn without text", message)
    speaker = _named(turn, columns.speaker, SPEAKER_NAMES)
    if speaker is None and columns.speaker is not None:
        message = f"{where} has no field '{columns.speaker}'{suggest(columns.speaker, turn)}"
        raise bad("a turn without speaker", message)
    if not isinstance(turn[text], str):
        message = f"{where}: field '{text}' is {described(turn[text])}, expected text"
        raise bad("a turn is not text", message)
    who = None if speaker is None else turn[speaker]
    return turn[text], "" if who is None else " ".join(str(who).split())


def _possible_speakers(row: Mapping[str, Any], columns: Any) -> list[str]:
    """Fields of the first turn that may hold its speaker, where none has a usual name."""
    name = _turns_field(row, columns)
    turns = row[name] if name is not None else None
    first = turns[0] if isinstance(turns, Sequence) and turns else None
    if not isinstance(first, Mapping) or _named(first, None, SPEAKER_NAMES) is not None:
        return []
    text = _named(first, columns.text, TEXT_NAMES)
    return [field for field, value in first.items() if field != text and isinstance(value, str)]


def _named(turn: Mapping[str, Any], given: str | None, names: Iterable[str]) -> str | None:
    if given is not None:
        return given if given in turn else None
    return next((name for name in names if name in turn), None)


def _texts(path: Path, turns: Column, given: str | None, findings: Findings) -> Iterator[Conversation]:
    separator = _separator(path, findings) if given is None else given
    if separator == "":
        return _paragraphs(path, findings)
    column = 0 if turns is None else turns
    if isinstance(column, str):
        raise DataError(
            f"data.columns.turns is '{column}', but '{path.name}' is a text file, whose columns are numbered from 0; "
            "only fields of JSON lines (.jsonl) have names"
        )
    number_of = f"data.columns.turns cannot be {column}"

    def conversation(numbered: tuple[int, str | BadLine]) -> Conversation | None:
        number, line = numbered[0], unless_bad(numbered[1])
        if not line.strip():
            return None
        if separator != "\t" and "\t" in line:
            cells = line.split("\t")
            if not column < len(cells):
                message = f"'{path}' line {number} has {len(cells)} columns, so {number_of}"
                raise findings.bad(f"no column {column}", path, number, message)
            findings.remark(f"{path.name}: column {column} (counted from 0) contains the turns")
            line = cells[column]
        every = [turn for turn in (" ".join(turn.split()) for turn in line.split(separator)) if turn]
        turns = tuple(turn for turn in every if not is_empty(turn))
        if len(turns) < len(every):
            findings.note(_BLANK_TURNS, path, number, unit="turn", count=len(every) - len(turns))
        return Conversation(turns, (), f"{path.name}:{number}")

    return findings.usable(enumerate(lines_of(path, findings), start=1), conversation)


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
    turns: list[str] = []
    first = 1
    for number, line in enumerate(chain(lines_of(path, findings), [""]), start=1):
        if isinstance(line, BadLine):
            findings.leave_out(line.rule)
        elif line.strip():
            first = first if turns else number
            turns.append(" ".join(line.split()))
        elif turns:
            yield Conversation(tuple(turns), (), f"{path.name}:{first}")
            turns = []


def hold_conversations(data: Any, split: str, columns: Any, findings: Findings) -> Held[Conversation]:
    """Conversations passed in Python, each a list of turns, a dict as in JSON lines, or a `Conversation`.

    Raises:
        DataError: An item is not a conversation; the message names its position.
    """
    if isinstance(data, str | bytes | Mapping) or not has_items(data):
        raise DataError(f"{split} is {described(data)}, expected a list of conversations, each a list of turns")

    def conversation(numbered: tuple[int, Any]) -> Conversation:
        origin = f"{split}[{numbered[0]}]"
        if isinstance(numbered[1], Conversation):
            return numbered[1]
        return conversation_of(numbered[1], columns, origin, origin, "", findings)

    return Held(findings.usable(enumerate(data), conversation), findings)
