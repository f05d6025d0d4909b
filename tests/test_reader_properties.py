"""Readers under any bytes: they read or raise DataError, number lines rightly, and lose nothing uncounted."""

import csv
import gzip
import io
import json
import lzma

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from heed.config import Columns, FilesData
from heed.data import text_files as lines_module
from heed.data.findings import BadLine, Findings
from heed.data.kinds.pairs import pair_reader
from heed.data.kinds.tagged import read_sentences
from heed.data.kinds.texts import TextFormat, text_reader
from heed.data.splits.pairs import open_pairs
from heed.data.text_files import lines_of
from heed.errors import DataError
from heed.tasks.tagging.config import ColumnsData

some = settings(deadline=None, max_examples=60)
PIECES = [
    *(b"\n", b"\r\n", b"\r", b"\t", b",", b'"', b'""', b" ", b"a", b"#", b"\0", b"\xff", b"caf\xe9", b"O", b"B-x"),
    *("\u05d0 \u0645".encode(), b"\xef\xbb\xbf", "\u2028".encode(), b"x" * 30, b'{"source": "a", "target": "b"}'),
    *(
        b'{"text": "a", "label": "b"}',
        b"__label__a ",
        b'{"source": "\\ud800", "target": 1}',
        b"\x1f\x8b",
        b"PK\x03\x04",
    ),
]
any_bytes = st.one_of(st.binary(max_size=60), st.lists(st.sampled_from(PIECES), max_size=40).map(b"".join))
policies = st.builds(
    Findings,
    st.sampled_from(["error", "skip"]),
    st.sampled_from(["utf-8", "windows-1252", "gb18030"]),
    st.integers(1, 99),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("any")


def written(folder, name, data):
    path = folder / name
    path.write_bytes(data)
    return path


def reads_or_refuses(read):
    """What is read, or None where it is refused in a message of one line."""
    try:
        return read()
    except DataError as refused:
        assert str(refused) and "\n" not in str(refused)
        return None


@some
@given(any_bytes, st.sampled_from(["a.tsv", "a.csv", "a.jsonl", "a.txt"]), st.sampled_from([None, 0, "a"]), policies)
def test_any_bytes_are_pairs_or_a_data_error(folder, data, name, column, findings):
    path = written(folder, name, data)
    pairs = reads_or_refuses(lambda: list(pair_reader(Columns(source=column)).read([path], findings)))
    for pair in pairs or ():
        (pair.source + pair.target).encode()
        assert "\0" not in pair.source + pair.target and pair.origin.startswith(f"{name}:")


@some
@given(any_bytes, st.sampled_from(["b.tsv", "b.csv", "b.jsonl", "b.txt"]), st.booleans(), policies)
def test_any_bytes_are_labelled_texts_or_a_data_error(folder, data, name, several, findings):
    path = written(folder, name, data)
    form = TextFormat(text=0, label=1, several=several) if name in ("b.tsv", "b.csv") else TextFormat(several=several)
    texts = reads_or_refuses(lambda: list(text_reader(form).read([path], findings)))
    for text in texts or ():
        "".join([text.text, *text.labels]).encode()
        assert several or len(text.labels) == 1 or not text.text.strip()


@some
@given(any_bytes, st.sampled_from(["auto", "bio", "plain"]), policies)
def test_any_bytes_are_tagged_words_or_a_data_error(folder, data, scheme, findings):
    path = written(folder, "c.conll", data)
    config = ColumnsData(train=["x"], scheme=scheme)
    for sentence in reads_or_refuses(lambda: read_sentences([path], config, findings)) or ():
        assert len(sentence.words) == len(sentence.tags) > 0


@some
@given(any_bytes, st.sampled_from([".gz", ".xz"]), st.data(), policies)
def test_an_archive_cut_or_changed_anywhere_is_read_or_refused(folder, data, packed, draw, findings):
    whole = (gzip.compress if packed == ".gz" else lzma.compress)(data * 20)
    cut = draw.draw(st.integers(0, len(whole)))
    changed = bytearray(whole[:cut])
    if changed and draw.draw(st.booleans()):
        changed[draw.draw(st.integers(0, len(changed) - 1))] ^= 0xFF
    path = written(folder, f"d.txt{packed}", bytes(changed))
    reads_or_refuses(lambda: list(lines_of(path, findings)))


plain_line = st.lists(st.sampled_from([p for p in PIECES if not set(p) & set(b"\r\n\0")]), max_size=6).map(b"".join)


def expected_line(raw, most):
    """What a reader makes of one line, said in the plainest way."""
    while raw.startswith(b"\xef\xbb\xbf"):
        raw = raw[3:]
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return None
    return text if len(text) <= most else None


@some
@given(
    st.lists(plain_line, min_size=1, max_size=20),
    st.sampled_from([b"\n", b"\r\n", b"\r"]),
    st.integers(1, 70),
    st.integers(1, 40),
)
def test_lines_and_their_numbers_do_not_depend_on_how_they_are_read(folder, raws, end, chunk, most):
    raws = [b"first", *raws]  # no signature of another kind of file
    path = written(folder, "e.txt", b"".join(raw + end for raw in raws))
    expected = [expected_line(raw, most) for raw in raws]
    whole, piecewise = Findings("skip", max_line=most), Findings("skip", max_line=most)
    with pytest.MonkeyPatch.context() as patch:
        for findings in (whole, piecewise):
            read = [None if isinstance(line, BadLine) else line for line in lines_of(path, findings)]
            assert read == expected
            patch.setattr(lines_module, "_CHUNK", max(chunk, 7))  # from here on in small pieces; the first ends line 1
    bad = [str(n) for n, text in enumerate(expected, start=1) if text is None]
    for findings in (whole, piecewise):
        left_out = [one for one in findings.found if one.what.endswith(", left out") and "mark" not in one.what]
        assert sum(one.count for one in left_out) == len(bad)
        assert sorted({place for one in left_out for place in one.places}, key=int)[:1] == bad[:1]


@some
@given(st.lists(st.tuples(plain_line, plain_line), min_size=1, max_size=12))
def test_of_parallel_files_exactly_the_pairs_with_a_bad_line_are_left_out(folder, raws):
    raws = [(b"first", b"first"), *raws]
    files = [written(folder, f"f.{side}", b"".join(raw[side] + b"\n" for raw in raws)) for side in (0, 1)]
    findings = Findings("skip")
    expected = [tuple(expected_line(side, 100_000) for side in raw) for raw in raws]
    kept = {n: pair for n, pair in enumerate(expected, start=1) if None not in pair}
    read = {int(p.origin.split(":")[1]): (p.source, p.target) for p in pair_reader().read(files, findings)}
    assert read == kept
    assert findings.left_out.total() == len(raws) - len(kept)


@settings(deadline=None, max_examples=25)
@given(st.lists(st.tuples(plain_line, plain_line), min_size=1, max_size=12), st.booleans(), st.booleans())
def test_what_is_read_is_kept_or_counted_whatever_is_wrong(folder, raws, duplicates, overlap):
    raws = [*((b"first %d" % n, b"x") for n in range(6)), *raws]
    files = [str(written(folder, f"g.{side}", b"".join(raw[side] + b"\n" for raw in raws))) for side in (0, 1)]
    policy = {"duplicates": "drop" if duplicates else "keep", "overlap": "drop" if overlap else "keep"}
    try:
        splits = open_pairs(FilesData(train=files, valid=1, test=files, bad_lines="skip", **policy))
    except DataError as refused:
        assert overlap and "no training pairs left" in str(refused)
        return
    pairs, counts = splits.examples, splits.counts
    for split in ("train", "test"):
        assert counts[split].read == len(raws) == counts[split].kept + sum(counts[split].filtered.values())
        assert counts[split].kept == len(pairs[split])
    if duplicates:
        assert len(set(pairs["train"])) == len(pairs["train"])


words = st.text(
    st.characters(exclude_categories=("Cs", "Cc", "Z"), exclude_characters="\ufeff#"), min_size=1, max_size=9
)
readable = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\r\0\ufeff"), max_size=20)


@some
@given(st.lists(st.tuples(readable, words), min_size=1, max_size=8), st.sampled_from(["h.csv", "h.tsv", "h.jsonl"]))
def test_labelled_texts_come_back_from_every_format(folder, rows, name):
    if name == "h.csv":
        file = io.StringIO(newline="")
        csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_ALL).writerows([("text", "label"), *rows])
        content = file.getvalue()
    elif name == "h.tsv":
        rows = [(" ".join(text.split()), label) for text, label in rows]
        content = "".join(f"{text}\t{label}\n" for text, label in [("text", "label"), *rows])
    else:
        content = "".join(json.dumps({"text": text, "label": label}) + "\n" for text, label in rows)
    path = written(folder, name, content.encode())
    expected = [(text, (label,) if text.strip() else ()) for text, label in rows]
    assert [(text.text, text.labels) for text in text_reader(TextFormat()).read([path], Findings())] == expected


@some
@given(st.lists(st.lists(words, min_size=1, max_size=5), min_size=1, max_size=5), st.sampled_from("\t "))
def test_tagged_words_come_back(folder, sentences, between):
    rows = ["".join(f"{word}{between}T{n}\n" for n, word in enumerate(sentence)) for sentence in sentences]
    path = written(folder, "i.conll", "\n".join(rows).encode())
    read = read_sentences([path], ColumnsData(train=["x"], scheme="plain"))
    assert [list(sentence.words) for sentence in read] == sentences
