"""Files of tags, arrays of JSON and texts that only look filled: read as their authors meant them, or refused."""

import csv
import io
import json

import pandas
import pytest
from datasets import ClassLabel, Dataset, DatasetDict, Features, Sequence, Value

import heed
from commands import call
from contract import data_of
from heed.data.findings import Findings
from heed.data.kinds.conversations import conversation_reader, conversations_from_python
from heed.data.kinds.documents import document_reader
from heed.data.kinds.pairs import pair_reader
from heed.data.kinds.tagged import read_sentences, sentence_reader
from heed.data.kinds.texts import inputs_in, text_reader
from heed.data.readers import examples_from_python
from heed.data.splits import open_splits
from heed.data.tables import Field
from heed.errors import DataError

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
        (TEXTS, lambda: text_reader(data_of("classification")), lambda one: {"text": one.text, "label": one.labels[0]}),
        (PAIRS, pair_reader, lambda one: {"source": one.source, "target": one.target}),
        (TURNS, lambda: conversation_reader(data_of("dialogue")), lambda one: {"turns": [*one.turns]}),
        (TEXTS, lambda: document_reader(data_of("language_modelling")), lambda one: {"text": one.text}),
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
        ('[{"source": "a", "target": "b"},\n {"source": "a"', r"a.json' is not JSON: .*line 2 column 16 .*; expected"),
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
        list(conversation_reader(data_of("dialogue")).read([tmp_path / "a.json"], Findings()))


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
    texts, said = inputs_in(tmp_path / "a.json", [Field("text")], Findings())
    assert list(texts) == [(n, one["text"]) for n, one in enumerate(TEXTS, start=1)]
    assert said == "fields: the text is 'text'"


MARK = "byte-order mark, left out"


def test_a_byte_order_mark_in_json_or_python_is_left_out_and_counted(tmp_path):
    (tmp_path / "a.jsonl").write_text(json.dumps({"source": "\ufeffone", "target": "u\ufeffno"}) + "\n")
    findings = Findings()
    (pair,) = pair_reader().read([tmp_path / "a.jsonl"], findings)
    assert (pair.source, pair.target) == ("one", "uno")
    assert list(map(str, findings.found)) == [f"{MARK}: 2 lines (1, 1)"]
    held = examples_from_python(
        [("\ufeffone", "a\ufeff"), ("two", "b")],
        "train",
        text_reader(data_of("classification")),
        ("text", "label"),
        Findings(),
    )
    assert [(one.text, one.labels) for one in held] == [("one", ("a",)), ("two", ("b",))]
    assert list(map(str, held.findings.found)) == [f"{MARK}: 2 lines (train[0], train[0])"]
    talk = conversations_from_python([["\ufeffHi", "Hello"]], "train", data_of("dialogue").columns, Findings())
    assert talk[0].turns == ("Hi", "Hello") and MARK in str(talk.findings.found[0])


UNSEEN = "\u200b"


@pytest.mark.parametrize("blank", [UNSEEN, f" {UNSEEN}\t{UNSEEN} ", "\u2060\ufeff"])
def test_a_text_without_width_is_blank_in_every_reader(tmp_path, blank, monkeypatch):
    monkeypatch.setenv("HEED_CACHE", str(tmp_path / "cache"))
    many = [(f"one {n}", f"uno {n}") for n in range(30)]
    (tmp_path / "a.jsonl").write_text(
        "".join(json.dumps({"text": a, "label": b[:3]}) + "\n" for a, b in [*many, (blank, "uno")])
    )
    data = data_of("classification", train=[str(tmp_path / "a.jsonl")], valid=3)
    splits = open_splits(data, text_reader(data_of("classification")))
    assert splits.counts["train"].filtered["blank"] == 1 and splits.counts["train"].read == 31
    talk = conversations_from_python([["Hi", blank, "Hello"]], "train", data_of("dialogue").columns, Findings())
    assert talk[0].turns == ("Hi", "Hello")
    assert list(map(str, talk.findings.found))[-1].startswith("blank turns, left out: 1 turn")


def test_a_line_without_width_is_a_blank_line_and_counted(tmp_path):
    said = "only characters without width, read as a blank line: 1 line (2)"
    findings = Findings()
    (tmp_path / "a.txt").write_text(f"Hi\n{UNSEEN}\nHow are you?\nFine\n\n", encoding="utf-8")
    data = data_of("dialogue", train=[str(tmp_path / "a.txt")], separator="")
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
    (talk,) = conversation_reader(data_of("dialogue")).read([tmp_path / "b.txt"], findings)
    assert talk.turns == ("Hi", "Hello")
    assert list(map(str, findings.found)) == ["blank turns, left out: 1 turn (1)"]


# --- sentences with tags

SENTENCES = [
    (("Ann", "Lee", "left", "."), ("B-PER", "I-PER", "O", "O")),
    (("Rome", "is", '"', "old", ","), ("B-LOC", "O", "O", "O", "O")),
    (("Ann", "slept"), ("B-PER", "O")),
] * 3  # fmt: skip
NAMES = ["O", "B-PER", "I-PER", "B-LOC"]
NUMBERED = [(words, tuple(map(NAMES.index, tags))) for words, tags in SENTENCES]


def read_tags(path, text, findings=None, **fields):
    path.write_text(text, encoding="utf-8")
    return [
        (one.words, one.tags) for one in read_sentences([path], data_of("tagging", **fields), findings or Findings())
    ]


def lines(*objects):
    return "".join(f"{json.dumps(one)}\n" for one in objects)


def table(separator, header, name, repeated=True):
    """Sentences as rows of a table, with a name of each (or only in its first row), and parts of speech."""
    file = io.StringIO()
    quoting = csv.QUOTE_NONE if separator == "\t" else csv.QUOTE_MINIMAL
    writer = csv.writer(file, delimiter=separator, quoting=quoting, quotechar=None if separator == "\t" else '"')
    writer.writerows([header] if header else [])
    for n, (words, tags) in enumerate(SENTENCES, start=1):
        for i, (word, tag) in enumerate(zip(words, tags, strict=True)):
            writer.writerow(
                [name.format(n) if repeated or not i else "", word, f"P{i % 2}", tag][: len(header or "1234")]
            )
    return file.getvalue()


COMMAS = "".join(
    "".join(
        f'"{w}",{t}\n' if w == "," else f'"""",{t}\n' if w == '"' else f"{w},{t}\n" for w, t in zip(*one, strict=True)
    )
    + "\n"
    for one in SENTENCES
)
EACH = [(n, *pair) for n, one in enumerate(SENTENCES) for pair in zip(*one, strict=True)]
KAGGLE = ["Sentence #", "Word", "POS", "Tag"]


@pytest.mark.parametrize(
    ("name", "text", "fields"),
    [
        ("a.jsonl", lines(*({"tokens": w, "ner_tags": t} for w, t in SENTENCES)), {}),
        ("a.json", json.dumps([{"id": "1", "words": w, "labels": t} for w, t in SENTENCES]), {}),
        ("a.txt", lines(*({"tokens": w, "ner_tags": t} for w, t in SENTENCES)), {}),
        ("a.jsonl", lines(*({"tokens": w, "ner_tags": t} for w, t in NUMBERED)), {"tag_names": NAMES}),
        ("a.jsonl", lines(*({"tokens": w, "pos_tags": w, "ner_tags": t} for w, t in SENTENCES)), {}),
        (
            "a.jsonl",
            lines(*({"mots": w, "noms": t} for w, t in SENTENCES)),
            {"columns": {"word": "mots", "label": "noms"}},
        ),
        ("a.jsonl", lines(*({"a": w, "b": w, "c": t} for w, t in SENTENCES)), {"columns": {"word": "b", "label": "c"}}),
        (
            "a.jsonl",
            lines(*({"sentence_id": n, "word": x, "tag": y} for n, x, y in EACH)),
            {},
        ),
        ("a.csv", table(",", KAGGLE, "Sentence: {}", repeated=False), {}),
        ("a.csv", table(",", KAGGLE, "Sentence: {}"), {}),
        ("a.tsv", table("\t", KAGGLE, "Sentence: {}"), {}),
        ("a.csv", table(";", ["sentence_id", "words", "pos", "labels"], "{}"), {}),
        ("a.csv", table(",", ["satz", "word", "pos", "tag"], "{}"), {}),
        ("a.csv", table(",", ["satz", "wort", "art", "typ"], "{}"), {"columns": {"word": "wort", "label": "typ"}}),
        ("a.csv", table(",", None, "{}"), {}),
        ("a.conll", table("\t", None, "s{}"), {}),
        ("a.conll", table("\t", None, "one-{}"), {"columns": {"word": 1, "sentence": 0}}),
        ("a.csv", "word,tag\n" + COMMAS, {}),
        ("a.conll", COMMAS, {}),
        ("a.conll", COMMAS.replace(",", ";").replace('";"', ","), {}),
    ],
)
def test_sentences_with_tags_of_every_layout_are_read(tmp_path, name, text, fields):
    assert read_tags(tmp_path / name, text, **fields) == SENTENCES


@pytest.mark.parametrize(
    ("record", "tags"),
    [
        ({"text": "Ann Lee left Rome.", "label": [[0, 7, "PER"], [13, 17, "LOC"]]}, "B-PER I-PER O B-LOC O"),
        ({"text": "Ann Lee left Rome.", "entities": [[13, 17, "LOC"], [0, 7, "PER"]]}, "B-PER I-PER O B-LOC O"),
        ({"text": "\ufeffAnn Lee left Rome.", "spans": [[1, 9, "PER"]]}, "B-PER I-PER O O O"),
        (
            {
                "text": "Ann Lee left Rome.",
                "tokens": [{"text": "Ann"}],
                "spans": [{"start": 0, "end": 3, "label": "PER"}, {"start": 4, "end": 7, "label": "PER"}],
            },
            "B-PER B-PER O O O",
        ),
        (
            {"text": "Ann Lee left Rome.", "entities": [{"start_offset": 13, "end_offset": 17, "label": "LOC"}]},
            "O O O B-LOC O",
        ),
        ({"text": "Ann Lee left Rome.", "label": []}, "O O O O O"),
    ],
)
def test_spans_of_characters_become_tags_of_words(tmp_path, record, tags):
    other = {**record, "text": "Ann left.", **{k: [] for k in record if isinstance(record[k], list)}}
    (read, _) = read_tags(tmp_path / "a.jsonl", lines(record, other), scheme="bio")
    assert read == (("Ann", "Lee", "left", "Rome", "."), tuple(tags.split()))


@pytest.mark.parametrize(
    ("entities", "rule", "message"),
    [
        ([[0, 5, "PER"]], "an entity cuts a word", r"a.jsonl' line 2: the entity \[0, 5, 'PER'\] \('Ann L'\) cuts the"),
        ([[0, 7, "A"], [4, 12, "B"]], "entities overlap", "line 2: the entity 'B' overlaps another in the word 'Lee'"),
        ([[3, 4, "A"]], "an entity without words", r"line 2: .* has no words in a text of 13 characters"),
        ([[0, 70, "A"]], "an entity without words", r"line 2: "),
        ([[0, "A"]], "an entity is no span", r"line 2: an entity is the list \[0, 'A'\], expected \[start, end, type"),
    ],
)
def test_a_span_that_is_none_of_words_is_refused_or_counted(tmp_path, entities, rule, message):
    text = lines({"text": "Ann left.", "label": [[0, 3, "A"]]}, {"text": "Ann Lee left.", "label": entities})
    with pytest.raises(DataError, match=message):
        read_tags(tmp_path / "a.jsonl", text)
    findings = Findings("skip")
    assert len(read_tags(tmp_path / "a.jsonl", text, findings)) == 1
    assert findings.left_out == {rule: 1} and str(findings.found[0]) == f"{rule}, left out: 1 line (2)"


BOTH = "data.columns.word=NAME and data.columns.label=NAME choose from "


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        (
            "a.jsonl",
            lines({"tokens": ["Ann"], "ner_tags": [1]}),
            "line 1: tag 0: the tag is the number 1; set data.tag_names to the names of the tags in the order of their",
        ),
        ("a.jsonl", lines({"tokens": ["Ann"], "tags": ["O", "O"]}), "line 1 has 1 word and 2 tags; each word needs"),
        (
            "a.jsonl",
            lines({key: ["Ann"] for key in "xyz"}),
            f"the word column is unclear; {BOTH}'x' (Ann), 'y' (Ann), 'z' (Ann)",
        ),
        (
            "a.jsonl",
            lines({key: ["A"] for key in ("word", "y", "z")}),
            "the label column is unclear; data.columns.label=NAME chooses from 'word' (A), 'y' (A), 'z' (A)",
        ),
        (
            "a.jsonl",
            lines({"word": "Ann", "tag": "O"}),
            "each row is a word, and which column numbers the sentences is unclear; "
            "data.columns.sentence=NAME chooses from 'word' (Ann), 'tag' (O)",
        ),
        (
            "a.csv",
            table(",", ["satz", "wort", "art", "typ"], "{}"),
            "the label column is unclear; data.columns.word=NAME and data.columns.label=NAME "
            "choose from 0 (satz, 1, 2, ...), 1 (wort, Ann, Lee, ...), 2 (art, P0, P1), ",
        ),
        (
            "a.csv",
            "word,tag\n" + "Ann,B-PER\nleft,O\n" * 9,
            "no blank line ends a sentence, and which column numbers the sentences is unclear; "
            "data.columns.sentence=NAME chooses from 0 (word, Ann, left), 1 (tag, B-PER, O)",
        ),
        ("a.csv", table(",", KAGGLE, "{}").replace("B-PER", "1").replace(",O", ",0"), "line 2: the tag is the number"),
    ],
)
def test_unclear_columns_and_numbers_without_names_are_refused_with_the_option(tmp_path, name, text, message):
    with pytest.raises(DataError) as raised:
        read_tags(tmp_path / name, text)
    assert message in str(raised.value)


def test_a_number_beyond_the_names_of_tags_is_named(tmp_path):
    text = lines(*({"tokens": w, "ner_tags": t} for w, t in NUMBERED))
    with pytest.raises(DataError, match=r"line 2: tag 0: the tag is 3, but data.tag_names has 3 names"):
        read_tags(tmp_path / "a.jsonl", text, tag_names=NAMES[:3])
    assert read_tags(tmp_path / "a.jsonl", text, scheme="plain")[0][1] == ("1", "2", "0", "0")


def test_what_was_recognised_is_said(tmp_path):
    findings = Findings()
    read_tags(tmp_path / "a.csv", table(",", ["satz", "word", "pos", "tag"], "{}"), findings)
    assert findings.remarks == ["columns: word is 'word', label is 'tag', sentence is 'satz'"]
    assert [str(one) for one in findings.found] == ["a header (satz | word | pos | tag), left out: 1 line (1)"]
    findings = Findings()
    read_tags(tmp_path / "a.jsonl", lines(*({"tokens": w, "ner_tags": t} for w, t in SENTENCES)), findings)
    assert findings.remarks == ["fields: word is 'tokens', label is 'ner_tags'"]
    findings, text = Findings(), "".join(f"{n % 2},w{n},O\n" * 2 for n in range(9))
    read_tags(tmp_path / "a.csv", text, findings, columns={"sentence": 0, "word": 1}, scheme="bio")
    assert "the name of an earlier sentence, read as another sentence: 7 lines (5, 7, 9, ...)" in map(
        str, findings.found
    )


def test_a_frame_of_words_with_a_column_of_sentences_is_read():
    text = table(",", KAGGLE, "Sentence: {}", repeated=False)
    frame = pandas.read_csv(io.StringIO(text))
    for data in (frame, Dataset.from_pandas(frame)):
        held = examples_from_python(data, "train", sentence_reader(data_of("tagging")), ("words", "tags"), Findings())
        assert [(one.words, one.tags) for one in held] == SENTENCES
        assert [one.origin for one in held][:2] == ["train[0]", "train[4]"]
    held = examples_from_python([{"tokens": w, "ner_tags": t} for w, t in NUMBERED], "train",
                sentence_reader(data_of("tagging", tag_names=NAMES)), ("words", "tags"), Findings())  # fmt: skip
    assert [(one.words, one.tags) for one in held] == SENTENCES
    frame.loc[3, "Tag"] = "x"
    with pytest.raises(DataError, match=r"train\[3\]: 'x' is not an entity tag"):
        examples_from_python(frame, "train", sentence_reader(data_of("tagging")), ("words", "tags"), Findings())


FAST = ("--model", "rnn", "training.steps=2", "model.d_embedding=8", "model.d_hidden=8")


def test_a_data_set_of_the_hub_is_tagged_with_the_names_of_its_classes(tmp_path, capsys, monkeypatch, datasets_cache):
    monkeypatch.chdir(tmp_path)
    features = Features({"id": Value("string"), "tokens": Sequence(Value("string")),
                         "pos_tags": Sequence(ClassLabel(names=["N", "V"])),
                         "ner_tags": Sequence(ClassLabel(names=NAMES))})  # fmt: skip
    rows = [
        {"id": str(n), "tokens": w, "pos_tags": [n % 2] * len(w), "ner_tags": t}
        for n, (w, t) in enumerate(NUMBERED * 4)
    ]
    splits = {split: Dataset.from_list(rows, features=features) for split in ("train", "validation", "test")}
    DatasetDict(splits).save_to_disk("set")
    code, out, err = call(capsys, "train", "tagging", "hub:set", "--out", "run", *FAST)
    assert code == 0, out + err
    assert "columns: word is 'tokens', label is 'ner_tags'" in out + err
    assert heed.load("run").head.labels == ("B-LOC", "B-PER", "I-LOC", "I-PER", "O")
    code, out, err = call(capsys, "evaluate", "run")
    assert code == 0 and "entity F1" in out, out + err
    code, out, err = call(capsys, "train", "tagging", "hub:set", "--out", "pos", *FAST, "data.columns.label=pos_tags")
    assert code == 0 and heed.load("pos").head.labels == ("N", "V"), out + err
    code, out, err = call(capsys, "train", "tagging", "hub:set", "--out", "no", *FAST, "data.columns.label=ner")
    assert code == 2 and "set has no column 'ner'" in err


def test_a_table_is_tagged_line_by_line(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.csv").write_text(table(",", KAGGLE, "Sentence: {}", repeated=False) + "\n")
    code, out, err = call(capsys, "train", "tagging", "a.csv", "--out", "run", *FAST, "--valid", "a.csv")
    assert code == 0, out + err
    code, out, _ = call(capsys, "predict", "run", "--columns", "--input", "a.csv")
    given, rows = (list(csv.reader(io.StringIO(one))) for one in ((tmp_path / "a.csv").read_text(), out))
    assert code == 0 and [row[:3] for row in rows] == [row[:3] for row in given] and rows[0] == given[0]
    assert {row[3] for row in rows[1:] if row} <= {"O", "B-PER", "I-PER", "B-LOC", "I-LOC"}
    (tmp_path / "words.csv").write_text("sentence_id,word\n1,Ann\n1,left\n2,Rome\n")
    code, out, _ = call(capsys, "predict", "run", "--columns", "--input", "words.csv")
    assert code == 0 and [line.count(",") for line in out.splitlines()] == [1, 2, 2, 2]
