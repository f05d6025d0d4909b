"""Texts as people have them: beside numbers, with labels of 0 and 1, in scripts without blanks."""

import json
import subprocess
import sys
from pathlib import Path

import pandas
import pytest
from datasets import Dataset

import heed
from commands import call
from contract import data_of
from heed.config import Columns
from heed.data.findings import Findings
from heed.data.kinds.pairs import pair_reader
from heed.data.kinds.texts import text_reader
from heed.data.readers import examples_from_python
from heed.data.tables import HubTable
from heed.errors import ConfigError, DataError
from heed.tasks.base.labels import count_lines
from pictures import folder_of

ENGLISH = ("Hi there.", "Let's go!", "What is this?", "I see a dog.", "Go home now.", "She left.")
SPANISH = ("Hola a todos.", "\u00a1Vamos!", "\u00bfQu\u00e9 es esto?", "Veo un perro.", "Vete a casa.", "Se fue.")
PAIRS = list(zip(ENGLISH, SPANISH, strict=True))


def rows_of(*columns):
    """Rows with these columns: "en", "es", "id" (whole numbers), "lang", "score" or "name" (distinct texts)."""
    made = {
        "en": ENGLISH, "es": SPANISH, "lang": ["eng"] * 6, "name": [f"user{n} at home" for n in range(6)],
        "id": [str(1000 + 7 * n) for n in range(6)], "score": [f"0.{n}1" for n in range(6)],
    }  # fmt: skip
    return [list(row) for row in zip(*(made[name] for name in columns), strict=True)]


def read_pairs(path, text, **columns):
    path.write_text(text, encoding="utf-8")
    findings = Findings()
    pairs = list(pair_reader(Columns(**columns)).read([path], findings))
    return [(one.source, one.target) for one in pairs], findings


ARRANGED = [
    (("id", "en", "id", "es"), 1, 3),
    (("id", "en", "es"), 1, 2),
    (("en", "id", "es"), 0, 2),
    (("id", "lang", "en", "id", "lang", "es"), 2, 5),
    (("score", "en", "es"), 1, 2),
]


@pytest.mark.parametrize(("columns", "source", "target"), ARRANGED)
@pytest.mark.parametrize("name", ["a.tsv", "a.csv", "a.txt"])
def test_numbers_beside_pairs_are_no_texts(tmp_path, columns, source, target, name):
    between = "," if name == "a.csv" else "\t"
    text = "".join(between.join(row) + "\n" for row in rows_of(*columns))
    pairs, findings = read_pairs(tmp_path / name, text)
    assert pairs == PAIRS
    end = "the file has no header, so columns are counted from 0"
    assert findings.remarks == [f"columns: source is {source}, target is {target}; {end}"]
    turned, findings = read_pairs(tmp_path / name, text, source=target)
    assert turned[0][0] == PAIRS[0][1]


@pytest.mark.parametrize("name", ["a.tsv", "a.csv"])
def test_numbers_beside_named_columns_are_no_texts(tmp_path, name):
    between = "," if name == "a.csv" else "\t"
    rows = [["id", "english", "spanish"], *rows_of("id", "en", "es")]
    pairs, findings = read_pairs(tmp_path / name, "".join(between.join(row) + "\n" for row in rows))
    assert pairs == PAIRS
    assert "columns: source is 'english', target is 'spanish'" in findings.remarks


def test_numbers_beside_more_texts_than_two_are_refused_with_the_columns(tmp_path):
    text = "".join("\t".join(row) + "\n" for row in rows_of("id", "en", "es", "name"))
    with pytest.raises(DataError) as raised:
        read_pairs(tmp_path / "a.tsv", text)
    assert (
        "3 of its columns contain texts; data.columns.source=NAME and data.columns.target=NAME choose from "
        "0 (1000, 1007, 1014, ...), 1 (Hi there., "
    ) in str(raised.value)
    assert read_pairs(tmp_path / "a.tsv", text, source=1, target=2)[0] == PAIRS
    assert read_pairs(tmp_path / "a.tsv", text, source=3, target=1)[0][0] == ("user0 at home", "Hi there.")


def test_numbers_as_a_side_are_read_and_said(tmp_path):
    pairs, findings = read_pairs(tmp_path / "a.tsv", "1\tone\n2\ttwo\n3\tthree\n")
    assert pairs[0] == ("1", "one")
    assert findings.remarks == ["warning: columns of numbers, read as texts: 0 (1, 2, 3), 1 (one, two, three)"]
    assert read_pairs(tmp_path / "a.tsv", "12\t21\n23\t32\n")[1].remarks == []
    assert read_pairs(tmp_path / "a.tsv", "I have 3.\t1\tTengo 3.\n")[0] == [("I have 3.", "Tengo 3.")]


def named(columns):
    names = [f"{name}{n}" for n, name in enumerate(columns)]
    return {name: column for name, column in zip(names, map(list, zip(*rows_of(*columns), strict=True)), strict=True)}


@pytest.mark.parametrize(("columns", "source", "target"), ARRANGED)
@pytest.mark.parametrize("form", ["frame", "dict", "dicts", "tuples", "whole numbers"])
def test_numbers_beside_pairs_in_python_are_no_texts(columns, source, target, form):
    data = named(columns)
    if form == "frame":
        data = pandas.DataFrame(data).astype({name: float for name in data if name[:2] in ("id", "sc")})
    elif form == "dicts":
        data = [dict(zip(data, row, strict=True)) for row in zip(*data.values(), strict=True)]
    elif form == "tuples":
        data = list(zip(*data.values(), strict=True))
    elif form == "whole numbers":
        data = {name: list(map(float, column)) if name[:2] in ("id", "sc") else column for name, column in data.items()}
    findings = Findings()
    held = examples_from_python(data, "train", pair_reader(), ("source", "target"), findings)
    assert [(one.source, one.target) for one in held] == PAIRS
    assert len(findings.remarks) == 1


@pytest.mark.parametrize(("columns", "source", "target"), [one for one in ARRANGED if "lang" not in one[0]])
def test_numbers_beside_pairs_of_the_hub_are_no_texts(columns, source, target):
    findings = Findings()
    table = HubTable("pairs", "train", Dataset.from_dict(named(columns)), findings)
    reader = pair_reader()
    assert [(one.source, one.target) for one in reader.of_table(table)] == PAIRS
    names = list(named(columns))
    assert findings.remarks == [f"columns: source is '{names[source]}', target is '{names[target]}'"]


COMMENTS = ["You are a fool.", "What a nice day.", "Go away, fool!", "Thank you all."]
MARKS = {"id": [7, 8, 9, 10], "comment": COMMENTS, "toxic": [1, 0, 1, 0], "rude": [0, 0, 1, 0]}
LABELS = [("toxic",), (), ("toxic", "rude"), ()]


def written(path, values, columns=MARKS):
    """A file of MARKS with other values for 0 and 1, in the format of its ending."""
    table = {
        name: column if name in ("id", "comment") else [values[one] for one in column]
        for name, column in columns.items()
    }
    rows = list(zip(*table.values(), strict=True))
    if path.suffix == ".jsonl":
        text = "".join(json.dumps(dict(zip(table, row, strict=True))) + "\n" for row in rows)
    else:
        between = "," if path.suffix == ".csv" else "\t"
        quoted = [[f'"{one}"' if between in str(one) else str(one) for one in row] for row in rows]
        text = "".join(between.join(row) + "\n" for row in [list(table), *quoted])
    path.write_text(text)
    return path


def marked_reader(*marks):
    return text_reader(data_of("classification", columns={"label": list(marks or ("toxic", "rude"))}))


@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.jsonl", "a.txt"])
@pytest.mark.parametrize("values", [(0, 1), ("0", "1"), ("False", "True"), ("0.0", "1.0"), (False, True)])
def test_columns_of_0_and_1_are_labels(tmp_path, name, values):
    findings = Findings()
    read = list(marked_reader().read([written(tmp_path / name, values)], findings))
    assert [(one.text, one.labels) for one in read] == list(zip(COMMENTS, LABELS, strict=True))
    field = "fields" if name == "a.jsonl" else "columns"
    assert findings.remarks == [f"{field}: text is 'comment', labels are toxic, rude"]


@pytest.mark.parametrize("values", [(0, 1), (False, True), (0.0, 1.0)])
@pytest.mark.parametrize("form", [dict, pandas.DataFrame, "dicts", Dataset.from_dict, "hub"])
def test_columns_of_0_and_1_in_python_and_of_the_hub_are_labels(form, values):
    data = {
        name: [values[one] for one in column] if name in ("toxic", "rude") else column for name, column in MARKS.items()
    }
    reader = marked_reader()
    if form == "hub":
        held = list(reader.of_table(HubTable("comments", "train", Dataset.from_dict(data), Findings())))
    else:
        rows = [dict(zip(data, row, strict=True)) for row in zip(*data.values(), strict=True)]
        held = examples_from_python(
            rows if form == "dicts" else form(data), "train", reader, ("text", "label"), Findings()
        )
    assert [(one.text, one.labels) for one in held] == list(zip(COMMENTS, LABELS, strict=True))
    examples = examples_from_python(
        list(zip(COMMENTS, map(list, LABELS), strict=True)), "test", reader, ("text", "label"), Findings()
    )
    assert [one.labels for one in examples] == LABELS


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("a.csv", "-1", "line 2: column 'toxic' is the text '-1', expected 0 or 1, or false or true"),
        ("a.tsv", "", "line 2: column 'toxic' is the text '', expected 0 or 1"),
        ("a.jsonl", 2, "line 1: field 'toxic' is the number 2, expected 0 or 1"),
        ("a.jsonl", None, "line 1: field 'toxic' is missing (None), expected 0 or 1"),
    ],
)
def test_a_mark_that_is_neither_0_nor_1_is_refused(tmp_path, name, value, message):
    with pytest.raises(DataError) as raised:
        list(marked_reader().read([written(tmp_path / name, ("0", value))], Findings()))
    assert message in str(raised.value)
    frame = {"text": ["a", "b"], "toxic": [1, 0], "rude": [0, 3]}
    with pytest.raises(DataError, match=r"train\[1\]: column 'rude' is the number 3, expected 0 or 1"):
        examples_from_python(frame, "train", marked_reader(), ("text", "label"), Findings())


def test_columns_of_labels_that_do_not_exist_are_refused(tmp_path):
    file = written(tmp_path / "a.csv", "01")
    with pytest.raises(DataError, match=r"a.csv' has no column 'rud'; did you mean 'rude'\?"):
        list(marked_reader("toxic", "rud").read([file], Findings()))
    with pytest.raises(DataError, match=r"train has no column 'rud'; did you mean 'rude'\?"):
        examples_from_python(MARKS, "train", marked_reader("toxic", "rud"), ("text", "label"), Findings())
    (tmp_path / "b.txt").write_text("__label__toxic You fool.\n" * 9)
    with pytest.raises(DataError, match=r"b.txt' has no columns, but data.columns.label is \['toxic', 'rud'\]"):
        list(marked_reader("toxic", "rud").read([tmp_path / "b.txt"], Findings()))


def test_a_run_with_columns_of_labels_trains_evaluates_and_predicts(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    many = {
        name: [f"{one} {n}" if name == "comment" else one for n in range(20) for one in column]
        for name, column in MARKS.items()
    }
    written(tmp_path / "a.csv", "01", {**many, "threat": [0] * 80})
    marks = "data.columns.label=[toxic,rude]"
    code, out, err = call(capsys, "check", "classification", "a.csv", marks)
    assert code == 0 and "rude 16  toxic 32" in out, err
    sized = (
        "training.steps=60",
        "model.name=cnn",
        "model.d_embedding=16",
        "model.num_filters=16",
        "model.windows=[1]",
    )
    code, out, err = call(
        capsys, "train", "classification", "a.csv", marks, "--out", "run", *sized, "training.learning_rate=0.02"
    )
    assert code == 0 and "columns: text is 'comment', labels are toxic, rude" in out + err
    saved = (tmp_path / "run" / "config.yaml").read_text()
    assert "several_labels: true" in saved
    written(tmp_path / "b.jsonl", (0, 1))
    code, out, _ = call(capsys, "evaluate", "run", "b.jsonl", "--json")
    assert code == 0 and json.loads(out)["b.jsonl"]["micro_f1"]["value"] > 0.6
    code, out, err = call(capsys, "predict", "run", "--input", "a.csv", "--json")
    assert code == 0 and "the text is 'comment'" in err
    found = [json.loads(line)["label"] for line in out.splitlines()]
    assert len(found) == 80 and all(isinstance(one, list) for one in found) and [] in found
    run = heed.load("run")
    scores = run.evaluate([("You are a fool.", ["toxic"]), ("What a nice day.", [])])
    assert scores["per_label"]["toxic"]["support"] == 1
    (tmp_path / "c.csv").write_text("comment,toxic\nhello,1\n")
    code, _, err = call(capsys, "evaluate", "run", "c.csv")
    assert code == 2 and "no column 'rude', which this run was trained on" in err
    code, out, _ = call(capsys, "check", "run/config.yaml")
    assert code == 0 and "rude 16  toxic 32" in out
    with pytest.raises(ConfigError, match="several_labels is false, but"):
        heed.train(
            "classification",
            train=MARKS,
            out=None,
            settings={"data.columns.label": ["toxic", "rude"], "data.several_labels": False},
        )
    code, out, _ = call(capsys, "check", "classification", "a.csv", "data.columns.label=[toxic,rude,threat]")
    assert code == 0 and "no training text has the label 'threat': left out" in out
    for label in (["toxic"], []):
        code, _, err = call(capsys, "check", "classification", "a.csv", f"data.columns.label={json.dumps(label)}")
        assert code == 2 and "data.columns.label" in err


@pytest.mark.parametrize(
    ("line", "labels", "text"),
    [
        ("__label__a,text here", ("a",), "text here"),
        ("__label__a, text here", ("a",), "text here"),
        ("__label__1.0,text, here", ("1",), "text, here"),
        ('__label__a,"say ""text"", here"', ("a",), 'say "text", here'),
        ('__label__a,"say" it', ("a",), '"say" it'),
        ("__label__a,__label__b,text", ("a", "b"), "text"),
        ("__label__a,__label__b text", ("a", "b"), "text"),
        ("__label__a __label__b text, here", ("a", "b"), "text, here"),
    ],
)
@pytest.mark.parametrize("name", ["a.txt", "a.csv"])
def test_a_comma_after_a_label_ends_it(tmp_path, name, line, labels, text):
    (tmp_path / name).write_text(f"{line}\n" * 9)
    read = list(text_reader(data_of("classification", several_labels=True)).read([tmp_path / name], Findings()))
    assert [(one.text, one.labels) for one in read] == [(text, labels)] * 9


def test_a_comma_in_some_labels_is_part_of_them(tmp_path):
    (tmp_path / "a.txt").write_text("__label__Austin,_TX some text\n__label__Paris more text\n")
    read = list(text_reader(data_of("classification")).read([tmp_path / "a.txt"], Findings()))
    assert [(one.text, one.labels) for one in read] == [("some text", ("Austin,_TX",)), ("more text", ("Paris",))]


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        ({"01": 3, "1": 5, "10": 2}, ["'01' (3) and '1' (5)"]),
        ({"1.5": 1, "1.50": 2, "1,5": 3, "15": 4}, ["'1,5' (3) and '1.5' (1) and '1.50' (2)"]),
        ({"0": 1, "00": 1, "-0": 1, "v1": 2, "v01": 2}, ["'-0' (1) and '0' (1) and '00' (1)"]),
        ({"Cat": 6, "cat": 6, "dog": 1}, ["'Cat' (6) and 'cat' (6)"]),
        ({"1": 1, "one": 1, "1e0": 1, "12345678901234567890": 1, "12345678901234567891": 1}, []),
    ],
)
def test_labels_that_differ_only_in_spelling_are_warned_of(counts, said):
    warnings = [line for line in count_lines(counts, "text") if "spelling" in line]
    assert warnings == [
        f"warning: labels that differ only in spelling are read as different labels: {one}" for one in said
    ]


def test_labels_that_are_the_same_number_are_warned_of_in_every_task(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [(f"{word} {n}", label) for n in range(8) for word, label in (("good", "01"), ("bad", "1"), ("fine", "1.0"))]
    (tmp_path / "a.csv").write_text("text,label\n" + "".join(f"{text},{label}\n" for text, label in rows))
    (tmp_path / "b.txt").write_text("".join(f"__label__{label} {text}\n" for text, label in rows))
    for text, label in rows:
        folder = tmp_path / "texts" / label
        folder.mkdir(parents=True, exist_ok=True)
        (folder / text.replace(" ", "")).write_text(text)
    said = "warning: labels that differ only in spelling are read as different labels: '01' ("
    for given in (["a.csv"], ["b.txt"], ["texts"], ["b.txt", "data.several_labels=true"]):
        code, out, err = call(capsys, "check", "classification", *given)
        assert code == 0 and said in out and ") and '1' (" in out, (given, out, err)
    run = heed.train(
        "classification", train=rows, out=None, settings={"training.steps": 1, "model.size": "tiny"}, model="rnn"
    )
    assert said in run.task.notes


TMX = """<?xml version="1.0" encoding="{encoding}"?>
<!DOCTYPE tmx SYSTEM "tmx14.dtd">
<tmx version="1.4"><header srclang="en" datatype="plaintext"/><body>
<tu><tuv xml:lang="en" creationid="me"><seg>Hi <bpt i="1"/>there
now.</seg></tuv><tuv xml:lang="es"><seg>Hola a todos.</seg></tuv></tu>
<tu tuid="2"><tuv xml:lang="es"><seg>¡Vamos!</seg></tuv><tuv xml:lang="en"><seg>Let's go!</seg></tuv></tu>
</body></tmx>
"""


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("name", ["a.tmx", "a.txt", "memory.csv"])
def test_tmx_is_named_with_a_command_that_converts_it(tmp_path, name, encoding):
    path = tmp_path / name
    path.write_text(TMX.format(encoding=encoding.removesuffix("-sig")), encoding=encoding)
    with pytest.raises(DataError, match="is TMX, a translation memory; convert it to columns") as raised:
        list(pair_reader().read([path], Findings()))
    command = str(raised.value).split("alphabetical order: ")[1].replace("pairs.tsv", str(tmp_path / "pairs.tsv"))
    python = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    subprocess.run(command, shell=True, check=True, env={"PATH": python, "PYTHONIOENCODING": "utf-8"})
    pairs = [(one.source, one.target) for one in pair_reader().read([tmp_path / "pairs.tsv"], Findings())]
    assert pairs == [("Hi there now.", "Hola a todos."), ("Let's go!", "¡Vamos!")]


THAI = ["ดีมาก", "แย่มาก", "พอใช้ได้"]
CHINESE = ["很好", "很差", "还行"]


def sentences(words, count=60):
    """Sentences of three words without spaces, all different, and the first word's number."""
    return [
        ("".join(words[(n // 3**k) % 3] for k in range(3)) + words[0] * (n // 27), str(n % 3)) for n in range(count)
    ]


@pytest.mark.parametrize(
    ("words", "kind", "unit"),
    [(THAI, "unigram", "token"), (CHINESE, "word", "word"), (["good ", "bad ", "fine "], "word", "word")],
)
def test_texts_without_spaces_are_not_one_unknown_word_each(words, kind, unit):
    settings = {"training.steps": 1, "model.d_embedding": 8, "model.d_hidden": 8}
    run = heed.train("classification", train=sentences(words), model="rnn", out=None, settings=settings)
    assert (run.config.tokenizer.kind, run.tokenizer.unit) == (kind, unit)
    assert run.task.report_counts()["train"]["unknown"] == 0
    said = "tokenizer.kind is unigram: the script of the texts has no spaces between words"
    assert (said in run.task.splits.remarks) == (kind == "unigram")


@pytest.mark.parametrize("words", [THAI, CHINESE])
def test_unknown_words_are_warned_of_in_training_and_never_right(tmp_path, capsys, monkeypatch, words):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.tsv").write_text("".join(f"one {number}\t{text}\n" for text, number in sentences(words)))
    (tmp_path / "b.csv").write_text("text,label\n" + "".join(f"{text},{number}\n" for text, number in sentences(THAI)))
    said = "warning: 100% of the {} tokens of train are unknown; a lower tokenizer.min_count, or tokenizer.kind unigram"
    small = (
        "training.steps=60",
        "training.learning_rate=0.01",
        "model.d_embedding=8",
        "model.d_hidden=8",
        "tokenizer.kind=word",
    )
    code, out, err = call(capsys, "train", "translation", "a.tsv", "--out", "run", "--model", "bahdanau", *small)
    assert code == 0 and said.format("target") in out + err
    code, out, _ = call(capsys, "check", "translation", "a.tsv", "tokenizer.kind=word")
    assert said.format("target") in out
    run = heed.load("run")
    _, correct, tokens = run.task.judged(run.model, run.task.encoded("valid")).T
    # Each target is <unk> and the end, which the model has learned.
    assert {*tokens} == {2} and {*correct} == {1}
    code, out, err = call(
        capsys, "train", "classification", "b.csv", "--out", "other", "--model", "rnn", *small[1:], "training.steps=1"
    )
    assert code == 0 and said.format("text") in out + err


@pytest.mark.parametrize("named", [("1.0", "1", "dog"), ("01", "1", "dog"), ("Cat", "cat", "dog")])
def test_spellings_of_picture_classes_are_warned_of(tmp_path, capsys, named):
    folder = folder_of(tmp_path / "photos", classes=named)
    code, out, _ = call(capsys, "check", "images", str(folder), "data.valid=3")
    first, second = sorted(named[:2])
    assert (
        code == 0
        and f"differ only in spelling are read as different labels: '{first}' (" in out
        and f"and '{second}' (" in out
    )
