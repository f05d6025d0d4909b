"""Whole runs over pictures: the same bits however the pictures are read and changed, and wherever a run was stopped."""

import json

import numpy as np
import pytest
from PIL import Image

from heed.runs.train import train_config
from heed.tasks import check_config
from heed.training.progress import Quiet
from reporters import Stopper

CHANGES = {"flip": True, "crop": 1, "randaugment": 1, "erase": 0.3, "mixup": 0.4, "cutmix": 1.0}


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Sixty JPEG files of three sizes in two classes."""
    folder, rng = tmp_path_factory.mktemp("photos"), np.random.default_rng(0)
    for i in range(60):
        (folder / "ab"[i % 2]).mkdir(exist_ok=True)
        shape = [(14, 12, 3), (12, 20, 3), (16, 16, 3)][i % 3]
        Image.fromarray(rng.integers(0, 256, shape, dtype=np.uint8)).save(folder / "ab"[i % 2] / f"{i}.jpg")
    return folder


def config(photos, **data):
    return check_config(
        {
            "task": "images",
            "data": {"train": [str(photos)], "valid": 12, "size": 12, **data},
            "model": {"name": "cnn", "num_filters": [4, 8], "convolutions": 1, "dropout": 0.2},
            "augment": CHANGES,
            "training": {"steps": 12, "batch_size": 10, "threads": 1, "device": "cpu", "warmup": 2},
            "evaluation": {"bootstrap": 10},
        },
        "the test",
    )


def weights(path, made, **more):
    run, _ = train_config(made, path, Quiet(), **more)
    return (path / "model.safetensors").read_bytes(), run


@pytest.fixture(scope="module")
def plain(photos, tmp_path_factory):
    return weights(tmp_path_factory.mktemp("runs") / "plain", config(photos, workers=0))


@pytest.mark.parametrize("data", [{"workers": 1}, {"workers": 4}, {"workers": 4, "in_memory": 0}])
def test_a_run_has_the_same_bits_with_any_number_of_workers_and_any_memory(plain, photos, tmp_path, data):
    assert weights(tmp_path / "run", config(photos, **data))[0] == plain[0]


def test_a_run_that_was_stopped_goes_on_with_the_same_changes(plain, photos, tmp_path):
    assert train_config(config(photos), tmp_path / "run", Stopper(5))[0] is None
    assert weights(tmp_path / "run", config(photos), resume=True)[0] == plain[0]


def test_the_share_of_time_that_updates_waited_for_pictures_is_in_the_report(plain):
    _, run = plain
    lines = map(json.loads, (run.folder / "metrics.jsonl").read_text().splitlines())
    updates = [line for line in lines if line["event"] == "update"]
    share = sum(line["waited"] for line in updates) / sum(line["seconds"] for line in updates)
    assert 0 < share < 1 and run.report["training"]["waiting_share"] == pytest.approx(share, abs=1e-4)


def test_the_form_of_the_pictures_is_stored_in_the_run(plain):
    stored = json.loads((plain[1].folder / "pictures.json").read_text())
    assert (stored["height"], stored["width"], stored["channels"], stored["crop"]) == (12, 12, 3, "centre")
    assert all(0.4 < mean < 0.6 for mean in stored["mean"])
