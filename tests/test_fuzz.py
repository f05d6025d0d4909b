"""Damaged runs and checkpoints, odd options, threads that share runs: an answer as before, or one line of error.

`make fuzz` tries many more cases (HEED_FUZZ, HEED_FUZZ_SEED).
"""

import json
import os
import random
import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jaxtyping
import numpy as np
import pytest
import torch
import yaml
from hypothesis import given, seed, settings
from hypothesis import strategies as st
from PIL import Image
from safetensors.torch import load_file
from transformers import AutoTokenizer

import heed
import marian
from fuzzing import (
    FEW,
    MUTATIONS,
    SEED,
    STRAY,
    Damage,
    answer,
    becomes,
    damages,
    fields_of,
    odd_files,
    odd_words,
    seal_again,
)
from heed.generation import SamplingOptions
from heed.storage.files import CHECKSUMS
from heed.tasks import tasks_with
from small_runs import SMALL
from test_checkpoints_bert import bert, distilbert, roberta, xlm_roberta
from test_checkpoints_gpt2 import gpt2
from test_checkpoints_vit import vit
from tokenizer_folders import spm_saved

ANSWERS = ("predict", "look", "evaluate", "ensemble")
"""Commands whose output is the same each time; it may then not change without a word."""


class Bench:
    """A small run, a whole copy of it, and what each command answers to the whole one."""

    def __init__(self, name: str, data: Path, whole: Path, home: Path, patch: pytest.MonkeyPatch) -> None:
        self.task, self.patch = name, patch
        self.run, self.whole, self.out = home / name, whole, home / "out"
        self.commands = SMALL[name].commands(str(self.run), str(self.whole), data, self.out)
        self.before = {command: self.ask(command) for command in self.commands}
        for command, found in self.before.items():
            assert not found.wrong, f"{name}, {command}, undamaged: {found.wrong}"

    def ask(self, command: str, damage: Damage | None = None, sealed: str = "kept"):
        """What a command answers to a new copy of the run, perhaps damaged, its seal kept, removed or made anew."""
        for folder in (self.run, self.out):
            shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.whole, self.run)
        if damage is not None:
            damage.do(self.run / damage.file)
        if sealed == "removed" and not (self.run / CHECKSUMS).is_dir():
            (self.run / CHECKSUMS).unlink(missing_ok=True)
        elif sealed == "made anew":
            seal_again(self.run)
        return answer(self.commands[command], self.patch)

    def wrong_with(self, command: str, damage: Damage, sealed: str) -> str:
        """What is wrong with the answer; empty where nothing is."""
        found, before = self.ask(command, damage, sealed), self.before[command]
        if found.wrong:
            return found.wrong
        silent = found.code == 0 and found.err == before.err and found.out != before.out
        if sealed == "kept" and command in ANSWERS and silent:
            return f"another answer without a word:\n{found.out[:500]}\ninstead of\n{before.out[:500]}"
        return ""


BENCHES: dict[str, Bench] = {}


@pytest.fixture
def bench(request, data, small_run, tmp_path, monkeypatch, as_installed):
    """The bench of a task, which asks each command about the undamaged run once."""
    name = request.param
    if name not in BENCHES:
        BENCHES[name] = Bench(name, data, small_run(name), tmp_path, monkeypatch)
    BENCHES[name].patch = monkeypatch
    return BENCHES[name]


@pytest.mark.parametrize("bench", SMALL, indirect=True)
def test_damage_is_answered_as_before_or_with_one_line(bench):
    problems = []
    able = [command for command, found in bench.before.items() if found.code == 0]

    @seed(SEED)
    @FEW
    @given(damages(bench.whole), st.sampled_from(["kept", "removed", "made anew"]), st.sampled_from(able))
    def damage_and_ask(damage, sealed, command):
        if wrong := bench.wrong_with(command, damage, sealed):
            problems.append(f"{command}, seal {sealed}, {damage}: {wrong}")

    damage_and_ask()
    assert not problems, f"{len(problems)} of {MUTATIONS}:\n\n" + "\n\n".join(problems[:10])


@pytest.mark.parametrize("bench", ["table"], indirect=True)
def test_strangers_among_the_checkpoints_are_passed_over_and_kept(bench):
    for name in [name for name in STRAY if name.startswith("checkpoints/")]:
        for kind in ("a folder", "[]"):
            found = bench.ask("resume", Damage(name, kind, becomes(kind)))
            assert (found.code, found.wrong) == (0, ""), name
            assert (bench.run / name).exists()


@pytest.mark.parametrize("bench", ["table"], indirect=True)
@pytest.mark.parametrize("name", ["curves.svg", "notes.txt"])
def test_a_file_of_a_terabyte_is_not_read_for_the_seal(bench, name):
    found = bench.ask("resume", Damage(name, "huge", becomes("huge")), "removed")
    assert (found.code, found.wrong) == (0, "")
    assert name not in json.loads((bench.run / CHECKSUMS).read_text()) or name == "curves.svg"
    assert heed.load(bench.run).predict({"width": 0.1, "length": 0.2}).label in "ab"


@pytest.mark.parametrize("bench", ["table"], indirect=True)
def test_data_that_has_become_a_pipe_is_not_waited_for(bench, tmp_path):
    os.mkfifo(tmp_path / "pipe.csv")

    def point_to_pipe(path):
        path.write_text(re.sub(r"/[^\n]*table\.csv", str(tmp_path / "pipe.csv"), path.read_text()))

    for command in ("evaluate", "resume"):
        found = bench.ask(command, Damage("config.yaml", "data.train is a pipe", point_to_pipe), "made anew")
        assert (found.code, found.wrong) == (2, "")
        pipe = tmp_path / "pipe.csv"
        assert f"data.train: '{pipe}' is a named pipe, but a run reads its data again later" in found.err


@pytest.mark.parametrize("bench", ["table"], indirect=True)
def test_a_log_with_lines_that_cannot_be_read_says_so(bench):
    lines = (bench.whole / "metrics.jsonl").read_text().splitlines()
    bad = ["[]", '{"event": "update", "step": "x"}', '{"event": "validation", "step": 1}', '{"event": [], "step": 1}']
    bad += [re.sub(r'"learning_rate": [^,]*, ', "", next(line for line in lines if "learning_rate" in line))]
    text = "\n".join([lines[0], *bad, *lines[1:]]) + "\n"
    found = bench.ask("curves", Damage("metrics.jsonl", "bad lines", lambda path: path.write_text(text)))
    assert (found.code, found.wrong) == (0, "")
    assert "metrics.jsonl is damaged: 5 lines cannot be read and are left out" in found.err


def set_value(name, value):
    """A change of one value of a YAML or JSON file, named by its path with dots."""

    def do(path):
        values = yaml.safe_load(path.read_text())
        *above, last = name.split(".")
        holder = values
        for key in above:
            holder = holder[key]
        holder[last] = value
        path.write_text(json.dumps(values))  # which YAML reads too

    return do


@pytest.mark.parametrize("bench", ["tagging", "language_modelling", "pretraining", "translation"], indirect=True)
def test_a_size_of_the_model_that_is_not_that_of_the_run_is_named(bench):
    field = "target_vocab_size" if bench.task == "translation" else "vocab_size"
    right = yaml.safe_load((bench.whole / "config.yaml").read_text())["model"][field]
    for value in (7, right + 1):
        found = bench.ask("resume", Damage("config.yaml", field, set_value(f"model.{field}", value)), "removed")
        assert (found.code, found.wrong) == (2, "")
        assert f"config.yaml: model.{field} is {value}, but the run has {right} " in found.err
        assert f"set it to {right}, as it was when the run began" in found.err


@pytest.mark.parametrize("bench", ["language_modelling"], indirect=True)
def test_positions_may_be_more_than_the_context_and_not_fewer(bench):
    for context, code in ((4, 0), (16, 2)):
        damage = Damage("config.yaml", "data.context", set_value("data.context", context))
        found = bench.ask("resume", damage, "removed")
        assert (found.code, found.wrong) == (code, ""), found.err
    assert "model.max_length is 8, but the run has 16 positions" in found.err


@pytest.mark.parametrize("bench", ["table"], indirect=True)
@pytest.mark.parametrize(
    ("name", "value"),
    [("parameters", ["x"]), ("task", []), ("format", "y"), ("scores", []), ("training", {"ended": 1})],
)
def test_a_report_that_was_altered_is_made_again_on_resume(bench, name, value):
    found = bench.ask("resume", Damage("report.json", name, set_value(name, value)), "removed")
    assert (found.code, found.wrong) == (0, "")
    report = json.loads((bench.run / "report.json").read_text())
    whole = json.loads((bench.whole / "report.json").read_text())
    for key in ("format", "task", "model", "parameters"):
        assert report[key] == whole[key]


@pytest.mark.parametrize("bench", ["table"], indirect=True)
def test_a_report_of_other_types_is_damaged(bench):
    for command in ("predict", "compare", "curves"):
        found = bench.ask(command, Damage("report.json", "", set_value("training.updates", [1])), "made anew")
        assert (found.code, found.wrong) == (2, "")
        assert "report.json is damaged: training.updates is [1]: input should be a valid integer" in found.err


@pytest.mark.parametrize("bench", ["pretraining"], indirect=True)
def test_weights_that_a_checkpoint_keeps_are_not_hashed_anew(bench):
    kept = "checkpoints/step-1/model.safetensors"
    for kind in ("a link to /dev/zero", "a pipe", "text"):
        found = bench.ask("resume", Damage(kept, kind, becomes(kind)), "removed")
        assert found.wrong == "" and found.code in (0, 2, 3)
        if (bench.run / "checkpoints/step-1").exists():
            assert not heed.check_run(bench.run).whole


@pytest.mark.parametrize("bench", ["dialogue"], indirect=True)
def test_speakers_that_the_tokenizer_lacks_are_damage(bench):
    for command in ("predict", "evaluate", "resume"):
        found = bench.ask(command, Damage("speakers.json", "one more", becomes('[""]')), "removed")
        assert (found.code, found.wrong) == (2, "")
        assert "speakers.json is damaged: tokenizer.json has no tokens for some of its 1 speakers" in found.err


# --- Odd numbers, names, settings and encodings on the command line of any task: an answer, or one line that says why
# not


@pytest.mark.parametrize("name", SMALL)
def test_odd_words_are_answered_or_refused_in_one_line(name, data, small_run, tmp_path, monkeypatch, as_installed):
    small, whole, desk = SMALL[name], small_run(name), tmp_path / "desk"
    files, problems = str(data / small.train), []
    own = [f"{key}={json.dumps(value)}" for key, value in small.settings.items() if value is not None]
    commands = small.commands("run", str(whole), data, desk / "out") | {
        "check data": ["check", name, files, *own],
        "dry run": ["train", name, files, "--dry-run", "training.steps=1", *own],
        "train": ["train", name, files, "training.steps=1", "training.threads=1", "evaluation.bootstrap=5", *own],
        "input": ["predict", "run", "--input", files],
        "align": ["align", "run", str(data / "pairs.tsv")],
        "pack": ["pack", "run"],
        "import": ["import", "run"],
        "lesson": ["lesson", "lion"],
        "models": ["models"],
    }

    @seed(f"{SEED} {name}")
    @FEW
    @given(odd_words(commands, fields_of(name, small.model), name, files))
    def ask(asked):
        shutil.rmtree(desk, ignore_errors=True)
        desk.mkdir()
        monkeypatch.chdir(desk)
        odd_files(desk)
        shutil.copytree(whole, desk / "run")
        (desk / "own.yaml").write_bytes(asked.yaml.encode("utf-8", "surrogatepass"))
        if wrong := answer(asked.words, monkeypatch, asked.encoding).wrong:
            problems.append(f"{asked}: {wrong}")

    ask()
    assert not problems, f"{len(problems)} of {MUTATIONS}:\n\n" + "\n\n".join(problems[:10])


# --- Threads that share runs: runs of every task predict, look and attribute at once, each answer as from one thread


CALLS = 40 * int(os.environ.get("HEED_FUZZ", "5"))
TEXTS = ("one two", "three four five one", "two", "seven six one two three")


@pytest.fixture(scope="module")
def runs(small_run):
    return {name: heed.load(small_run(name)) for name in SMALL}


def inputs(name, folder):
    """A few inputs of a task."""
    if name == "pretraining":
        return [f"{text} [MASK]" for text in TEXTS]
    if name == "images":
        return [str(folder / "photos" / f"{'ab'[n % 2]}/{n}.png") for n in range(4)]
    if name == "table":
        return [{"width": 0.1 * n, "length": 0.2} for n in range(4)]
    if name == "series":
        return [np.random.default_rng(n).random((9, 2)).tolist() for n in range(4)]
    return list(TEXTS)


def asked(runs, data):
    """Functions of no argument, by task, method and input, that ask a run."""
    for name, run in runs.items():
        for place, item in enumerate(inputs(name, data)):
            options = {"length": 5, "sampling": SamplingOptions(seed=2)} if name == "language_modelling" else {}
            yield (name, "predict", place), lambda run=run, item=item, options=options: run.predict(item, **options)
            if SMALL[name].look:
                yield (name, "look", place), lambda run=run, item=item: run.look(item).text()
            if name in tasks_with("attribute"):
                yield (name, "attribute", place), lambda run=run, item=item: run.attribute(item, method="loo")


def test_threads_that_share_runs_answer_as_one_does(runs, data, as_installed):
    calls = dict(asked(runs, data))
    assert {name for name, _, _ in calls} == {*SMALL}
    alone = {what: repr(call()) for what, call in calls.items()}
    chosen = random.Random(SEED).choices(sorted(calls), k=CALLS)
    with ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda what: repr(calls[what]()), chosen))
    assert [what for what, found in zip(chosen, together, strict=True) if found != alone[what]] == []


# --- Damage to any file of a Hugging Face checkpoint: `heed import` refuses it in one line, or makes a run that
# answers


CHECKPOINT_MUTATIONS = int(os.environ.get("HEED_FUZZ", "4"))


def whole_tokenizer(folder):
    AutoTokenizer.from_pretrained(folder).save_pretrained(folder)


def pairs(folder):
    folder.mkdir()
    marian.write_model(folder, marian.write_tokenizers(folder, marian.train_pieces(folder)))


def pieces(folder):
    xlm_roberta(folder, 1, "ForTokenClassification")
    for name in ("vocab.json", "merges.txt"):
        (folder / name).unlink()
    size = json.loads((folder / "config.json").read_text())["vocab_size"]
    spm_saved(folder.with_name("saved"), size - 2)
    for path in folder.with_name("saved").iterdir():
        shutil.copy(path, folder)


def as_pickle(folder):
    distilbert(folder, 1, "ForSequenceClassification")
    torch.save(load_file(folder / "model.safetensors"), folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()


FOLDERS = {
    "bert": lambda folder: (bert(folder, 1, "ForMaskedLM"), whole_tokenizer(folder)),
    "distilbert": as_pickle,
    "roberta": lambda folder: roberta(folder, 1, "ForSequenceClassification"),
    "xlm-roberta": pieces,
    "gpt2": lambda folder: (gpt2(folder, 1, "LMHeadModel"), whole_tokenizer(folder)),
    "marian": pairs,
    "vit": lambda folder: vit(folder, 1),
}


@pytest.mark.parametrize("name", FOLDERS)
def test_damage_to_a_checkpoint_is_refused_in_one_line_or_does_no_harm(name, tmp_path, monkeypatch):
    whole, folder, run = (tmp_path / one for one in ("whole", "theirs", "run"))
    FOLDERS[name](whole)
    Image.new("RGB", (9, 9)).save(picture := tmp_path / "picture.png")
    jaxtyping.config.update("jaxtyping_disable", True)  # what users see
    problems = []

    @seed(SEED)
    @settings(FEW, max_examples=CHECKPOINT_MUTATIONS)
    @given(damages(whole))
    def damage_and_import(damage):
        for one in (folder, run):
            shutil.rmtree(one, ignore_errors=True)
        shutil.copytree(whole, folder)
        damage.do(folder / damage.file)
        found = answer(["import", str(folder), "--out", str(run)], monkeypatch)
        if found.code == 0 and not found.wrong:
            found = answer(["predict", str(run), str(picture) if name == "vit" else "the man"], monkeypatch)
        if found.wrong:
            problems.append(f"{damage}: {found.wrong}")

    damage_and_import()
    jaxtyping.config.update("jaxtyping_disable", False)
    assert not problems, f"{len(problems)} of {CHECKPOINT_MUTATIONS}:\n\n" + "\n\n".join(problems[:40])
