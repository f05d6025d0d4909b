"""The page on data: its refusals are the real ones, its tables what the code does, its commands run."""

import gzip
import re
import shlex
from pathlib import Path

import pytest
import yaml

from heed.cli import main
from heed.config import FilesData, TokenizerConfig, TranslationConfig
from heed.config_tasks import check_config
from heed.errors import HeedError
from heed.tasks.sizes import auto_size

PAGE = (Path(__file__).parent.parent / "docs" / "data.md").read_text(encoding="utf-8")
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
    "a field that is no text": ("k.jsonl", {"k.jsonl": b'{"source": "a", "target": 7}\n'}),
    "a line that is not JSON": ("j.json", {"j.json": b'[\n {"source": "a", "target": "b"}\n]\n'}),
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
    from heed.cli.check import run_check

    for name, data in files.items():
        (folder / name).write_bytes(data)
    with pytest.raises(HeedError) as refused:
        run_check(["translation", *shlex.split(words)], [])
    return str(refused.value).replace(f"{folder}/", "").replace(str(folder), "my-folder")


def row(case, message):
    return f"| {case} | `{message}` |"


@pytest.mark.parametrize("case", REFUSED)
def test_a_refusal_is_written_as_it_is(case, folder):
    assert row(case, refusal(*REFUSED[case], folder)) in PAGE.splitlines()


def test_every_refusal_of_the_page_is_tried():
    table = PAGE[PAGE.index("## What is refused") :].split("\n## ")[0]
    assert re.findall(r"^\| (.*?) \| `", table, re.MULTILINE) == list(REFUSED)


@pytest.mark.parametrize("count", [10, 100_000, 100_001, 2_000_000, 2_000_001])
def test_the_table_of_sizes_is_the_code(count):
    rows = re.findall(r"^\| (?:up to ([\d,]+)|more) \| (\w+) \| (\w+) \|$", PAGE, re.MULTILINE)
    _, char, other = next(r for r in rows if not r[0] or count <= int(r[0].replace(",", "")))
    for kind, size in (("char", char), ("bpe", other)):
        config = TranslationConfig(data=FilesData(train=["x"]), tokenizer=TokenizerConfig(kind=kind))
        assert auto_size(config, count) == size


def test_the_configuration_is_valid():
    (block,) = re.findall(r"```yaml\n(.*?)```", PAGE, flags=re.DOTALL)
    check_config(yaml.safe_load(block), "data.md")


def test_the_first_commands_run(folder, capsys):
    block = re.search(r"```sh\n(.*?)```", PAGE, flags=re.DOTALL)[1]
    commands = [shlex.split(line, comments=True)[1:] for line in block.splitlines()]
    assert [words[0] for words in commands] == ["check", "train", "predict", "look", "evaluate"]
    for words in commands:
        if words[0] == "train":
            words += ["training.steps=1", "training.threads=1", "model.size=tiny", "evaluation.bootstrap=5"]
        with pytest.raises(SystemExit) as ended:
            main(words)
        assert not ended.value.code, capsys.readouterr().err
        assert capsys.readouterr().out
