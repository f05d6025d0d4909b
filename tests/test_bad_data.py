"""Pairs that fight back: each kind of damage is found, named with its place, and left out or refused as asked."""

import gzip
import io
import os
import tracemalloc
from pathlib import Path

import pytest

import heed
from commands import call
from contract import data_of
from heed.config import Columns
from heed.data.findings import Findings
from heed.data.kinds.pairs import pair_reader
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


def test_an_archive_that_is_cut_off_at_its_start_is_an_error_whatever_the_policy(tmp_path):
    path = tmp_path / "a.tsv.gz"
    path.write_bytes(gzip.compress(b"a\tb\n")[:10])
    assert problem([path], bad_lines="skip").startswith(f"'{path}' is cut off or damaged at its start: ")


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


# --- files of columns and objects


@pytest.mark.parametrize(
    ("name", "content", "filtered"),
    [
        ("a.tsv", b"a\tb\nonly\n\xff\tx\nc\td\n", {"no column 1": 1, "not UTF-8": 1}),
        ("a.csv", b'a,b\n"x"y,z\n\0,\nc,d\n', {"not CSV": 1, "NUL byte": 1}),
        ("a.csv", b'a,b\n"one\n\xff\ntwo",z\nc,d\n', {"not UTF-8": 1}),
        (
            "a.jsonl",
            b'{"source": "a", "target": "b"}\n[1]\n{"source": "a"}\n{"source": "a", "target": 3}\n{\n'
            b'{"source": "a\\u0000", "target": "b"}\n{"source": "a\\ud800", "target": "b"}\n'
            b'{"source": "c", "target": "d"}\n',
            {
                "not a JSON object": 1,
                "no field 'target'": 1,
                "field 'target' is not text": 1,
                "not JSON": 1,
                "NUL byte": 1,
                "half a surrogate pair": 1,
            },
        ),
    ],
)
def test_bad_rows_are_left_out_by_rule_and_the_others_are_as_they_were(tmp_path, name, content, filtered):
    path = tmp_path / name
    path.write_bytes(content)
    findings = Findings("skip")
    assert [(pair.source, pair.target) for pair in pair_reader().read([path], findings)] == [("a", "b"), ("c", "d")]
    assert findings.left_out == filtered
    with pytest.raises(DataError, match=r"line [23]"):
        list(pair_reader().read([path], Findings()))


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


def test_a_quote_that_is_never_closed_is_an_error_whatever_the_policy(tmp_path):
    path = tmp_path / "a.csv"
    path.write_bytes(b'a,b\n"c,d\ne,f\n')
    with pytest.raises(DataError, match=r"line 2 is not CSV: unexpected end of data \(read up to line 3\)"):
        list(pair_reader().read([path], Findings("skip")))


def test_a_first_line_that_names_the_columns_cannot_be_left_out(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_bytes(b"en\xff\tyo\nen\tyo\na\tb\n")
    with pytest.raises(DataError, match="line 1 should name the columns, but is a bad line"):
        list(pair_reader(Columns(source="en", target="yo")).read([path], Findings("skip")))


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
