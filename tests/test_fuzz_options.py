"""Odd numbers, names, settings and encodings on the command line of any task: an answer, or one line that says why not.

`make fuzz SEED=7` tries 500 for each task by that seed; here each task gets a few.
"""

import json
import shutil

import pytest
from hypothesis import given, seed

from fuzzing import FEW, MUTATIONS, SEED, answer, fields_of, odd_files, odd_words
from small_runs import SMALL


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
