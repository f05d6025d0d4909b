"""Conversations: read from files and from Python, held out and compared as wholes; the embedded ones."""

import gzip
import json

import pytest

from contract import data_of
from heed.data.examples import Conversation
from heed.data.findings import Findings
from heed.data.kinds.conversations import conversation_reader, conversations_from_python, read_conversations
from heed.data.splits import open_splits
from heed.errors import DataError

SPOKEN = [{"speaker": "A", "text": "Hi there"}, {"speaker": "B", "text": "Hello"}, {"speaker": "A", "text": "Bye"}]


def section(path, **fields):
    return data_of("dialogue", **{"train": str(path), **fields})


def written(path, *lines):
    path.write_text("".join(f"{line if isinstance(line, str) else json.dumps(line)}\n" for line in lines))
    return path


@pytest.mark.parametrize(
    "line",
    [
        {"turns": SPOKEN},
        {"id": 7, "dialogue": [{"utterance": one["text"], "role": one["speaker"]} for one in SPOKEN], "acts": [1]},
        {"messages": [{"content": one["text"], "role": one["speaker"]} for one in SPOKEN]},
        {"spoken": [{"from": one["speaker"], "value": one["text"]} for one in SPOKEN], "topic": "greetings"},
    ],
    ids=["turns", "dialogue", "messages", "the only list"],
)
def test_json_lines_of_several_layouts_are_one_conversation(tmp_path, line):
    (found,) = read_conversations([path := written(tmp_path / "a.jsonl", line)], section(path))
    assert found == Conversation(("Hi there", "Hello", "Bye"), ("A", "B", "A"))
    assert found.origin == "a.jsonl:1"
    assert Conversation.from_rows(found.to_rows()) == found


def test_turns_may_be_plain_texts_and_fields_may_be_named(tmp_path):
    (found,) = read_conversations(
        [path := written(tmp_path / "a.jsonl", {"turns": ["Hi", " two\nlines ", "", "Bye"]})], section(path)
    )
    assert found == Conversation(("Hi", "two lines", "Bye"))
    path = written(tmp_path / "b.jsonl", {"a": ["x"], "b": [{"said": "Hi", "text": "no", "who": 3}]})
    columns = {"turns": "b", "text": "said", "speaker": "who"}
    (found,) = read_conversations([path], section(path, columns=columns))
    assert found == Conversation(("Hi",), ("3",))


def test_blank_turns_take_their_speaker_with_them(tmp_path):
    turns = [{"speaker": who, "text": text} for who, text in (("A", "Hi"), ("B", " "), ("C", "Bye"))]
    (found,) = read_conversations([path := written(tmp_path / "a.jsonl", {"turns": turns})], section(path))
    assert found == Conversation(("Hi", "Bye"), ("A", "C"))


@pytest.mark.parametrize(
    ("name", "lines", "fields"),
    [
        ("a.txt", ["Hi there __eou__ Hello __eou__ Bye __eou__"], {}),
        ("a.txt", ["Hi there\tHello\tBye"], {}),
        ("a.txt", ["Hi there __eou__ Hello __eou__ Bye __eou__\t3\t1 1 2"], {}),
        ("a.txt", ["3\tHi there __eou__ Hello __eou__ Bye"], {"columns": {"turns": 1}}),
        ("a.txt", ["Hi there || Hello || Bye"], {"separator": " || "}),
        ("a.txt", ["Hi there\tHello\tBye"], {"separator": r"\t"}),
        ("a.txt", ["", "Hi there", "Hello", "Bye", "", ""], {"separator": ""}),
    ],
)
def test_text_with_a_separator(tmp_path, name, lines, fields):
    path = written(tmp_path / name, *lines)
    (found,) = read_conversations([path], section(path, **fields))
    assert found == Conversation(("Hi there", "Hello", "Bye"))


def test_packed_files_and_several_paragraphs(tmp_path):
    path = tmp_path / "a.txt.gz"
    path.write_bytes(gzip.compress(b"Hi\nHello\n\n\nWho?\nMe.\n"))
    found = list(read_conversations([path], section(path, separator="")))
    assert [one.turns for one in found] == [("Hi", "Hello"), ("Who?", "Me.")]
    assert [one.origin for one in found] == ["a.txt.gz:1", "a.txt.gz:5"]


@pytest.mark.parametrize(
    ("name", "line", "fields", "message"),
    [
        ("a.txt", "Hi there. Hello.", {}, r"nor a tab between turns \(its first line: 'Hi there. Hello.'\)"),
        ("a.txt", "Hi\tHello", {"columns": {"turns": "x"}}, "data.columns.turns is 'x', but 'a.txt' is a text file"),
        (
            "a.txt",
            "1\tHi|Yes",
            {"columns": {"turns": 2}, "separator": "|"},
            "line 1 has 2 columns, so data.columns.turns",
        ),
        ("a.jsonl", {"a": ["x"], "b": ["y"]}, {}, r"line 1 has no field .* turns \(fields: 'a', 'b'\)"),
        ("a.jsonl", {"turn": ["x"]}, {"columns": {"turns": "turns"}}, "has no field 'turns'; did you mean 'turn'"),
        ("a.jsonl", {"turns": "Hi"}, {}, "field 'turns' is the text 'Hi', expected a list"),
        ("a.jsonl", {"turns": ["Hi", 3]}, {}, r"field 'turns'\[1\] is the number 3, expected a text or an object"),
        ("a.jsonl", {"turns": [{"said": "Hi"}]}, {}, r"\[0\] has no field .* the text \(fields: 'said'\)"),
        ("a.jsonl", {"turns": [{"text": 3}]}, {}, r"\[0\]: field 'text' is the number 3, expected text"),
        (
            "a.jsonl",
            {"turns": [{"text": "a", "who": "b"}]},
            {"columns": {"speaker": "whom"}},
            "no field 'whom'; did you",
        ),
        ("a.jsonl", '{"turns": [', {}, "line 1 is not JSON"),
    ],
)
def test_bad_conversations_are_named_with_file_line_and_value(tmp_path, name, line, fields, message):
    path = written(tmp_path / name, line)
    with pytest.raises(DataError, match=message):
        list(read_conversations([path], section(path, **fields)))


def test_bad_lines_may_be_left_out_and_are_counted(tmp_path):
    path = written(
        tmp_path / "a.jsonl", {"turns": ["a", "b"]}, {"turns": [1]}, {"turns": ["one"]}, {"turns": ["c", "d"]}
    )
    data = section(path, bad_lines="skip", valid=1)
    splits = open_splits(data, conversation_reader(data))
    assert len(splits.examples["train"]) == len(splits.examples["valid"]) == 1
    assert "1 left out: a turn is not text" in splits.notes
    assert "1 left out: fewer than two turns" in splits.notes
    assert "1 conversation held out for validation by a hash of the conversation" in splits.notes


def test_only_the_first_conversations_are_read_where_that_is_asked_for(tmp_path):
    path = written(tmp_path / "a.jsonl", *({"turns": [f"a{n}", f"b{n}"]} for n in range(9)), "broken")
    test = written(tmp_path / "t.jsonl", *({"turns": [f"c{n}", f"d{n}"]} for n in range(5)))
    data = section(path, test=str(test), first={"train": 6, "test": 2}, valid=2)
    splits = open_splits(data, conversation_reader(data))
    assert {name: len(one) for name, one in splits.examples.items()} == {"train": 4, "valid": 2, "test": 2}
    assert "train: only the first 6 conversations are read (data.first)" in splits.notes


def test_conversations_of_python():
    findings = Findings()
    held = conversations_from_python([["a", "b"], {"turns": SPOKEN}, SPOKEN], "train", section("x").columns, findings)
    assert [len(one.turns) for one in held] == [2, 3, 3] and held[2].speakers == ("A", "B", "A")
    for data, message in (
        ("a", "train is the text 'a', expected a list of conversations"),
        (["a b"], r"train\[0\] is the text 'a b', expected a list of turns"),
        ([["a", None]], r"train\[0\]\[1\] is missing \(None\)"),
    ):
        with pytest.raises(DataError, match=message):
            conversations_from_python(data, "train", section("x").columns, findings)
