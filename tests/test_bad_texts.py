"""Labelled texts and tagged columns that fight back: the same mechanism as for pairs, left out whole and counted."""

import os
import random

import pytest

import commands
import heed
from contract import data_of
from heed.data.findings import Findings
from heed.data.kinds.tagged import read_sentences
from heed.data.kinds.texts import text_reader
from heed.data.splits import open_splits
from heed.errors import DataError

GOOD = [f"{'pos' if n % 2 else 'neg'} text number {n}" for n in range(40)]
SKIP = "; data.bad_lines=skip leaves such lines out and counts them"


def texts(content, name="a.txt", folder=None, **form):
    """What is read and left out with bad lines skipped; and the message without."""
    path = folder / name
    path.write_bytes(content)
    findings = Findings("skip", max_line=50)
    kept = [(text.text, text.labels) for text in text_reader(data_of("classification", **form)).read([path], findings)]
    with pytest.raises(DataError) as raised:
        list(text_reader(data_of("classification", **form)).read([path], Findings(max_line=50)))
    assert str(raised.value).endswith(SKIP)
    return kept, dict(findings.left_out), str(raised.value)


@pytest.mark.parametrize(
    ("name", "content", "rule", "message"),
    [
        ("a.txt", b"pos good\nneg \0\n", "NUL byte", "line 2 contains a NUL byte at position 5"),
        ("a.txt", b"pos good\nneg \xff\n", "not UTF-8", "line 2: byte 0xff at position 5"),
        ("a.txt", b"pos good\nneg " + b"x" * 60, "more than data.max_line 50 characters", "line 2 has more than"),
        ("a.txt", b"pos good\n__label__a __label__b x\n", "several labels", "line 2 has 2 labels (a, b)"),
        ("a.tsv", b"text\tlabel\ngood\tpos\nbad\n", "no column 1", "line 3 has 1 column ('bad'), expected at least 2"),
        ("a.csv", b"text,label\ngood,pos\nbad,\n", "no label", "line 3 has no label; data.several_labels=true"),
        (
            "a.jsonl",
            b'{"text": "good", "label": "pos"}\n{"text": "bad", "label": "\\ud800"}\n',
            "half a surrogate pair",
            "line 2: field 'label' contains half a surrogate pair",
        ),
        (
            "a.jsonl",
            b'{"text": "good", "label": "pos"}\n{"text": "bad", "label": 0.5}\n',
            "field is not a label",
            "line 2: field 'label' is the number 0.5, expected a label",
        ),
    ],
)
def test_a_bad_line_is_refused_with_its_place_or_left_out(tmp_path, name, content, rule, message):
    kept, left_out, said = texts(content, name, tmp_path)
    assert (kept, left_out) == ([("good", ("pos",))], {rule: 1})
    assert message in said


def test_files_of_a_folder_are_named_by_class_and_line(tmp_path):
    for label in ("neg", "pos"):
        (tmp_path / label).mkdir()
        (tmp_path / label / "1.txt").write_text(f"a {label} text\n", encoding="utf-8")
        (tmp_path / label / "2.txt").write_bytes(b"first\n\xff\n")
    (tmp_path / "neg" / "3.txt").write_bytes(b"\xef\xbb\xbfmarked\rtext\n")
    findings = Findings("skip")
    kept = [text.text for text in text_reader(data_of("classification")).read([tmp_path], findings)]
    assert kept == ["a neg text", "marked text", "a pos text"]
    assert findings.left_out == {"not UTF-8": 2}
    assert [(f.where, f.what, f.places) for f in findings.found] == [
        (str(tmp_path), "not UTF-8, left out", ["neg/2.txt:2", "pos/2.txt:2"]),
        (str(tmp_path), "byte-order mark, left out", ["neg/3.txt:1"]),
        (str(tmp_path), "carriage return inside the line, read as a space", ["neg/3.txt:1"]),
    ]


def test_a_file_that_vanishes_from_its_folder_is_an_error_whatever_the_policy(tmp_path):
    for label in ("neg", "pos"):
        (tmp_path / label).mkdir()
        for n in range(3):
            (tmp_path / label / f"{n}.txt").write_text("text\n", encoding="utf-8")
    reading = text_reader(data_of("classification")).read([tmp_path], Findings("skip"))
    next(reading)
    os.unlink(tmp_path / "neg" / "2.txt")
    with pytest.raises(DataError, match=r"no file '.*2.txt'"):
        list(reading)


def opened(path, **fields):
    data = data_of("classification", train=[str(path)], valid=8, **fields)
    splits = open_splits(data, text_reader(data_of("classification")))
    counts = splits.counts["train"]
    assert counts.read == counts.kept + sum(counts.filtered.values())
    return splits


def test_repeats_overlap_and_texts_with_two_labels_are_said(tmp_path):
    path, test = tmp_path / "a.txt", tmp_path / "t.txt"
    path.write_text("\n".join([*GOOD, GOOD[3], "neg text number 3", "pos", *GOOD[:1]]) + "\n", encoding="utf-8")
    test.write_text("pos something else\n" + "".join(text + "\n" for text in GOOD[:20]), encoding="utf-8")
    splits = opened(path, test=[str(test)])
    assert [str(one) for one in splits.counts["train"].found] == [
        "blank, left out: 1 text (a.txt:43)",
        "duplicate text with different labels, kept: 1 text (a.txt:42)",
        "duplicate text, kept: 2 texts (a.txt:41, a.txt:44)",
    ]
    (shared,) = splits.counts["test"].found
    train = {text.text for text in splits.examples["train"]}
    assert shared.count == sum(text.text in train for text in splits.examples["test"]) and shared.warning
    splits = opened(path, test=[str(test)], duplicates="drop", overlap="drop")
    filtered = splits.counts["train"].filtered
    assert filtered["duplicate text"] == 2 and filtered["text in the test set"] > 0
    train = [text.text for text in splits.examples["train"]]
    assert not set(train) & {text.text for text in splits.examples["test"]}


# --- columns


def sentences(folder, content, **policy):
    path = folder / "a.conll"
    path.write_bytes(content)
    findings = Findings(**policy)
    return [s.words for s in read_sentences([path], data_of("tagging"), findings)], findings


@pytest.mark.parametrize(
    ("line", "rule", "message"),
    [
        (b"b\0 O", "NUL byte", "line 4 contains a NUL byte"),
        (b"\xff O", "not UTF-8", "line 4: byte 0xff at position 1"),
        (b"b" * 60 + b" O", "more than data.max_line 50 characters", "line 4 has more than"),
        (b"b", "different number of columns", "line 4 has 1 column ('b'), but the lines before it have 2"),
        (b"b x", "illegal tag", "line 4: 'x' is not an entity tag"),
    ],
)
def test_a_bad_line_takes_its_sentence_with_it(tmp_path, line, rule, message):
    content = b"a B-x\n\nc O\n" + line + b"\nd I-x\n\ne B-x\n"
    with pytest.raises(DataError) as raised:
        sentences(tmp_path, content, max_line=50)
    assert message in str(raised.value) and str(raised.value).endswith(SKIP)
    kept, findings = sentences(tmp_path, content, max_line=50, bad_lines="skip")
    assert kept == [("a",), ("e",)] and findings.left_out == {rule: 1}
    assert [(f.what, f.places) for f in findings.found] == [(f"{rule}, left out", ["4"])]


def test_an_empty_tag_takes_its_sentence_with_it(tmp_path):
    content = b"a\tO\n\nb\tO\nc\t\n\nd\tB-x\n"
    with pytest.raises(DataError, match=r"line 4: the tag is empty"):
        sentences(tmp_path, content)
    kept, findings = sentences(tmp_path, content, bad_lines="skip")
    assert kept == [("a",), ("d",)] and findings.left_out == {"empty tag": 1}


# --- what people's labelled files get wrong, from the command line


FILLER = "the of and film story it was we saw plot".split()
COMMON = {"training.threads": 1, "training.device": "cpu", "evaluation.bootstrap": 10, "model.size": "tiny"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("bad")
    rng = random.Random(1)
    for name, count in (("train", 60), ("valid", 10)):
        texts = [" ".join(rng.choices(FILLER, k=5)) + (" great." if n % 2 else " awful.") for n in range(count)]
        lines = [f"{'pos' if n % 2 else 'neg'} {text}\n" for n, text in enumerate(texts)]
        (folder / f"{name}.txt").write_text("".join(lines))
        rows = ["".join(f"{w}\t{'B-x' if w in ('film', 'plot') else 'O'}\n" for w in text.split()) for text in texts]
        (folder / f"{name}.conll").write_text("\n".join(rows))
    return folder


def trained(folder, task, out, **settings):
    ending = "txt" if task == "classification" else "conll"
    return heed.train(
        task, train=folder / f"train.{ending}", valid=folder / f"valid.{ending}", steps=2, out=out,
        settings=COMMON | settings, quiet=True,
    )  # fmt: skip


@pytest.fixture(scope="module")
def han(folder):
    return trained(folder, "classification", folder / "han", **{"model.name": "han"})


@pytest.fixture(scope="module")
def tagger(folder):
    return trained(folder, "tagging", folder / "tagger")


def call(capsys, *words):
    code, out, err = commands.call(capsys, *words)
    assert "Traceback" not in err
    return code, out, err


def test_an_unknown_label_at_test_time_is_named_with_its_line(folder, han, capsys, tmp_path):
    (tmp_path / "test.txt").write_text("pos a film\nneutral a plot\n")
    code, out, err = call(capsys, "evaluate", han.folder, tmp_path / "test.txt")
    assert (code, out) == (2, "")
    assert "test.txt:2: label 'neutral' was never seen in training; valid: neg, pos" in err
    words = ["train", "classification", folder / "train.txt", "--test", tmp_path / "test.txt", "--out", tmp_path / "r"]
    code, _, err = call(capsys, *words, "training.steps=1")
    assert code == 2 and "test.txt:2: label 'neutral'" in err and not (tmp_path / "r").exists()  # before any training


@pytest.mark.parametrize("text", ["", "   ", "<br /><br />", "<br />"])
def test_an_empty_document_has_no_label(han, capsys, text):
    prediction = han.predict(["great film.", text])[1]
    assert prediction.label == "" and prediction.probabilities == {} and prediction.uncertainty == 1.0
    code, out, _ = call(capsys, "predict", han.folder, "great film.", text)
    assert code == 0 and out.splitlines()[1] == ""
    code, _, err = call(capsys, "look", han.folder, text)
    assert code == 2 and "the text is blank" in err


def test_an_empty_document_of_a_file_is_left_out_and_counted(folder, capsys, tmp_path):
    (tmp_path / "some.csv").write_text('text,label\n"a film",pos\n" ",neg\n"<br />",neg\n"a plot",neg\n"we saw",pos\n')
    code, out, _ = call(capsys, "check", "classification", tmp_path / "some.csv", "--valid", folder / "valid.txt")
    assert code == 0 and "train: 3 of 5 texts kept, 2 left out: blank" in out


def test_one_class_is_nothing_to_tell_apart(capsys, tmp_path):
    (tmp_path / "one.txt").write_text("".join(f"pos film {n}\n" for n in range(30)))
    code, _, err = call(capsys, "train", "classification", tmp_path / "one.txt", "--out", tmp_path / "r")
    assert code == 2 and "every training example has the label 'pos'; training needs at least two different" in err
    (tmp_path / "one.conll").write_text("".join(f"{n}\tO\nfilm\tO\n\n" for n in range(30)))
    code, _, err = call(capsys, "train", "tagging", tmp_path / "one.conll", "--out", tmp_path / "r")
    assert code == 2 and "every training example has the label 'O'; training needs at least two different labels" in err
    assert not (tmp_path / "r").exists()


LONG = " ".join(["we saw the film and it was great."] * 1_250)
"""10,000 words."""


def test_a_document_of_10000_words_is_read_up_to_a_length_and_told(folder, han, tmp_path, capsys):
    assert han.predict(LONG).label in ("neg", "pos")
    notes = han.look(LONG).look.notes
    assert any("only the first 1000 tokens are read (data.max_length); 10250 more are not" in note for note in notes)
    (tmp_path / "long.txt").write_text(f"pos {LONG}\nneg {LONG.replace('.', '')}\n")
    code, out, _ = call(capsys, "evaluate", han.folder, tmp_path / "long.txt")
    assert code == 0 and "2 texts are longer than data.max_length; the rest was not read" in out
    code, _, err = call(
        capsys, "train", "classification", folder / "train.txt", "--test", tmp_path / "long.txt", "--model", "mlp",
        "--out", tmp_path / "mlp", "training.steps=1", "training.threads=1", "training.device=cpu",
    )  # fmt: skip
    assert code == 2 and "is longer than the window of mlp (50 tokens); set data.max_length=50" in err


def test_a_sentence_of_10000_words_is_tagged_whole_and_not_trained_on(folder, tagger, tmp_path, capsys):
    prediction = tagger.predict(LONG)
    assert len(prediction.tags) == 11_250
    rows = "".join(f"{word}\tO\n" for word in LONG.split())
    (tmp_path / "long.conll").write_text((folder / "train.conll").read_text() + "\n" + rows)
    code, out, _ = call(capsys, "check", "tagging", tmp_path / "long.conll", "--valid", folder / "valid.conll")
    assert code == 0 and "1 left out: longer than data.max_length 500 tokens" in out
