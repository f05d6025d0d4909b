"""The predicted memory of several devices."""

import re

import pytest

from heed.tasks import check_config, task_class
from heed.training.contracts import parts_of
from heed.training.device import kept_bytes, recompute_blocks
from heed.training.footprint import Footprint, activation_bytes

CONFIG = {
    "task": "translation",
    "data": {"name": "copy", "length": [2, 6], "train": 120, "valid": 17, "test": 16},
    "model": {"name": "transformer", "d_model": 16, "num_heads": 2, "num_layers": 2, "d_ff": 32, "norm": "pre"},
    "training": {"steps": 6, "validate_every": 3, "batch_tokens": 150, "threads": 1, "device": "cpu", "accumulate": 2},
    "evaluation": {"bootstrap": 10},
}


@pytest.mark.parametrize("recomputed", [False, True])
def test_activations_of_a_deep_model_follow_from_two_shallow_ones(recomputed):
    model = {**CONFIG["model"], "d_model": 64, "num_layers": 5}
    training = {**CONFIG["training"], "batch_tokens": 1_000, "activation_checkpointing": recomputed}
    task = task_class("translation").prepare(check_config({**CONFIG, "model": model, "training": training}, "the test"))
    largest = max(task.train_batches(0), key=task.work)
    whole, held = task.build_model().train(), []

    def kept():
        return kept_bytes(whole, lambda: held.append(parts_of(task.loss(whole, task.collate(largest), 0.0))))

    expected = kept()
    if recomputed:
        recompute_blocks(whole, "transformer")
        inputs = kept()
        expected = inputs + (expected - inputs) / 5  # and one block of each kind
    assert activation_bytes(task, largest) == pytest.approx(expected, rel=0.1)


def test_memory_of_a_device_is_the_sum_of_its_parts():
    """By hand: 1,000 parameters, 600 of them in blocks of 200."""
    model = Footprint(parameters=1_000, block=200, blocks=600)
    assert model.on_each(1, "full", activations=50) == 16_000 + 50
    assert model.on_each(4, "none") == 20_000
    assert model.on_each(4, "none", optimizer="sgd") == 12_000
    assert model.on_each(4, "full", activations=50) == 4_000 + 8 * 400 + 12 * 200 + 50
    assert model.on_each(1_000, "full") == max(16 + 8 * 400 + 12 * 200, 12 + 4_000)
    assert model.on_each(2, "full") == max(8_000 + 5_600, 6_000 + 4_000)


def test_a_dry_run_predicts_the_memory_of_devices_that_are_not_there(call, tmp_path):
    small = "data.train=60 data.valid=8 data.test=8 training.batch_tokens=100".split()
    words = ["train", "translation", "data.name=copy", *small, "--model", "transformer", "model.num_layers=3"]
    predicted = {}
    for sharding in ("none", "full"):
        code, out, _ = call(*words, f"training.sharding={sharding}", "--dry-run", "--devices", "8")
        said = rf"each of 8 devices with training.sharding={sharding}: (\d\.\d\d) GiB, of which (\d\.\d\d) are"
        assert code == 0
        predicted[sharding] = [float(number) for number in re.search(said, out).groups()]
    assert predicted["full"][0] < predicted["none"][0] / 2 and predicted["full"][1] == predicted["none"][1]
    code, _, err = call(*words, "--devices", "8")
    assert code != 0 and "--devices 8 predicts the memory of that many devices and needs --dry-run" in err
