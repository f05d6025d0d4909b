"""Damage to any file of a run of any task: every command answers as before, or says in one line what is wrong.

`make fuzz` makes 5,000 changes (`HEED_FUZZ` for each task); here each task gets a few, by a fixed seed.
"""

import json
import os
import re
import shutil
from pathlib import Path

import pytest
import yaml
from hypothesis import given, seed
from hypothesis import strategies as st

import heed
from fuzzing import FEW, MUTATIONS, SEED, STRAY, Damage, answer, becomes, damages, seal_again
from heed.storage.files import CHECKSUMS
from small_runs import SMALL

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
