"""Files as people have them: columns, separators and headers that nobody named, and files given to the wrong task."""

import csv
import io
import json
import random
import re
from types import SimpleNamespace

import pytest

from heed.data.read.findings import Findings
from heed.data.read.texts import TextFormat, read_texts, text_reader
from heed.data.store.splits import open_splits
from heed.errors import DataError
from heed.tasks import check_config, task_class
from heed.tasks.base.contents import advice
from heed.tasks.classification.config import TextsData
from heed.tasks.classification.outputs import ClassificationOutputs

WORDS = "the film was slow but its end is a small joy for all who like the sea and old songs".split()
LABELS = ["very good", "good", "bad"]


def labelled(count=60, seed=1):
    """Texts of several words, each with one of three labels."""
    rng = random.Random(seed)
    return [(" ".join(rng.choices(WORDS, k=8)), LABELS[n % 3]) for n in range(count)]


def sentences(count=60, seed=2):
    rng = random.Random(seed)
    return [" ".join(rng.choices(WORDS, k=7)).capitalize() + "." for _ in range(count)]


ROWS = labelled()
EXPECTED = [(text, (label,)) for text, label in ROWS]


def table(rows, separator=","):
    text = io.StringIO()
    csv.writer(text, delimiter=separator).writerows(rows)
    return text.getvalue()


def tabbed(rows):
    return "".join("\t".join(map(str, row)) + "\n" for row in rows)


def read(folder, name, content, encoding="utf-8", form=None):
    path = folder / name
    path.write_bytes(content.encode(encoding))
    findings = Findings()
    found = [(one.text, one.labels) for one in read_texts([path], form or TextFormat(advice=advice), findings)]
    return found, findings


def refused(folder, name, content, **form):
    with pytest.raises(DataError) as raised:
        read(folder, name, content, form=TextFormat(advice=advice, **form))
    return str(raised.value)


NO_HEADER = "; the file has no header, columns are counted from 0"


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("a.tsv", tabbed(ROWS), "columns: text is 0, label is 1 (3 values)" + NO_HEADER),
        ("a.tsv", tabbed((b, a) for a, b in ROWS), "columns: text is 1, label is 0 (3 values)" + NO_HEADER),
        ("a.txt", tabbed(ROWS), "columns: text is 0, label is 1 (3 values)" + NO_HEADER),
        ("a.txt", tabbed((b, a) for a, b in ROWS), "columns: text is 1, label is 0 (3 values)" + NO_HEADER),
        (
            "a.csv",
            table((n, *row) for n, row in enumerate(ROWS)),
            "columns: text is 1, label is 2 (3 values)" + NO_HEADER,
        ),
        (
            "a.tsv",
            tabbed([("sentence", "sentiment"), *ROWS]),
            "columns: text is 'sentence', label is 'sentiment' (3 values)",
        ),
        (
            "a.csv",
            table([("id", "review", "stars"), *((n, *row) for n, row in enumerate(ROWS))]),
            "columns: text is 'review', label is 'stars' (3 values)",
        ),
        ("a.csv", table([("Wohin", "Woher"), *ROWS]), "columns: text is 'Wohin', label is 'Woher' (3 values)"),
        ("a.csv", table([("text", "label"), *ROWS], ";"), "columns separated by semicolons"),
        (
            "a.csv",
            "\ufeff" + table([("Texte", "Catégorie"), *ROWS], ";"),
            "columns separated by semicolons; columns: text is 'Texte', label is 'Catégorie' (3 values)",
        ),
        (
            "a.jsonl",
            "".join(json.dumps({"id": f"x{n}", "review": a, "stars": b}) + "\n" for n, (a, b) in enumerate(ROWS)),
            "fields: text is 'review', label is 'stars' (3 values)",
        ),
        (
            "a.jsonl",
            "".join(json.dumps({"text": a, "sentiment": b}) + "\n" for a, b in ROWS),
            "fields: text is 'text', label is 'sentiment' (3 values)",
        ),
    ],
)
def test_columns_that_nobody_named_are_recognised_and_said_in_one_line(tmp_path, name, content, said):
    found, findings = read(tmp_path, name, content)
    assert found == EXPECTED
    assert findings.remarks == [said]


def test_an_export_of_excel_in_windows_1252_is_read_and_said(tmp_path):
    rows = [(f"{text} café", label) for text, label in ROWS]
    found, findings = read(tmp_path, "a.csv", table([("Texte", "Catégorie"), *rows], ";"), "windows-1252")
    assert found == [(text, (label,)) for text, label in rows]
    assert "not UTF-8, read as windows-1252: 61 lines (1, 2, 3, ...)" in [str(one) for one in findings.found]
    # Only as Excel writes it: any other file that is not UTF-8 is refused as before.
    with pytest.raises(DataError, match=r"line 1: byte 0xe9 .* it looks like Windows-1252"):
        read(tmp_path, "b.csv", table([("Texte", "Catégorie"), *rows]), "windows-1252")


@pytest.mark.parametrize("name", ["a.txt", "a.csv", "a.tsv", "train"])
def test_lines_of_fasttext_are_read_whatever_the_ending(tmp_path, name):
    content = "".join(
        f"__label__{label.replace(' ', '_')}{' ' if n % 2 else chr(9)}{text}\n" for n, (text, label) in enumerate(ROWS)
    )
    found, _ = read(tmp_path, name, content)
    assert found == [(text, (label.replace(" ", "_"),)) for text, label in ROWS]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.txt", "".join(f"{label.split()[0]} {text}\n" for text, label in ROWS)),
        ("a.txt", "".join(f"{label.split()[0]}\t{text}\n" for text, label in ROWS)),
        ("a.csv", table([("text", "label", "other"), *((*row, row[1]) for row in ROWS)])),
        ("a.jsonl", "".join(json.dumps({"label": b, "text": a, "other": b}) + "\n" for a, b in ROWS)),
    ],
)
def test_what_was_read_before_keeps_its_reading_unsaid(tmp_path, name, content):
    found, findings = read(tmp_path, name, content)
    assert [text for text, _ in found] == [text for text, _ in ROWS]
    assert {label.split()[0] for _, (label,) in found} == {"very", "good", "bad"}
    assert findings.remarks == [] and findings.found == []


def test_columns_that_are_unclear_are_asked_for_with_the_field_to_give(tmp_path):
    rows = [(("a", "b")[n % 2], *row) for n, row in enumerate(ROWS)]
    message = refused(tmp_path, "a.csv", table(rows))
    assert "several columns can hold the label: 0 (2 values: a, b), 2 (3 values: very good, good, bad)" in message
    assert "data.columns.label=0 takes the first of them" in message and "the file has no header" in message
    found, _ = read(tmp_path, "a.csv", table(rows), form=TextFormat(label=2))
    assert found == EXPECTED
    rows = [(label, text, other) for (text, label), (other, _) in zip(ROWS, labelled(seed=5), strict=True)]
    message = refused(tmp_path, "a.tsv", tabbed([("gold", "premise", "hypothesis"), *rows]))
    assert "'premise' and 'hypothesis' hold texts; data.columns.text=premise takes the first of them" in message


def test_the_label_of_a_test_set_is_found_by_the_labels_of_the_training_set(tmp_path):
    train, test = tmp_path / "train.tsv", tmp_path / "test.csv"
    train.write_text(tabbed(ROWS), encoding="utf-8")
    test.write_text(table([("a", "good", "so it is"), ("b", "bad", "and it was")]), encoding="utf-8")
    data = TextsData(train=[str(train)], valid=9, test=[str(test)])
    splits = open_splits(data, text_reader(TextFormat()))
    assert [(one.text, one.labels) for one in splits.examples["test"]] == [
        ("so it is", ("good",)),
        ("and it was", ("bad",)),
    ]
    assert "train: columns: text is 0, label is 1 (3 values)" + NO_HEADER in splits.remarks
    assert "test: columns: text is 2, label is 1 (2 values)" + NO_HEADER in splits.remarks


def test_labels_are_counted_and_one_that_is_most_of_the_texts_is_a_warning(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text(tabbed([("text", "label"), *((text, "ham") for text, _ in ROWS), *labelled(3, seed=8)]))
    values = {"task": "classification", "data": {"train": [str(path)], "valid": 6}}
    lines = task_class("classification").prepare(check_config(values, "test")).notes.splitlines()
    (counts,) = [line for line in lines if "by count" in line]
    assert counts.startswith("train: labels by count: ham 5") and "very good" in counts
    (warning,) = [line for line in lines if "macro F1" in line]
    assert re.fullmatch(
        r"warning: 9\d% of the training texts have the label 'ham': giving every text that label scores as much; look "
        r"at macro F1 \(data.class_weights=balanced weighs all labels alike\)",
        warning,
    )
    path.write_text(tabbed([("text", "label"), *ROWS]))
    assert "warning" not in task_class("classification").prepare(check_config(values, "test")).notes


def test_line_breaks_of_html_are_no_unknown_words(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text(tabbed([("text", "label"), *ROWS]))
    values = {"task": "classification", "data": {"train": [str(path)], "valid": 6}, "tokenizer": {"min_count": 1}}
    run = SimpleNamespace(task=task_class("classification").prepare(check_config(values, "test")))
    outputs = ClassificationOutputs(run, {})
    assert list(outputs.unknown_in("the film<br />was <br> zebra")) == ["zebra"]


# --- the wrong task


def test_sentences_are_not_taken_for_labelled_texts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    content = "".join(f"{one}\n" for one in sentences())
    message = refused(tmp_path, "my.en", content)
    assert "its lines are plain sentences, and their first words are no labels" in message
    assert "heed train language_modelling my.en, or heed train translation my.en TRANSLATIONS" in message
    assert message.endswith("data.format=lines takes first words as labels all the same")
    assert len(read(tmp_path, "my.en", content, form=TextFormat("lines"))[0]) == 60


CONLL = "".join(f"{word}\t{'B-loc' if word == 'sea' else 'O'}\n" for word in WORDS) + "\n"


def test_words_with_tags_are_not_taken_for_labelled_texts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for content in (
        CONLL * 5,
        CONLL.replace("\t", " ") * 5,
        CONLL.replace("\t", " NN "),
        "-DOCSTART- O\n\n" + CONLL * 3,
    ):
        message = refused(tmp_path, "file.conll", content)
        assert "has one word a line with a tag beside it (as 'sea B-loc')" in message
        assert message.endswith("heed train tagging file.conll")


def test_pairs_are_not_taken_for_labelled_texts(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pairs = list(zip(sentences(), sentences(seed=3), strict=True))
    for name, content in (("p.tsv", tabbed(pairs)), ("p.txt", tabbed(pairs)), ("p.csv", table(pairs, ";"))):
        message = refused(tmp_path, name, content)
        assert "columns 0 and 1 hold texts" in message
        assert f"train on it with: heed train translation {name}" in message


def test_a_header_that_is_read_as_a_text_is_said(tmp_path):
    _, findings = read(
        tmp_path, "a.txt", "label text\n" + "".join(f"{label.split()[0]} {text}\n" for text, label in ROWS)
    )
    assert [str(one) for one in findings.found] == [
        "looks like a header (label | text), read as a text; delete it: 1 line (1)"
    ]
    _, findings = read(tmp_path, "a.tsv", tabbed([("text", "label"), *ROWS]), form=TextFormat(text=0, label=1))
    assert [one.warning for one in findings.found] == [True]
