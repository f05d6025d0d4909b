"""Malformed pairs, texts and tags: each kind of damage is found, named with its place, and left out or refused."""

import gzip
import io
import os
import random
import re
import tracemalloc
from pathlib import Path

import pytest

import heed
from commands import call
from contract import data_of
from heed.config import Columns
from heed.data.findings import Findings
from heed.data.kinds.pairs import pair_reader
from heed.data.kinds.tagged import read_sentences
from heed.data.kinds.texts import text_reader
from heed.data.splits import open_splits
from heed.data.text_files import lines_of
from heed.errors import ConfigError, DataError
from heed.tasks import check_config
from heed.tasks.inputs.few_pairs import open_pairs

CLEAN = [(f"the cat number {n}", f"ologbo naa {n} ni") for n in range(60)]
SKIP = "; data.bad_lines=skip leaves such lines out and counts them"


def lines(texts, end="\n"):
    return [text.encode() + end.encode() for text in texts]


def write(folder, source=None, target=None, name="a"):
    """Two parallel files of lines of bytes; the clean pairs where none are given."""
    paths = []
    for ending, side, given in (("en", 0, source), ("yo", 1, target)):
        raw = lines(pair[side] for pair in CLEAN) if given is None else given
        paths.append(folder / f"{name}.{ending}")
        paths[-1].write_bytes(b"".join(raw))
    return paths


def with_line(number, line, side=0, end=b"\n"):
    """The clean lines of a side with one of them exchanged."""
    raw = lines(pair[side] for pair in CLEAN)
    raw[number - 1] = line + end
    return raw


def opened(files, **fields):
    splits = open_pairs(data_of("translation", train=[str(path) for path in files], valid=10, **fields))
    return splits.examples, splits.counts, splits.remarks


def problem(files, **fields):
    with pytest.raises(DataError) as raised:
        opened(files, **fields)
    return str(raised.value)


def found(files, split="train", **fields):
    """What was found, as (what, count, places), by the name of the file it was found in."""
    counts = opened(files, **fields)[1][split]
    assert counts.read == counts.kept + sum(counts.filtered.values())
    result = {}
    for one in counts.found:
        result.setdefault(Path(one.where).name, []).append((one.what, one.count, one.places))
    return result


# --- lines that cannot be used

BAD = {
    "NUL byte": (b"the\0cat", "contains a NUL byte at position 4 (after 'the')"),
    "not UTF-8": (b"the \xff\xfe cat", "byte 0xff at position 5 (after 'the ') is not UTF-8"),
    "more than data.max_line 100,000 characters": (
        b"x" * 10_000_000,
        "has more than data.max_line 100,000 characters; a larger data.max_line accepts it",
    ),
}


@pytest.mark.parametrize(("rule", "side"), [*zip(BAD, (0, 1, 0), strict=True)])
def test_a_bad_line_is_refused_with_its_place_or_left_out_with_its_pair(tmp_path, rule, side):
    line, message = BAD[rule]
    bad = with_line(7, line, side)
    files = write(tmp_path, *((bad, None) if side == 0 else (None, bad)))
    said = problem(files)
    assert f"'{files[side]}' line 7" in said and message in said and said.endswith(SKIP)
    pairs, counts, _ = opened(files, bad_lines="skip")
    assert counts["train"].filtered[rule] == 1 and counts["train"].read == 60
    assert found(files, bad_lines="skip") == {files[side].name: [(f"{rule}, left out", 1, ["7"])]}
    kept = {(pair.source, pair.target) for pair in (*pairs["train"], *pairs["valid"])}
    assert kept == {*CLEAN[:6], *CLEAN[7:]}, "the pairs after it are those they were"


def test_a_line_of_ten_megabytes_does_not_take_their_memory(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes(b"first\n" + b"x" * 10_000_000 + b"\nlast\n")
    tracemalloc.start()
    try:
        read = list(lines_of(path, Findings("skip")))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert (read[0], read[2], len(read)) == ("first", "last", 3)
    assert peak < 2_000_000


def test_lines_in_utf_8_stay_utf_8_beside_lines_of_another_encoding(tmp_path):
    path = tmp_path / "a.txt"
    path.write_bytes("żółw\n".encode() + "żółw\n".encode("iso-8859-2") + "кот\n".encode())
    assert list(lines_of(path, Findings(encoding="iso-8859-2"))) == ["żółw", "żółw", "кот"]


def test_a_byte_that_neither_encoding_has(tmp_path):
    said = problem(write(tmp_path, with_line(2, b"a\x81b")), encoding="windows-1252")
    assert "byte 0x81 at position 2 (after 'a') is not UTF-8 and the line is not windows-1252" in said


def test_cyrillic_bytes_are_not_taken_for_windows_1252(tmp_path):
    said = problem(write(tmp_path, with_line(2, "привет мир".encode("windows-1251"))))
    assert "1252 (" not in said and "set data.encoding to the encoding of such lines" in said


@pytest.mark.parametrize("encoding", ["utf-16", "klingon", "base64"])
def test_an_encoding_that_cannot_be_is_refused(encoding):
    with pytest.raises(ConfigError, match=f"data.encoding is '{encoding}', expected an encoding that Python knows"):
        check_config({"data": {"train": "a.tsv", "encoding": encoding}}, "test")
    with pytest.raises(ConfigError, match="applies to files, but the data is a data set of the Hub"):
        check_config({"data": {"hub": "user/name", "encoding": "windows-1252"}}, "test")


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-16"])
def test_utf_16_is_recognised_with_and_without_its_mark(tmp_path, encoding):
    path = tmp_path / "a.tsv"
    path.write_bytes("the cat\tologbo\n".encode(encoding) * 9)
    with pytest.raises(DataError, match="is not UTF-8 text: it looks like UTF-16; convert it"):
        list(pair_reader().read([path], Findings("skip")))


# --- line ends and marks


def test_lines_that_end_in_cr_are_named_where_they_may_be_why_the_numbers_differ(tmp_path):
    raw = lines(pair[0] for pair in CLEAN)
    raw[9] = raw[9].replace(b"\n", b"\r")
    for fields in ({}, {"bad_lines": "skip"}):
        files = write(tmp_path, raw)
        assert problem(files, **fields) == (
            f"'{files[0]}' has 59 lines but '{files[1]}' has 60; line N of one must belong to line N of the other; "
            f"'{files[0]}' contains carriage returns (the first in line 10), which do not end lines here"
        )


# --- whole files


def cut_archive(folder, name, side):
    path = folder / name
    rows = [f"{pair[side]} {n * n * 7919}\n" for n, pair in enumerate(CLEAN * 200)]
    packed = gzip.compress("".join(rows).encode(), mtime=0)
    path.write_bytes(packed[: len(packed) // 2])
    return path, rows


def test_a_cut_off_archive_is_refused_or_read_up_to_there(tmp_path):
    cut, rows = cut_archive(tmp_path, "a.en.gz", 0)
    target = tmp_path / "a.yo"
    target.write_text("".join(f"t{n}\n" for n in range(len(rows))), encoding="utf-8")
    said = problem([cut, target])
    assert said.startswith(f"'{cut}' is cut off or damaged after line ") and "end-of-stream marker" in said
    assert said.endswith("; data.bad_lines=skip uses the lines before")
    for files in ([cut, target], [target, cut]):
        pairs, counts, _ = opened(files, bad_lines="skip")
        train = counts["train"]
        gone = train.filtered["'a.en.gz' is cut off before that line"]
        assert 0 < gone < len(rows) == train.read == train.kept + sum(train.filtered.values())
        (one,) = (one for one in train.found if "cut off" in one.what)
        assert one.warning and one.places == [str(len(rows) - gone)]
        for pair in pairs["train"][:50]:
            source, t = (pair.source, pair.target) if files[0] == cut else (pair.target, pair.source)
            assert source + "\n" == rows[int(t[1:])]


def read_until(path, stop, then):
    """Read some lines of a file, then do something to it, then the others."""
    reading = lines_of(path, Findings("skip"))
    for _ in range(stop):
        next(reading)
    then()
    return list(reading)


def test_a_file_that_vanishes_or_changes_while_it_is_read_is_an_error_whatever_the_policy(tmp_path):
    path = tmp_path / "a.en"
    path.write_bytes(b"a line of text\n" * 20_000)
    with pytest.raises(DataError, match=r"a.en' vanished while it was being read \(after line 20,000\)"):
        read_until(path, 3, path.unlink)
    path.write_bytes(b"a line of text\n" * 20_000)
    with pytest.raises(DataError, match=r"was being read \(300,000 bytes at first, 15 now, read up to line 4,"):
        read_until(path, 3, lambda: os.truncate(path, 15))
    path.write_bytes(b"a line of text\n" * 20_000)
    other = tmp_path / "b.en"
    other.write_bytes(b"another text..\n" * 20_000)
    with pytest.raises(DataError, match="changed while it was being read"):
        read_until(path, 3, lambda: other.replace(path))


def test_a_file_that_can_no_longer_be_read_is_named_with_the_line_before(tmp_path, monkeypatch):
    path = tmp_path / "a.en"
    path.write_bytes(b"a line of text\n" * 20_000)

    class Stale(io.BufferedReader):
        left = 546

        def readline(self, size=-1):
            if not self.left:
                raise OSError(116, "Stale file handle")
            self.left -= 1
            return super().readline(size)

    monkeypatch.setattr(Path, "open", lambda path, *given: Stale(io.FileIO(path)))
    with pytest.raises(DataError, match=r"cannot read '.*a.en' after line 546: Stale file handle"):
        list(lines_of(path, Findings("skip")))


# --- blanks, repeats, overlap


def repeated(folder):
    rows = [*CLEAN, CLEAN[4], (CLEAN[5][0], "another translation"), CLEAN[4], *(("new one", "b"), ("new two", "b"))]
    return write(folder, lines(r[0] for r in rows), lines(r[1] for r in rows))


def test_duplicate_pairs_are_said_and_dropped_if_asked_for(tmp_path):
    files = repeated(tmp_path)
    assert found(files) == {"": [("duplicate pair, kept", 2, ["a.en:61", "a.en:63"])]}
    assert opened(files)[1]["train"].found[0].warning
    pairs, counts, _ = opened(files, duplicates="drop")
    assert counts["train"].filtered["duplicate pair"] == 2
    every = [(p.source, p.target) for p in (*pairs["train"], *pairs["valid"])]
    assert len(every) == len(set(every)) == 63, "each is kept once, and a second translation is no repeat"
    assert found(files, duplicates="drop") == {"": [("duplicate pair, left out", 2, ["a.en:61", "a.en:63"])]}


@pytest.mark.parametrize("in_memory", [0, 1_000])
def test_what_training_shares_with_the_test_set_is_said_and_dropped_if_asked_for(tmp_path, in_memory):
    files = write(tmp_path)
    test = write(tmp_path, lines(["x", CLEAN[7][0], "y", CLEAN[9][0]]), lines("abcd"), name="t")
    given = {"test": list(map(str, test)), "in_memory": in_memory}
    sources = {pair.source for pair in opened(files, **given)[0]["train"]}
    shared = [n for n in (7, 9) if CLEAN[n][0] in sources]  # one may be held out for validation
    what = "source is in the training set as well (data.overlap=drop leaves it out there)"
    places = [f"t.en:{2 if n == 7 else 4}" for n in shared]
    assert shared and (what, len(shared), places) in found(files, split="test", **given)[""]
    pairs, counts, _ = opened(files, overlap="drop", **given)
    assert not {pair.source for pair in pairs["train"]} & {pair.source for pair in pairs["test"]}
    assert counts["train"].filtered["source in the test set"] == len(shared)
    train = found(files, overlap="drop", **given)[""]
    assert ("source in the test set, left out", len(shared), [f"a.en:{n + 1}" for n in shared]) in train
    assert not any("as well" in what for what, *_ in found(files, split="test", overlap="drop", **given).get("", []))


# --- bad lines by rule, whatever the file

READERS = {
    "pairs": lambda path, findings: [pair.source for pair in pair_reader().read([path], findings)],
    "texts": lambda path, findings: [one.text for one in text_reader(data_of("classification")).read([path], findings)],
    "tags": lambda path, findings: [one.words for one in read_sentences([path], data_of("tagging"), findings)],
}
KEPT = {"pairs": ["a", "c"], "texts": ["good"], "tags": [("a",), ("e",)]}


def tags(line):
    """Three sentences, of which the second has a bad line."""
    return b"a B-x\n\nc O\n" + line + b"\nd I-x\n\ne B-x\n"


def objects(line):
    return b'{"source": "a", "target": "b"}\n' + line + b'\n{"source": "c", "target": "d"}\n'


def labelled(label):
    return b'{"text": "good", "label": "pos"}\n{"text": "bad", "label": ' + label + b"}\n"


@pytest.mark.parametrize(
    ("kind", "name", "content", "rule", "message"),
    [
        ("pairs", "a.tsv", b"a\tb\nonly\nc\td\n", "no column 1", "line 2 has 1 column ('only')"),
        ("pairs", "a.tsv", b"a\tb\n\xff\tx\nc\td\n", "not UTF-8", "line 2: byte 0xff"),
        ("pairs", "a.csv", b'a,b\n"x"y,z\nc,d\n', "not CSV", "line 2 is not CSV"),
        ("pairs", "a.csv", b"a,b\n\0,\nc,d\n", "NUL byte", "line 2 contains a NUL byte"),
        ("pairs", "a.csv", b'a,b\n"one\n\xff\ntwo",z\nc,d\n', "not UTF-8", "line 3: byte 0xff"),
        ("pairs", "a.jsonl", objects(b"[1]"), "not a JSON object", "line 2 "),
        ("pairs", "a.jsonl", objects(b'{"source": "a"}'), "no field 'target'", "line 2 "),
        ("pairs", "a.jsonl", objects(b'{"source": "a", "target": 3}'), "field 'target' is not text", "line 2"),
        ("pairs", "a.jsonl", objects(b"{"), "not JSON", "line 2 is not JSON"),
        ("pairs", "a.jsonl", objects(b'{"source": "a\\u0000", "target": "b"}'), "NUL byte", "line 2"),
        ("pairs", "a.jsonl", objects(b'{"source": "a\\ud800", "target": "b"}'), "half a surrogate pair", "line 2"),
        ("texts", "a.txt", b"pos good\nneg \0\n", "NUL byte", "line 2 contains a NUL byte at position 5"),
        ("texts", "a.txt", b"pos good\nneg \xff\n", "not UTF-8", "line 2: byte 0xff at position 5"),
        ("texts", "a.txt", b"pos good\nneg " + b"x" * 60, "more than data.max_line 50 characters", "line 2 has more"),
        ("texts", "a.txt", b"pos good\n__label__a __label__b x\n", "several labels", "line 2 has 2 labels (a, b)"),
        ("texts", "a.tsv", b"text\tlabel\ngood\tpos\nbad\n", "no column 1", "line 3 has 1 column ('bad'), expected at"),
        ("texts", "a.csv", b"text,label\ngood,pos\nbad,\n", "no label", "line 3 has no label"),
        ("tags", "a.conll", tags(b"b\0 O"), "NUL byte", "line 4 contains a NUL byte"),
        ("tags", "a.conll", tags(b"\xff O"), "not UTF-8", "line 4: byte 0xff at position 1"),
        ("tags", "a.conll", tags(b"b" * 60 + b" O"), "more than data.max_line 50 characters", "line 4 has more than"),
        ("tags", "a.conll", tags(b"b"), "different number of columns", "line 4 has 1 column ('b'), but the lines"),
        ("tags", "a.conll", tags(b"b x"), "illegal tag", "line 4: 'x' is not an entity tag"),
        ("tags", "a.conll", b"a\tB-x\n\nb\tO\nc\t\n\ne\tB-x\n", "empty tag", "line 4: the tag is empty"),
    ],
)
def test_a_bad_line_is_refused_or_left_out_with_what_belongs_to_it(tmp_path, kind, name, content, rule, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=re.escape(message)) as raised:
        READERS[kind](tmp_path / name, Findings(max_line=50))
    assert str(raised.value).endswith(SKIP)
    findings = Findings("skip", max_line=50)
    assert READERS[kind](tmp_path / name, findings) == KEPT[kind] and findings.left_out == {rule: 1}


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.tsv.gz", gzip.compress(b"a\tb\n", mtime=0)[:10], "a.tsv.gz' is cut off or damaged at its start: "),
        ("a.csv", b'a,b\n"c,d\ne,f\n', "line 2 is not CSV: unexpected end of data (read up to line 3)"),
        ("a.tsv", b"en\xff\tyo\nen\tyo\na\tb\n", "line 1 should name the columns, but is a bad line"),
    ],
)
def test_what_concerns_all_lines_is_an_error_whatever_the_policy(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    columns = Columns(source="en", target="yo") if name == "a.tsv" else Columns()
    with pytest.raises(DataError, match=re.escape(message)):
        list(pair_reader(columns).read([tmp_path / name], Findings("skip")))


def test_a_further_corpus_is_read_by_the_same_rules(tmp_path):
    files = write(tmp_path)
    extra = write(tmp_path, lines(["one more", "bad\0", "the last"]), lines("abc"), name="x")
    data = data_of(
        "translation", train=[str(path) for path in files], valid=10, extra=[{"files": list(map(str, extra))}]
    )
    with pytest.raises(DataError, match=r"x.en' line 2 contains a NUL byte"):
        open_pairs(data)
    splits = open_pairs(data.model_copy(update={"bad_lines": "skip"}))
    assert "extra x.en: 2 of 3 pairs kept, 1 left out: NUL byte (weight 1)" in splits.notes
    assert "extra x.en, x.en: NUL byte, left out: 1 line (2)" in splits.notes


# --- the commands


@pytest.fixture
def dirty(tmp_path, monkeypatch):
    """A corpus with one of each, and a clean test set."""
    source, target = (lines(pair[side] for pair in CLEAN) for side in (0, 1))
    source[2], source[5], target[8] = b"a\0b\n", "café\n".encode("windows-1252"), b"x" * 200_000 + b"\n"
    source[11], target[12] = b"the\rcat\n", b"\n"
    source[20], target[20] = source[19], target[19]
    write(tmp_path, source, target)
    write(tmp_path, lines(["кот", CLEAN[30][0]]), lines(["a", "b"]), name="t")
    monkeypatch.chdir(tmp_path)
    return ["translation", "a.en", "a.yo", "--test", "t.en,t.yo", "--valid", "8", "tokenizer.kind=word"]


def test_training_refuses_or_says_and_reports_what_it_left_out(dirty, capsys, tmp_path):
    small = ["model.d_hidden=8", "model.d_embedding=8", "training.steps=1", "training.threads=1", "--out", "run"]
    code, _, err = call(capsys, "train", *dirty, *small)
    assert code == 2 and "line 3 contains a NUL byte" in err.splitlines()[-1] and not (tmp_path / "run").exists()
    code, _, err = call(capsys, "train", *dirty, *small, "data.bad_lines=skip", "evaluation.bootstrap=5")
    assert code == 0
    said = " ".join(err.split())
    assert "train, a.en: NUL byte, left out: 1 line (3)" in said and "warning: train: duplicate pair" in said
    run = heed.load("run")
    train = run.report["data"]["train"]
    assert train["read"] == 60 == train["examples"] + sum(train["filtered"].values())
    assert train["filtered"]["NUL byte"] == train["filtered"]["not UTF-8"] == 1
    assert {"where": str(tmp_path / "a.en"), "what": "NUL byte, left out", "count": 1, "first": ["3"]} in train["found"]
    with pytest.raises(DataError, match="line 3 contains a NUL byte") as refused:
        run.read(["a.en", "a.yo"])  # a score of the lines that could be read would not be that of the file
    assert "skip" not in str(refused.value)


# --- vocabularies that can say next to nothing


def check(capsys, folder, source, target, *words):
    write(folder, lines(source), lines(target), name="v")
    code, out, err = call(capsys, "check", "translation", str(folder / "v.en"), str(folder / "v.yo"), *words)
    assert code == 0, err
    return out


def test_samples_show_what_cannot_be_seen(tmp_path, capsys):
    out = check(capsys, tmp_path, [f"the \u202ecat\u200b {n}" for n in range(40)], (f"w {n}" for n in range(40)))
    assert "source  the \\u202ecat\\u200b 0" in out and "\u202e" not in out


@pytest.mark.parametrize("task", ["translation", "language_modelling", "classification", "table"])
def test_training_data_in_a_pipe_is_refused_without_waiting(capsys, tmp_path, task):
    os.mkfifo(tmp_path / "pipe.tsv")
    for words in (["check", task, tmp_path / "pipe.tsv"], ["train", task, tmp_path / "pipe.tsv", "training.steps=1"]):
        code, out, err = call(capsys, *words)
        assert (code, out) == (2, "") and err.splitlines()[-1] == (
            f"heed: data.train: '{tmp_path}/pipe.tsv' is a named pipe, but a run reads its data again later; "
            "save it to a file"
        )


# --- labelled texts and tags

GOOD = [f"{'pos' if n % 2 else 'neg'} text number {n}" for n in range(40)]


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
    with pytest.raises(DataError, match=r"2\.txt'"):
        list(reading)


def opened_texts(path, **fields):
    data = data_of("classification", train=[str(path)], valid=8, **fields)
    splits = open_splits(data, text_reader(data_of("classification")))
    counts = splits.counts["train"]
    assert counts.read == counts.kept + sum(counts.filtered.values())
    return splits


def test_repeats_overlap_and_texts_with_two_labels_are_said(tmp_path):
    path, test = tmp_path / "a.txt", tmp_path / "t.txt"
    path.write_text("\n".join([*GOOD, GOOD[3], "neg text number 3", "pos", *GOOD[:1]]) + "\n", encoding="utf-8")
    test.write_text("pos something else\n" + "".join(text + "\n" for text in GOOD[:20]), encoding="utf-8")
    splits = opened_texts(path, test=[str(test)])
    assert [str(one) for one in splits.counts["train"].found] == [
        "blank, left out: 1 text (a.txt:43)",
        "duplicate text with different labels, kept: 1 text (a.txt:42)",
        "duplicate text, kept: 2 texts (a.txt:41, a.txt:44)",
    ]
    (shared,) = splits.counts["test"].found
    train = {text.text for text in splits.examples["train"]}
    assert shared.count == sum(text.text in train for text in splits.examples["test"]) and shared.warning
    splits = opened_texts(path, test=[str(test)], duplicates="drop", overlap="drop")
    filtered = splits.counts["train"].filtered
    assert filtered["duplicate text"] == 2 and filtered["text in the test set"] > 0
    train = [text.text for text in splits.examples["train"]]
    assert not set(train) & {text.text for text in splits.examples["test"]}


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
