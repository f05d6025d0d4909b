"""A task is one folder: a made-up one, of neither pairs nor labels, works with every command and touches no other file.

`tests/made_up/rating` is the walk-through of CONTRIBUTING: specification, configuration, kind of example, task, run.
"""

import ast
import json
import random
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import heed
from commands import call
from contract import data_of
from heed import tasks
from heed.data.corpus import keep_examples
from heed.data.findings import Findings
from heed.data.readers import hold
from heed.data.splits import open_splits
from heed.tasks import CAPABILITIES, capability, capability_table, tasks_with

HERE = Path(__file__).parent / "made_up"
ROOT = Path(heed.__file__).parent
CONTRIBUTING = Path(__file__).parent.parent / "CONTRIBUTING.md"


@pytest.fixture(scope="module", autouse=True)
def made_up():
    tasks.__path__.append(str(HERE))
    sys.modules.pop("heed.cli.app", None)  # the options of commands are those of the tasks there are
    yield
    sys.modules.pop("heed.cli.app", None)
    tasks.__path__.remove(str(HERE))
    tasks.class_in.cache_clear()
    for name in [name for name in sys.modules if name.startswith("heed.tasks.rating")]:
        del sys.modules[name]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("rating")
    draw = random.Random(1)

    def lines(count):
        for _ in range(count):
            good = draw.randint(0, 5)
            words = ["good"] * good + ["bad"] * (5 - good)
            draw.shuffle(words)
            yield f"{good}\t{' '.join(words)}\n"

    (path / "train.ratings").write_text("".join(lines(300)))
    (path / "test.ratings").write_text("".join(lines(40)))
    (path / "scale").write_text("0 5\n")
    settings = {
        "task": "rating",
        "data": {"train": "train.ratings", "valid": 40, "test": "test.ratings", "scale": "scale"},
        "model": {"name": "rnn", "d_hidden": 16, "d_embedding": 8, "pooling": "mean", "dropout": 0.0},
        "training": {"steps": 120, "threads": 1, "learning_rate": 0.02, "warmup": 5, "batch_tokens": 1_000},
    }
    (path / "rating.yaml").write_text(yaml.safe_dump(settings))
    return path


@pytest.fixture(scope="module")
def runs(folder):
    made = [heed.train(folder / "rating.yaml", out=folder / f"run-{n}", seed=n, quiet=True) for n in (1, 2)]
    return [heed.load(run.folder) for run in made]


FORMS = {
    "a.ratings": "4.5\tgood\n\n-1\tbad\n",
    "a.csv": "text,stars\ngood,4.5\n\nbad,-1\n",
    "a.jsonl": '{"rating": 4.5, "text": "good"}\n{"rating": -1, "text": "bad"}\n',
    "b.jsonl": '{"said": "good", "points": "4.5"}\n{"said": "bad", "points": "-1"}\n',
}


def test_the_kind_of_example_on_the_page_is_read_in_every_form_stored_and_split(tmp_path):
    code = re.search(r"## Add a kind of example.*?```python\n(.*?)```", CONTRIBUTING.read_text(), re.DOTALL)[1]
    assert code == (HERE / "rating" / "kind.py").read_text() and len(code.splitlines()) <= 40
    page = {"__name__": "page"}
    exec(code, page)  # the reader of a page pastes it, too
    reader, wanted = page["rating_reader"], [page["Rated"]("good", 4.5), page["Rated"]("bad", -1.0)]
    for name, content in FORMS.items():
        (tmp_path / name).write_text(content)
        data = data_of("rating", train=[str(tmp_path / name)], valid=[str(tmp_path / name)])
        splits = open_splits(data, reader(data))
        assert splits.examples == {"train": wanted, "valid": wanted}, name
    assert hold([("good", 4.5), ("bad", -1)], "train", reader(data), ["text", "rating"], Findings.of(data)) == wanted
    assert [*keep_examples(lambda: iter(wanted), page["Rated"], 0)[0]] == wanted


def test_it_trains_and_its_paths_and_head_count(runs, folder):
    run = runs[0]
    assert run.config.data.scale == str(folder / "scale") and run.config.data.train == [str(folder / "train.ratings")]
    assert run.config.model.model_extra["pooling"] == "mean" and run.model.ends == (0.0, 5.0)
    error = run.report["scores"]["test"]["absolute_error"]
    guess = run.baselines(run.examples("test"))["mean rating"].measures[0].score()
    assert error["low"] <= error["value"] <= error["high"] and error["value"] < guess / 2
    assert "absolute error" in (run.folder / "README.md").read_text()


def test_it_resumes_as_if_it_had_not_been_stopped(runs, folder, capsys):
    settings = yaml.safe_load((folder / "rating.yaml").read_text())
    settings["training"]["steps"] = 60
    (folder / "half.yaml").write_text(yaml.safe_dump(settings))
    half = folder / "half"
    code, _, err = call(capsys, "train", folder / "half.yaml", "--out", half)
    assert code == 0, err
    code, _, err = call(capsys, "train", half, "--resume", "training.steps=120")
    assert code == 0 and "resumed at update 60" in err
    assert heed.load(half).report["training"]["updates"] == 120


def test_another_starts_from_it(runs, folder):
    child = heed.train(
        folder / "rating.yaml",
        parent=runs[0].folder,
        out=folder / "child",
        quiet=True,
        settings={"training.steps": 1, "training.learning_rate": 1e-9},
    )
    whole = child.report["parent"]["whole"]
    text = "good good bad good bad"
    assert "output.weight" in whole
    assert child.predict(text).rating == pytest.approx(runs[0].predict(text).rating, abs=1e-3)


def test_the_commands_know_it(runs, folder, capsys):
    run = runs[0]
    code, out, _ = call(capsys, "predict", run.folder, "good good good good good", "--digits", 1)
    assert code == 0 and out == f"{run.predict('good good good good good').rating:.1f}\n"
    code, out, err = call(capsys, "evaluate", run.folder)
    assert code == 0 and "absolute error" in out and "mean rating" in out, err
    code, out, _ = call(capsys, "compare", *(one.folder for one in runs), "--json", "--resamples", 50)
    assert code == 0 and {row["absolute_error"] for row in json.loads(out)["rows"]}
    code, out, _ = call(capsys, "look", run.folder, "good bad")
    assert code == 0 and "forward" in out
    code, out, _ = call(capsys, "check", "rating", folder / "train.ratings")
    assert code == 0 and "held out for validation" in out
    code, out, _ = call(capsys, "train", folder / "rating.yaml", "--dry-run")
    assert code == 0 and "predicted" in out


def test_its_errors_name_file_line_and_field(runs, folder, capsys):
    (folder / "bad.ratings").write_text("4\tgood\nfour\tbad\n")
    code, _, err = call(capsys, "train", "rating", folder / "bad.ratings")
    assert code == 2 and "bad.ratings' line 2 is 'four', expected a number" in err
    code, _, err = call(capsys, "train", "rating", folder / "train.ratings", "model.pooling=median")
    assert code == 2 and "pooling is 'median'" in err
    code, _, err = call(capsys, "train", "rating")
    assert code == 2 and "heed train rating reviews.ratings" in err
    code, _, err = call(capsys, "ratin", folder / "train.ratings")
    assert code == 2
    code, _, err = call(capsys, "export", runs[0].folder, "--to", "ctranslate2")
    assert code == 2 and "`export` is not available for rating; it is for translation" in err
    with pytest.raises(AttributeError, match="is not available for rating"):
        runs[0].export()


def test_help_names_it_and_its_option():
    lines = [
        f"import heed.tasks; heed.tasks.__path__.append({str(HERE)!r})",
        "from heed.cli import main; main(['predict', '--help'])",
    ]
    command = [sys.executable, "-c", "\n".join(lines)]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    assert "--digits N" in out.partition("For runs of rating:")[2]


# --- the house


def test_a_capability_is_there_or_is_refused_by_name(runs):
    assert tasks_with("export") == ["translation"]
    for kind in CAPABILITIES:
        assert tasks_with(kind), kind
        if "rating" in tasks_with(kind):
            assert capability(runs[0], kind) is runs[0]
    rows = capability_table().splitlines()
    assert len(rows) == 2 + len(CAPABILITIES) and "rating" in rows[0]


def names_a_task(path):
    """The strings of a file, other than docstrings, that are the name of a task."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    documents = {node.value for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    names = {"translation", "classification", "tagging", "table", "series"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and node.value in names and node not in documents:
            yield f"{path.relative_to(ROOT)}:{node.lineno} {node.value}"


MEANS_SOMETHING_ELSE = {
    "comparison/page.py": {"table"},  # an environment of LaTeX
    "models/base/body.py": {"series"},  # an interface
    "models/rnn.py": {"series"},
    "layers/grid.py": {"table"},  # of positions
    "observe/draw_html.py": {"table"},  # a map drawn as one
    "observe/picture_looks.py": {"table"},  # of numbers, under a step
    "data/columns.py": {"translation"},  # a column of files from elsewhere
}


def test_no_string_outside_of_tasks_names_a_task():
    found = []
    for path in ROOT.rglob("*.py"):
        name = str(path.relative_to(ROOT))
        if name.startswith(("tasks/", "lessons/")) or name in ("cli/demo.py", "sklearn.py"):
            continue
        allowed = MEANS_SOMETHING_ELSE.get(name, set())
        found += [one for one in names_a_task(path) if one.rsplit(" ", 1)[1] not in allowed]
    assert not found


def test_help_with_one_more_task_fits_80_columns(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("heed.cli.options._MANY", 1)  # headings as long as can be
    sys.modules.pop("heed.cli.app", None)
    for command in ("train", "predict", "evaluate", "look", "compare", "check"):
        code, out, _ = call(capsys, command, "-h")
        assert code == 0 and [line for line in out.splitlines() if len(line) > 80] == [], command
