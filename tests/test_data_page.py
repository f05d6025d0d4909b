"""The page on data: its tables are what the code does, and every message about malformed data is as it is written."""

import gzip
import re
import shlex

import pytest

from contract import data_of
from heed.cli import main
from heed.config import TokenizerConfig
from heed.errors import HeedError
from heed.tasks.inputs.few_pairs import auto_size
from heed.tasks.translation import TranslationConfig
from pages import page

PAGE, MESSAGES = page("docs/data.md"), page("tests/fixtures/data_messages.md")
GOOD = [(f"the cat, {n}", f"ologbo n\u00e1\u00e0, {n}") for n in range(40)]

REFUSED = {
    "a missing file": ("my.en no.yo", {}),
    "a folder": ("my.en .", {}),
    "an empty file": ("empty.en my.yo", {"empty.en": b""}),
    "different numbers of lines": ("my.en short.yo", {"short.yo": b"a\n" * 39}),
    "text in Windows-1252": ("latin.en my.yo", {"latin.en": b"the\ncaf\xe9\n" * 20}),
    "text in UTF-16": ("wide.en my.yo", {"wide.en": "the cat\n".encode("utf-16")}),
    "an Excel file": ("table.xlsx", {"table.xlsx": b"PK\x03\x04\x14\x00"}),
    "a packed file that was cut off": ("cut.tsv.gz", {"cut.tsv.gz": gzip.compress(b"a\tb\n" * 9, mtime=0)[:-8]}),
    "one file without a second column": ("my.en", {}),
    "a column number that a line does not have": ("t.tsv data.columns.target=2", {"t.tsv": b"a\tb\tc\nd\te\n"}),
    "a column name that the first line does not have": (
        "n.tsv data.columns.source=english data.columns.target=yorba",
        {"n.tsv": b"english\tyoruba\na\tb\n"},
    ),
    "a quote that is never closed": ("q.csv", {"q.csv": b'a,b\n"c,d\ne,f\n'}),
    "an object without the field": ("f.jsonl", {"f.jsonl": b'{"source": "a", "targt": "b"}\n'}),
    "a field that is not text": ("k.jsonl", {"k.jsonl": b'{"source": "a", "target": 7}\n'}),
    "a line that is not JSON": ("j.jsonl", {"j.jsonl": b'{"source": "a", "target": "b"}\n{"source": "c"\n'}),
    "an array that is cut off": ("j.json", {"j.json": b'[\n {"source": "a"\n'}),
    "three files": ("my.en my.yo dev.en", {}),
    "nothing but blanks": ("b.en b.yo", {"b.en": b"\n\n\n", "b.yo": b"\n\n\n"}),
    "a vocabulary that is too small": ("my.en my.yo tokenizer.kind=unigram tokenizer.vocab_size=9", {}),
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    for name in ("my", "test"):
        for side, ending in enumerate(("en", "yo")):
            text = "".join(pair[side] + "\n" for pair in GOOD)
            (tmp_path / f"{name}.{ending}").write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def refusal(words, files, folder):
    from heed.cli.options import DataOptions
    from heed.cli.train import run_check

    for name, data in files.items():
        (folder / name).write_bytes(data)
    with pytest.raises(HeedError) as refused:
        run_check(["translation", *shlex.split(words)], DataOptions())
    return str(refused.value).replace(f"{folder}/", "").replace(str(folder), "my-folder")


SKIP = re.compile("; data.bad_lines=skip (leaves such lines out and counts them|uses the lines before)$")


def row(case, message):
    return f"| {case} | `{SKIP.sub('', message)}` |"


@pytest.mark.parametrize("case", REFUSED)
def test_a_refusal_is_written_as_it_is(case, folder):
    assert row(case, refusal(*REFUSED[case], folder)) in MESSAGES.splitlines()


# --- malformed data


def lines(*changed, count=40, side=0, end=b"\n"):
    """The good lines of a side with some exchanged: (number, bytes)."""
    raw = [pair[side].encode() + end for pair in GOOD[:count]]
    for number, line in changed:
        raw[number - 1] = line
    return b"".join(raw)


def odd(name, *changed, **made):
    return f"{name}.en my.yo", {f"{name}.en": lines(*changed, **made)}


FOUND = {
    "different line counts": ("my.en short.yo", {"short.yo": lines(count=39, side=1)}),
    "empty lines": ("blank.en b.yo", {"blank.en": lines((3, b"\n")), "b.yo": lines((3, b"  \n"), side=1)}),
    "one side empty": odd("side", (3, b"\n")),
    "a 10 MB line": odd("long", (3, b"x" * 10_000_000 + b"\n")),
    "NUL bytes": odd("nul", (3, b"the\0cat\n")),
    "invalid UTF-8": odd("bytes", (3, b"the \x9d cat\n")),
    "Windows-1252": odd("latin", (3, b"caf\xe9\n")),
    "a CR inside a line": odd("inner", (3, b"the\rcat\n")),
    "lines that end in CR alone": odd("mac", end=b"\r"),
    "mixed line ends": odd("mixed", (3, b"the cat\r\n")),
    "byte-order mark": odd("mark", (1, b"\xef\xbb\xbfthe cat\n")),
    "duplicate pairs": (
        "twice.en t.yo",
        {name: lines((4, lines(side=n).splitlines(True)[2]), side=n) for n, name in enumerate(("twice.en", "t.yo"))},
    ),
    "train / test overlap": (
        "my.en my.yo --test seen.en,seen.yo",
        {"seen.en": b"the cat, 7\nx\n", "seen.yo": b"a\nb\n"},
    ),
    "truncated `.gz`": ("cut.tsv.gz", {"cut.tsv.gz": gzip.compress(b"a\tb\n" * 9, mtime=0)[:-8]}),
    "a file that vanishes or changes while it is read": ("gone.en my.yo", {"gone.en": b"text of a line\n" * 20_000}),
    "an almost empty vocabulary": (
        "my.en few.yo tokenizer.kind=word",
        {"few.yo": b"yes\nno\n" * 20},
    ),
    "one token is most of the text": (
        "ah.en my.yo tokenizer.kind=word tokenizer.min_count=1",
        {"ah.en": b"".join(b"ah ah ah ah ah %d\n" % n for n in range(40))},
    ),
    "a test set of unknown tokens": (
        "my.en my.yo --test new.en,new.yo tokenizer.kind=word",
        {"new.en": b"w x y z\n", "new.yo": b"a\n"},
    ),
}


@pytest.mark.parametrize("case", FOUND)
def test_a_message_about_malformed_data_is_written_as_it_is(case, folder, capsys, monkeypatch):
    from heed.data.text_files import lines_of

    words, files = FOUND[case]
    for name, data in files.items():
        (folder / name).write_bytes(data)
    if "vanishes" in case:

        def vanishing(path, *given):
            for number, line in enumerate(lines_of(path, *given)):
                if number == 3 and path.name == "gone.en":
                    path.unlink()
                yield line

        monkeypatch.setattr("heed.data.kinds.pairs.lines_of", vanishing)
        (folder / "my.yo").write_bytes(b"text\n" * 20_000)
    table = MESSAGES[MESSAGES.index("## Malformed data") :].split("\n## ")[0]
    (message,) = re.findall(rf"^\| {re.escape(case)} \| `(.*?)` \| ", table, re.MULTILINE)
    with pytest.raises(SystemExit):
        main(["check", "translation", *shlex.split(words), "--valid", "5"])
    captured = capsys.readouterr()
    said = [SKIP.sub("", line.strip()) for line in (captured.out + captured.err).splitlines()]
    said = [line.removeprefix("heed: ").replace(f"{folder}/", "") for line in said]
    assert message in said


def test_every_case_of_the_table_is_tried():
    table = MESSAGES[MESSAGES.index("## Malformed data") :].split("\n## ")[0]
    assert re.findall(r"^\| (.*?) \| `", table, re.MULTILINE) == list(FOUND)


def test_every_refusal_of_the_table_is_tried():
    table = MESSAGES[MESSAGES.index("## What is refused") :].split("\n## ")[0]
    assert re.findall(r"^\| (.*?) \| `", table, re.MULTILINE) == list(REFUSED)


@pytest.mark.parametrize("count", [10, 100_000, 100_001, 2_000_000, 2_000_001])
def test_the_table_of_sizes_is_the_code(count):
    rows = re.findall(r"^\| (?:up to ([\d,]+)|more) \| (\w+) \| (\w+) \|$", PAGE, re.MULTILINE)
    _, char, other = next(r for r in rows if not r[0] or count <= int(r[0].replace(",", "")))
    for kind, size in (("char", char), ("bpe", other)):
        config = TranslationConfig(data=data_of("translation"), tokenizer=TokenizerConfig(kind=kind))
        assert auto_size(config, count) == size
