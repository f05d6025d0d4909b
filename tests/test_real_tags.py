"""Files of tags, arrays of JSON and texts that only look filled: read as their authors meant them, or refused."""

import json

import pytest

from heed.config.data import ConversationFiles, DocumentFiles
from heed.data.findings import Findings
from heed.data.kinds.conversations import conversation_reader, hold_conversations
from heed.data.kinds.documents import document_reader
from heed.data.kinds.inputs import input_texts
from heed.data.kinds.pairs import pair_reader
from heed.data.kinds.texts import TextFormat, text_reader
from heed.data.readers import hold
from heed.data.splits.splits import open_splits
from heed.errors import DataError
from heed.tasks.classification.config import TextsData

TEXTS = [{"text": f"a good film {n}", "label": "pos"} for n in range(5)] + [{"text": "dull", "label": "neg"}]
PAIRS = [{"source": "one", "target": "uno"}, {"source": "two", "target": "dos"}]
TURNS = [{"turns": ["Hi", "Hello"]}, {"turns": ["Bye", "See you"]}]


def written_as_json(items):
    """The same items in every layout of a JSON file."""
    yield "".join(f"{json.dumps(one)}\n" for one in items)
    yield json.dumps(items)
    yield "\ufeff" + json.dumps(items, indent=2)
    yield "[\n" + ",\n".join(map(json.dumps, items)) + "\n]\n"
    yield json.dumps({"data": items})
    yield json.dumps({"version": "1.0", "data": items}, indent=1)


@pytest.mark.parametrize("ending", ["json", "jsonl"])
@pytest.mark.parametrize(
    ("items", "reader", "value"),
    [
        (TEXTS, lambda: text_reader(TextFormat()), lambda one: {"text": one.text, "label": one.labels[0]}),
        (PAIRS, pair_reader, lambda one: {"source": one.source, "target": one.target}),
        (TURNS, lambda: conversation_reader(None), lambda one: {"turns": [*one.turns]}),
        (TEXTS, lambda: document_reader(DocumentFiles(train=["x"])), lambda one: {"text": one.text}),
    ],
    ids=["texts", "pairs", "conversations", "documents"],
)
def test_an_array_of_json_is_read_like_lines(tmp_path, ending, items, reader, value):
    path = tmp_path / f"a.{ending}"
    for text in written_as_json(items):
        path.write_text(text, encoding="utf-8")
        read = list(reader().read([path], Findings(max_line=1_000)))
        assert [value(one) for one in read] == [{k: one[k] for k in value(read[0])} for one in items], text
        assert [one.origin for one in read] == [f"{path.name}:{n}" for n in range(1, len(items) + 1)]


def test_an_array_longer_than_a_line_may_be_is_read(tmp_path):
    path = tmp_path / "a.json"
    path.write_text(json.dumps(PAIRS * 50), encoding="utf-8")
    assert len(list(pair_reader().read([path], Findings(max_line=200)))) == 100


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('[{"source": "a", "target": "b"}, {"source": "a"}]', r"a.json' item 2 has no field 'target'"),
        (
            '[{"source": "a", "target": "b"}, 3]',
            r"a.json' item 2 is the number 3, expected an object with the fields 'source' and 'target'; "
            r"data.bad_lines=skip leaves such items out",
        ),
        (
            '[{"source": "a", "target": "b"},\n {"source": "a"',
            r"a.json' is not JSON: .*line 2 column 16 .*; expected an array",
        ),
        ('[{"source": "a", "source": "b"}]', r"a.json' is not JSON: the key 'source' occurs twice"),
        ('["a", "b"]', r"line 1 is the list \['a', 'b'\], expected an object with the fields 'source' and 'target'"),
        ('{"source": "a"\n', r"line 1 is not JSON: .* such as {\"source\": \"...\", \"target\": \"...\"}"),
    ],
)
def test_what_is_wrong_in_an_array_is_named_by_its_item(tmp_path, text, message):
    (tmp_path / "a.json").write_text(text)
    with pytest.raises(DataError, match=message):
        list(pair_reader().read([tmp_path / "a.json"], Findings()))


@pytest.mark.parametrize(
    ("line", "message"), [("3", "is the number 3, expected an object;"), ("x", "one object a line;")]
)
def test_no_message_has_an_empty_list_of_fields(tmp_path, line, message):
    (tmp_path / "a.json").write_text(f"{json.dumps(TURNS[0])}\n{line}\n")
    with pytest.raises(DataError, match=message):
        list(conversation_reader(None).read([tmp_path / "a.json"], Findings()))


def test_bad_items_are_left_out_and_counted(tmp_path):
    (tmp_path / "a.json").write_text(json.dumps([*PAIRS, 3, {"source": "x"}, *PAIRS]))
    findings = Findings("skip")
    assert len(list(pair_reader().read([tmp_path / "a.json"], findings))) == 4
    assert list(map(str, findings.found)) == [
        "not a JSON object, left out: 1 item (3)",
        "no field 'target', left out: 1 item (4)",
    ]


def test_inputs_may_be_an_array(tmp_path):
    (tmp_path / "a.json").write_text(json.dumps(TEXTS))
    texts, said = input_texts(tmp_path / "a.json", None, ("text",), Findings())
    assert list(texts) == [(n, one["text"]) for n, one in enumerate(TEXTS, start=1)]
    assert said == "fields: the text is 'text'"


MARK = "byte-order mark, left out"


def test_a_byte_order_mark_in_json_or_python_is_left_out_and_counted(tmp_path):
    (tmp_path / "a.jsonl").write_text(json.dumps({"source": "\ufeffone", "target": "u\ufeffno"}) + "\n")
    findings = Findings()
    (pair,) = pair_reader().read([tmp_path / "a.jsonl"], findings)
    assert (pair.source, pair.target) == ("one", "uno")
    assert list(map(str, findings.found)) == [f"{MARK}: 2 lines (1, 1)"]
    held = hold(
        [("\ufeffone", "a\ufeff"), ("two", "b")], "train", text_reader(TextFormat()), ("text", "label"), Findings()
    )
    assert [(one.text, one.labels) for one in held] == [("one", ("a",)), ("two", ("b",))]
    assert list(map(str, held.findings.found)) == [f"{MARK}: 2 lines (train[0], train[0])"]
    talk = hold_conversations([["\ufeffHi", "Hello"]], "train", ConversationFiles(train=["x"]).columns, Findings())
    assert talk[0].turns == ("Hi", "Hello") and MARK in str(talk.findings.found[0])


UNSEEN = "\u200b"


@pytest.mark.parametrize("blank", [UNSEEN, f" {UNSEEN}\t{UNSEEN} ", "\u2060\ufeff"])
def test_a_text_without_width_is_blank_in_every_reader(tmp_path, blank, monkeypatch):
    monkeypatch.setenv("HEED_CACHE", str(tmp_path / "cache"))
    many = [(f"one {n}", f"uno {n}") for n in range(30)]
    (tmp_path / "a.jsonl").write_text(
        "".join(json.dumps({"text": a, "label": b[:3]}) + "\n" for a, b in [*many, (blank, "uno")])
    )
    data = TextsData(train=[str(tmp_path / "a.jsonl")], valid=3)
    splits = open_splits(data, text_reader(TextFormat()))
    assert splits.counts["train"].filtered["blank"] == 1 and splits.counts["train"].read == 31
    talk = hold_conversations([["Hi", blank, "Hello"]], "train", ConversationFiles(train=["x"]).columns, Findings())
    assert talk[0].turns == ("Hi", "Hello")
    assert list(map(str, talk.findings.found))[-1].startswith("blank turns, left out: 1 turn")


def test_a_line_without_width_is_a_blank_line_and_counted(tmp_path):
    said = "only characters without width, read as a blank line: 1 line (2)"
    findings = Findings()
    (tmp_path / "a.txt").write_text(f"Hi\n{UNSEEN}\nHow are you?\nFine\n\n", encoding="utf-8")
    data = ConversationFiles(train=[str(tmp_path / "a.txt")], separator="")
    read = list(conversation_reader(data).read([tmp_path / "a.txt"], findings))
    assert [one.turns for one in read] == [("Hi",), ("How are you?", "Fine")]
    assert list(map(str, findings.found)) == [said]
    for name, other in (("a.en", "one\n\u200b\nth\u200bree\n"), ("a.yo", "uno\ndos\ntres\n")):
        (tmp_path / name).write_text(other, encoding="utf-8")
    findings = Findings()
    pairs = list(pair_reader().read([tmp_path / "a.en", tmp_path / "a.yo"], findings))
    assert [one.source for one in pairs] == ["one", "", "th\u200bree"] and pairs[1].blank == "source blank"
    assert list(map(str, findings.found)) == [said]
    (tmp_path / "b.txt").write_text(f"Hi\t{UNSEEN}\tHello\n", encoding="utf-8")
    findings = Findings()
    (talk,) = conversation_reader(None).read([tmp_path / "b.txt"], findings)
    assert talk.turns == ("Hi", "Hello")
    assert list(map(str, findings.found)) == ["blank turns, left out: 1 turn (1)"]
