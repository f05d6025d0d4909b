"""What is told about a training: its curves, callbacks, TensorBoard, and weights kept at shares of the updates."""

import importlib.util
import json
import re
import shutil
from functools import partial
from itertools import pairwise
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

import commands
import heed
from commands import call
from heed.errors import ConfigError, RunError
from heed.runs.train import train_config
from heed.show.curves import Curves, Line, Panel, curves_scene, curves_to_text, scale_of
from heed.show.scene import to_svg
from heed.show.shown import ShownCurves
from heed.tasks.base.curves import Log, curves_of
from heed.training import progress as tensorboard
from heed.training.checkpoint import Progress
from heed.training.progress import Quiet
from reporters import Killed, Killer, Listener
from resuming import train, translation


@pytest.fixture
def run_command(capsys):
    return partial(commands.call, capsys)


def copying(model="bahdanau", **training):
    return translation({"name": model, "size": "tiny"}, **{"steps": 8, **training})


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(home)
        return train_config(copying(), "runs/a", Quiet())[0], home


@pytest.fixture
def run(finished, monkeypatch):
    monkeypatch.chdir(finished[1])
    return finished[0]


# --- drawing


def curves(*lines, mark=None):
    return Curves("a run", ("12 updates",), "update", (Panel("loss", lines, mark),))


FALLING = Line("training", tuple((float(x), 10.0 - x) for x in range(9)))
MEASURED = Line("validation", ((4.0, 6.5), (8.0, 2.5)), 1, dots=True)


@pytest.mark.parametrize(
    ("values", "whole", "ends"),
    [
        ([0.0, 1.0], False, (0.0, 1.0)),
        ([2.1, 9.7], False, (2.0, 10.0)),
        ([2.1, 9.7], True, (0.0, 10.0)),
        ([0.0, 0.0], False, (0.0, 1.0)),
        ([1.0, 1.0], False, (0.5, 1.0)),
        ([100.0], False, (50.0, 100.0)),
        ([3.0], False, (1.0, 5.0)),
        ([-3.0, float("nan"), float("inf"), 5.0], False, (-4.0, 6.0)),
        ([1e-5, 3e-5], False, (1e-5, 3e-5)),
    ],
)
def test_an_axis_holds_all_values_between_round_ends(values, whole, ends):
    scale = scale_of(values, 5, whole)
    assert (scale.low, scale.high) == pytest.approx(ends)
    assert scale.ticks[0] == scale.low and scale.ticks[-1] == scale.high


def curves_to_svg(drawn):
    return to_svg(curves_scene(drawn))


def test_a_line_in_a_terminal_goes_where_its_points_go():
    text = curves_to_text(curves(FALLING, MEASURED), width=60)
    falling, measured = (line for line in text.splitlines() if " -> " in line)
    assert falling.startswith("  training    █") and falling.endswith("▁  10 -> 2")
    bars = falling.split()[1]
    assert list(bars) == sorted(bars, reverse=True) and len(set(bars)) == 8
    assert "validation   " in measured and measured.endswith("▂  6.5 -> 2.5")  # blank before the first validation
    assert all(len(line) <= 60 for line in text.splitlines())
    assert "loss: ▁ 2 to █ 10" in text and text.endswith("from left to right: update 0 to 8")


def test_drawings_of_equal_curves_have_equal_bytes_and_serve_both_schemes():
    one, other = (curves(FALLING, MEASURED, mark=(4.0, "kept")) for _ in range(2))
    for draw in (curves_to_svg, lambda one: ShownCurves(one).html()):
        assert draw(one) == draw(other)
        assert "prefers-color-scheme:dark" in draw(one) and "<script" not in draw(one)
    assert curves_to_svg(one).count("<circle") >= 2 and ">kept</text>" in curves_to_svg(one)
    rows = re.findall(r'<tr([^>]*)><th scope="row"><bdi>(.*?)</bdi></th><td>(.*?)</td></tr>', ShownCurves(one).html())
    assert rows == [(' class="kept"', "4", "6.5"), ("", "8", "2.5")]


# --- what is drawn


def test_places_without_an_order_are_not_joined():
    def drawn(joined):
        line = Line("first", ((0, 1.0), (1, 3.0)), 0, True, joined=joined)
        return to_svg(curves_scene(Curves("a title", (), "network", (Panel("accuracy", (line,)),))))

    assert drawn(True).count("<circle") == drawn(False).count("<circle")
    assert drawn(True).count("<polyline") == drawn(False).count("<polyline") + 2  # of the panel and of the legend


def test_the_curves_of_a_run_are_its_log(run):
    log = [json.loads(line) for line in (run.folder / "metrics.jsonl").read_text().splitlines()]
    drawn = run.curves().curves
    panels = {panel.title: panel for panel in drawn.panels}
    assert list(panels)[:2] == ["loss", "exact match"] and {"learning rate", "updates per second"} <= panels.keys()
    training, validation = panels["loss"].lines
    assert training.points == tuple((e["step"], pytest.approx(e["loss"])) for e in log if e["event"] == "update")
    assert validation.points == tuple((e["step"], e["loss"]) for e in log if e["event"] == "validation")
    assert f"kept the weights of {run.report['training']['kept']}" in "\n".join(drawn.facts)
    assert json.loads(run.curves().json())["panels"][0]["title"] == "loss"
    assert "<iframe" in run.curves()._repr_html_()


def test_many_updates_become_few_points_whose_mean_is_theirs(tmp_path):
    lines = [
        {"event": "update", "step": n, "loss": float(n % 2), "learning_rate": 0.1, "tokens": 1 + n % 2, "seconds": 0.5}
        for n in range(1, 1001)
    ]
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines) + '{"event": "upd')
    log = Log.read(tmp_path)
    assert len(log.updates) == 1000 and log.seconds == 500.0
    points = log.binned("update", lambda part: sum(e["loss"] for e in part) / len(part))
    assert len(points) == 200 and points[-1][0] == 1000
    assert log.binned("minutes of training", lambda part: 0.0)[-1][0] == pytest.approx(500 / 60)


def test_the_best_validation_is_the_one_that_weights_are_chosen_by():
    events = [{"step": n, "loss": loss, "accuracy": a} for n, loss, a in ((1, 0.5, 0.7), (2, 0.4, 0.7), (3, 0.3, 0.6))]
    log = Log((), tuple(events))
    assert log.best("accuracy")["step"] == 2 and log.best("loss")["step"] == 3


# --- the command


def test_look_without_a_text_draws_the_curves_of_a_run_of_each_task(case, run_command, tmp_path):
    for name, said in (("finished", "kept the weights of"), ("unfinished", "best validation so far: update 6")):
        code, out, err = run_command("look", case / name)
        assert code == 0 and err == "" and said in out and "learning rate" in out
        assert ("not finished" in out) == (name == "unfinished")
    starts = {"svg": b"<svg", "png": b"\x89PNG", "html": b"<!DOCTYPE html>", "json": b"{", "txt": b""}
    for ending, start in starts.items():
        code, _, err = run_command("look", case / "finished", "--out", tmp_path / f"curves.{ending}")
        assert code == 0 and (tmp_path / f"curves.{ending}").read_bytes().startswith(start)


def test_options_of_a_look_at_a_text_need_one(run, run_command):
    code, out, err = run_command("look", "runs/a", "--steps")
    assert (code, out) == (2, "") and "--steps needs a text to look at" in err
    code, out, err = run_command("look", "runs/a", "--target", "1")
    assert (code, out) == (2, "") and "--target needs a text to look at" in err


def test_a_run_without_a_log_says_so(run, tmp_path, run_command):
    copied = Path(shutil.copytree(run.folder, tmp_path / "copied"))
    (copied / "metrics.jsonl").unlink()
    with pytest.raises(RunError, match=r"'copied' has no metrics\.jsonl, so it has no training curves; give a text"):
        curves_of(copied)
    assert run_command("look", tmp_path)[0] == 2


# --- where they are shown


def test_the_card_of_a_run_shows_its_curves(run):
    card = (run.folder / "README.md").read_text()
    assert "](curves.svg)" in card
    assert (run.folder / "curves.svg").read_text() == run.curves().svg()
    assert heed.check_run(run.folder).whole


def test_a_comparison_has_the_curves_of_all_runs_in_the_colours_of_its_legend(run, finished):
    other, _ = train_config(copying("luong", steps=6), "runs/b", Quiet())
    page = heed.compare([run, other]).to_html(0)
    section = page.split('<section class="training">')[1].split("</section>")[0]
    titles = re.findall(r'<svg class="figure follows" viewBox="0 0 360[^>]*aria-label="([^"]*)"', section)
    assert titles[:3] == ["training loss", "validation loss", "exact match"]
    assert titles[-2:] == ["learning rate", "updates per second"]
    assert "Horizontal axis: update." in section and ">8</text>" in section
    first = section.split('viewBox="0 0 360')[1]
    assert re.findall(r'<polyline [^>]* stroke="(#\w+)"', first) == ["#0072b2", "#d55e00"]
    assert section.index("#0072b2") < section.index("a</bdi>") < section.index("#d55e00") < section.index("b</bdi>")


# --- What is told about a training while it goes on: a callback in Python, and TensorBoard


SMALL = {
    "data.length": [2, 6], "data.train": 60, "data.valid": 8, "data.test": 8, "model.d_hidden": 8,
    "model.d_embedding": 8, "model.d_attention": 8, "model.dropout": 0.2, "training.validate_every": 3,
    "training.threads": 1, "training.device": "cpu", "evaluation.bootstrap": 10,
}  # fmt: skip


def train_copy(out, callback=None, steps=6):
    return heed.train("translation", data="copy", steps=steps, out=out, settings=SMALL, callback=callback, quiet=True)


def test_a_callback_is_told_about_each_update_and_each_validation(tmp_path):
    seen = []
    run = train_copy(tmp_path / "run", seen.append)
    log = [json.loads(line) for line in (run.folder / "metrics.jsonl").read_text().splitlines()]
    assert [(event.kind, event.step) for event in seen] == [(line["event"], line["step"]) for line in log]
    for event, line in zip(seen, log, strict=True):
        assert event.loss == line["loss"] and event.total_steps == 6 and event.seconds > 0
        if event.kind == "update":
            assert event.learning_rate == line["learning_rate"] and event.scores == {} and event.run is None
        else:
            assert event.scores == {k: v for k, v in line.items() if k not in ("event", "step")}
    assert all(a.seconds <= b.seconds for a, b in pairwise(seen))


def test_a_callback_uses_the_run_so_far_and_changes_nothing(tmp_path):
    def look(event):
        torch.rand(3)
        if event.run is not None:
            assert not event.run.model.training
            written.append(event.run.predict("12").text)
            assert event.run.look("12").maps
        return "not True"

    written = []
    watched, alone = train_copy(tmp_path / "watched", look), train_copy(tmp_path / "alone")
    assert len(written) == 2
    one, other = (load_file(run.folder / "model.safetensors") for run in (watched, alone))
    assert all(torch.equal(one[name], other[name]) for name in other)


@pytest.mark.parametrize(("kind", "at"), [("update", 4), ("update", 3), ("validation", 3)])
def test_a_callback_ends_training_and_the_run_is_a_whole_one(tmp_path, kind, at):
    run = train_copy(tmp_path / "run", lambda event: event.kind == kind and event.step == at, steps=50)
    training = run.report["training"]
    assert training["updates"] == at and training["ended"] == f"ended by the callback at update {at}"
    log = [json.loads(line) for line in (run.folder / "metrics.jsonl").read_text().splitlines()]
    assert [line["step"] for line in log if line["event"] == "validation"] == sorted({3, at})
    assert run.report["scores"]["test"]["examples"] == 8 and heed.check_run(run.folder).whole


def test_an_error_of_a_callback_is_the_users_own(tmp_path):
    def wrong(event):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        train_copy(tmp_path / "run", wrong)


# --- TensorBoard


def config(**training):
    return translation(**{"steps": 4, "log": "tensorboard", **training})


def test_without_its_package_the_error_has_the_command_and_nothing_is_made(tmp_path, monkeypatch):
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *_: None if name == "tensorboard" else real(name))
    with pytest.raises(ConfigError, match=r"needs the package tensorboard; install it: pip install "):
        train_config(config(), tmp_path / "run", Quiet())
    assert not (tmp_path / "run").exists()


class Scalars:
    """Stands for TensorBoard's writer."""

    made: list = []  # noqa: RUF012

    def __init__(self, folder, purge_step):
        self.folder, self.purge_step, self.written, self.closed = folder, purge_step, [], False
        self.made.append(self)

    def add_scalar(self, name, value, step):
        self.written.append((name, step, value))

    def close(self):
        self.closed = True


@pytest.fixture
def scalars(monkeypatch):
    monkeypatch.setattr(tensorboard, "check_log", lambda log: None)
    monkeypatch.setattr("heed.runs.prepare.check_log", lambda log: None)
    monkeypatch.setattr(tensorboard, "_writer_class", lambda: Scalars)
    monkeypatch.setattr(Scalars, "made", [])
    return Scalars.made


def test_tensorboard_gets_what_the_log_holds(tmp_path, scalars):
    train_config(config(), tmp_path / "run", Quiet())
    train_config(config(steps=6), tmp_path / "run", Quiet(), resume=True)
    first, second = scalars
    assert first.closed and first.folder == str(tmp_path / "run" / "tensorboard")
    # a resumed run replaces what came after its checkpoint
    assert (first.purge_step, second.purge_step) == (1, 5)
    log = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    expected = [(line["step"], line["loss"]) for line in log if line["event"] == "update"]
    written = [*first.written, *second.written]
    assert [(step, value) for name, step, value in written if name == "update/loss"] == expected
    assert {"update/learning_rate", "update/gradient_norm", "validation/exact_match"} <= {name for name, *_ in written}


def test_a_log_that_cannot_be_written_warns_once_and_never_ends_training(tmp_path, scalars, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    listener = Listener()
    monkeypatch.setattr(Scalars, "add_scalar", full)
    run, _ = train_config(config(), tmp_path / "run", listener)
    warnings = [line for line in listener.messages if "tensorboard cannot be written (No space left on device)" in line]
    assert run is not None and len(warnings) == 1


@pytest.mark.skipif(importlib.util.find_spec("tensorboard") is None, reason="tensorboard is not installed")
@pytest.mark.filterwarnings("ignore")  # of the packages that it imports
def test_tensorboard_itself_reads_what_was_written(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    train_config(config(), tmp_path / "run", Quiet())
    assert list(Path(tmp_path / "run" / "tensorboard").glob("events.out.tfevents.*"))
    events = EventAccumulator(str(tmp_path / "run" / "tensorboard"))
    events.Reload()
    assert {"update/loss", "validation/loss"} <= set(events.Tags()["scalars"])
    assert [event.step for event in events.Scalars("update/loss")] == [1, 2, 3, 4]


# --- Weights kept at shares of the updates: which, where, after a kill, and read back


SHARES = [0.2, 0.5, 1]


def steps_of(out):
    return sorted(int(path.name[5:]) for path in (out / "checkpoints").glob("step-*"))


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    out = tmp_path_factory.mktemp("kept") / "run"
    train(out, translation(steps=12, validate_every=6, snapshots=SHARES))
    return out


def test_the_weights_at_each_share_are_kept_under_checksums_and_are_those_of_that_update(kept, tmp_path, capsys):
    assert {2, 6, 12} <= {*steps_of(kept)}
    files = {path.name for path in (kept / "checkpoints" / "step-2").iterdir()}
    assert files == {"model.safetensors", "checksums.json"}
    code, out, _ = call(capsys, "check", kept)
    assert code == 0 and re.search(r"checkpoints/step-2/model.safetensors +ok", out)
    short = tmp_path / "run"  # the same run, ended at that update: a schedule without decay
    train(short, translation(steps=2, validate_every=2, schedule="constant"))
    other = tmp_path / "other"
    train(other, translation(steps=12, validate_every=6, snapshots=[1 / 6], schedule="constant"))
    expected = load_file(short / "checkpoints" / "step-2" / "model.safetensors")
    found = load_file(other / "checkpoints" / "step-2" / "model.safetensors")
    assert all(torch.equal(found[name], tensor) for name, tensor in expected.items())


def test_a_killed_run_keeps_them_and_writes_each_once(kept, tmp_path):
    out, config = tmp_path / "run", translation(steps=12, validate_every=6, snapshots=SHARES)
    with pytest.raises(Killed):
        train(out, config, reporter=Killer(9))
    written = (out / "checkpoints" / "step-2" / "model.safetensors").stat().st_mtime_ns
    train(out, config, resume=True)
    assert (out / "checkpoints" / "step-2" / "model.safetensors").stat().st_mtime_ns == written
    assert steps_of(out) == steps_of(kept)
    for step in (2, 6, 12):
        one, other = (load_file(run / "checkpoints" / f"step-{step}" / "model.safetensors") for run in (out, kept))
        assert all(torch.equal(other[name], tensor) for name, tensor in one.items())
    train(out, translation(steps=24, validate_every=6, snapshots=SHARES), resume=True)  # trained longer
    assert {2, 6, 12} <= {*steps_of(out)}
    newest = json.loads((out / "checkpoints" / "step-24" / "progress.json").read_text())
    assert newest["snapshots"] == {"0.2": 2, "0.5": 6, "1": 12}


def test_shares_are_of_the_updates_as_planned_now():
    p = Progress(step=40, total_steps=100)
    assert p.due([0.1, 0.4, 0.5]) == {"0.1": 40, "0.4": 40}
    p.snapshots = {"0.1": 12}
    assert p.due([0.1, 0.5]) == {}
    p.total_steps = 70  # the machine has slowed down
    assert p.due([0.1, 0.5]) == {"0.5": 40}
    assert Progress(step=3).due([0.1]) == {} and Progress(step=0, total_steps=9).due([0.01]) == {}


def test_a_run_is_opened_with_the_weights_of_an_update(kept):
    run = heed.load(kept, step=6)
    stored = load_file(kept / "checkpoints" / "step-6" / "model.safetensors")
    state = run.model.state_dict()
    assert all(torch.equal(state[name], tensor) for name, tensor in stored.items())
    assert run.so_far == "using the weights of update 6"
    with pytest.raises(RunError, match=r"no weights of step-5; there are step-2, step-6, step-12"):
        heed.load(kept, step=5)


@pytest.mark.parametrize("given", ["[0]", "[1.5]", "[half]"])
def test_a_share_that_is_none_is_refused(given, capsys):
    code, _, err = call(capsys, "train", "translation", "data.name=copy", f"training.snapshots={given}", "--dry-run")
    assert code != 0 and "training.snapshots" in err
