"""Tables and labelled files as people have them: read as their authors meant them, or refused by name."""

import json
import math
import random

import datasets
import numpy as np
import pandas as pd
import pytest
from datasets import ClassLabel, Dataset, Sequence, Value

import heed
from commands import call
from contract import data_of
from heed.data.findings import Findings
from heed.data.kinds.features import Feature, Features, load, save
from heed.data.kinds.numbers import read_rows, rows_from_python
from heed.data.kinds.pairs import pair_reader
from heed.data.kinds.tagged import read_sentences, sentence_reader
from heed.data.kinds.texts import labels_in, text_reader
from heed.data.readers import examples_from_python
from heed.errors import DataError

QUICK = {"training.steps": 3, "training.threads": 1, "training.device": "cpu", "evaluation.bootstrap": 5}


def read(path, text, **options):
    path.write_text(text, encoding="utf-8")
    return read_rows(path, None, "label", **options)


@pytest.mark.parametrize(
    ("cells", "values"),
    [
        (["12%", "3.5 %", "", "7%"], [12, 3.5, None, 7]),
        (["$1", "$2.5", "$3", "$4"], [1, 2.5, 3, 4]),
        (['"1,234.5"', '"12,000"', "5", "1e3"], [1234.5, 12000, 5, 1000]),
        (["true", "False", "NA", "TRUE"], [1, 0, None, 1]),
        (["?", "1", "null", " 3"], [None, 1, None, 3]),
        (["red", "blue", "NA", "1"], ["red", "blue", None, "1"]),
        (["1.1.2020", "2.1.2020", "3.1.2020", "4.1.2020"], ["1.1.2020", "2.1.2020", "3.1.2020", "4.1.2020"]),
        (['"two\nlines"', "one", '"a ""quote"""', "x"], ["two\nlines", "one", 'a "quote"', "x"]),
    ],
)
def test_cells_are_numbers_or_words_as_the_column_says(tmp_path, cells, values):
    rows = read(tmp_path / "a.csv", "x,label\n" + "".join(f"{cell},{n}\n" for n, cell in enumerate(cells)))
    assert rows.cells["x"].astype(object).where(rows.cells["x"].notna(), None).tolist() == values
    parsed = [None if cell in ("", "NA", "?", "null") else cell.strip('"').strip() for cell in cells]
    if '"' not in "".join(cells):
        held = rows_from_python({"x": parsed, "label": list("abcd")}, "train", None, "label")
        assert held.cells["x"].astype(object).where(held.cells["x"].notna(), None).tolist() == values


@pytest.mark.parametrize(
    ("text", "values"),
    [("6.611;0,76\n944;0,5\n", [[6611, 0.76], [944, 0.5]]), ("1.234.567,5;-0,5\n1;2\n", [[1234567.5, -0.5], [1, 2]])],
)
def test_with_decimal_commas_a_dot_groups_thousands(tmp_path, text, values):
    assert read_rows(path_of(tmp_path, "a;b\n" + text)).cells.values.tolist() == values


def path_of(folder, text):
    (folder / "a.csv").write_text(text)
    return folder / "a.csv"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a;b\n1.5;0,7\n2.5;0,8\n", "line 2, column 'a': '1.5' is not a number: numbers of this file have a decimal"),
        ("a,b\n" + "5%,1\n" * 9 + "0.5,1\n", "line 11, column 'a': '0.5' is not written like the other values"),
        ("a,b\n" + "5,1\n" * 12 + "abc,1\n", "line 14, column 'a': 'abc' is not a number, but most values"),
    ],
)
def test_a_column_written_in_two_ways_is_refused(tmp_path, text, message):
    with pytest.raises(DataError) as raised:
        read_rows(path_of(tmp_path, text))
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("name", "values", "left_out"),
    [
        ("", [3, 1, 2, 0], True),
        ("Id", [101, 105, 103, 120], True),
        ("PassengerId", [1, 2, 3, 4], True),
        ("uuid", ["a", "b", "c", "d"], False),
        ("id", ["a", "b", "c", "d"], True),
        ("paid", [10, 20, 35, 45], False),
        ("id", [1, 1, 2, 3], False),
        ("id", [0.5, 1.5, 2.5, 3.5], False),
    ],
)
def test_a_column_that_only_tells_rows_apart_is_left_out_and_said(tmp_path, name, values, left_out):
    lines = "".join(f"{value},{n},{'ab'[n % 2]}\n" for n, value in enumerate(values))
    rows = read(tmp_path / "a.csv", f"{name},x,label\n{lines}")
    assert rows.columns == (("x",) if left_out else (name, "x"))
    assert any("is different in every row: left out" in line for line in rows.remarks) == left_out
    held = rows_from_python({name: values, "x": [0, 1, 2, 3], "label": list("abab")}, "train", None, "label")
    assert held.columns == rows.columns and held.remarks == rows.remarks
    asked = read_rows(tmp_path / "a.csv", [name, "x"], "label")
    assert asked.columns == (name, "x")


def test_labels_that_are_whole_numbers_are_the_same_in_every_form(tmp_path):
    assert read(tmp_path / "a.csv", "x,label\n1,1.0\n2,1\n3,NA\n").labels == ("1", "1", "NA")
    assert rows_from_python(([[1], [2]], [1.0, "1.0"]), "train", None, "label").labels == ("1", "1")


def test_bad_lines_are_left_out_and_counted_where_that_is_asked_for(tmp_path):
    findings = Findings("skip")
    rows = read(tmp_path / "a.csv", "x,label\n" + "1,a\n" * 12 + 'abc,b\n1,2,3\n5,\n7,c\n8,"b"c\n', findings=findings)
    assert len(rows) == 13 and rows.origin(12) == "a.csv:17"
    assert list(map(str, findings.found)) == [
        "another number of columns, left out: 1 line (15)",
        "not CSV, left out: 1 line (18)",
        "not a number, left out: 1 line (14)",
        "no label, left out: 1 line (16)",
    ]


# --- what a model reads


def test_irregular_lines_and_repeated_names_do_not_hide_the_label(tmp_path):
    rows = "1,2,x\n3,4,y\n"
    assert read(tmp_path / "a.csv", f"a,b,class\n{rows}\t\n{rows}").labels == ("x", "y", "x", "y")
    with pytest.raises(DataError, match=r"line 4 has 1 columns, but its first line names 3"):
        read(tmp_path / "a.csv", f"a,b,class\n{rows}5\n{rows}")
    (tmp_path / "a.csv").write_text("a,a,class,b\n1,2,x,3\n3,4,y,5\n")
    assert read_rows(tmp_path / "a.csv", ["b"], "label").labels == ("x", "y")
    with pytest.raises(DataError, match="has two columns 'a'"):
        read_rows(tmp_path / "a.csv", None, "label")


def test_quotes_enclose_cells_between_tabs_where_they_enclose_names(tmp_path):
    held = read(tmp_path / "a.tsv", '"a"\t"b"\t"label"\n1\t"x y"\t"p"\n2\t"z"\t"q"\n')
    assert (held.cells.values.tolist(), held.labels) == ([[1.0, "x y"], [2.0, "z"]], ("p", "q"))
    bare = read(tmp_path / "a.tsv", 'a\tb\tlabel\n1\t"x\tp\n2\tz"\tq\n')
    assert bare.cells["b"].tolist() == ['"x', 'z"']


def test_a_table_of_which_no_row_is_left_is_refused(tmp_path):
    (tmp_path / "a.csv").write_text("a,label\n1,\n2,\n")
    with pytest.raises(DataError, match=r"no rows left in .*a.csv; no label, left out: 2 lines \(2, 3\)"):
        heed.train("table", train=tmp_path / "a.csv", settings={"data.bad_lines": "skip"})


def table_of_people(count=300):
    rng = random.Random(1)
    rows = []
    for n in range(count):
        sex = rng.choice(["female", "male"])
        survived = int(rng.random() < (0.9 if sex == "female" else 0.1))
        age = "" if n % 7 == 3 else rng.randrange(1, 80)
        cabin = f"C{n}" if n % 50 == 0 else rng.choice(["A1", "B2", ""])
        rows.append(f'{n + 1},{survived},"Doe, {n}",{sex},{age},{cabin}\n')
    return "PassengerId,Survived,Name,Sex,Age,Cabin\n" + "".join(rows)


def test_categories_are_columns_and_gaps_are_the_median_with_a_mark():
    cells = {"age": [1.0, None, 3.0, 8.0], "port": ["S", "S", "S", None], "name": list("abcd"), "label": list("abab")}
    rows = rows_from_python(cells, "train", None, "label")
    features, said = Features.of(rows)
    assert features.encoded_names == ("age", "age (missing)", "port=S", "port=(missing)")
    assert features.encoded(rows).values.tolist() == [[1, 0, 1, 0], [3, 1, 1, 0], [3, 0, 1, 0], [8, 0, 0, 1]]
    assert said == ["column 'name' has 4 values and none of them 3 times: left out"]


def test_rare_and_unseen_categories_share_a_column(tmp_path):
    rows = rows_from_python({"x": ["a"] * 3 + ["b", "c"], "label": list("ababa")}, "train", None, "label")
    features, _ = Features.of(rows)
    assert features.encoded_names == ("x=(other)", "x=a") or features.encoded_names == ("x=a", "x=(other)")
    other = rows_from_python({"x": ["a", "new", 7]}, "rows", features.names, kinds=features.kinds)
    place = features.encoded_names.index("x=(other)")
    assert features.encoded(other).values[:, place].tolist() == [0, 1, 1]
    path = tmp_path / "features.json"
    save(path, features.columns)
    assert Features(load(path, tuple[Feature, ...])) == features
    path.write_text(path.read_text().replace('"x"', "3"))
    with pytest.raises(heed.errors.RunError, match=r"features\.json is damaged"):
        load(path, tuple[Feature, ...])


def test_a_table_with_words_and_gaps_is_learned_from_a_file_and_from_a_frame(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "people.csv").write_text(table_of_people())
    code, _, err = call(capsys, "train", "table", "people.csv", "--out", "none")
    assert code == 2 and "people.csv': no column is called label, labels, class, target, species, ...; " in err
    assert "data.columns.label=NAME chooses from 'PassengerId' (1, 2, 3, ...), 'Survived' (0, 1), 'Name' (" in err
    words = ("train", "table", "people.csv", "data.columns.label=Survived", "--out", "run", "training.steps=60")
    code, out, err = call(capsys, *words, "training.threads=1", "training.learning_rate=0.02")
    assert code == 0, err
    for line in (
        "column 'PassengerId' is different in every row: left out",
        "column 'Name' has 250 values and none of them 3 times: left out",
        "column 'Sex': 2 categories (female, male)",
        "missing numbers are the median of the training rows: 'Age' (",
    ):
        assert line in out + err
    values = json.loads((tmp_path / "run" / "features.json").read_text())
    assert [one["name"] for one in values] == ["Sex", "Age", "Cabin"]
    run, frame = heed.load("run"), pd.read_csv("people.csv")
    assert run.predict({"Sex": "female", "Age": math.nan, "Cabin": None}).label == "1"
    code, out, _ = call(capsys, "predict", "run", "--input", "people.csv")
    from_frame = run.predict(frame)
    assert [line.split("\t")[0] for line in out.splitlines()] == [one.label for one in from_frame]
    assert np.mean([one.label == str(s) for one, s in zip(from_frame, frame["Survived"], strict=True)]) > 0.8
    settings = {**QUICK, "data.columns.label": "Survived"}
    other = heed.train("table", train=frame, out=None, settings=settings, quiet=True)
    assert other.task.input.features.names == run.task.input.features.names
    with pytest.raises(DataError, match="'old' is not a number, but those of the training rows are"):
        run.predict([{"Sex": "male", "Age": "old", "Cabin": "A1"}, {"Sex": "male", "Age": "young", "Cabin": "A1"}])


def test_two_columns_with_usual_names_of_a_label_are_asked_about_in_python_too():
    with pytest.raises(DataError, match=r"could be the label: 'class' \(2 values\), 'target' .*data\.columns\.label"):
        rows_from_python({"class": list("ab"), "target": list("xy"), "x": [1, 2]}, "train", None, "label")
    assert rows_from_python({"Class": list("ab"), "x": [1, 2]}, "train", None, "label").label_name == "Class"


def test_what_is_left_out_of_python_data_is_said_and_other_splits_follow_training():
    train = pd.DataFrame({"id": range(60), "Id2": [7] * 60, "x": [n % 7 for n in range(60)], "class": list("ab") * 30})
    valid = train.assign(Id2=range(60))[:9]  # there it counts the rows
    run = heed.train("table", train=train, valid=valid, out=None, settings=QUICK, quiet=True)
    assert run.task.input.features.names == ("Id2", "x")
    for line in ("column 'id' is different in every row: left out", "columns: label is 'class'"):
        assert line in run.task.notes


def test_dates_and_mixed_cells_are_the_same_categories_in_training_and_prediction(tmp_path):
    days = pd.to_datetime(["2024-01-01", "2024-01-02"] * 6)
    frame = pd.DataFrame({"day": days, "size": ["1.0", "L"] * 6, "label": list("ab") * 6})
    for rows in (rows_from_python(frame, "train", None, "label"), read(tmp_path / "a.csv", frame.to_csv(index=False))):
        features, _ = Features.of(rows)
        assert [name for name in features.encoded_names if name.startswith("size")] == ["size=1", "size=L"]
        again = rows_from_python(frame, "rows", features.names, kinds=features.kinds)
        shares = features.encoded(again).values.mean(0)
        assert shares.tolist() == [0.5] * len(features.encoded_names)


def test_a_file_without_names_is_not_warned_of_for_its_numbers(tmp_path):
    (tmp_path / "a.csv").write_text("".join(f"{n}.5,{n % 2}\n" for n in range(20)))
    rows = read_rows(tmp_path / "a.csv", None, 1)
    assert rows.labels[:2] == ("0", "1") and not any("warning" in line for line in rows.remarks)
    (tmp_path / "b.csv").write_text("red,yes\n" + "".join(f"blue,{('no', 'yes')[n % 2]}\n" for n in range(20)))
    assert "warning: 'yes', which line 1 names as a column, is also a label" in "".join(
        read_rows(tmp_path / "b.csv", None, "yes").remarks
    )


def test_numbers_can_be_read_as_categories(tmp_path):
    text = "zone,x,label\n" + "".join(f"{n % 3},{n},{'ab'[n % 2]}\n" for n in range(30))
    rows = read(tmp_path / "a.csv", text, categories=["zone"])
    assert Features.of(rows)[0].encoded_names == ("zone=0", "zone=1", "zone=2", "x")
    held = rows_from_python(pd.read_csv(tmp_path / "a.csv"), "train", None, "label", categories=["zone"])
    assert Features.of(held)[0] == Features.of(rows)[0]


def test_training_under_a_time_budget_ends_before_a_table_is_learned_by_heart(monkeypatch, capsys):
    monkeypatch.setattr("heed.tasks.table._UPDATES", 30)
    monkeypatch.setattr("heed.tasks.table._PASSES", 2)
    frame = pd.DataFrame({"x": np.arange(60) % 7, "label": list("ab") * 30})
    settings = {key: value for key, value in QUICK.items() if key != "training.steps"} | {"training.patience": None}
    run = heed.train("table", train=frame, minutes=1, out=None, settings=settings)
    assert run.report["training"]["updates"] == 30 == run.task.most_updates
    out, err = capsys.readouterr()
    assert "all 30 updates done" in out + err
    monkeypatch.setattr("heed.tasks.table._PASSES", 100)
    assert run.task.most_updates == 100  # 54 rows are one batch


# --- Files as people have them: each is read as its authors meant it, or refused with the setting that reads it


UD = (
    "# sent_id = 1\n# text = Dogs don't bark.\n"
    "1\tDogs\tdog\tNOUN\tNNS\tNumber=Plur\t4\tnsubj\t_\t_\n"
    "2-3\tdon't\t_\t_\t_\t_\t_\t_\t_\t_\n"
    "2\tdo\tdo\tAUX\tVBP\t_\t4\taux\t_\t_\n"
    "3\tn't\tnot\tPART\tRB\t_\t4\tadvmod\t_\t_\n"
    "4\tbark\tbark\tVERB\tVB\t_\t0\troot\t_\tSpaceAfter=No\n"
    "4.1\tbark\tbark\tVERB\tVB\t_\t_\t_\t0:root\t_\n"
    "5\t.\t.\tPUNCT\t.\t_\t4\tpunct\t_\t_\n\n"
)
WORDS = ("Dogs", "do", "n't", "bark", ".")
UPOS, XPOS = ("NOUN", "AUX", "PART", "VERB", "PUNCT"), ("NNS", "VBP", "RB", "VB", ".")
FORTY = [f"{word} {pos} {tag}" for word, pos, tag in zip(WORDS, XPOS, ("B-PER", "O", "O", "O", "O"), strict=True)]


def read_tags(path, text, **columns):
    path.write_text(text, encoding="utf-8")
    findings = Findings()
    return read_sentences([path], data_of("tagging", columns=columns), findings), findings


@pytest.mark.parametrize(
    ("columns", "tags", "said"),
    [
        ({}, UPOS, "CoNLL-U: the words are FORM, the tags UPOS"),
        ({"label": "xpos"}, XPOS, "CoNLL-U: the words are FORM, the tags XPOS"),
        ({"label": 4}, XPOS, "CoNLL-U: the words are FORM, the tags XPOS"),
        ({"word": "lemma", "label": "UPOS"}, UPOS, "CoNLL-U: the words are LEMMA, the tags UPOS"),
    ],
)
def test_conll_u_is_read_as_forms_and_parts_of_speech(tmp_path, columns, tags, said):
    sentences, findings = read_tags(tmp_path / "en.conllu", UD * 2, **columns)
    words = ("dog", "do", "not", "bark", ".") if "word" in columns else WORDS
    assert [(one.words, one.tags) for one in sentences] == [(words, tags)] * 2
    assert said in findings.remarks
    assert list(map(str, findings.found)) == ["multiword token or empty node, left out: 4 lines (4, 8, 14, ...)"]


def test_a_column_that_conll_u_does_not_have_is_refused_with_the_names_it_has(tmp_path):
    with pytest.raises(DataError, match=r"data\.columns\.label cannot be xpo; did you mean 'xpos'\?"):
        read_tags(tmp_path / "en.conllu", UD, label="xpo")
    with pytest.raises(DataError, match=r"line 5: the tag is empty"):
        read_tags(tmp_path / "en.conllu", UD.replace("\tAUX\t", "\t\t"))


def test_conll_u_is_tagged_line_by_line_and_named_to_other_tasks(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    texts = [UD.replace("Dogs", f"{a}{b}ogs") for a in "DBFHL" for b in "xyz"]
    (tmp_path / "en.conllu").write_text("".join(texts))
    words = ("train", "tagging", "en.conllu", "--out", "run", "--model", "rnn", "training.steps=2", "data.valid=2")
    code, out, err = call(capsys, *words, "model.d_embedding=8", "model.d_hidden=8")
    assert code == 0 and "CoNLL-U: the words are FORM, the tags UPOS" in out + err
    (tmp_path / "one.conllu").write_text(UD)
    code, out, _ = call(capsys, "predict", "run", "--columns", "--input", "one.conllu")
    rows, given = [line.split("\t") for line in out.splitlines()], [line.split("\t") for line in UD.splitlines()]
    assert code == 0 and [row[:3] + row[4:] for row in rows] == [row[:3] + row[4:] for row in given]
    assert rows[3] == given[3] and rows[7] == given[7] and {rows[n][3] for n in (2, 4, 5)} <= set(UPOS)
    code, _, err = call(capsys, "train", "classification", "en.conllu", "--out", "other")
    assert code == 2 and "it is CoNLL-U" in err and "heed train tagging en.conllu" in err


NUMBERED = "".join(f"{n} {line}\n" for n, line in enumerate(FORTY, start=1)) + "\n"
LISTED = (
    "data.columns.word=NAME chooses from 0 (1, 2, 3, ...), 1 (Dogs, do, n't, ...), 2 (NNS, VBP, RB, ...), "
    "3 (B-PER, O); the file has no header"
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (NUMBERED * 2, f"the words are numbers; {LISTED}"),
        (NUMBERED.replace(" B-", "\tB-").replace(" ", "\t").replace(".\tO", ".\tO"), "the words are numbers"),
        (
            "".join(f"{line} {'+-'[n % 2]}\n" for n, line in enumerate(FORTY * 2)),
            "the last column contains only + and -; data.columns.label=NAME chooses from 0 (Dogs, do, n't, ...), 1 (NN",
        ),
        (
            "".join(f"{line} train\n" for line in FORTY * 2),
            "the last column contains only train; data.columns.label=NAME",
        ),
        (
            "".join(line.replace(" ", "\t") + "\t\n" for line in FORTY),
            "the last column contains only blanks; data.columns.label=NAME",
        ),
    ],
)
def test_a_column_of_numbers_is_no_word_and_one_without_tags_no_tag(tmp_path, text, message):
    with pytest.raises(DataError) as raised:
        read_tags(tmp_path / "a.conll", text)
    assert message in str(raised.value)
    word = int(text[0] == "1")
    (sentence, *_), _ = read_tags(tmp_path / "a.conll", text, word=word, label=word + 2)
    assert sentence.words[:5] == WORDS and sentence.tags[:5] == ("B-PER", "O", "O", "O", "O")


def test_a_file_without_entities_is_no_file_without_tags(tmp_path):
    (sentence,), _ = read_tags(tmp_path / "a.conll", "".join(f"{line[:-1]}O\n" for line in FORTY[1:] * 3))
    assert set(sentence.tags) == {"O"}


def test_classes_of_a_data_set_in_memory_have_their_names():
    features = datasets.Features({"text": Value("string"), "label": ClassLabel(names=["bad", "good"])})
    rows = [{"text": f"text {n}", "label": n % 2} for n in range(30)]
    steps = {"training.steps": 1, "model.d_embedding": 8, "model.d_hidden": 8}
    run = heed.train(
        "classification", train=Dataset.from_list(rows, features=features), model="rnn", out=None, settings=steps
    )
    assert sorted(run.head.labels) == ["bad", "good"]


def test_entities_of_a_data_set_in_memory_have_their_names():
    names = ["O", "B-PER", "I-PER"]
    features = datasets.Features({"tokens": Sequence(Value("string")), "ner_tags": Sequence(ClassLabel(names=names))})
    rows = [{"tokens": ["Ann", "Lee", f"w{n}"], "ner_tags": [1, 2, 0]} for n in range(30)]
    for data in (
        Dataset.from_list(rows, features=features),
        Dataset.from_list(rows, features=features).select(range(9)),
    ):
        sentences = examples_from_python(
            data, "train", sentence_reader(data_of("tagging")), ("words", "tags"), Findings()
        )
        assert {one.tags for one in sentences} == {("B-PER", "I-PER", "O")}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", "text,label\nsome text,1.0\nmore text,1\n"),
        ("a.tsv", "text\tlabel\nsome text\t1.0\nmore text\t1\n"),
        ("a.jsonl", '{"text": "some text", "label": 1.0}\n{"text": "more text", "label": "1.0"}\n'),
        ("a.txt", "1.0 some text\n1 more text\n"),
        ("b.txt", "__label__1.0 some text\n__label__1 more text\n"),
    ],
)
def test_a_whole_number_is_the_same_label_in_every_form(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    read = list(text_reader(data_of("classification")).read([tmp_path / name], Findings()))
    assert [(one.text, one.labels) for one in read] == [("some text", ("1",)), ("more text", ("1",))]
    held = examples_from_python(
        [("some text", 1.0), ("more text", "1.0")],
        "train",
        text_reader(data_of("classification")),
        ("text", "label"),
        Findings(),
    )
    assert [one.labels for one in held] == [("1",), ("1",)]


def test_a_label_with_a_fraction_or_known_from_training_stays():
    assert [labels_in(text, data_of("classification")) for text in ("1.5", "01", "v1.0", "1.0.0")] == [
        ("1.5",), ("01",), ("v1.0",), ("1.0.0",),
    ]  # fmt: skip
    assert labels_in("1.0", data_of("classification"), {"1.0"}) == ("1.0",)


def test_a_byte_order_mark_inside_a_field_is_left_out_and_counted(tmp_path):
    (tmp_path / "a.tsv").write_text("\ufeffone\t\ufeffuno\ntwo\tdos\n", encoding="utf-8")
    findings = Findings()
    pairs = list(pair_reader().read([tmp_path / "a.tsv"], findings))
    assert [(one.source, one.target) for one in pairs] == [("one", "uno"), ("two", "dos")]
    assert list(map(str, findings.found)) == ["byte-order mark, left out: 1 line (1)"]
