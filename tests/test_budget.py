"""A time budget is used whole and not exceeded, whatever changes while a run trains; early stopping by default."""

import itertools
import math
import re
from pathlib import Path

import pytest
import torch

from heed.cli import main
from heed.config import read_config
from heed.errors import ConfigError
from heed.runs.advice import after, before, before_budget
from heed.runs.train import train_config
from heed.tasks import check_config
from heed.tasks.translation import TASK
from heed.training import callbacks, loop, plan
from heed.training.checkpoint import Progress
from heed.training.contracts import TrainResult
from heed.training.loop import Trainer
from test_training import Recorder, Scripted, make_config, metrics


class Clock:
    """Time that passes only where a test says so."""

    def __init__(self, monkeypatch):
        self.now = 0.0
        for module in (plan, loop, callbacks):
            monkeypatch.setattr(module, "time", self)

    def perf_counter(self):
        return self.now

    def __getattr__(self, name):
        import time

        return getattr(time, name)


@pytest.fixture
def clock(monkeypatch):
    return Clock(monkeypatch)


def budgeted(
    folder, clock, minutes, update, validation, scoring, scores=None, losses=None, resume=False, changed=(), **training
):
    """Train under a time budget; updates, validations and scoring take what functions of the elapsed share say.

    `scores` and `losses` give those of each validation by its number, from 1; those before the first update are trials.
    """
    config = make_config(steps=None, minutes=minutes, **{"warmup": 5, **training})
    task = TASK.prepare(config)
    torch.manual_seed(0)
    model = task.build_model()
    (folder / "checkpoints").mkdir(parents=True, exist_ok=True)
    asked, updated = [], []

    def share():
        return min(1.0, clock.now / (60 * minutes))

    def loss(model, batch, label_smoothing):
        clock.now += update(share())
        updated.append(clock.now)
        return task.loss(model, batch, label_smoothing)

    def validate(model):
        clock.now += validation(share()) * scripted.valid_share
        if updated or resume:
            asked.append(clock.now)
        good = scores(len(asked)) if scores else 1 - math.exp(-len(asked))
        return {"loss": losses(len(asked)) if losses else 1.0, "exact_match": good, "token_accuracy": 0.0}

    def try_scoring(may_take, expected):
        clock.now += may_take
        return scoring(share())

    parts = {"loss": loss, "validate": validate, "trained_validation": 0.3, "finishing_work": 2.0}
    recorder, scripted = Recorder(), Scripted(task, **parts)
    given = model, scripted, config.training, "exact_match", folder, recorder, None, 0.0
    trainer = Trainer(*given, try_scoring)
    result = trainer.run(resume, changed)
    clock.now += scoring(1.0)
    return result, recorder.said, asked


COSTS = {
    "nothing changes": (lambda s: 0.5, lambda s: 1.0, lambda s: 2.0),
    "an untrained decoder writes outputs of full length": (
        lambda s: 0.5,
        lambda s: 8.0 if s < 0.1 else 1.0,
        lambda s: 15.0 if s < 0.1 else 2.0,
    ),
    "scoring takes a third": (lambda s: 0.5, lambda s: 1.0, lambda s: 20.0),
    "the machine slows down": (lambda s: 0.4 if s < 0.5 else 0.9, lambda s: 1.0 + s, lambda s: 3.0),
    "the machine gets faster": (lambda s: 0.9 if s < 0.5 else 0.4, lambda s: 2.0 - s, lambda s: 3.0),
}


@pytest.mark.parametrize("costs", COSTS)
def test_the_whole_budget_is_used_and_no_more(tmp_path, clock, costs):
    result, _, asked = budgeted(tmp_path, clock, 1, *COSTS[costs], learning_rate=1.0)
    assert clock.now == pytest.approx(60, rel=0.05)
    assert result.reason == f"all {result.progress.step} updates done"
    assert 4 <= len(asked) <= 14  # validations that are slow at first do not stay few
    rates = [line["learning_rate"] for line in metrics(tmp_path, "update")][5:]
    assert rates[-1] < 0.03  # the course has come to its end
    assert all(later <= earlier for earlier, later in itertools.pairwise(rates))
    assert max(a - b for a, b in itertools.pairwise(rates)) < 0.15


# --- early stopping by default


def steady(share):
    return 1.0


def rising(n):
    return 1.0 if n <= 3 else 1.0 + 0.05 * n


def test_a_run_under_a_budget_ends_where_validation_gets_worse(tmp_path, clock):
    best = 3
    scores = {"scores": lambda n: 0.9 if n == best else 0.5, "losses": rising}
    result, said, asked = budgeted(tmp_path, clock, 2, steady, steady, steady, **scores)
    assert len(asked) == best + 3 + 2  # three without a better one, two while the learning rate falls to zero
    assert clock.now < 0.75 * 120
    assert result.progress.best_step == result.progress.kept[0]
    (line,) = [one for one in said if "no better" in one]
    assert line.startswith(
        "no better exact_match in 3 validations, and the loss rose from 1 to 1.3; lowering the learning rate to zero "
    )
    assert re.fullmatch(r"ended early after \d+ updates, because exact_match no longer improved", result.reason)
    rates = [line["learning_rate"] for line in metrics(tmp_path, "update")]
    assert rates[-1] == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("loss", [lambda n: 1.0, lambda n: 1.0 / (1 + n)], ids=["level", "falling"])
def test_it_uses_its_budget_where_the_loss_does_not_rise(tmp_path, clock, loss):
    result, said, _ = budgeted(tmp_path, clock, 1, steady, steady, steady, lambda n: 0.5, loss)
    assert result.reason.startswith("all")
    assert clock.now == pytest.approx(60, rel=0.05)
    assert not any("no better" in line for line in said)


# --- the warm-up


def test_the_warm_up_is_a_tenth_of_the_plan_and_its_weights_are_not_kept(tmp_path, clock):
    slower = lambda s: 0.5 if s < 0.1 else 2.0  # noqa: E731  # as where other work begins
    best = lambda n: 1.0 if n == 1 else 0.1  # noqa: E731
    given = {"warmup": "auto", "validate_every": 2}
    result, _, _ = budgeted(tmp_path, clock, 2, slower, lambda s: 0.1, lambda s: 0.5, best, rising, **given)
    rates = [line["learning_rate"] for line in metrics(tmp_path, "update")]
    p = result.progress
    assert max(rates) == pytest.approx(0.003) and rates[-1] < 0.05 * 0.003
    assert 2 <= p.warmup <= 24  # a tenth of the updates that were planned before the machine slowed down
    assert p.best_step >= p.warmup


def test_a_warm_up_longer_than_the_budget_is_shortened(tmp_path, clock):
    result, _, _ = budgeted(tmp_path, clock, 1, steady, lambda s: 0.1, lambda s: 0.5, warmup=1_000)
    rates = [line["learning_rate"] for line in metrics(tmp_path, "update")]
    assert max(rates) == pytest.approx(0.003)
    assert result.progress.warmup <= 0.55 * result.progress.total_steps


@pytest.mark.parametrize(("given", "total", "updates"), [("auto", 400, 40), ("auto", 5_000, 100), (0.25, 40, 10)])
def test_a_warm_up_is_a_number_or_a_share_of_the_updates(given, total, updates):
    assert plan.warm_up(make_config(steps=total, warmup=given).training, total) == updates


@pytest.mark.parametrize("value", ["abc", 1.5, -3, True, float("inf")])
def test_a_warm_up_that_is_none_is_refused(value):
    with pytest.raises(ConfigError, match="expected a number of updates, a share below 1, or auto"):
        make_config(steps=3, warmup=value)


# --- validation


def test_a_set_that_takes_long_is_validated_on_in_part_and_at_the_end_as_a_whole(tmp_path, clock):
    result, _, asked = budgeted(tmp_path, clock, 1, lambda s: 0.5, lambda s: 10.0, lambda s: 1.0)
    assert result.progress.valid_share < 0.25
    assert clock.now == pytest.approx(60, rel=0.1)
    assert len(asked) >= 4
    assert asked[-1] - asked[-2] > 9.0


def test_it_never_ends_early_where_the_run_is_given_in_steps(tmp_path):
    config = make_config(steps=9, validate_every=1)
    assert config.training.patience == "auto"
    task = TASK.prepare(config)
    same = {"loss": 1.0, "exact_match": 0.5, "token_accuracy": 0.5}
    (tmp_path / "checkpoints").mkdir()
    scripted = Scripted(task, validate=lambda model: same)
    trainer = Trainer(task.build_model(), scripted, config.training, "exact_match", tmp_path, Recorder())
    assert trainer.run().progress.step == 9


def test_a_run_that_ended_early_goes_on_with_a_longer_budget(tmp_path, clock):
    first, _, _ = budgeted(tmp_path, clock, 1, steady, lambda s: 0.1, steady, lambda n: 0.5, rising)
    assert first.progress.ending
    clock.now = 0.0
    again = {"resume": True, "changed": ["training.minutes"]}
    result, _, _ = budgeted(tmp_path, clock, 3, steady, steady, steady, lambda n: 0.5 + n / 100, rising, **again)
    assert result.progress.step > 2 * first.progress.step
    assert not result.progress.ending


# --- advice before and after training


class Known:
    """As much of a task as the advice asks for."""

    def __init__(self, batches=67, **training):
        values = {"task": "classification", "data": {"train": ["a.tsv"]}, "training": training}
        self.config = check_config(values, "the test")
        self.train_batches = lambda epoch: [[n] for n in range(batches)]
        self.enough_updates = 300


def test_a_handful_of_updates_is_warned_of():
    warning = (
        "warning: only about 20 updates, 0.3 passes over the data, fit into 1 minute; a useful model takes about 300 "
        "updates, so expect little of this one: give --minutes 15 or a smaller model (model.size=tiny)"
    )
    assert before(Known(minutes=1), 20) == before_budget(Known(minutes=1), 2.25, 3.0) == warning
    assert before(Known(minutes=1, batches=1), 30) == ""  # thirty passes
    assert before(Known(minutes=1), 300) == before_budget(Known(minutes=4), 0.6, 3.0) == ""
    assert before_budget(Known(steps=2), 5.0, 3.0) == ""


def ended(step, total, **more):
    progress = Progress(step=step, total_steps=total, training_seconds=float(step), **more)
    return TrainResult(Path(), True, "", progress, {}, "")


def test_after_training_the_command_that_goes_on_or_what_is_given_back():
    training, folder = Known(minutes=1).config.training, Path("runs/a")
    assert after(training, folder, ended(50, 50, best_step=50), 60.0) == (
        "validation was still improving at the end; to train for 2 minutes in total: "
        "heed train runs/a --resume training.minutes=2"
    )
    assert after(training, folder, ended(50, 50, best_step=10, bad=2), 59.0) == ""
    assert after(training, folder, ended(50, 50, ending=True), 20.0) == "40 s of the budget remained unused"
    assert after(Known(steps=50).config.training, folder, ended(50, 50, best_step=50), 60.0) == ""


# --- passes over the data


def test_epochs_are_passes_over_the_data(tmp_path):
    config = make_config(steps=None, epochs=2.5)
    task = TASK.prepare(config)
    a_pass = len(task.train_batches(0))
    _, result = train_config(config, tmp_path / "run", Recorder())
    assert result.progress.step == round(2.5 * a_pass)
    again = read_config(tmp_path / "run" / "config.yaml")["training"]
    assert (again["steps"], again["epochs"], again["minutes"]) == (result.progress.step, None, None)
    longer = make_config(steps=None, epochs=4)
    _, result = train_config(longer, tmp_path / "run", Recorder(), resume=True)
    assert result.progress.step == 4 * a_pass


def test_minutes_and_epochs_are_not_given_together(capsys):
    with pytest.raises(SystemExit):
        main(["train", "translation", "data.name=copy", "--minutes", "1", "--epochs", "2"])
    assert "--minutes and --epochs both set how long to train; give only one" in capsys.readouterr().err
