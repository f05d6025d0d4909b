"""Documents: what stands in the files is what the model gets, and what is held out is known."""

import gc
import gzip
import json
import lzma

import datasets
import pytest
import torch
from datasets import Dataset, DatasetDict
from hypothesis import given, settings
from hypothesis import strategies as st

from heed.data.corpus import StoredExamples
from heed.data.findings import Findings
from heed.data.kinds.documents import Document, document_reader, open_documents
from heed.data.tokens import END
from heed.data.tokens.tokenizer import TextTokenizer
from heed.errors import ConfigError, DataError
from heed.tasks import check_config
from heed.tasks.contracts import Draw
from heed.tasks.inputs.stream import TokenStream, blocks

pytestmark = pytest.mark.usefixtures("own_cache")

TEXTS = ["  One\ttext,\n\nwith an empty line.\n", "Zwei Größen 🍕\nno line end", "\u2028three\n", "four"]


def section(**fields):
    return check_config({"task": "language_modelling", "data": fields}, "test").data


def read(path, findings=None, **fields):
    data = section(train=[str(path)], **fields)
    return list(document_reader(data).read(data.train, findings or Findings.of(data)))


def texts_of(path, **fields):
    return [document.text for document in read(path, **fields)]


def write(path, text):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


def folder_of(folder, texts):
    for n, text in enumerate(texts):
        write(folder / f"{n:05}.txt", text)
    return folder


# What a text is


@settings(deadline=None, max_examples=60)
@given(text=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r\ufeff"), min_size=1))
def test_any_text_comes_through_a_file_unchanged(tmp_path_factory, text):
    assert texts_of(write(tmp_path_factory.mktemp("any") / "a.txt", text)) == [text]


def test_a_long_file_comes_through_unchanged(tmp_path):
    text = "".join(f"Zeile {n} größer\n" for n in range(30_000)) + "the end"
    assert texts_of(write(tmp_path / "a.txt", text)) == [text]
    assert texts_of(write(tmp_path / "b.txt", text.replace("\n", "\r\n"))) == [text]


@pytest.mark.parametrize(
    ("raw", "text", "said"),
    [
        (b"a\r\nb\r\n", "a\nb\n", "lines end in CRLF, read as LF: 2 lines"),
        (b"a\rb\rc", "a\nb\nc", "lines end in CR"),
        (b"a\nb\r\nc\n", "a\nb\nc\n", "mixed line endings (2 LF and 1 CRLF), all read as line breaks"),
        (b"\xef\xbb\xbfa\n", "a\n", "byte-order mark"),
    ],
)
def test_line_ends_are_read_as_lf_and_that_is_said(tmp_path, raw, text, said):
    findings = Findings()
    assert [d.text for d in read(write(tmp_path / "a.txt", raw), findings)] == [text]
    assert [said in str(one) for one in findings.found] == [True]


def test_line_ends_in_json_are_read_as_lf_and_that_is_said(tmp_path):
    findings = Findings()
    assert [d.text for d in read(write(tmp_path / "a.jsonl", '{"text": "a\\r\\nb\\n"}\n'), findings)] == ["a\nb\n"]
    assert ["CRLF, read as LF: 1 document (a.jsonl:1)" in str(one) for one in findings.found] == [True]


def test_a_carriage_return_inside_a_line_stays(tmp_path):
    findings = Findings()
    assert [d.text for d in read(write(tmp_path / "a.txt", b"a\rb\nc\n"), findings)] == ["a\rb\nc\n"]
    assert findings.found == []


# Where documents come from


def test_the_same_texts_from_files_folders_tables_and_data_sets(tmp_path, monkeypatch):
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "sets")
    datasets.disable_progress_bars()
    packed = folder_of(tmp_path / "packed", [])
    for n, text in enumerate(TEXTS):
        write(packed / f"{n}.txt.{'gz' if n % 2 else 'xz'}", (gzip, lzma)[1 - n % 2].compress(text.encode()))
    lines = "".join(json.dumps({"id": 3, "text": text}) + "\n" for text in TEXTS)
    body = "".join(json.dumps({"body": text}, ensure_ascii=False) + "\n" for text in TEXTS)
    separated = "\n<|end|>\n".join(text.removesuffix("\n") for text in TEXTS) + "\n"
    DatasetDict({"train": Dataset.from_list([{"text": text} for text in TEXTS])}).save_to_disk(tmp_path / "set")
    assert texts_of(folder_of(tmp_path / "plain", TEXTS)) == TEXTS
    assert texts_of(packed) == TEXTS
    assert texts_of(write(tmp_path / "a.jsonl", lines)) == TEXTS
    assert texts_of(write(tmp_path / "a.jsonl.gz", gzip.compress(lines.encode()))) == TEXTS
    assert texts_of(write(tmp_path / "b.json", body), columns={"text": "body"}) == TEXTS
    ended = [text.removesuffix("\n") + "\n" for text in TEXTS]
    assert texts_of(write(tmp_path / "a.txt", separated), separator="<|end|>") == ended
    splits = open_documents(section(hub=str(tmp_path / "set"), valid=1))
    assert sorted(d.text for split in splits.examples.values() for d in split) == sorted(TEXTS)
    gc.collect()  # memory-mapped files are closed with their tables


def test_tables_and_lines(tmp_path):
    csv = write(tmp_path / "a.csv", 'id,text\n1,"one, with\na line"\n2,two\n')
    tsv = write(tmp_path / "a.tsv", "pos\tfine\nneg\tpoor\n")
    assert texts_of(csv) == ["one, with\na line", "two"]
    assert texts_of(tsv, columns={"text": 1}) == ["fine", "poor"]
    assert texts_of(tsv, format="lines") == ["pos\tfine", "neg\tpoor"]
    assert texts_of(tsv, format="text") == ["pos\tfine\nneg\tpoor\n"]


def test_every_file_below_a_folder_in_order_and_hidden_ones_named(tmp_path):
    for name in ("b/z.txt", "b/a/deep.txt", "a.txt", "c.jsonl", ".hidden", ".git/config"):
        write(tmp_path / "all" / name, json.dumps({"text": name}) if name.endswith("jsonl") else name)
    findings = Findings()
    found = read(tmp_path / "all", findings)
    assert [d.text for d in found] == ["a.txt", "b/a/deep.txt", "b/z.txt", "c.jsonl"]
    assert [d.origin for d in found] == ["a.txt", "b/a/deep.txt", "b/z.txt", "c.jsonl:1"]
    assert [str(one) for one in findings.found] == ["hidden files and folders, left out: 2 names (.git, .hidden)"]


def test_a_separator_is_a_line_and_belongs_to_no_document(tmp_path):
    path = write(tmp_path / "a.txt", "---\na\nb --- c\n --- \n---\n\n \n---\nd\n\ne")
    found = read(path, separator="---")
    assert [(d.text, d.origin) for d in found] == [
        ("a\nb --- c\n", "a.txt:2"),
        ("\n \n", "a.txt:6"),
        ("d\n\ne", "a.txt:9"),
    ]
    assert [d.blank for d in found] == ["", "blank", ""]


@pytest.mark.parametrize("separator", ["", "\n\n"])
def test_an_empty_separator_is_an_empty_line(tmp_path, separator):
    path = write(tmp_path / "a.txt", "\n\na\nb\n\n  \nc\n")
    assert texts_of(path, separator=separator) == ["a\nb\n", "c\n"]


def test_a_separator_that_stands_nowhere_is_said(tmp_path):
    findings = Findings()
    assert len(read(write(tmp_path / "a.txt", "a\nb\n"), findings, separator="<end>")) == 1
    assert "no line equals data.separator '<end>', the file is one document" in str(findings.found[0])


# What cannot be read


@pytest.mark.parametrize(
    ("name", "raw", "problem"),
    [
        ("a.jsonl", b'{"text": "a"}\n{"txt": "b"}\n', "a.jsonl' line 2 has no field 'text'; did you mean 'txt'"),
        ("a.jsonl", b'["a"]\n', r"a.jsonl' line 1 is the list \['a'\], expected an object with the field 'text'"),
        ("a.jsonl", b"text\n", """a.jsonl' line 1 is not JSON.* as {"text": "..."}"""),
        ("a.csv", b"id,body\n1,x\n", "names no column 'text'; .*data.columns.text selects .* data.format=text reads"),
        ("a.txt", b"fine\ncaf\xe9\n", "a.txt' line 2: byte 0xe9 at position 4 .* is not UTF-8; .*Windows-1252"),
    ],
)
def test_bad_input_is_named_by_file_and_line(tmp_path, name, raw, problem):
    with pytest.raises(DataError, match=problem):
        read(write(tmp_path / name, raw))


def test_a_bad_line_may_be_left_out_of_its_document(tmp_path):
    path = write(tmp_path / "a.txt", b"one\ncaf\xe9\ntwo\n")
    findings = Findings("skip")
    assert [d.text for d in read(path, findings)] == ["one\ntwo\n"]
    assert [str(one) for one in findings.found] == ["not UTF-8, left out: 1 line (2)"]
    bad = write(tmp_path / "a.jsonl", b'{"text": "a"}\n[]\n{"text": "b"}\n')
    assert [d.text for d in read(bad, findings)] == ["a", "b"]
    assert findings.left_out == {"not a JSON object": 1}


def test_a_missing_file_and_an_empty_folder(tmp_path):
    with pytest.raises(DataError, match=r"no file '.*nothing.txt'"):
        open_documents(section(train=[str(tmp_path / "nothing.txt")]))
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"no training documents left in .*empty"):
        open_documents(section(train=[str(tmp_path / "empty")]))


# What is held out


def said(splits):
    return {name: [document.text for document in split] for name, split in splits.examples.items()}


def opened(folder, texts, **fields):
    lines = "".join(json.dumps({"text": text}) + "\n" for text in texts)
    return open_documents(section(train=[str(write(folder / "opened.jsonl", lines))], **fields))


def test_blank_documents_are_left_out_and_counted(tmp_path):
    splits = open_documents(section(train=[str(folder_of(tmp_path / "a", [*map(str, range(9)), "", " \n"]))], valid=2))
    assert {name: len(split) for name, split in splits.examples.items()} == {"train": 7, "valid": 2}
    assert splits.counts["train"].read == 11
    assert splits.counts["train"].filtered == {"blank": 2, "held out for validation": 2}


def test_what_is_held_out_depends_on_the_texts_alone(tmp_path):
    texts = [f"document {n}" for n in range(40)]
    one = said(open_documents(section(train=[str(folder_of(tmp_path / "a", texts))], valid=8)))
    lines = "".join(json.dumps({"text": text}) + "\n" for text in reversed(texts))
    other = said(open_documents(section(train=[str(write(tmp_path / "b.jsonl", lines))], valid=8)))
    assert len(one["valid"]) == 8
    assert set(one["valid"]) == set(other["valid"]) and set(one["train"]) == set(other["train"])


@pytest.mark.parametrize("in_memory", [100_000, 0])
def test_of_a_single_document_the_last_share_validates(tmp_path, in_memory):
    text = "".join(f"line {n}\r\n" for n in range(1_000))
    path, kept = write(tmp_path / "a.txt", text), text.replace("\r\n", "\n")
    splits = open_documents(section(train=[str(path)], in_memory=in_memory))
    cut = int(len(kept) * (1 - 0.1))  # as nanoGPT cuts
    assert said(splits) == {"train": [kept[:cut]], "valid": [kept[cut:]]}
    assert (
        f"its last 10% ({len(kept) - cut:,} of {len(kept):,} characters, from character {cut + 1:,} on)" in splits.notes
    )
    assert "lines end in CRLF" in splits.notes
    splits = open_documents(section(train=[str(path)], held_out=0.25, in_memory=in_memory))
    assert said(splits) == {"train": [kept[: int(len(kept) * 0.75)]], "valid": [kept[int(len(kept) * 0.75) :]]}


def test_a_single_document_is_cut_beside_blank_ones_and_in_memory(tmp_path):
    folder = folder_of(tmp_path / "a", ["", "0123456789", "\n"])
    assert said(open_documents(section(train=[str(folder)]))) == {"train": ["012345678"], "valid": ["9"]}
    splits = open_documents(section(train=["unused"]), {"train": [Document("0123456789")]})
    assert said(splits) == {"train": ["012345678"], "valid": ["9"]}


@pytest.mark.parametrize("texts", [["0123456789\r\n"], ["one", "two", "three", "four\r\nfive"]])
def test_what_was_found_is_told_once(tmp_path, texts):
    splits = opened(tmp_path, ["", *texts])
    kept = [text.replace("\r\n", "\n") for text in texts]
    together = [text for split in said(splits).values() for text in split]
    assert "".join(together) == kept[0] if len(kept) == 1 else sorted(together) == sorted(kept)
    assert splits.counts["train"].filtered["blank"] == 1 and splits.notes.count("CRLF, read as LF: 1 document") == 1


def test_a_single_document_with_validation_files_is_not_cut(tmp_path):
    train, valid = write(tmp_path / "a.txt", "0123456789"), write(tmp_path / "b.txt", "abc")
    splits = open_documents(section(train=[str(train)], valid=[str(valid)]))
    assert said(splits) == {"train": ["0123456789"], "valid": ["abc"]}


def test_documents_cannot_be_held_out_of_one(tmp_path):
    with pytest.raises(ConfigError, match=r"data.valid is 5 \(documents to hold out\), but .*a.txt is one document"):
        open_documents(section(train=[str(write(tmp_path / "a.txt", "0123456789"))], valid=5))


def test_a_single_document_that_is_too_short_to_be_cut_is_refused(tmp_path):
    with pytest.raises(
        DataError, match=r"no training documents left in .*a.txt: 0 of 1 documents kept, 1 left out: bl"
    ):
        open_documents(section(train=[str(write(tmp_path / "a.txt", "x"))]))
    with pytest.raises(DataError, match="no validation documents left"):
        open_documents(section(train=[str(write(tmp_path / "b.txt", "x" * 9 + " "))]))


def test_holding_out_much_of_the_text_is_a_warning(tmp_path):
    texts = [f"{n} " * (4_000 if n == 3 else 10) for n in range(6)]
    held = next(n for n in range(2, 6) if texts[3] in said(opened(tmp_path, texts, valid=n))["valid"])
    assert "warning: the" in opened(tmp_path, texts, valid=held).notes
    assert "held-out documents contain" not in opened(tmp_path, ["text " * 9 + str(n) for n in range(6)], valid=1).notes


# Corpora that are not held


@pytest.mark.parametrize("kind", ["jsonl", "folder"])
def test_documents_on_disk_are_the_same_and_so_are_their_tokens(tmp_path, kind):
    texts = [f"document {n} 🍕\n" * (n % 5 + 1) for n in range(50)]
    path = tmp_path / "a.jsonl" if kind == "jsonl" else folder_of(tmp_path / "a", texts)
    if kind == "jsonl":
        write(path, "".join(json.dumps({"text": text}) + "\n" for text in texts))
    held, stored = (open_documents(section(train=[str(path)], valid=5, in_memory=n)) for n in (100, 10))
    assert isinstance(stored.examples["train"], StoredExamples) and stored.examples["train"].key
    assert said(held) == said(stored)
    tokenizer = TextTokenizer.train_characters(texts)
    one, other = (TokenStream.of(splits.examples["train"], tokenizer, True) for splits in (held, stored))
    assert one.ids.tolist() == other.ids.tolist() and one.starts.tolist() == other.starts.tolist()
    assert one.ids.dtype == other.ids.dtype == "uint16"
    indices = [0, 13, 64]
    batches = [blocks(stream, 64, END, 64, Draw(1, 0)).collate(indices) for stream in (one, other)]
    assert torch.equal(batches[0].inputs["tokens"], batches[1].inputs["tokens"])
    assert torch.equal(batches[0].targets["labels"], batches[1].targets["labels"])
    joined = TokenStream.of(stored.examples["train"], tokenizer, False)
    assert len(joined) == len(other) - 45 and not joined.end_token
    entries = set((tmp_path / "cache" / "entries").iterdir())
    again = open_documents(section(train=[str(path)], valid=5, in_memory=10, context=7, end_token=False))
    TokenStream.of(again.examples["train"], tokenizer, True)
    assert set((tmp_path / "cache" / "entries").iterdir()) == entries  # other fields read nothing anew


def test_a_changed_file_of_a_folder_is_read_anew(tmp_path):
    folder = folder_of(tmp_path / "a", [f"document {n}" for n in range(30)])
    fields = {"train": [str(folder)], "valid": 5, "in_memory": 10}
    before = said(open_documents(section(**fields)))
    write(folder / "00003.txt", "changed")
    after = said(open_documents(section(**fields)))
    assert {"changed"} == {t for ts in after.values() for t in ts} - {t for ts in before.values() for t in ts}
