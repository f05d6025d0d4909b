"""Readers of people's own files: what is written is what is read, and what is wrong is named once, with its place."""

import csv
import gzip
import io
import json
import lzma

import pandas
import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from contract import data_of
from heed.config import Columns
from heed.data import text_files as lines_module
from heed.data.columns import label_of
from heed.data.examples import Pair, is_empty
from heed.data.findings import BadLine, Findings
from heed.data.kinds.pairs import pair_reader
from heed.data.kinds.tagged import read_sentences
from heed.data.kinds.texts import text_reader
from heed.data.text_files import lines_of
from heed.errors import DataError
from heed.tasks.inputs.few_pairs import open_pairs

PAIRS = [("the cat", "ológbò náà"), ('she said "no", twice', "kò,\u00a0rárá"), ("", "x"), (" a  b ", "\U0001f600")]
PACK = {"": lambda data: data, ".gz": gzip.compress, ".xz": lzma.compress}
relaxed = settings(deadline=None, max_examples=60)
one_line = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\n\r\0"))
no_tab = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\n\r\t\0\ufeff"))
any_text = st.text(st.characters(exclude_categories=("Cs",), exclude_characters="\r\0\ufeff"))


def lines(texts, end="\n"):
    return "".join(text + end for text in texts).encode()


def as_csv(rows):
    file = io.StringIO(newline="")
    csv.writer(file).writerows(rows)
    return file.getvalue().encode()


def as_json(pairs, names=("source", "target")):
    return lines(json.dumps(dict(zip(names, pair, strict=True)), ensure_ascii=False) for pair in pairs)


def write(folder, **files):
    """Files by name, with '__' for the dot; their paths in the order given."""
    paths = [folder / name.replace("__", ".") for name in files]
    for path, data in zip(paths, files.values(), strict=True):
        path.write_bytes(data)
    return paths


def read(paths, source=None, target=None):
    return pair_reader(Columns(source=source, target=target)).read(paths, Findings())


def texts_of(paths, *columns):
    return [(pair.source, pair.target) for pair in read(paths, *columns)]


def problem(paths, *columns):
    with pytest.raises(DataError) as raised:
        list(read(paths, *columns))
    message = str(raised.value)
    assert "\n" not in message
    return message


# --- what is written is what is read


@pytest.mark.parametrize("packed", PACK)
def test_every_format_packed_or_not(tmp_path, packed):
    pack = PACK[packed]
    files = {
        "a.en": lines(source for source, _ in PAIRS),
        "a.yo": lines(target for _, target in PAIRS),
        "a.tsv": lines("\t".join(pair) for pair in PAIRS),
        "a": lines("\t".join(pair) for pair in PAIRS),
        "a.csv": as_csv(PAIRS),
        "a.jsonl": as_json(PAIRS),
        "a.json": as_json(PAIRS),
    }
    for name, data in files.items():
        (tmp_path / (name + packed)).write_bytes(pack(data))
    assert texts_of([tmp_path / f"a.en{packed}", tmp_path / f"a.yo{packed}"]) == PAIRS
    for name in list(files)[2:]:
        pairs = list(pair_reader().read([str(tmp_path / (name + packed))], Findings()))
        assert [(pair.source, pair.target) for pair in pairs] == PAIRS
        assert [pair.origin for pair in pairs] == [f"{name}{packed}:{n}" for n in range(1, 5)]


def test_columns_by_number(tmp_path):
    tsv, table = write(tmp_path, a__tsv=b"7\tein\tone\n8\tzwei\ttwo\n", a__csv=b'7,"ein",one\n8,zwei,"t,wo"\n')
    assert texts_of([tsv], 1, 2) == [("ein", "one"), ("zwei", "two")]
    assert texts_of([tsv], 2, 0) == [("one", "7"), ("two", "8")]
    assert texts_of([tsv], 1) == [("ein", "one"), ("zwei", "two")]  # the only other texts
    assert texts_of([table], 1, 2) == [("ein", "one"), ("zwei", "t,wo")]


def test_columns_by_name_stand_in_the_first_line(tmp_path):
    tsv, table, objects = write(
        tmp_path,
        a__tsv=b"id\tde\ten\n7\tein\tone\n",
        a__csv=b'\xef\xbb\xbf"de",id,en\nein,7,one\n',
        a__jsonl=b'{"de": "ein", "id": 7, "en": "one"}\n',
    )
    for path in (tsv, table, objects):
        assert texts_of([path], "de", "en") == [("ein", "one")]
    assert next(iter(read([tsv], "de", "en"))).origin == "a.tsv:2"


def test_a_quoted_text_may_hold_commas_quotes_and_line_breaks(tmp_path):
    (path,) = write(tmp_path, a__csv=b'"a ""b"", c","one\ntwo\n\nfour"\r\nd,e\n')
    pairs = list(read([path]))
    assert pairs == [Pair('a "b", c', "one\ntwo\n\nfour"), Pair("d", "e")]
    assert [pair.origin for pair in pairs] == ["a.csv:1", "a.csv:5"]  # where each begins


@pytest.mark.parametrize("name", ["a.tsv", "a.csv", "a.jsonl"])
def test_a_blank_line_is_a_pair_of_blanks_not_nothing(tmp_path, name):
    row = {"a.tsv": "x\ty", "a.csv": "x,y", "a.jsonl": '{"source": "x", "target": "y"}'}[name]
    (tmp_path / name).write_text(f"{row}\n\n{row}\n")
    assert texts_of([tmp_path / name]) == [("x", "y"), ("", ""), ("x", "y")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("written")


@relaxed
@given(st.lists(one_line, min_size=1), st.sampled_from(["", ".gz", ".xz"]))
def test_lines_come_back(folder, texts, packed):
    path = folder / f"a{packed}"
    path.write_bytes(PACK[packed](lines(texts)))
    expected = [text.lstrip("\ufeff") for text in texts]  # marks of joined files are no text either
    assert list(lines_of(path)) == expected
    assert texts_of([path, path]) == list(zip(expected, expected, strict=True))


@relaxed
@given(st.lists(st.tuples(no_tab, no_tab), min_size=1))
def test_tab_separated_pairs_come_back(folder, pairs):
    (path,) = write(folder, b__tsv=b"a\tb\n" + lines("\t".join(pair) for pair in pairs))
    assert texts_of([path], "a", "b") == texts_of([path])[1:] == pairs


@relaxed
@given(st.lists(st.tuples(any_text, any_text), min_size=1))
def test_quoted_pairs_come_back(folder, pairs):
    file = io.StringIO(newline="")
    csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_ALL).writerows([("a", "b"), *pairs])
    (path,) = write(folder, c__csv=file.getvalue().encode())
    assert texts_of([path], "a", "b") == texts_of([path])[1:] == pairs
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))  # CRLF within a text is a line break as any other
    assert texts_of([path]) == [("a", "b"), *pairs]


@relaxed
@given(st.lists(st.tuples(any_text, any_text), min_size=1), st.booleans())
def test_json_pairs_come_back(folder, pairs, escaped):
    objects = [json.dumps({"b": right, "a": left}, ensure_ascii=escaped) for left, right in pairs]
    (path,) = write(folder, d__jsonl=lines(objects))
    assert texts_of([path], "a", "b") == pairs


# --- what is wrong


@relaxed
@given(
    st.lists(one_line, max_size=3), one_line, st.sampled_from([b"\xff", b"\xc3(", b"\xed\xa0\x80", b"\x80"]), one_line
)
def test_the_place_of_a_bad_byte_is_right(folder, before, left, bad, right):
    (path,) = write(folder, e=lines(["x", *before]) + left.encode() + bad + right.encode())
    with pytest.raises(DataError, match=f"line {len(before) + 2}: byte 0x{bad[0]:02x} at position") as raised:
        list(lines_of(path))
    assert f"position {len(left.encode()) + 1} " in str(raised.value)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (gzip.compress(b"x\n"), "looks like gzip; name it .gz"),
        (lzma.compress(b"x\n"), "looks like xz; name it .xz"),
    ],
    ids=["gzip", "xz"],
)
def test_files_that_are_no_text_are_recognised(tmp_path, data, message):
    (path,) = write(tmp_path, a__txt=data)
    assert problem([path]).startswith(f"'{path}' is not UTF-8 text: it {message}")


@pytest.mark.parametrize("packed", PACK)
def test_an_empty_file(tmp_path, packed):
    empty, full = tmp_path / f"a{packed}", tmp_path / "b"
    empty.write_bytes(PACK[packed](b""))
    full.write_bytes(b"x\n")
    for paths in ([empty], [empty, full], [full, empty]):
        assert problem(paths) == f"'{empty}' is empty; expected one text a line"


def test_a_file_that_must_not_be_read(tmp_path, monkeypatch):
    def refused(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(type(tmp_path), "open", refused)  # root may read everything
    assert problem([tmp_path / "a"]) == f"cannot read '{tmp_path / 'a'}': Permission denied"


def test_a_column_that_lines_do_not_have(tmp_path):
    (path,) = write(tmp_path, a__csv=b"x,y\nonly one\n")
    assert f"'{path}' line 2 has 1 column ('only one'), expected at least 2" in problem([path])
    assert "columns are separated by commas" in problem([path])
    assert f"'{path}' line 1 has 2 columns ('x | y'), the source in column -1" in problem([path], -1)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"source": "x"}', "line 2 has no field 'target'; valid: source"),
        ('{"source": null, "target": "y"}', "line 2: field 'source' is null, expected text"),
        ('["x", "y"]', "line 2 is the list ['x', 'y'], expected an object with the fields 'source' and 'target'"),
        ('{"source": "x", "target"', "line 2 is not JSON: Expecting ':' delimiter at position 25"),
        ("x\ty", "line 2 is not JSON: Expecting value at position 1 ('x\\ty'); expected one object a line"),
        ("[" * 100_000, "line 2 is not JSON"),
        (r'{"source": "\ud800", "target": "y"}', "line 2: field 'source' contains half a surrogate pair"),
    ],
)
def test_json_that_is_not_a_pair(tmp_path, line, message):
    (path,) = write(tmp_path, a__jsonl=('{"source": "x", "target": "y"}\n' + line + "\n").encode())
    assert f"'{path}' {message}" in problem([path])


@pytest.mark.parametrize("limit", [1_000, 2**40])
def test_the_largest_field_of_csv_is_ours_whatever_other_libraries_set_for_the_process(tmp_path, limit):
    (good,) = write(tmp_path, good__csv=f"a,{'d' * 2_000}\nb,c\n".encode())
    (bad,) = write(tmp_path, bad__csv=('a,b\nc,"' + ("d" * 70_000 + "\n") * 2 + '"\n').encode())
    before = csv.field_size_limit(limit)
    try:
        assert len(list(read([good]))) == 2
        assert "line 2 is not CSV: field larger than field limit" in problem([bad])
        assert csv.field_size_limit() == limit
    finally:
        csv.field_size_limit(before)


@pytest.mark.parametrize("packed", [".gz", ".xz"])
def test_a_packed_file_that_is_cut_off_or_damaged(tmp_path, packed):
    path = tmp_path / f"a.tsv{packed}"
    data = PACK[packed](lines(f"{n * n}\t{n**3}" for n in range(5_000)))
    for damaged in (data[: len(data) // 2], data[:10], data[:300] + b"\xff" * 40 + data[340:], b"plain\ttext\n"):
        path.write_bytes(damaged)
        message = problem([path])
        assert message.startswith(f"'{path}' is cut off or damaged "), message
    path.write_bytes(data[: len(data) // 2])
    assert "after line " in problem([path])


# --- under any bytes: readers read or raise DataError, number lines rightly, and lose nothing uncounted


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


@relaxed
@given(any_bytes, st.sampled_from(["a.tsv", "a.csv", "a.jsonl", "a.txt"]), st.sampled_from([None, 0, "a"]), policies)
def test_any_bytes_are_pairs_or_a_data_error(folder, data, name, column, findings):
    path = written(folder, name, data)
    pairs = reads_or_refuses(lambda: list(pair_reader(Columns(source=column)).read([path], findings)))
    for pair in pairs or ():
        (pair.source + pair.target).encode()
        assert "\0" not in pair.source + pair.target and pair.origin.startswith(f"{name}:")


@relaxed
@given(any_bytes, st.sampled_from(["b.tsv", "b.csv", "b.jsonl", "b.txt"]), st.booleans(), policies)
def test_any_bytes_are_labelled_texts_or_a_data_error(folder, data, name, several, findings):
    path = written(folder, name, data)
    columns = {"text": 0, "label": 1} if name in ("b.tsv", "b.csv") else {}
    options = data_of("classification", columns=columns, several_labels=several)
    texts = reads_or_refuses(lambda: list(text_reader(options).read([path], findings)))
    for text in texts or ():
        "".join([text.text, *text.labels]).encode()
        assert several or len(text.labels) == 1 or not text.text.strip()


@relaxed
@example(b",", "auto", Findings())
@given(any_bytes, st.sampled_from(["auto", "bio", "plain"]), policies)
def test_any_bytes_are_tagged_words_or_a_data_error(folder, data, scheme, findings):
    path = written(folder, "c.conll", data)
    config = data_of("tagging", scheme=scheme)
    for sentence in reads_or_refuses(lambda: read_sentences([path], config, findings)) or ():
        assert len(sentence.words) == len(sentence.tags) > 0


@relaxed
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
    raw = raw.replace(b"\xef\xbb\xbf", b"")
    try:
        text = raw.decode()
    except UnicodeDecodeError:
        return None
    return text if len(text) <= most else None


@relaxed
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


@relaxed
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
        splits = open_pairs(data_of("translation", train=files, valid=1, test=files, bad_lines="skip", **policy))
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


@relaxed
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
    expected = [(text, () if is_empty(text) else (label_of(label),)) for text, label in rows]
    assert [
        (text.text, text.labels) for text in text_reader(data_of("classification")).read([path], Findings())
    ] == expected


@relaxed
@example([[";"]], " ")
@example([["a;b"]], " ")
@given(st.lists(st.lists(words, min_size=1, max_size=5), min_size=1, max_size=5), st.sampled_from("\t "))
def test_tagged_words_come_back(folder, sentences, between):
    every = [word for sentence in sentences for word in sentence]
    assume(between == "\t" or every in ([";"], ["a;b"]) or not any(all(one in word for word in every) for one in ",;"))
    rows = ["".join(f"{word}{between}T{n}\n" for n, word in enumerate(sentence)) for sentence in sentences]
    path = written(folder, "i.conll", "\n".join(rows).encode())
    read = read_sentences([path], data_of("tagging", scheme="plain"))
    assert [list(sentence.words) for sentence in read] == sentences


def test_a_parquet_file_is_a_table_with_names(tmp_path):
    pytest.importorskip("pyarrow")
    path = tmp_path / "a.parquet"
    pandas.DataFrame({"review": ["good film", None, "bad film"], "stars": [5, 4, 1]}).to_parquet(path)
    findings, options = Findings("skip"), data_of("classification", columns={"text": "review", "label": "stars"})
    assert [(one.text, one.labels, one.origin) for one in text_reader(options).read([path], findings)] == [
        ("good film", ("5",), "a.parquet[0]"),
        ("bad film", ("1",), "a.parquet[2]"),
    ]
    assert findings.left_out == {"column 'review' is not text": 1}
    other = data_of("classification", columns={"text": "reviews", "label": "stars"})
    with pytest.raises(DataError, match=r"columns.text: .*a.parquet has no column 'reviews'; did you mean 'review'"):
        list(text_reader(other).read([path], Findings()))
    path.write_bytes(b"PAR1 and nothing more")
    with pytest.raises(DataError, match=r"cannot read '.*a.parquet' as Parquet"):
        list(text_reader(options).read([path], Findings()))
