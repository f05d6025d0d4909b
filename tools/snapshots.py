"""Record what every pair of task and model answers on the command line and in Python, to compare after a change.

    python tools/snapshots.py write FOLDER [--only NAME ...]
    python tools/snapshots.py compare FOLDER [--only NAME ...]

Trains a few updates of each pair on the small data of the tests (`tests/small_runs.py`), and of some variants of a pair
(a CRF, pairs of texts, a pointer), then calls in this process `heed check`, `predict`, `evaluate`, `look`, `heads`,
`compare`, `export`, `align`, `pack` and `train --resume` with every flag that the task has, on ordinary, blank, long
and odd inputs; methods of the run; and the server. Recorded are exit status, stdout and stderr (JSON as data, with
every digit), digests of drawn pages, the files of the run folder and the texts of refusals; once per task also the
refusals of settings and of flags of other tasks. Each task is one JSON file of FOLDER: pair -> what was asked ->
answer. NAME is a task, a model, or a pair as in `tagging,rnn`; `commands` are the help texts and tables of all tasks.

Times, speeds, memory, versions and the temporary folder are left out. `compare` asks again and prints the first
difference of each answer that differs, three for a pair; the exit status is then 1. As with `tools/records.py`, compare
on the machine that wrote the snapshots. A pair takes about 15 seconds on one core, all of them about 15 minutes.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import dataclasses
import hashlib
import io
import json
import math
import os
import random
import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ |= {"OMP_NUM_THREADS": "1", "COLUMNS": "100"}  # before torch is imported

import numpy as np
import records  # makes the modules of the tests importable
import torch
from safetensors.torch import load_file
from starlette.testclient import TestClient

import heed
from heed.cli import main as heed_command
from heed.registry import model_names
from heed.serve.app import Server
from heed.serve.served import open_runs
from heed.tasks import CAPABILITIES, capability, capability_table, options_of, spec_of, task_names
from heed.tasks.base import sizing
from heed.training import cost
from small_runs import SMALL, TRAINING, usable, write_data

Answers = dict[str, Any]
VARIANTS: dict[str, dict[str, Any]] = {
    "classification,rnn,pairs": {"data.train": "two.csv", "data.columns.text": ["first", "second"]},
    "classification,encoder,several": {"data.train": "two.csv", "data.columns": {"label": ["a", "b"], "text": "first"}},
    "classification,bag,ngrams": {"model.ngrams": 2},
    "tagging,rnn,crf": {"model.head": "crf", "model.characters": "none"},
    "translation,transformer,parts": {"tokenizer.kind": "bpe", "tokenizer.vocab_size": 60, "generation.beam_size": 3},
    "translation,bahdanau,dates": {**records.DATES, "data.train": 60},
    "language_modelling,gpt,characters": {"tokenizer.kind": "char", "data.context": 16},
    "summarisation,bahdanau,pointer": {"tokenizer.shared": True, "model.pointer": True},
    "dialogue,hred,speakers": {"data.train": "spoken.jsonl", "data.respond": "you"},
    "table,mlp,number": {"data.train": "data/series.csv", "data.columns.label": "made"},
    "series,rnn,levels": {"model.difference": False, "model.cell": "gru", "data.horizon": 2},
}
PAIRS = [f"{task},{model}" for task in SMALL for model, _ in usable(task)] + list(VARIANTS)
TEXTS = "one two|five? six. Zebra||Zebra \u00e9 e\u0301 \u4e00\u4e8c \U0001f44d\u200b\u202ex|one\ttwo|[MASK] <unk> </s>"
LINES = [*TEXTS.split("|"), "two three " * 400]
TALKS = [[{"speaker": who, "text": f"one {who} {n}."} for who in ("me", "you") * 2] for n in range(24)]
FILES = {
    "odd.txt": "\n".join(LINES) + "\n\n",
    "links.txt": "0-0 1-1\n" * 24,
    "choices.txt": "two\nthree four\n",
    "bad.csv": "width,length,sold,made\n0.1,x,2,3\n,,,\n0.3,0.4,1e999,nan\n",
    "half.csv": "width,length,sold,made\n" + "0.1,0.2,0.3,0.4\n" * 9,
    "short.csv": "sold\n0.1\n",
    "two.csv": "first,second,a,b,label\n" + "one two,three,1,0,x\nthree,one four,1,1,y\n" * 12,
    "bytes.txt": "one \udcff two\n",
    "spoken.jsonl": "".join(json.dumps({"turns": turns}) + "\n" for turns in TALKS),
    "empty.txt": "",
}
PICTURE = "data/photos/a/0.png"
NUMBERS = ["data/new.csv", "data/table.csv", "data/series.csv", "half.csv", "short.csv", "bad.csv", "empty.txt"]
TYPED = [LINES, *([text] for text in LINES), ["--input", "odd.txt"], ["--input", "odd.txt", "--bad-lines=skip"]]
GIVEN: dict[str, list[list[str]]] = {  # arguments of `heed predict`, by kind of input
    "text": TYPED,
    "turns": [*TYPED, ["one two", "three", "four"], ["--input", "data/talks.jsonl"]],
    "row": [["--input", name] for name in NUMBERS],
    "columns": [["--input", name] for name in NUMBERS[2:] + NUMBERS[:2]],
    "picture": [["--input", "data/photos"], [PICTURE, "data/photos/b/1.png"], ["odd.txt"], ["data/none.png"]],
}
POSTED: dict[str, Any] = {
    "row": {"width": 0.1, "length": 0.2},
    "columns": {"sold": [0.1, 0.2, 0.3, 0.4, 0.5], "made": [0.5, 0.4, 0.3, 0.2, 0.1]},
    "turns": ["one two", "three"],
    "text": "one [MASK] two",
}
VALUES = (
    "patch-from=three four|patch-from=one|beside=other|beside=untrained|beside=step-2|units=2|units=0,1|map=gradient|"
    "map=field|for=a|rather-than=b|target=TWO one|speaker=you|patch=0,0|pair=three|choices=choices.txt|stop=two|"
    "alignment=links.txt|choice=two|prefix=ONE|page=errors.html"
).split("|")  # of flags whose value is a text; numbers are 2
SCORED = ("a", "two:0", "TWO:0", "B-x:one", "O:1", "b")  # values of `--for`: a label, token, tag
WRONG = (
    """
    data.colour=1 model.name=none model.colour=1 training.steps=-1 training.steps=x data.valid=0 data.valid=10000
    tokenizer.kind=x tokenizer.vocab_size=3 data.max_length=1 model.size=huge task=x evaluation.beam=0 data=x
    training.label_smoothing=2 data.columns.text=[a,b] data.bad_lines=x data.name=dates data.train=none.txt
    data.train=empty.txt data.train=bytes.txt data.train=bad.csv data.train=odd.txt data.train=data data.train=hub:x
""".split()
    + [f"data.train=data/{small.train}" for small in SMALL.values()]
)
_MEASURED = re.compile(r"\d[\d,.]*(?= ?(?:ms|s|min|minutes?|seconds?|h|[KMG]i?B|kB|bytes|\w+/s|\w+ per second)\b)")
_UNSTEADY = re.compile(
    r"per update \(predicted|other work is running|updates per second|^predicted|^heed: warning of |"
    r"^(?:run|other) \(not trained enough\) +[\d,]+ +\d+ +[\d,]+ "  # cost in `heed compare`
)
# fields of JSON
_LEFT_OUT = re.compile("seconds|wait|version|memory|speed|started|date$|bytes|per_second|training_minutes|judged_by")


def plain(value: Any, folder: str) -> Any:
    """A value as data of JSON, without what was measured and without the temporary folder."""
    value = value.as_json() if hasattr(value, "as_json") else value
    if dataclasses.is_dataclass(value):
        value = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    if isinstance(value, dict):
        kept = {str(key): one for key, one in value.items() if not _LEFT_OUT.search(str(key))}
        return {plain(key, folder): plain(one, folder) for key, one in kept.items()}
    if isinstance(value, list | tuple):
        return [plain(one, folder) for one in value if not (isinstance(one, str) and _UNSTEADY.search(one))]
    if isinstance(value, torch.Tensor | np.ndarray | np.generic):
        return value.tolist()
    if value is None or isinstance(value, int | float):
        return value
    return _MEASURED.sub("N", str(value).replace(os.path.realpath(folder), "DIR").replace(folder, "DIR"))


def told(text: str, page: bool = False) -> Any:
    """Output as data if it is JSON, as one value or a value on each line; else its lines; of a `page` a digest."""
    if page:
        return hashlib.sha256(text.encode()).hexdigest()[:16]
    for parts in ([text], text.splitlines()):
        with contextlib.suppress(ValueError):
            return [json.loads(one) for one in parts]
    return text.splitlines()


def call(*words: str) -> Answers:
    """Exit status, stdout and stderr of a command; stdin is empty."""
    for seed in (torch.manual_seed, random.seed, np.random.seed):
        seed(1)
    out, err, code, stdin = io.StringIO(), io.StringIO(), 0, sys.stdin
    sys.stdin = io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            heed_command([*words])
        except SystemExit as ended:
            code = ended.code or 0  # type: ignore[assignment]
        except Exception as error:  # an error in heed is an answer too
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
    sys.stdin = stdin
    page = not code and words[-1] in ("--as=html", "--as=svg")
    return {"exit": code, "out": told(out.getvalue(), page), "err": err.getvalue().splitlines()}


def tried(function: Callable[..., Any], *given: Any, **options: Any) -> Any:
    """What a call in Python returns, or its error."""
    try:
        return function(*given, **options)
    except Exception as error:
        return f"{type(error).__name__}: {error}"


def flags(task: str, of: str) -> Iterator[list[str]]:
    """Words for every flag of a command that a task has, one flag at a time; of a flag with several values, each."""
    for flag in spec_of(task).flags_of(of):
        texts = [f"--{one}" for one in VALUES if one.startswith(f"{flag.name}=")] or [f"--{flag.name}=2"]
        words = [f"--{flag.name}={one}" for one in flag.type] if isinstance(flag.type, tuple) else texts
        yield from ([word] for word in ([f"--{flag.name}"] if flag.type is bool else words))


def commands(task: str, first: bool) -> Iterator[list[str]]:
    """The commands that are asked of a run in the folder `run`, beside another in `other`; `first`: once for a task."""
    kind, test = spec_of(task).input, f"data/{SMALL[task].train}"
    given = GIVEN[kind]
    as_json = ["--json"] * (["--json"] in flags(task, "predict"))
    yield from (["predict", "run", *words, *more] for words in given for more in ([], as_json))
    for words in [*flags(task, "predict"), ["--nbest=2", "--sort=uncertainty"], ["--with=other"]]:
        yield from (["predict", "run", *given[0], *words], ["predict", "run", *given[0][:2], *words, *as_json])
    if ["--sample"] in flags(task, "predict"):
        for words in (["--temperature=0.5"], ["--top-k=2"], ["--top-p=0.7"], ["--seed=2"], ["--nbest=2"]):
            yield ["predict", "run", *given[0], "--sample", *words]
        yield ["predict", "run", *given[0], "--nbest=3", "--beam=3", *as_json]
    scored = [[], ["--split=valid"], ["--equal-weights"], ["--with=other"], ["--split=no"], [test], ["odd.txt"]]
    scored += [["--errors=3", "--page=errors.html"], [test, "--alignment=links.txt"], *flags(task, "evaluate")]
    yield from (["evaluate", "run", *words, *more] for words in scored for more in ([], ["--json"]))
    drawn = [[], ["--steps"], ["--layer=all", "--head=all"], ["--overview"], ["--number", "0", "0"], ["--layer=9"]]
    drawn += [["--mechanism=rollout"], ["--edit={}"], *flags(task, "look")]
    drawn += [[f"--attribution={how}"] for how in ("ig", "grad", "gradxinput", "loo")]
    attributed = [["--method=grad", f"--for={of}", *more] for of in SCORED for more in ([], ["--rather-than=b"])]
    inside = [["attribute", *words] for words in attributed] + [["patch", LINES[1]], ["lens"], ["beams", "--beam=3"]]
    looked = {"picture": [PICTURE, "data/photos/b/1.png"], "columns": ["data/series.csv", "short.csv"]}
    for number, text in enumerate(looked.get(kind, LINES[:2])):
        yield ["look", "run", text]
        yield from (["look", "run", text, *words, "--as=json"] for words in drawn)
        yield from ([name, "run", text, *words, "--as=json"] for name, *words in inside * (number == 0))
        yield from (["look", "run", text, "--steps", f"--as={form}"] for form in ("html", "svg"))
    yield from (["look", "run", text] for text in ("", LINES[-1]))
    yield from (["look", "run"], ["check", "run"], ["heads", "run"], ["heads", "run", "--json"], ["align", "run", test])
    yield ["export", "run", "--to=huggingface", "--out=out-exported"]
    yield from (["export", "run", "--to=ctranslate2", *more] for more in ([], ["--out=out-exported"]))
    if first:
        compared = ["compare", "run", "other", "--split=valid", "--resamples=5"]
        yield from (compared, [*compared, "--json", "--out=out-compared"])
        yield from (["pack", "run", "--out=run.zip"], ["predict", "run.zip", *given[0]], ["check", "run.zip"])
        start = ["train", task, test, *SMALL[task].start, "--dry-run"]
        yield from (["train", task], [*start, "--from=run"], [*start, "--from=run", "--verbose"])
        yield from ([*start, word] for word in [*WRONG, *(f"--model={name}" for name in model_names())])
    yield from (["train", "run", "--resume", "training.steps=6"], ["check", "run"], ["predict", "run", *given[0]])


def from_python(task: str, first: bool) -> Iterator[tuple[str, Any]]:
    """What the methods of the run answer, and the server."""
    run: Any = heed.load("run")
    posted = POSTED.get(spec_of(task).input) or base64.b64encode(Path(PICTURE).read_bytes()).decode()
    asked = {"dialogue": ["one two"], "images": PICTURE}.get(task, posted)
    weights = load_file("run/model.safetensors")
    yield "weights", {name: [[*one.shape], float(one.double().sum())] for name, one in weights.items()}
    yield "run", [run.title, run.so_far, run.task.overview().splitlines(), run.task.split_names, tried(run.evaluate)]
    for given in (asked, [asked, asked], [], 3, None, "", [None]):
        yield f"run.predict({given!r})", tried(run.predict, given)
        yield f"run.look({given!r})", tried(lambda given=given: told(run.look(given).json()))
    yield "no such keyword", [tried(run.predict, asked, colour=1), tried(lambda: run.look(asked, colour=1))]
    yield "capabilities", {name: str(tried(capability, run, name)).partition(" object at")[0] for name in CAPABILITIES}
    if first:
        every = {(of, one.name) for other in task_names() for one in spec_of(other).flags for of in one.command.split()}
        yield "options", {f"{of} {name}": tried(options_of, task, of, {name: 1}) for of, name in sorted(every)}
    with TestClient(Server(open_runs(["run"])).app(["h:1"], "t"), base_url="http://h:1") as client:
        client.headers["Authorization"] = "Bearer t"
        yield "GET", client.get("/v1/runs").json()
        body: Answers = {"input": posted}
        predicted = (body, {"inputs": [posted] * 2}, {"input": None}, body | {"options": {"nbest": 2}})
        asking = [*(("v1/predict", one) for one in predicted), ("api/write", body)]
        for number, (path, one) in enumerate([*asking, ("api/save", {"look": body, "format": "html"})]):
            answer = client.post(f"/{path}", json=one)
            page = path == "api/save" and answer.is_success
            text = json.dumps({"html": answer.text}, ensure_ascii=False, separators=(",", ":")) if page else answer.text
            yield f"POST {path.replace('save', 'look')} {number}", [answer.status_code, told(text, page)]


def snapshot(pair: str, folder: Path) -> Answers:
    """All answers of a pair; the folder is empty, and the current one."""
    task, model, *variant = pair.split(",")
    first = not variant and model == SMALL[task].model
    os.environ["HEED_CACHE"] = str(folder / "cache")
    (folder / "data").mkdir()
    write_data(folder / "data")
    for name, text in FILES.items():
        (folder / name).write_text(text, errors="surrogateescape")
    settings = {"model.size": "tiny", **records.SETTINGS, **TRAINING, **records.CASES[f"{task}, {model}, small"][1]}
    settings |= {"training.steps": 4, "training.validate_every": 2, "data.train": f"data/{SMALL[task].train}"}
    settings |= VARIANTS.get(pair, {})
    fields = [f"{name}={json.dumps(value)}" for name, value in settings.items() if value is not None]
    answers: Answers = {"check data": call("check", task, *fields), "train": call("train", task, *fields, "--out=run")}
    for path in sorted(path for path in Path("run").rglob("*") if path.is_file()):
        read = path.suffix in (".json", ".jsonl", ".yaml", ".md", ".txt") and path.name != "checksums.json"
        answers[str(path)] = told(path.read_text()) if read else None
    if answers["train"]["exit"]:
        raise RuntimeError(f"{pair}: {answers['train']['err'][-1]}")
    call("train", task, *fields, "training.seed=2", "training.steps=3", "--out=other")
    answers |= {key[:200]: value for key, value in from_python(task, first)}
    for words in commands(task, first):
        answers[" ".join(word if len(word) < 99 else f"{word[:20]}..." for word in words)] = call(*words)
    answers["written"] = sorted(map(str, [*Path().glob("out-*/**/*"), *Path().glob("run/export/**/*")]))
    return plain(answers, str(folder))  # type: ignore[no-any-return]


def of_all_tasks() -> Answers:
    """The help of every command, the tables of models and capabilities, and the specifications of the tasks."""
    names = ("train", "check", "predict", "import", "export", "serve", "evaluate", "heads", "align", "compare", "look")
    answers: Answers = {f"{name} -h": call(name, "-h") for name in names}
    answers |= {f"models {name}": call("models", *name.split()) for name in ["", "--scores", *model_names()]}
    answers |= {"capabilities": capability_table().splitlines()}
    return plain(answers | {task: spec_of(task) for task in task_names()}, "/nowhere")  # type: ignore[no-any-return]


def first_difference(old: Any, new: Any, path: str) -> str | None:
    """Describe the first difference of two answers; None if there is none."""
    if isinstance(old, dict) and isinstance(new, dict):
        pairs = [(f"{path}.{key}", old.get(key, "nothing"), new.get(key, "nothing")) for key in {**old, **new}]
    elif isinstance(old, list) and isinstance(new, list):
        pairs = [(f"{path}[{n}]", *both) for n, both in enumerate(zip(old, new, strict=False))]
        pairs.append((f"length of {path}", len(old), len(new)))
    else:
        return None if repr(old) == repr(new) else f"{path}\n    was {old!r:.600}\n    is  {new!r:.600}"
    return next((found for at, one, other in pairs if (found := first_difference(one, other, at))), None)


def main() -> None:
    """Write or compare snapshots."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["write", "compare"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", nargs="+", metavar="NAME", help="tasks, models or pairs")
    options = parser.parse_args()
    every = [*PAIRS, "commands"]
    chosen = [one for one in every if not options.only or {one, *one.split(",")} & {*options.only}]
    options.folder.mkdir(parents=True, exist_ok=True)
    home, differing = options.folder.absolute(), 0
    torch.set_num_threads(1)
    cost._ENOUGH, sizing._SLOWEST = 0.0, math.inf  # as the tests do: no size depends on the machine's speed
    for pair in chosen:
        file = home / f"{pair.split(',')[0]}.json"
        with tempfile.TemporaryDirectory(prefix="heed-snapshot-") as name, contextlib.chdir(name):
            now = json.loads(json.dumps(snapshot(pair, Path(name)) if "," in pair else of_all_tasks()))
        kept = json.loads(file.read_text()) if file.exists() else {}
        if options.what == "write":
            file.write_text(json.dumps(kept | {pair: now}, indent=0, ensure_ascii=False) + "\n")
            continue
        old = kept.get(pair, {})
        both = ((key, old.get(key, "nothing"), now.get(key, "nothing")) for key in {**old, **now})
        found = [text for key, *two in both if (text := first_difference(*two, f"{pair}: {key}"))]
        print("\n".join([*found[:3], f"{pair}: {len(found) or 'no'} answers differ"]), flush=True)
        differing += bool(found)
    if differing or not chosen:
        sys.exit(f"{differing} of {len(chosen)} pairs differ" if chosen else f"--only: valid are {', '.join(every)}")
    print(f"{len(chosen)} pairs " + ("written" if options.what == "write" else "answer the same"))


if __name__ == "__main__":
    main()
