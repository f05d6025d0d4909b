"""Notebooks: progress is one output that changes, and hints name arguments."""

import html
import sys
from types import SimpleNamespace

import pytest
import torch

import heed
from heed.show.shown import ShownLook
from heed.training import progress
from heed.training.progress import NotebookReporter, TerminalReporter, usual_reporter
from heed.watch.looks import Choice, Look, View
from heed.watch.maps import Axis, Map


class Cell:
    """The output of a notebook's cell: displays in their order, each as it was last drawn."""

    def __init__(self):
        self.outputs = {}
        self.drawn = 0

    def publish(self, data, metadata=None, *, transient, update):
        identity = transient["display_id"]
        assert (identity in self.outputs) == update and list(data) == ["text/plain"]
        self.outputs[identity] = data["text/plain"]
        self.drawn += 1

    @property
    def text(self):
        (text,) = self.outputs.values()
        return text


@pytest.fixture
def cell(monkeypatch):
    cell = Cell()
    shell = SimpleNamespace(kernel=object(), display_pub=SimpleNamespace(publish=cell.publish))
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    return cell


def test_training_in_a_notebook_is_one_output_and_nothing_on_standard_error(cell, tmp_path, capsys):
    rows = [(f"{word} film", label) for word, label in (("good", "pos"), ("bad", "neg")) for _ in range(12)]
    settings = {"training.threads": 1, "training.validate_every": 2, "evaluation.bootstrap": 10}
    run = heed.train(
        "classification", train=rows, model="rnn", size="tiny", steps=4, settings=settings, out=tmp_path / "run"
    )
    lines = cell.text.splitlines()
    assert any(line.startswith("update 4 of 4: loss") for line in lines) and lines[-1].startswith("done in")
    assert cell.drawn >= 5
    written = capsys.readouterr()
    assert written.out == written.err == ""
    assert run.predict(["good film"]) and cell.text.splitlines() == lines


def test_the_moving_line_is_replaced_and_goes_when_training_ends(cell, monkeypatch):
    clock = iter(range(100))
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(clock))
    reporter = usual_reporter()
    assert isinstance(reporter, NotebookReporter)
    reporter.say("run folder runs/a")
    reporter.update("update 1")
    assert cell.text == "run folder runs/a\nupdate 1"
    reporter.update("update 2")
    assert cell.text == "run folder runs/a\nupdate 2"
    reporter.say("update 2: loss 1.0")
    assert cell.text == "run folder runs/a\nupdate 2: loss 1.0\nupdate 2"
    reporter.close()
    assert cell.text == "run folder runs/a\nupdate 2: loss 1.0"


def test_lines_that_move_too_fast_are_not_all_drawn(cell, monkeypatch):
    monkeypatch.setattr(progress.time, "monotonic", lambda: 1.0)
    reporter = usual_reporter()
    for step in range(50):
        reporter.update(f"update {step}")
    assert cell.drawn == 1


@pytest.mark.parametrize("shell", [None, SimpleNamespace(kernel=None), SimpleNamespace()])
def test_a_terminal_keeps_its_lines(shell, monkeypatch):
    monkeypatch.setitem(sys.modules, "IPython", SimpleNamespace(get_ipython=lambda: shell))
    assert isinstance(usual_reporter(), TerminalReporter)
    monkeypatch.delitem(sys.modules, "IPython")
    assert isinstance(usual_reporter(), TerminalReporter)


def test_hints_name_options_on_the_command_line_and_arguments_in_python():
    shown = ShownLook(look_of_heads(), False)
    note = "shown: the last layer, the mean of 2 heads; change with "
    assert f"{note}--layer, --head and --mechanism" in shown.text() and f"{note}--layer, " in shown.html()
    for said in (str(shown), html.unescape(shown._repr_html_())):
        assert f"{note}layer=, head= and mechanism=" in said and "--layer" not in said
        assert "a text with x--head and 2 --heads" in said  # words of the user stay


def look_of_heads():
    """Two heads, of which a look shows the mean."""
    axis = Axis("text", "token", ("a", "b"))
    one = Map("encoder", 0, None, axis, axis, torch.eye(2))
    note = Choice().hidden([View(one, torch.zeros(2, 2), 2)])
    return Look("a model", "a text with x--head and 2 --heads", "", (one,), (), (), (note,))
