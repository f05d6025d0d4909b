"""Curves of training: from the log of a run to the terminal, an image, a page and the comparison of runs."""

import json
import re
import shutil
from functools import partial
from pathlib import Path

import pytest

import commands
import heed
from heed.errors import RunError
from heed.runs.train import train_config
from heed.show.curves import Curves, Line, Panel, curves_scene, curves_to_text, scale_of
from heed.show.scene import to_svg
from heed.show.shown import ShownCurves
from heed.tasks.base.curves import Log, curves_of
from heed.training.progress import Quiet
from resuming import translation


@pytest.fixture
def call(capsys):
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


def test_look_without_a_text_draws_the_curves_of_a_run_of_each_task(case, call, tmp_path):
    for name, said in (("finished", "kept the weights of"), ("unfinished", "best validation so far: update 6")):
        code, out, err = call("look", case / name)
        assert code == 0 and err == "" and said in out and "learning rate" in out
        assert ("not finished" in out) == (name == "unfinished")
    starts = {"svg": b"<svg", "png": b"\x89PNG", "html": b"<!DOCTYPE html>", "json": b"{", "txt": b""}
    for ending, start in starts.items():
        code, _, err = call("look", case / "finished", "--out", tmp_path / f"curves.{ending}")
        assert code == 0 and (tmp_path / f"curves.{ending}").read_bytes().startswith(start)


def test_options_of_a_look_at_a_text_need_one(run, call):
    code, out, err = call("look", "runs/a", "--steps")
    assert (code, out) == (2, "") and "--steps needs a text to look at" in err
    code, out, err = call("look", "runs/a", "--target", "1")
    assert (code, out) == (2, "") and "--target needs a text to look at" in err


def test_a_run_without_a_log_says_so(run, tmp_path, call):
    copied = Path(shutil.copytree(run.folder, tmp_path / "copied"))
    (copied / "metrics.jsonl").unlink()
    with pytest.raises(RunError, match=r"'copied' has no metrics\.jsonl, so it has no training curves; give a text"):
        curves_of(copied)
    assert call("look", tmp_path)[0] == 2


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
