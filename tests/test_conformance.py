"""What holds for every task, and for every model with every head: a new task or model is tested here by existing.

A new task needs a small run in `small_runs.py`; everything else is found by name.
"""

import dataclasses
import itertools

import numpy as np
import pytest
import torch

import heed
from commands import call
from heed.errors import ConfigError
from heed.models.base import TextEncoder
from heed.registry import body_class, model_names
from heed.tasks import run_class, spec_of, task_class, task_names
from heed.tasks.base.capabilities import CAPABILITIES
from small_runs import SMALL, write_data

NOT_SUMS = {"distinct_1", "distinct_2"}
"""Measures of a set as a whole: different words in all responses."""

every_task = pytest.mark.parametrize("name", task_names())


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("data")
    write_data(folder)
    return folder


@pytest.fixture(scope="module")
def runs(data, tmp_path_factory):
    """Two runs of a task that differ in their seed, trained when they are first asked for."""
    folder, made = tmp_path_factory.mktemp("runs"), {}

    def of(name):
        if name not in made:
            for seed in (1, 2):
                small = dataclasses.replace(SMALL[name], settings={**SMALL[name].settings, "training.seed": seed})
                small.trained(data, folder / f"{name}-{seed}")
            made[name] = [heed.load(folder / f"{name}-{seed}") for seed in (1, 2)]
        return made[name]

    return of


def test_every_task_has_a_small_run():
    assert set(SMALL) == set(task_names())


@every_task
def test_a_report_names_its_task_and_every_measure_of_the_outcomes(name, runs):
    run = runs(name)[0]
    report, outcomes = run.evaluate("valid"), run.outcomes(run.examples("valid"))
    assert report["task"] == name and report["examples"] == len(outcomes.outputs)
    if name != "series":  # whose measures are by column
        known = {m.name for m in outcomes.measures if not np.isnan(m.score())}
        assert known <= set(report)
    assert run.body(report) and all(isinstance(line, str) for line in run.body(report))


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
    elif isinstance(value, list | tuple):
        yield from itertools.chain.from_iterable(map(tensors_in, value))


@every_task
def test_a_run_in_two_parts_ends_as_in_one(name, data, tmp_path, capsys):
    SMALL[name].trained(data, tmp_path / "parts")
    code, _, err = call(capsys, "train", tmp_path / "parts", "--resume", "training.steps=4")
    assert code == 0, err
    dataclasses.replace(SMALL[name], steps=4).trained(data, tmp_path / "whole")
    parts, whole = (heed.load(tmp_path / folder).model.state_dict() for folder in ("parts", "whole"))
    for key, tensor in whole.items():
        torch.testing.assert_close(parts[key], tensor, rtol=0, atol=0)


@every_task
def test_every_command_works_or_says_for_which_tasks_it_is(name, runs, data, tmp_path, capsys):
    one, other = runs(name)
    commands = SMALL[name].commands(str(one.folder), str(other.folder), data, tmp_path)
    needs = {"predict": "outputs", "look": "look", "compare": "examiner", "ensemble": "ensemble", "evaluate": None}
    for command, capability in needs.items():
        if command == "look" and not SMALL[name].look:  # without an input, the curves of training are drawn
            continue
        code, out, err = call(capsys, *commands[command])
        if capability is None or hasattr(run_class(name), capability):
            assert code == 0 and out, f"{command}: {err}"
        else:
            assert code == 2 and f"{CAPABILITIES[capability]} is not available for {name}" in err, command


@every_task
def test_no_field_of_a_head_has_the_name_of_a_field_of_a_model(name):
    head = set(task_class(name).head_class.model_fields)
    for model in model_names():
        try:
            own = body_class(model, task_class(name).interfaces).config_class.model_fields
        except ConfigError:  # the task cannot use this model
            continue
        if spec_of(name).per_token and issubclass(body_class(model, ("encoder",)), TextEncoder):
            continue
        assert not head & set(own), f"{model} and the head of {name} share {head & set(own)}"
