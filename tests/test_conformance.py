"""What holds for every task, and for every model with every head: a new task or model is tested here by existing.

A new task needs a small run in `small_runs.py`; everything else is found by name.
"""

import dataclasses
import itertools
import json
import shutil
import zipfile
from functools import cache
from typing import Literal, get_args, get_origin

import numpy as np
import pytest
import torch

import heed
from commands import call
from heed.errors import ConfigError
from heed.tasks import CAPABILITIES, spec_of, task_class, task_names
from heed.tasks.base import sizing
from heed.tasks.heads.tags import TAG_HEADS
from heed.training.device import scoring
from small_runs import SMALL, TRAINING, assert_alike, usable

HEADS_BY_NAME = {"tagging.head": TAG_HEADS}
"""Choices of a head that are found by name."""
NOT_SUMS = {"distinct_1", "distinct_2"}
"""Measures of a set as a whole: different words in all responses."""

every_task = pytest.mark.parametrize("name", task_names())


@pytest.fixture(scope="module")
def runs(small_run):
    """Two runs of a task that differ in their seed."""
    return cache(lambda name: [heed.load(small_run(name, seed)) for seed in (1, 2)])


@every_task
def test_a_report_names_its_task_and_every_measure_of_the_outcomes(name, runs):
    run = runs(name)[0]
    report, outcomes = run.evaluate("valid"), run.outcomes(run.examples("valid"))
    assert report["task"] == name and report["examples"] == len(outcomes.outputs)
    if name != "series":  # whose measures are by column
        known = {m.name for m in outcomes.measures if not np.isnan(m.score())}
        assert known <= set(report)
    assert run.head.report(report) and all(isinstance(line, str) for line in run.head.report(report))


@pytest.mark.parametrize("name", sorted({*task_names()} - {"pretraining"}))  # whose masks depend on the set
def test_scores_of_examples_together_are_those_of_each_alone(name, runs):
    run = runs(name)[0]
    examples = run.examples("valid")
    chosen = getattr(examples, "select", lambda places: [examples[i] for i in places])
    count = min(4, len(examples))
    whole, parts = chosen(range(count)), [chosen([i]) for i in range(count)]
    together, alone = run.outcomes(whole), [run.outcomes(part) for part in parts]
    for measure in together.measures:
        if measure.name in NOT_SUMS:
            continue
        sums = [one.measure(measure.name).statistics.sum(0) for one in alone]
        np.testing.assert_allclose(measure.statistics.sum(0), sum(sums), rtol=1e-4, atol=1e-5)


@every_task
def test_on_a_cpu_that_multiplies_bf16_scores_are_computed_in_it(name, small_run, monkeypatch):
    run = heed.load(small_run(name))
    measures, losses = [], []
    for run.precision, multiplies in ("float32", True), ("bf16", False), ("bf16", True):
        monkeypatch.setattr("heed.training.device.has_bf16_products", lambda multiplies=multiplies: multiplies)
        measures.append({m.name: m.score() for m in run.outcomes(run.examples("valid")).measures})
        with torch.no_grad(), scoring(run.precision, torch.device("cpu")):
            losses.append(run.task.validate(run.model)["loss"])
    assert losses[0] == losses[1] != losses[2] == pytest.approx(losses[0], rel=0.02)
    assert measures[1] == pytest.approx(measures[0], nan_ok=True) and measures[2].keys() == measures[0].keys()


@pytest.mark.parametrize("name", sorted({*task_names()} - {"series"}))  # whose predictions are arrays
def test_predictions_together_are_those_of_each_alone(name, runs, data):
    run, text = runs(name)[0], SMALL[name].predict[0]
    given = {
        "table": [{"width": 0.1, "length": 0.2}, {"width": 0.9, "length": 0.3}],
        "images": [str(data / "photos" / one) for one in ("a/0.png", "b/1.png")],
        "dialogue": [[text], [text, "three"]],
    }.get(name, [text, f"{text} {text}"])
    options = {"length": 3} if name == "language_modelling" else {}
    for one, asked in zip(run.predict(given, **options), given, strict=True):
        assert_alike(one.as_json(), run.predict(asked, **options).as_json())


@every_task
def test_a_bad_line_is_named_with_its_file(name, data, tmp_path, capsys):
    path = tmp_path / SMALL[name].train
    if (data / SMALL[name].train).is_dir():
        shutil.copytree(data / SMALL[name].train, path)
        place = sorted(path.rglob("*.png"))[2]
        place.write_bytes(place.read_bytes()[:50])
        place = str(place)
    else:
        lines = (data / SMALL[name].train).read_bytes().split(b"\n")
        path.write_bytes(b"\n".join([*lines[:2], b"\xff" + lines[2], *lines[3:]]))
        place = f"'{path}' line 3"
    code, _, err = call(capsys, "check", name, path)
    assert code == 2 and place in err


@every_task
def test_every_tensor_of_a_batch_moves_to_a_device(name, runs):
    task = runs(name)[0].task
    batch = task.collate(list(task.train_batches(0)[0]), 0).to(torch.device("meta"))
    found = list(tensors_in(batch))
    assert found and all(one.device.type == "meta" for one in found)


def tensors_in(value):
    if isinstance(value, torch.Tensor):
        yield value
    elif dataclasses.is_dataclass(value):
        yield from itertools.chain.from_iterable(tensors_in(getattr(value, f.name)) for f in dataclasses.fields(value))
    elif isinstance(value, list | tuple | dict):
        each = value.values() if isinstance(value, dict) else value
        yield from itertools.chain.from_iterable(map(tensors_in, each))


@every_task
def test_a_run_in_two_parts_ends_as_in_one(name, runs, data, tmp_path, capsys):
    shutil.copytree(runs(name)[0].folder, tmp_path / "parts")
    code, _, err = call(capsys, "train", tmp_path / "parts", "--resume", "training.steps=4")
    assert code == 0, err
    dataclasses.replace(SMALL[name], steps=4).trained(data, tmp_path / "whole")
    parts, whole = (heed.load(tmp_path / folder).model.state_dict() for folder in ("parts", "whole"))
    for key, tensor in whole.items():
        torch.testing.assert_close(parts[key], tensor, rtol=0, atol=0)


@every_task
def test_updates_are_measured_before_the_first_one_under_a_time_budget(name, data, monkeypatch):
    measured, measure = [], sizing._Trial.measure
    monkeypatch.setattr(sizing, "_SLOWEST", 0.0)
    monkeypatch.setattr(
        sizing._Trial, "measure", lambda one, budget: measured.append(measure(one, budget)) or (0, 1e-6)
    )
    settings = {key: value for key, value in SMALL[name].settings.items() if key.split(".")[0] != "model"}
    own = {"data.train": str(data / SMALL[name].train), "model.name": SMALL[name].model, "training.minutes": 0.1}
    task = SMALL[name].prepared({**TRAINING, **settings, **own})
    assert len(measured) == (task.config.model.size != "scarce")  # which has a batch of its own
    assert all(seconds > 0 for _, seconds in measured)
    assert task.train_batches(0) and not task.is_trial
    assert len({*task.splits.remarks}) == len(task.splits.remarks)  # each once


@every_task
def test_every_command_works_or_says_for_which_tasks_it_is(name, runs, data, tmp_path, capsys):
    one, other = runs(name)
    commands = SMALL[name].commands(str(one.folder), str(other.folder), data, tmp_path)
    needs = {"predict": "outputs", "look": "look", "compare": "examiner", "ensemble": "ensemble"}
    needs |= dict.fromkeys(["evaluate", "check", "curves", "start"])
    for command, capability in needs.items():
        if command == "look" and not SMALL[name].look:  # without an input, the curves of training are drawn
            continue
        code, out, err = call(capsys, *commands[command])
        if capability is None or one.can(capability):
            assert code == 0 and out, f"{command}: {err}"
        else:
            assert code == 2 and f"{CAPABILITIES[capability]} is not available for {name}" in err, command


@every_task
def test_a_packed_run_answers_as_its_folder_does(name, runs, data, tmp_path, monkeypatch, capsys):
    run, _ = runs(name)
    monkeypatch.chdir(tmp_path)  # no data is here
    path = heed.pack(run).path
    with zipfile.ZipFile(path) as archive:
        assert not any(str(data.parent).encode() in archive.read(one) for one in archive.namelist())
    folder, packed = (SMALL[name].commands(str(one), "", data, tmp_path) for one in (run.folder, path))
    for command in ("predict", "look", "curves"):
        assert call(capsys, *packed[command])[:2] == call(capsys, *folder[command])[:2], command
    code, out, err = call(capsys, "evaluate", path, data / SMALL[name].train)
    assert code == 0 and out, err
    code, out, err = call(capsys, *packed["start"])
    assert code == 0 and out, err


def variants():
    """Every task with each of its models, and with each other value of a choice that its head has."""
    for name in task_names():
        yield from (pytest.param(name, model, {}, id=f"{name}-{model}") for model, _ in usable(name))
        for field, info in task_class(name).head_class.model_fields.items():
            kind = info.annotation
            values = (True, False) if kind is bool else get_args(kind) if get_origin(kind) is Literal else ()
            for value in [*values, *HEADS_BY_NAME.get(f"{name}.{field}", ())]:
                if value != info.default:
                    yield pytest.param(name, SMALL[name].model, {field: value}, id=f"{name}-{field}-{value}")


@pytest.mark.parametrize(("name", "model", "head"), [*variants()])
def test_every_model_and_head_learns_alike_in_any_batch_and_is_looked_at(name, model, head, data, tmp_path):
    try:
        run = SMALL[name].untrained(data, tmp_path, model, head)
    except ConfigError as refused:  # a choice that this model cannot have is named
        assert head and all(field in str(refused) for field in head)
        return
    task, network = run.task, run.model
    indices = list(task.train_batches(0)[0])[:3]
    together = summed(task, network, indices)
    together.backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in network.parameters() if p.requires_grad)
    with torch.no_grad():
        alone = sum(float(summed(task, network, [i])) for i in indices)
    assert float(together.detach()) == pytest.approx(alone, rel=1e-3)
    if SMALL[name].look and "look" not in spec_of(name).why_not:
        (given,) = SMALL[name].look
        steps = {} if name == "images" else {"steps": True}
        shown = run.look(given.replace("DATA/", f"{data}/"), **steps)
        assert shown.text() and shown.svg() and shown.html() and json.loads(shown.json())["format"]


def summed(task, model, indices):
    loss = task.loss(model, task.collate(indices, 0), 0.0)
    return loss if isinstance(loss, torch.Tensor) else loss.sum


@every_task
def test_a_task_without_looks_says_why(name, runs):
    assert runs(name)[0].can("look") != ("look" in spec_of(name).why_not)


@every_task
def test_no_field_of_a_head_has_the_name_of_a_field_of_a_model(name):
    head = set(task_class(name).head_class.model_fields)
    for model, body in usable(name):
        own = set(body.config_class.model_fields)
        assert not head & own, f"{model} and the head of {name} share {head & own}"
