"""A task is one file: two made-up ones work with every command and touch no other file.

`tests/made_up` has the walk-through of CONTRIBUTING: a task made of parts that are there, a task with a head of its
own, and a score.
"""

import csv
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import heed
from commands import call
from heed import tasks
from heed.attention import SCORES
from heed.cli import dev
from heed.errors import ConfigError
from heed.tasks import CAPABILITIES, capability_table, task_class, tasks_with
from pages import blocks, page

HERE = Path(__file__).parent / "made_up"
TINY = {"model.size": "tiny", "training.threads": 1, "training.learning_rate": 0.01, "training.warmup": 5}


@pytest.fixture(scope="module", autouse=True)
def made_up():
    tasks.__path__.append(str(HERE))
    sys.modules.pop("heed.cli.app", None)  # the options of commands are those of the tasks there are
    yield
    sys.modules.pop("heed.cli.app", None)
    tasks.__path__.remove(str(HERE))
    for name in ("rating", "answers"):
        sys.modules.pop(f"heed.tasks.{name}", None)


def written(path, name, count):
    task = task_class(name)
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        rows.writerow(task.input.kind.fields(None))
        rows.writerows(task.sample(count))
    return str(path)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("made-up")


@pytest.fixture(scope="module")
def answers(folder):
    file = written(folder / "answers.csv", "answers", 300)
    settings = {**TINY, "data.valid": 60, "training.batch_tokens": 600}
    return heed.train(
        "answers", train=file, model="rnn", steps=120, out=folder / "answers", settings=settings, quiet=True
    )


@pytest.fixture(scope="module")
def rating(folder):
    file = written(folder / "rating.csv", "rating", 300)
    settings = {**TINY, "data.valid": 60, "data.test": [file], "data.overlap": "keep"}
    return heed.train(
        "rating", train=file, model="rnn", steps=100, out=folder / "rating", settings=settings, quiet=True
    )


def test_the_examples_of_the_page_are_these_files():
    examples = blocks(page("CONTRIBUTING.md"), "python")
    for name in ("rating", "answers", "cosine"):
        text = next(HERE.rglob(f"{name}.py")).read_text()
        assert text in examples, name
        assert len(text.splitlines()) <= 140, name
    lines = [line for line in (HERE / "answers.py").read_text().splitlines() if line.strip()]
    assert len(lines) <= 120


def test_answers_are_spans_of_the_context_which_decides_the_split(answers):
    scores = answers.report["scores"]["valid"]
    assert scores["exact_match"] > 0.9 and scores["token_f1"] >= scores["exact_match"]
    found = answers.predict(("who ?", "now Dora sings n7 ."))
    assert (found.text, found.start, found.end) == ("Dora", 4, 8) and 0.5 < found.probability <= 1
    both = answers.predict([("who ?", "now Bob runs ."), ("what ?", "now Bob runs .")])
    assert [one.text for one in both] == ["Bob", "runs"]
    contexts = [{one.context for one in answers.examples(split)} for split in ("train", "valid")]
    assert not contexts[0] & contexts[1]
    assert heed.load(answers.folder).predict(("who ?", "now Dora sings n7 .")) == found


def test_a_look_shades_the_context_and_maps_the_question_over_it(folder, answers):
    look = answers.look(("who ?", "now Dora sings n7 .")).look
    (shading,) = look.shadings
    assert shading.axis.labels[:3] == ("now", "Dora", "sings") and max(shading.weights) == shading.weights[1]
    file = folder / "answers.csv"
    run = heed.train("answers", train=file, model="encoder", steps=1, out=folder / "maps", settings=TINY, quiet=True)
    maps = run.look(("who ?", "now Bob runs .")).look.maps
    whole, part = maps[0], maps[-1]
    assert part.query.labels == ("who", "?") and part.key.labels == ("now", "Bob", "runs", ".")
    rows, columns = [whole.query.labels.index("who")], [whole.key.labels.index("Bob")]
    assert torch.equal(part.weights[0, 1], whole.weights[rows[0], columns[0]]) and "question over context" in part.title


def test_an_answer_that_is_not_in_its_context_is_named_with_its_place(folder, answers, capsys):
    (folder / "bad.csv").write_text("question,context,answer\nwho ?,now Bob runs .,Bob\nwho ?,now Ann eats .,Eve\n")
    code, _, err = call(capsys, "train", "answers", folder / "bad.csv", "--valid", folder / "answers.csv")
    assert code == 2 and "bad.csv:3: the answer 'Eve' is not in the context" in err


def test_a_rating_learns_explains_and_is_better_than_the_mean(rating):
    scores = rating.report["scores"]["test"]
    assert scores["mae"]["value"] < scores["baselines"]["mean"]["mae"]["value"] / 2
    good, bad = (rating.predict(text).value for text in ("good good good good good", "bad bad bad bad bad"))
    assert good == pytest.approx(5.5, abs=1) and bad == pytest.approx(0.5, abs=1)
    attributed = rating.attribute("good bad good", method="loo")
    assert attributed.values[0] > 0 > attributed.values[1] and "the number 'rating'" in attributed.name


def test_the_commands_know_both(rating, answers, folder, capsys):
    code, out, err = call(capsys, "predict", rating.folder, "good good bad bad bad", "--json")
    assert code == 0 and json.loads(out)["value"] == pytest.approx(2.5, abs=1), err
    code, out, _ = call(capsys, "predict", answers.folder, "who ?", "now Cid eats n1 .")
    assert code == 0 and out.startswith("Cid ")
    code, out, _ = call(capsys, "evaluate", answers.folder, "--split", "valid")
    assert code == 0 and "exact_match" in out
    code, out, _ = call(capsys, "attribute", rating.folder, "good bad")
    assert code == 0 and "rating" in out
    code, out, _ = call(capsys, "check", "rating", folder / "rating.csv")
    assert code == 0 and "held out for validation" in out
    code, out, _ = call(capsys, "train", "rating", folder / "rating.csv", "--dry-run")
    assert code == 0 and "predicted" in out


def test_a_run_goes_on_as_if_it_had_not_been_stopped_and_another_starts_from_it(rating, folder, capsys):
    half = folder / "half"
    heed.train("rating", train=folder / "rating.csv", model="rnn", steps=30, out=half, settings=TINY, quiet=True)
    code, _, err = call(capsys, "train", half, "--resume", "training.steps=60")
    assert code == 0 and "resumed at update 30" in err
    child = heed.train("rating", train=folder / "rating.csv", parent=rating.folder, steps=1, out=folder / "child",
                       settings={"training.learning_rate": 1e-9}, quiet=True)  # fmt: skip
    assert not child.report["parent"]["new"]
    assert child.predict("good bad").value == pytest.approx(rating.predict("good bad").value, abs=0.05)


def test_errors_name_file_line_and_field(folder, capsys):
    (folder / "bad.csv").write_text("text,rating\ngood,4\nbad,four\n")
    code, _, err = call(capsys, "train", "rating", folder / "bad.csv")
    assert code == 2 and "bad.csv" in err and "line 3" in err and "'four', expected a number" in err
    code, _, err = call(capsys, "train", "rating", folder / "rating.csv", "model.pooling=median")
    assert code == 2 and "pooling is 'median'" in err
    code, _, err = call(capsys, "ratin", folder / "rating.csv")
    assert code == 2


def test_help_and_the_table_of_capabilities_name_them(rating):
    lines = [
        f"import heed.tasks; heed.tasks.__path__.append({str(HERE)!r})",
        "from heed.cli import main; main(['train', '--help'])",
    ]
    out = subprocess.run([sys.executable, "-c", "\n".join(lines)], capture_output=True, text=True, check=True).stdout
    assert "rating" in out
    assert "rating" in tasks_with("attribute") and "answers" not in tasks_with("attribute")
    for kind in CAPABILITIES:
        assert tasks_with(kind), kind
    assert "rating" in capability_table().splitlines()[0]
    with pytest.raises(AttributeError, match="is not available for rating"):
        rating.export()


@pytest.mark.parametrize("files", ["test_registry test_serve", pytest.param("", marks=pytest.mark.slow, id="all")])
def test_dev_check_runs_what_concerns_a_task_and_lists_what_is_missing(files, monkeypatch, capfd):
    monkeypatch.setenv("HEED_TASKS", str(HERE))
    if files:
        monkeypatch.setitem(dev._TESTS, "task", files)
    assert dev.run_dev_check("answers") == 1
    out, _ = capfd.readouterr()
    assert "missing: docs/tasks.md does not mention it" in out and " failed" not in out
    assert int(re.search(r"(\d+) passed", out)[1]) > (1 if files else 20)
    with pytest.raises(ConfigError, match="no task, model or score is called 'answer'; did you mean 'answers'"):
        dev.run_dev_check("answer")


def test_a_score_is_the_cosine_and_can_be_looked_at():
    page = {"__name__": "page"}
    exec((HERE / "scores" / "cosine.py").read_text(), page)
    score = page["Cosine"]()
    query, key = torch.randn(2, 3, 5), torch.randn(2, 4, 5)
    dots = np.einsum("bqd,bkd->bqk", query.numpy(), key.numpy())
    sizes = np.linalg.norm(query.numpy(), axis=-1)[:, :, None] * np.linalg.norm(key.numpy(), axis=-1)[:, None]
    made = score.scores(score.project(query), score.prepare(key))
    np.testing.assert_allclose(made.detach().numpy(), 10 * dots / sizes, atol=1e-5)
    again = score.snapshot()(score.project(query), score.prepare(key))
    assert torch.equal(again, made.detach()) and "cosine" not in SCORES
