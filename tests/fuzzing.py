"""Fuzzing of run folders and command lines: heed must answer as before or with a one-line error.

`damages` draws one change: to the bytes of a file, to a value in a JSON or YAML file, or a replacement of a whole file.
`odd_words` draws a command with an odd number, name or setting in it. `answer` runs a command in this process and
reports unacceptable results.
"""

import contextlib
import io
import json
import os
import re
import resource
import shutil
import signal
import socket
import struct
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer.main
import yaml
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

from heed.cli import main
from heed.cli.app import app
from heed.config.sections import _data_kinds
from heed.registry import bodies_of
from heed.storage.disk import write_checksums
from heed.storage.files import CHECKSUMS
from heed.tasks import config_class

MUTATIONS = int(os.environ.get("HEED_FUZZ", "12"))
SEED = int(os.environ.get("HEED_FUZZ_SEED", "1"))
FEW = settings(
    max_examples=MUTATIONS, deadline=None, database=None, suppress_health_check=list(HealthCheck),
    phases=[Phase.generate],  # a damage is one small change: there is nothing to shrink
)  # fmt: skip
SECONDS = 60
"""Time after which a command counts as hanging; the slowest takes a second on a busy machine."""
_MEMORY = 6 << 30
"""Bytes that a command may allocate in addition to the process's memory."""
STRAY = (
    "checkpoints/step-abc",
    "checkpoints/step--1",
    "checkpoints/step-99999999999999999999",
    "export/x",
    "labels.json.bak",
)
VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 7, 2**31, 2**63, 2**70, 0.0, -1.5, 1e-320, 1e308, float("nan"), float("inf"),
    "", "x", "auto", "none", "null", "\x00", "\x1b[31mred", "a\nb", "\u202egnp.exe", "\ud800", "last", ".", "/",
    "/dev/zero", "/dev/stdin", "../../../etc/passwd", "x" * 5000, [], {}, [[]], [{}], [None], ["a"],
    ["a", "a"], {"a": 1}, {"": None}, [1, 2, 3], [1.0, "x"], {"name": []},
]  # fmt: skip


NUMBERS = (
    "0", "-1", "7", "1.5", "nan", "inf", "-inf", "1e400", "1e308", "1e-400", "9" * 20, "-" + "9" * 20, "9" * 5000,
    "2147483648", "9223372036854775807", "9223372036854775808", "1e18", "\u0663", "1_0", "", " ", "x", "0x10", "null",
)  # fmt: skip
NAMES = (
    "", ".", "..", "x" * 256, "x" * 5000, "x/" * 3000, "caf\udce9", "caf\udce9.txt", "\ud800", "a\0b", "~", "-",
    "\x1b[31m", "\u202e.svg", "loop", "loop.csv", "zero", "zero.png", "zero.yaml", "pipe.yaml", "gone/x", "folder",
    *(f"{'x' * 300}{end}" for end in (".yaml", ".zip", ".html", ".png", ".json", ".csv", "!a.png", "#1")), "file",
    "file/x", "hub:" + "x" * 300, "a," * 50_000, "a=" + "x" * 300, "data.train=" + "x" * 300,
)  # fmt: skip
"""Names, some of them of files that `odd_files` writes."""
ALIASES = "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}], " for n in range(1, 10))
SETTINGS = (
    "[", "[" * 100_000, "[" * 900 + "]" * 900, "2001-99-99", "2001-01-01", "12:61:61", "&a [*a]", "[*a]",
    f"{{a0: &a0 [x, x, x, x, x, x, x, x, x], {ALIASES}}}", "!!python/object/apply:os.system [ls]", "!!timestamp x",
    "!!int x", "!!float x", "!!bool x", "!!binary x", "!!set {a}", "!!omap [a]", "!!pairs [a]", "!!str [a]", "!x y",
    "{a: b}", "[1, 2]", "[a, 9999999999999999999999]", ".nan", ".inf", "-.inf", '"\\ud800"', '"\\UFFFFFFFF"',
    '"a\\0b"', "{? [a] : b}", "{1: 2}", "<<: x", "{<<: x}", "{=: x}", "? a", "[]", "{}", "[[]]", "[null]", "\t", "%",
    "@", "`", "''", "0b2", "1__0", "0o9", "=", "- a", "*", "&", "|", ">", "--- a\n--- b", "true",
    *(json.dumps(name) for name in NAMES),
)  # fmt: skip
ENCODINGS = ("utf-8", "ascii", "latin-1", "cp1252", "utf-16")


class Hanging(BaseException):
    """A command did not finish in time."""


@dataclass(frozen=True)
class Damage:
    """One change to a folder; `file` is the path inside it."""

    file: str
    what: str
    do: Callable[[Path], None]

    def __repr__(self) -> str:
        return f"{self.file}: {self.what}"


def becomes(kind: str) -> Callable[[Path], None]:
    """Function that replaces a whole file by something else."""

    def do(path: Path) -> None:
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        if kind == "a pipe":
            os.mkfifo(path)
        elif kind == "a folder":
            path.mkdir()
        elif kind == "a socket":
            with socket.socket(socket.AF_UNIX) as listener:
                folder = os.open(path.parent, os.O_RDONLY)
                listener.bind(f"/proc/self/fd/{folder}/{path.name}")
                os.close(folder)
        elif kind.startswith("a link to "):
            path.symlink_to(kind.removeprefix("a link to "))
        elif kind == "huge":
            with path.open("wb") as file:
                file.truncate(1 << 40)
        elif kind == "deep":
            path.write_text('{"a":' * 100_000)
        elif kind == "deep and whole":
            path.write_text("[" * 900 + "]" * 900)
        elif kind != "missing":
            path.write_text(kind, encoding="utf-8")

    return do


KINDS = (
    "missing", "a pipe", "a folder", "a socket", "a link to /dev/zero", "a link to /etc/passwd", "a link to nowhere",
    "a link to .", "huge", "deep", "deep and whole", "", "[]", "5", "{}", "null", '"text"', "[[]]", '[""]', '{"a": {}}',
    "\ufeff{}", "a: &a [*a]", "\x00" * 64, "NaN",
)  # fmt: skip


@st.composite
def _of_bytes(draw: st.DrawFn, file: str, content: bytes) -> Damage:
    """A flipped bit, or bytes deleted, inserted, repeated, cut off or overwritten."""
    ways = ("flip", "delete", "insert", "repeat", "cut", "zero", "digit", "nan")
    way = draw(st.sampled_from(ways))
    at = draw(st.integers(0, max(0, len(content) - 1)))
    count = draw(st.sampled_from([1, 2, 4, 8, 100]))
    junk = draw(st.sampled_from([b"\xff", b"\x00", b"\n", b"{", b"]", b'"', b"9" * 30, b"\x1b[2J", b"-", b",", b":"]))
    new = {
        "flip": content[:at] + bytes([content[at] ^ (1 << draw(st.integers(0, 7)))]) + content[at + 1 :]
        if content
        else b"",
        "delete": content[:at] + content[at + count :],
        "insert": content[:at] + junk + content[at:],
        "repeat": content[:at] + content[at : at + count] * 2 + content[at + count :],
        "cut": content[:at],
        "zero": content[:at] + bytes(min(count, len(content) - at)) + content[at + count :],
        "digit": re.sub(rb"\d", b"%d" % (count % 10), content, count=count),
        "nan": content[: at // 4 * 4] + struct.pack("<f", float("nan")) + content[at // 4 * 4 + 4 :],
    }[way]
    return Damage(file, f"{way} at byte {at} of {len(content)} ({count}, {junk!r})", lambda path: _write(path, new))


def _write(path: Path, content: bytes) -> None:
    path.write_bytes(content)


def _places(values: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Paths to all values; in long lists and objects only the first few."""
    inside = (
        list(values.items())
        if isinstance(values, dict)
        else list(enumerate(values))
        if isinstance(values, list)
        else []
    )
    return [path, *(place for key, value in inside[:40] for place in _places(value, (*path, key)))]


@st.composite
def _of_values(draw: st.DrawFn, file: str, content: bytes) -> Damage:
    """A value of a JSON or YAML file replaced, removed or moved."""
    is_yaml = file.endswith(".yaml")
    values = yaml.safe_load(content) if is_yaml else json.loads(content)
    place = draw(st.sampled_from(_places(values)))
    way = draw(st.sampled_from(["replace"] * 6 + ["remove", "reverse", "add", "text", "more"]))
    new = draw(st.sampled_from(VALUES))
    *above, last = ("", *place)
    holder = [values] if not place else values
    for key in above[1:]:
        holder = holder[key]
    last = last if place else 0
    if way == "remove":
        holder.pop(last)
        values = holder[0] if not place and holder else values
    elif way == "reverse" and isinstance(holder[last], list):
        holder[last].reverse()
    elif way == "reverse" and isinstance(holder[last], dict):
        keys, ones = list(holder[last]), list(holder[last].values())
        holder[last] = dict(zip(keys, ones[::-1], strict=True))
    elif way == "add":
        if isinstance(holder, dict):
            holder["\x1bnew"] = new
        else:
            holder.insert(last, new)
    elif way == "text":
        holder[last] = str(holder[last])
    elif way == "more" and isinstance(holder[last], int | float):
        holder[last] += 1
    else:
        holder[last] = new
    values = holder[0] if not place and holder else values
    text = yaml.safe_dump(values, sort_keys=False, allow_unicode=True) if is_yaml else json.dumps(values)
    return Damage(file, f"{way} {place} {new!r:.60}", lambda path: _write(path, text.encode("utf-8", "surrogatepass")))


def damages(folder: Path) -> st.SearchStrategy[Damage]:
    """Strategy for damage to any file of a folder."""
    files = {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()
    }
    parts = [*(strategy for name, content in files.items() for strategy in _of_file(name, content))]
    stray = st.builds(
        lambda name, kind: Damage(name, f"is now {kind[:20]!r}", becomes(kind)),
        st.sampled_from(STRAY),
        st.sampled_from(KINDS),
    )
    return st.one_of(*parts, stray)


def _of_file(name: str, content: bytes) -> list[st.SearchStrategy[Damage]]:
    strategies = [
        _of_bytes(name, content),
        st.sampled_from(KINDS).map(lambda kind: Damage(name, f"is now {kind[:20]!r}", becomes(kind))),
    ]
    if name.endswith((".json", ".yaml")):
        strategies += [_of_values(name, content)] * 3
    return strategies


@dataclass(frozen=True)
class Answer:
    """Output and exit status of a command; `wrong` describes an unacceptable result."""

    code: int
    out: str
    err: str
    wrong: str = ""


@contextlib.contextmanager
def _limited(seconds: int):
    def hang(*_: Any) -> None:
        raise Hanging

    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    before = signal.signal(signal.SIGALRM, hang)
    signal.alarm(seconds)
    resource.setrlimit(resource.RLIMIT_AS, (used + _MEMORY, hard))
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))


def odd_files(folder: Path) -> None:
    """Write files that some of the `NAMES` are of."""
    (folder / "folder").mkdir()
    (folder / "file").write_text("one two\n")
    (folder / os.fsdecode(b"caf\xe9.txt")).write_text("one two\n")
    os.mkfifo(folder / "pipe.yaml")
    for name in ("loop", "loop.csv"):
        (folder / name).symlink_to(name)
    for name in ("zero", "zero.png", "zero.yaml"):
        (folder / name).symlink_to("/dev/zero")


@dataclass(frozen=True)
class Asked:
    """A command line, with the YAML file and the encoding of standard output that belong to it."""

    words: list[str]
    yaml: str = ""
    encoding: str = "utf-8"

    def __repr__(self) -> str:
        return f"{[word[:70] for word in self.words]}, yaml {self.yaml[:200]!r}, {self.encoding}"


@st.composite
def odd_words(draw: st.DrawFn, commands: dict[str, list[str]], fields: list[str], task: str, files: str) -> Asked:
    """A command with an odd value: of an option, in place of a word, of a field, or in a configuration of its own."""
    name = draw(st.sampled_from(sorted(commands)))
    words = [*commands[name]]
    way = draw(st.sampled_from(("option", "option", "word") if name not in TRAINS else ("option", "field", "yaml")))
    encoding = draw(st.sampled_from(("utf-8",) * 3 + ENCODINGS))
    if way == "option":
        named = [entry for entry in options_of_command(words[0]) if entry[0] not in ("--resume", "--open")]
        option, is_number = draw(st.sampled_from(named))
        return Asked(
            [*words, option, draw(st.sampled_from(NUMBERS if is_number else (*NUMBERS, *NAMES)))], "", encoding
        )
    if way == "word":
        words[draw(st.integers(0, len(words) - 1))] = draw(st.sampled_from((*NAMES, *NUMBERS)))
        return Asked(words, "", encoding)
    field = draw(st.sampled_from(fields))
    if name == "train" and field in ENDLESS:
        field = "training.seed"
    value = draw(st.sampled_from((*NUMBERS, *SETTINGS)))
    if way == "field":
        return Asked([*words, f"{field}={value}"], "", encoding)
    section, key, *_ = field.split(".")
    setting = f"  {key}: {value}\n" if section == "data" else f"{section}:\n  {key}: {value}\n"
    text = draw(st.sampled_from((f"task: {task}\ndata:\n  train: [{files}]\n{setting}",) * 3 + (value,)))
    return Asked(["check", "own.yaml"] if name == "check data" else ["train", "own.yaml", "--dry-run"], text, encoding)


TRAINS = ("check data", "dry run", "train")
"""Commands that take fields."""
ENDLESS = ("training.steps", "training.epochs", "training.minutes", "training.accumulate", "training.micro_batches")
"""Fields by which training may take as long as is asked for."""


def options_of_command(name: str) -> list[tuple[str, bool]]:
    """The options of a command that take a value, each with True if that is a number."""
    params = typer.main.get_command(app).commands[name].params
    options = [param for param in params if param.param_type_name == "option" and not param.is_flag]
    return [(max(param.opts, key=len), param.metavar in ("N", "X")) for param in options if param.name != "help"] or [
        ("--help", False)
    ]


def fields_of(task: str, model: str) -> list[str]:
    """The names of all fields of a task's configurations and of a model."""
    kind, names = config_class(task), set()
    for section, info in kind.model_fields.items():
        kinds = [*_data_kinds(kind).values()] if section == "data" else []
        for part in kinds or [info.annotation]:
            names |= {f"{section}.{field.alias or name}" for name, field in getattr(part, "model_fields", {}).items()}
    return sorted(names | {f"model.{name}" for body in bodies_of(model) for name in body.config_class.model_fields})


def answer(words: list[str], patch: Any, encoding: str = "utf-8") -> Answer:
    """Run a command in this process, with empty standard input and output in this encoding."""
    out, err, code, wrong = io.TextIOWrapper(io.BytesIO(), encoding=encoding), io.StringIO(), 0, ""
    patch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"")))
    try:
        with (
            _limited(SECONDS),
            warnings.catch_warnings(),
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            warnings.simplefilter("default")
            main(words)
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else 0 if ended.code is None else 1
    except Hanging:
        wrong = f"not finished after {SECONDS} s\n{traceback.format_exc(limit=-4)}"
        if "pipe.yaml" in words and re.search("in (opened|_open_output)\n", wrong):  # its other end is waited for
            wrong = ""
    except BaseException:
        wrong = f"a traceback\n{traceback.format_exc(limit=-6)}"
    message = err.getvalue()
    if not wrong and code:
        lines = message.splitlines()
        if code not in (1, 2, 3, 4) or (not lines and words[0] != "check") or len(message) > 20_000:
            wrong = f"exit status {code}, {len(lines)} lines and {len(message)} characters"
        elif lines and not lines[-1].startswith(("heed: ", "Error: ")):
            wrong = f"not a one-line error: {lines[-3:]}"
    if not wrong and re.search(r"\w*Warning: ", message):
        wrong = f"a warning with a line of code: {message[-300:]}"
    with contextlib.suppress(UnicodeEncodeError):  # what was not written
        out.flush()
    return Answer(code, out.buffer.getvalue().decode(encoding, "surrogateescape"), message, wrong)


def seal_again(folder: Path) -> None:
    """Rewrite the checksums to match the damaged files, where possible."""
    for sums in [folder / CHECKSUMS, *folder.glob("checkpoints/step-*/" + CHECKSUMS)]:
        if sums.is_file() and not sums.is_symlink():
            names = [
                p.name
                for p in sums.parent.iterdir()
                if p.is_file() and not p.is_symlink() and p.stat().st_size < 1 << 30
            ]
            write_checksums(sums.parent, sorted({*names} - {CHECKSUMS, "metrics.jsonl"}))
