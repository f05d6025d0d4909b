"""A run that starts from another has that run's scores beside its own; and the card of a run can be typed."""

import json
import os
import re
import shlex
from pathlib import Path

import pytest

from heed.cli import main
from heed.runs.card import scores_text
from heed.runs.train import train_config
from heed.tasks import check_config
from heed.training.progress import Quiet
from reporters import Listener


def texts(path, count=60, start=0):
    lines = [f"{'good' if n % 2 else 'bad'}\tthe {'fine' if n % 2 else 'poor'} film number {n}" for n in range(count)]
    path.write_text("label\ttext\n" + "\n".join(lines[start:]) + "\n")
    os.utime(path, ns=(0, 10**9))  # long before any run
    return str(path)


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("train.tsv", "valid.tsv", "test.tsv"):
        texts(tmp_path / name)
    return tmp_path


def classify(home, out, steps, reporter=None, **values):
    """Train on the three files; `values` are fields by their path with two underscores for the point."""
    fields = {
        "task": "classification",
        "data": {name: [str(home / f"{name}.tsv")] for name in ("train", "valid", "test")} | {"overlap": "keep"},
        "tokenizer": {"kind": "word", "min_count": 1},
        "model": {"name": "bag", "size": "tiny"},
        "training": {"steps": steps, "validate_every": 5, "threads": 1, "device": "cpu", "learning_rate": 0.05},
        "evaluation": {"bootstrap": 10},
    }
    fields["training"]["warmup"] = 0
    for name, value in values.items():
        section, _, field = name.partition("__")
        fields[section][field] = value
    return train_config(check_config(fields, "the test"), out, reporter or Quiet())[0]


def test_a_child_worse_than_its_parent_is_said_to_be(home):
    parent = classify(home, "runs/a", 20)
    listener = Listener()
    swap = {"good": "bad", "bad": "good"}
    lines = [line.partition("\t") for line in (home / "train.tsv").read_text().splitlines()]
    flipped = home / "flipped.tsv"
    flipped.write_text("".join(f"{swap.get(label, label)}\t{text}\n" for label, _, text in lines))
    os.utime(flipped, ns=(0, 10**9))
    child = classify(home, "runs/b", 40, listener, model__from=str(home / "runs/a"), data__train=[str(flipped)])
    best, worse = (run.report["scores"]["test"]["accuracy"]["value"] for run in (parent, child))
    assert worse < best
    beside = child.report["scores"]["test"]["parent"]
    assert beside["run"] == str(home / "runs/a") and beside["accuracy"] == parent.report["scores"]["test"]["accuracy"]
    warning = (
        f"warning: on the same test set this run is worse than its parent: accuracy {worse:.4g} against {best:.4g}"
    )
    assert any(line.startswith(warning) and line.endswith(" of runs/a") for line in listener.said)
    text = scores_text(child, child.report["scores"])
    assert re.search(rf"^test: 60 texts\n(.*\n)*  its parent runs/a: accuracy {best:.4g} \[", text, re.MULTILINE)
    assert re.search(r"^valid: .*\n  its parent runs/a: loss ", text, re.MULTILINE)
    assert "its parent runs/a: accuracy" in Path("runs/b/README.md").read_text()
    json.dumps(child.report, allow_nan=False)


def test_a_child_as_good_has_its_parents_score_and_no_warning(home):
    classify(home, "runs/a", 20)
    listener = Listener()
    child = classify(home, "runs/b", 20, listener, model__from=str(home / "runs/a"))
    assert child.report["scores"]["test"]["parent"]["accuracy"]["value"] == 1.0
    assert not [line for line in listener.said if "worse than its parent" in line and "accuracy" in line]


def test_further_training_files_leave_the_test_set_the_same(home):
    classify(home, "runs/a", 5)
    more = [str(home / "train.tsv"), texts(home / "more.tsv", 80, 60)]
    child = classify(home, "runs/b", 5, model__from=str(home / "runs/a"), data__train=more)
    assert {"valid", "test"} == {name for name, report in child.report["scores"].items() if "parent" in report}
    # scores that depend on the tokens are of other tokens now
    assert "loss" not in child.report["scores"]["valid"]["parent"]


@pytest.mark.parametrize("change", ["other file", "changed file", "held out", "no parent"])
def test_scores_on_other_examples_are_not_put_beside(home, change):
    classify(home, "runs/a", 5)
    values = {} if change == "no parent" else {"model__from": str(home / "runs/a")}
    if change == "other file":
        for split in ("valid", "test"):
            values[f"data__{split}"] = [texts(home / f"other-{split}.tsv", 50)]
    elif change == "changed file":
        (home / "test.tsv").write_text((home / "test.tsv").read_text() + "good\tone more\n")
    elif change == "held out":
        values |= {"data__valid": 10, "data__test": [texts(home / "other.tsv", 50)]}
    child = classify(home, "runs/b", 5, **values)
    assert all("parent" not in report for report in child.report["scores"].values())


# --- the card


def commands(card):
    return [line for line in card.split("```")[-2].strip().splitlines()]


def test_the_commands_of_a_card_work_where_the_run_was_trained(home, capsys):
    classify(home, "my runs/a", 2)
    card = Path("my runs/a/README.md").read_text()
    assert "run in the directory in which it was trained; elsewhere, give the path of this folder" in card
    assert len(commands(card)) >= 4
    for command in commands(card):
        words = shlex.split(command.replace("TEXT", "'a good film'"))
        assert words[2] == "my runs/a"
        with pytest.raises(SystemExit) as ended:
            main(words[1:])
        assert ended.value.code in (0, None) and capsys.readouterr().out


def test_a_card_names_no_place_outside_the_directory_of_training(home, monkeypatch):
    (home / "here").mkdir()
    monkeypatch.chdir(home / "here")
    classify(home, home / "elsewhere" / "a", 1)
    card = (home / "elsewhere" / "a" / "README.md").read_text()
    assert "run in the directory that holds this folder" in card and str(home) not in card
    assert commands(card)[-1] == "heed look a"


def test_one_of_a_thing_is_one(home):
    texts(home / "test.tsv", 1)
    run = classify(home, "runs/a", 1)
    card = Path("runs/a/README.md").read_text()
    assert "test: 1 text\n" in card and "1 text (test)" in card and "Training: 1 update in" in card
    assert "(1 thread, " in card
    assert "example" not in scores_text(run, run.report["scores"])
