"""Labelled texts and tagged columns that fight back: the same mechanism as for pairs, left out whole and counted."""

import gzip
import os

import pytest

from heed.cli import main
from heed.data.findings import Findings
from heed.data.kinds.tagged import read_sentences
from heed.data.kinds.texts import TextFormat, text_reader
from heed.data.splits.splits import open_splits
from heed.errors import DataError
from heed.tasks.classification.config import TextsData
from heed.tasks.tagging.config import ColumnsData

GOOD = [f"{'pos' if n % 2 else 'neg'} text number {n}" for n in range(40)]
SKIP = "; data.bad_lines=skip leaves such lines out and counts them"


def texts(content, name="a.txt", folder=None, **form):
    """What is read and left out with bad lines skipped; and the message without."""
    path = folder / name
    path.write_bytes(content)
    findings = Findings("skip", max_line=50)
    kept = [(text.text, text.labels) for text in text_reader(TextFormat(**form)).read([path], findings)]
    with pytest.raises(DataError) as raised:
        list(text_reader(TextFormat(**form)).read([path], Findings(max_line=50)))
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
    kept = [text.text for text in text_reader(TextFormat()).read([tmp_path], findings)]
    assert kept == ["a neg text", "marked text", "a pos text"]
    assert findings.left_out == {"not UTF-8": 2}
    assert [(f.where, f.what, f.places) for f in findings.found] == [
        (str(tmp_path), "not UTF-8, left out", ["neg/2.txt:2", "pos/2.txt:2"]),
        (str(tmp_path), "byte-order mark at the start of the line, left out", ["neg/3.txt:1"]),
        (str(tmp_path), "carriage return inside the line, read as a space", ["neg/3.txt:1"]),
    ]


def test_a_file_that_vanishes_from_its_folder_is_an_error_whatever_the_policy(tmp_path):
    for label in ("neg", "pos"):
        (tmp_path / label).mkdir()
        for n in range(3):
            (tmp_path / label / f"{n}.txt").write_text("text\n", encoding="utf-8")
    reading = text_reader(TextFormat()).read([tmp_path], Findings("skip"))
    next(reading)
    os.unlink(tmp_path / "neg" / "2.txt")
    with pytest.raises(DataError, match=r"2.txt' vanished while its folder was being read"):
        list(reading)


def opened(path, **fields):
    data = TextsData(train=[str(path)], valid=8, **fields)
    splits = open_splits(data, text_reader(TextFormat()))
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


def test_scripts_of_texts_are_told_as_those_of_pairs(tmp_path):
    path, test = tmp_path / "a.txt", tmp_path / "t.txt"
    path.write_text("\n".join([*GOOD, "pos שלום"]), encoding="utf-8")
    test.write_text("pos кот\n", encoding="utf-8")
    splits = opened(path, test=[str(test)])
    assert "train, texts: Hebrew letters, written right to left; tokens are in reading order: 1 text" in splits.notes
    assert "warning: test, texts: Cyrillic letters, which do not occur in the training set: 1 text" in splits.notes


def test_a_cut_off_archive_of_texts_is_read_up_to_there_if_asked_for(tmp_path):
    path = tmp_path / "a.txt.gz"
    packed = gzip.compress("".join(f"pos text {n * n}\n" for n in range(20_000)).encode())
    path.write_bytes(packed[: len(packed) // 2])
    with pytest.raises(DataError, match=r"is cut off or damaged after line \d+: .*; data.bad_lines=skip uses the"):
        opened(path)
    splits = opened(path, bad_lines="skip")
    assert 0 < splits.counts["train"].kept < 20_000 and "warning: train, a.txt.gz: cut off" in splits.notes


# --- columns


def sentences(folder, content, **policy):
    path = folder / "a.conll"
    path.write_bytes(content)
    findings = Findings(**policy)
    return [s.words for s in read_sentences([path], ColumnsData(train=["x"]), findings)], findings


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


def test_columns_in_another_encoding_are_read_where_that_is_said(tmp_path):
    kept, findings = sentences(tmp_path, "café B-x\rbar O\r\r".encode("windows-1252"), encoding="windows-1252")
    assert kept == [("café", "bar")]
    assert {f.what for f in findings.found} >= {"not UTF-8, read as windows-1252"}


def test_check_and_training_of_labelled_files_say_what_was_left_out(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a.txt").write_bytes("".join(f"{line}\n" for line in GOOD).encode() + b"pos caf\xe9\n\n")
    words = ["classification", "a.txt", "--valid", "8", "tokenizer.min_count=1"]
    for command, fields, code, message in [
        ("check", [], 2, "line 41: byte 0xe9 at position 8 (after 'pos caf') is not UTF-8; it looks like Windows-1252"),
        ("check", ["data.bad_lines=skip"], 0, "    not UTF-8, left out: 1 line (41)"),
        ("train", ["training.steps=1", "--size", "tiny"], 2, "line 41: byte 0xe9"),
        (
            "train",
            ["training.steps=1", "--size", "tiny", "data.encoding=windows-1252", "evaluation.bootstrap=5"],
            0,
            "a.txt: not UTF-8, read as windows-1252: 1 line (41)",
        ),
    ]:
        with pytest.raises(SystemExit) as ended:
            main([command, *words, *fields])
        out, err = capsys.readouterr()
        assert (ended.value.code or 0) == code, err
        assert message in " ".join((out + err).split()) or message in out + err
