"""Lines that come one by one are answered one by one; a line that cannot be used ends no other."""

import gzip
import io
import lzma
import os
import sys
import threading
from functools import partial
from types import SimpleNamespace

import pytest
import yaml

import commands
import heed
from heed.cli import main
from heed.cli.predict import Answering
from heed.data.findings import BadLine
from heed.data.kinds.texts import inputs_in
from heed.data.tables import Field
from heed.data.text_files import InputFindings, incoming
from heed.errors import ConfigError, DataError, HeedError, TrainingError
from heed.tasks import check_config
from heed.tasks.base.predictions import TextOutputs, Written

SETTINGS = {
    "task": "translation",
    "data": {"name": "copy", "length": [2, 6], "train": 150, "valid": 20, "test": 25},
    "model": {"name": "transformer", "size": "tiny", "positions": "learned", "max_length": 12},
    "training": {"steps": 3, "batch_tokens": 200, "threads": 1, "device": "cpu"},
    "generation": {"max_length": 9},
    "evaluation": {"bootstrap": 20},
}
DATA = check_config({"task": "translation", "data": {"train": ["pairs.tsv"]}}, "the tests").data
WAIT = 60
"""Seconds after which what never comes is a failure, on however slow a machine."""


@pytest.fixture(scope="module")
def run(made_run):
    """A run that reads dates."""
    return heed.load(made_run("translation") / "finished")


@pytest.fixture(scope="module")
def short(tmp_path_factory):
    """A run with 12 learned positions."""
    folder = tmp_path_factory.mktemp("runs")
    (folder / "run.yaml").write_text(yaml.safe_dump(SETTINGS))
    return heed.train(folder / "run.yaml", out=folder / "run", quiet=True)


@pytest.fixture
def call(capsys, monkeypatch, tmp_path):
    """Run `heed predict` in an empty folder; gives its exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)
    return partial(commands.call, capsys, "predict")


class Pipe:
    """Standard input that is a pipe, and standard output that can be waited for line by line."""

    def __init__(self, monkeypatch):
        source, self._target = os.pipe()
        self._source = os.fdopen(source)
        monkeypatch.setattr(sys, "stdin", self._source)
        monkeypatch.setattr(sys, "stdout", self)
        self._written, self._flushed = "", ""
        self._more = threading.Condition()

    def write(self, text):
        self._written += text

    def flush(self):
        with self._more:
            self._flushed = self._written
            self._more.notify()

    def isatty(self):
        return False

    def send(self, text):
        os.write(self._target, text.encode())

    def lines(self, count):
        """The lines that were flushed, as soon as there are so many."""
        with self._more:
            assert self._more.wait_for(lambda: self._flushed.count("\n") >= count or self.ended, WAIT), self._flushed
            return self._flushed.splitlines()

    def predict(self, folder):
        """`heed predict` in a thread of its own."""
        self.ended = []

        def run_command():
            try:
                main(["predict", str(folder)])
            except BaseException as stop:
                self.ended.append(stop.code or 0 if isinstance(stop, SystemExit) else stop)
            self.flush()

        self._thread = threading.Thread(target=run_command, daemon=True)
        self._thread.start()

    def close(self):
        """Close the pipe and wait for the command; gives its exit code."""
        os.close(self._target)
        self._thread.join(WAIT)
        self._source.close()
        return self.ended[0]


def test_a_line_is_answered_before_the_next_one_comes(run, monkeypatch):
    pipe = Pipe(monkeypatch)
    pipe.predict(run.folder)
    texts = ["123", "", "4", "98765"]
    for n, text in enumerate(texts, start=1):
        pipe.send(text + "\n")
        assert len(pipe.lines(n)) == n
    pipe.send("56\n78\n9")  # several at once, the last one without its end
    assert len(pipe.lines(6)) == 6
    assert pipe.close() == 0
    assert pipe.lines(7) == [run.predict(text).text for text in [*texts, "56", "78", "9"]]


def test_half_a_line_is_no_line(run, monkeypatch):
    pipe = Pipe(monkeypatch)
    pipe.predict(run.folder)
    pipe.send("12\n3")
    assert pipe.lines(1) == [run.predict("12").text]
    pipe.send("4\r\n")
    assert pipe.lines(2)[1:] == [run.predict("34").text]
    assert pipe.close() == 0


def test_many_lines_keep_their_order_in_small_and_large_batches(run, call):
    texts = [str(n) for n in range(300)]
    expected = "".join(one.text + "\n" for one in run.predict(texts))
    data = "".join(text + "\n" for text in texts).encode()
    assert call(run.folder, stdin=data)[:2] == (0, expected)
    assert call(run.folder, "--sort-window", 7, stdin=data)[:2] == (0, expected)


def batches(path, most, skip=False):
    told = []
    findings = InputFindings(DATA, skip, told.append, "hint")
    return list(incoming(path, findings, most)), told


def test_a_pipe_gives_what_is_there_in_batches(tmp_path):
    fifo = tmp_path / "pipe"
    os.mkfifo(fifo)
    lines = [f"line {n}" for n in range(3_000)]
    writer = threading.Thread(target=lambda: fifo.write_text("\n".join(lines)), daemon=True)
    writer.start()
    found, _ = batches(fifo, 2_000)
    assert [text for batch in found for _, text in batch] == lines
    assert [number for batch in found for number, _ in batch] == list(range(1, 3_001))
    assert max(map(len, found)) <= 2_000


# --- Lines that cannot be used


class Fussy(TextOutputs):
    """Writes texts in capitals, a few at a time; of some it knows nothing to write."""

    def write(self, texts):
        if len(texts) > 3:
            raise TrainingError("out of memory")
        if "bad" in texts:
            raise DataError("nothing rhymes with it")
        if "option" in texts:
            raise ConfigError("--rhyme does not apply")
        return (Written((text.upper(),)) for text in texts)

    def answer(self, text):
        return text.upper()


def answered(texts, skip):
    told, out = [], io.StringIO()
    answering = Answering(
        Fussy(SimpleNamespace(input=SimpleNamespace(pairs=False, is_text=True, unknown_in=lambda text: ())), {}),
        InputFindings(DATA, skip, told.append, "hint"),
        strict=False,
    )
    error = None
    try:
        answering.write([list(enumerate(texts, start=1))], "stdin", out)
    except HeedError as problem:
        error = f"{type(problem).__name__}: {problem}"
    return out.getvalue().split(), told, error


def test_what_cannot_be_computed_together_is_computed_in_parts():
    texts = [f"a{n}" for n in range(11)]
    assert answered(texts, skip=False) == ([text.upper() for text in texts], [], None)
    texts[6] = "bad"
    expected = "DataError: stdin line 7: nothing rhymes with it; hint"
    assert answered(texts, skip=False) == ([text.upper() for text in texts[:6]], [], expected)
    others = [text.upper() for text in texts if text != "bad"]
    assert answered(texts, skip=True) == (others, ["stdin line 7: nothing rhymes with it"], None)
    texts[6] = "option"  # is not about one text
    assert answered(texts[6:8], skip=True)[1:] == ([], "ConfigError: --rhyme does not apply")


def test_the_lines_before_a_bad_one_are_answered_and_it_is_named(run, call):
    code, out, err = call(run.folder, stdin=b"12\n34\n5\xff6\n78\n")
    assert code == 2
    assert out == "".join(run.predict(text).text + "\n" for text in ("12", "34"))
    last = err.splitlines()[-1]
    assert last.startswith("heed: stdin line 3: byte 0xff at position 2 (after '5') is not UTF-8")
    assert last.endswith("; --bad-lines skip writes an empty line in its place and continues")


def test_bad_lines_are_named_and_leave_an_empty_line(short, call):
    run = short
    long = "1" * 20  # more than there are positions
    data = b"12\n5\xff6\n" + long.encode() + b"\n34\nnul\0\n78\n"
    code, out, err = call(run.folder, "--bad-lines", "skip", stdin=data)
    assert code == 4
    one, two, three = (run.predict(text).text for text in ("12", "34", "78"))
    assert out.split("\n") == [one, "", "", two, "", three, ""]
    said = err.splitlines()
    assert any(line.startswith("heed: stdin line 2: byte 0xff at position 2") for line in said)
    assert any(line.startswith("heed: stdin line 3: a sequence of length 2") for line in said)
    assert any(line.startswith("heed: stdin line 5 contains a NUL byte") for line in said)
    assert said[-1] == ("heed: 3 inputs could not be used (numbers 2, 5, 3); their output is empty")


@pytest.mark.parametrize("pack", [gzip.compress, lzma.compress], ids=["gz", "xz"])
def test_compressed_input_is_read_and_one_that_is_cut_is_named(run, call, tmp_path, pack):
    whole = pack(b"12\n34\n56\n")
    path = tmp_path / f"in.txt.{'gz' if pack is gzip.compress else 'xz'}"
    path.write_bytes(whole)
    expected = "".join(run.predict(text).text + "\n" for text in ("12", "34", "56"))
    assert call(run.folder, "--input", path)[:2] == (0, expected)
    for missing in (1, 4, 8, 9):
        path.write_bytes(whole[:-missing])
        code, out, err = call(run.folder, "--input", path)
        assert code == 2 and expected.startswith(out)
        assert f"'{path}' is cut off or damaged" in err.splitlines()[-1]


def test_a_folder_is_read_as_its_files_are(run, call, tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    (folder / "a.txt").write_bytes(b"12\n\xff\n")
    (folder / "b.txt.gz").write_bytes(gzip.compress(b"34\n"))
    (folder / "c.txt").write_text("")
    code, _, err = call(run.folder, "--input", folder, "--out", tmp_path / "out", "--bad-lines", "skip")
    assert code == 4 and f"'{folder / 'a.txt'}' line 2: byte 0xff" in err
    written = {path.name: path.read_text() for path in (tmp_path / "out").iterdir()}
    texts = [run.predict(text).text for text in ("12", "34")]
    assert written == {"a.txt": f"{texts[0]}\n\n", "b.txt": f"{texts[1]}\n", "c.txt": ""}
    (folder / "b.txt").write_text("5\n")
    code, _, err = call(run.folder, "--input", folder, "--out", tmp_path / "other")
    assert code == 2 and "would both be written to" in err and not (tmp_path / "other").exists()


def test_of_many_bad_lines_the_first_are_told(tmp_path):
    (tmp_path / "in.txt").write_bytes(b"\xff\n" * 30 + b"good\n")
    found, told = batches(tmp_path / "in.txt", 100, skip=True)
    assert len(told) == 10 and len(found[0]) == 31
    assert all(isinstance(text, BadLine) for _, text in found[0][:30]) and found[0][30] == (31, "good")
    with pytest.raises(DataError, match=r"line 1: byte 0xff at position 1 .*; hint"):
        batches(tmp_path / "in.txt", 100)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        (
            "in.jsonl",
            b'{"text": "a"}\n{"tex": "b"}\nnone\n{"text": "c"}\n{"text": 5}\n\n{"text": "d"}\n{"text": "\xff"}\n',
        ),
        ("in.csv", b'text,n\na,1\n\xff,2\n"",1,"\xff"\nc,3\nb\xff,7\n\nd,4\n\xff,5\n'),
    ],
)
def test_rows_that_cannot_be_read_keep_their_places(tmp_path, name, content):
    (tmp_path / name).write_bytes(content)
    told = []
    found = inputs_in(tmp_path / name, [Field("text")], InputFindings(DATA, True, told.append, ""))
    texts = [text if isinstance(text, str) else None for _, text in found[0]]
    assert texts == ["a", None, None, "c", None, "", "d", None] and len(told) == 4
    with pytest.raises(DataError, match=r"line [23]"):
        list(inputs_in(tmp_path / name, [Field("text")], InputFindings(DATA, False, told.append, ""))[0])
