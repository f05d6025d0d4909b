"""docs/systems.md: every command of it runs, on the smallest data and with networks trained for one update."""

import json
import random
import re
import shlex
from pathlib import Path

import pytest
from PIL import Image

import heed
from heed.lessons import list_lessons
from heed.lessons.lesson import SECONDS
from heed.tasks import capability_table, config_class
from pages import page, printed
from pictures import noise

PAGE = page("docs/systems.md")
KINDS = ("train", "use", "look", "step")
SYSTEMS = [*(f"A{n}" for n in range(1, 8)), *(f"B{n}" for n in range(1, 10)), *(f"C{n}" for n in range(10))]
"""The ids of the rows that there are to be."""


def commands_in(text):
    """The commands in sentences and on lines of their own, without `heed` and without comments."""
    found = re.findall(r"`heed ([^`]+)`|^heed (.+?)(?:\s+# .*)?$", text, flags=re.MULTILINE)
    return [inline or line for inline, line in found]


def kind_of(command):
    """What a command does with a model: train it, use it, look or step; lessons have their own."""
    verb = command.split()[0]
    if verb == "look" and "--steps" in command:
        return "step"
    return {"import": "train", "predict": "use", "align": "use"}.get(verb, verb)


def by_kind(commands):
    return {kind: [command for command in commands if kind_of(command) == kind] for kind in map(kind_of, commands)}


ROWS = {
    name: by_kind(commands_in(text))
    for name, text in re.findall(r"^### ([A-C]\d) [^\n]*\n(.*?)(?=^##)", PAGE, flags=re.MULTILINE | re.DOTALL)
}
TASKS = {
    name: commands_in(text)
    for name, text in re.findall(
        r"^# (\w+)\n((?:heed .*\n)+)", PAGE.split("## Commands for all of them")[1], flags=re.MULTILINE
    )
}
IN_ROWS = [command for row in ROWS.values() for commands in row.values() for command in commands]
OTHERS = [
    command
    for command in dict.fromkeys(commands_in(PAGE))
    if command not in IN_ROWS and not any(command in commands for commands in TASKS.values())
]
SMALL = ["training.steps=1", "training.threads=1", "training.device=cpu", "evaluation.bootstrap=5"]
FEW = ["data.train=60", "data.valid=12", "data.test=12"]
CHECKPOINTS = {
    "google-bert/bert-base-uncased": "train pretraining my_texts/",
    "google/vit-base-patch16-224": "train images photos/ --model vit",
}
"""Names on the Hub, and what is trained, and exported into a folder of that name, in place of them."""


def sample_of(command):
    """The text or file that a command gives to a run."""
    return next((word for word in shlex.split(command)[2:] if not word.startswith("--")), None)


def write_files(folder, rng):
    """The files that the page names, as small as they can be."""
    words = "the cat sat on wall movie was fun Ann Lee left Rome man went to I love eating pizza with".split()
    texts = [" ".join(rng.choices(words, k=5)) + "." for _ in range(24)]
    tagged = " | ".join(texts).split()  # a bar becomes the blank line between two sentences
    lines = {
        "my.en": texts,
        "my.es": [text.upper() for text in texts],
        "sentences.txt": texts,
        "reviews.tsv": ["label\ttext", *(f"{'abc'[n % 3]}\t{text}" for n, text in enumerate(texts))],
        "train.conll": [f"{word} {'B-PER' if word == 'Ann' else 'O'}" if word != "|" else "" for word in tagged],
        "flowers.csv": ["width,label", *(f"{rng.random():.2f},{'ab'[n % 2]}" for n in range(24))],
        "new.csv": ["width", "0.1", "0.2"],
        "sales.csv": ["sold", *(f"{rng.random():.2f}" for _ in range(60))],
        "my.yaml": ["tokens: [I, love, pizza]", "input: [[1, 0], [0, 2], [1, 1]]"],
        **{f"my_texts/{n}.txt": texts[n : n + 8] for n in range(8)},
    }
    turns = ["Can you suggest a good movie?", "Yes, sure.", "Who is the lead actor?", "Hugh Jackman."]
    lines["talks.jsonl"] = [json.dumps({"turns": [text, *turns, text]}) for text in texts]
    lines["mails.jsonl"] = [json.dumps({"document": f"{text} {text}", "summary": text}) for text in texts]
    lines["my.links"] = ["0-0 1-1 2p3"] * len(texts)
    (folder / "my_texts").mkdir()
    for name, written in lines.items():
        (folder / name).write_text("".join(f"{line}\n" for line in written), encoding="utf-8")
    for n, name in enumerate([*(f"photos/{kind}/{n}.png" for kind in ("cat", "dog") for n in range(6)), "dog.jpg"]):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(noise(n, 16, 16)).save(folder / name)


class Bench:
    """Runs the commands of the page in one folder, each with each run once; lessons are trained by their own tests."""

    def __init__(self):
        self.runs, self.done = {}, {}

    def __call__(self, command, run=None, *more):
        """The output of a command, in which `last` is this run."""
        if (command, run, more) not in self.done:
            self.done[command, run, more] = self.output(command, run, *more)
        return self.done[command, run, more]

    def output(self, command, run, *more):
        name = command.removeprefix("lesson ")
        if name in SECONDS:
            return list_lessons()[name]
        words = [str(run) if word == "last" and run is not None else word for word in shlex.split(command)]
        return printed([*words, *more])

    def trained(self, command, parent=None):
        """The folder of the run that a command makes."""
        key = command, parent if "last" in shlex.split(command) else None
        if key not in self.runs:
            folder = Path("runs") / str(len(self.runs))
            if command.startswith("import"):
                name = command.split()[1]
                self(f"export last --to huggingface --out {name}", self.trained(CHECKPOINTS[name]))
                self(command, None, "--out", str(folder))
            else:
                size = [] if "--from" in command else ["--size", "tiny"]
                size += FEW if "data.name=" in command else []
                size += [] if "train images" in command else ["training.batch_tokens=200"]
                if "generation" in config_class(command.split()[1]).model_fields:
                    size.append("generation.max_length=8")  # an untrained network seldom ends what it writes
                self(command, parent, *size, *SMALL, "--out", str(folder))
            self.runs[key] = folder
        return self.runs[key]

    def of_task(self, task):
        """A run of a task: the first that the page trains."""
        return self.trained(next(command for command in commands_in(PAGE) if command.startswith(f"train {task} ")))

    def use(self, run):
        """What the page says of the task of a run: use, look, step."""
        use, *seen = TASKS[heed.load(run).config.task]
        assert self(use, run)
        for command in seen:
            self.see(command, run)

    def see(self, command, run=None):
        """Look, or step through."""
        out = self(command, run)
        assert out and "no steps" not in out, command
        if "--steps" in command:
            assert "step 1 of" in out, command


@pytest.fixture(scope="module")
def bench(tmp_path_factory):
    folder = tmp_path_factory.mktemp("systems")
    write_files(folder, random.Random(1))
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        yield Bench()


def test_the_page_has_every_system():
    """A row trains its system; what works for every run of a task, the page says once."""
    assert set(ROWS) == set(SYSTEMS)
    for name, row in ROWS.items():
        shared = {kind_of(each) for one in row.get("train", []) for each in TASKS.get(one.split()[1], [])}
        kinds = {"C0": {"lesson"}, "C9": {*KINDS} - {"step"}}  # in C0 nothing is trained; a picture has no steps
        assert {*row} | shared >= kinds.get(name, {*KINDS}), name


def test_the_page_has_every_task_with_what_it_can_do():
    head, _, *lines = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in capability_table().splitlines()
    ]
    (looks,) = (dict(zip(head, cells, strict=True)) for cells in lines if cells[0] == "`look`")
    assert set(TASKS) == set(head[1:])
    for task, commands in TASKS.items():
        assert len(commands) == (1 if looks[task] != "yes" else 2 if task == "images" else 3), task


@pytest.mark.parametrize("name", ROWS)
def test_every_command_of_a_row_runs(bench, name):
    row, runs = ROWS[name], []
    for command in row.get("train", []):
        runs.append(bench.trained(command, runs[-1] if runs else None))
        bench.use(runs[-1])
    samples = {run: sample_of(TASKS[heed.load(run).config.task][0]) for run in runs}
    for kind in ("use", "look", "step"):
        for command in row.get(kind, []):
            for run in [run for run in runs if samples[run] == sample_of(command)] or runs[:1]:
                assert bench(command, run) if kind == "use" else bench.see(command, run) is None
    for command in row.get("lesson", []):
        bench.see(command)


@pytest.mark.parametrize("command", OTHERS)
def test_every_other_command_of_the_page_runs(bench, command):
    if command.startswith("train "):
        bench.use(bench.trained(command))
        return
    task = next((task for task, (use, *_) in TASKS.items() if sample_of(use) == sample_of(command)), None)
    assert bench(command, bench.of_task(task) if "last" in command.split() else None)
