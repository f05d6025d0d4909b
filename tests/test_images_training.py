"""How pictures are trained on: batch normalisation, divided batches, workers that feed them."""

import numpy as np
import pytest
import torch
from PIL import Image

import heed
from heed.errors import ConfigError
from heed.models.vit import Vit, VitConfig
from heed.runs.train import train_config
from heed.tasks import check_config, task_class
from heed.training.device import micro_batches_for
from heed.training.progress import Quiet
from reporters import Stopper

VIT = {"name": "vit", "patch_size": 4, "d_model": 16, "num_heads": 2, "num_layers": 2, "d_ff": 16, "dropout": 0.0}


def config(model, **training):
    return check_config(
        {
            "task": "images",
            "data": {"name": "digits"},
            "model": model,
            "training": {"steps": 2, "batch_size": 8, "threads": 1, "device": "cpu", "train_size": 64, **training},
            "evaluation": {"bootstrap": 10},
        },
        "the test",
    )


@pytest.mark.parametrize(
    ("model", "training", "message"),
    [
        (
            {"name": "resnet", "size": "tiny"},
            {"activation_checkpointing": True},
            r"model 'resnet' has no Transformer blocks to recompute \(.* vit have them\); set it to false",
        ),
        (
            {"name": "resnet", "size": "tiny"},
            {"micro_batches": 2},
            r"training.micro_batches=2: model 'resnet' normalises by the mean and deviation of each batch, so "
            "micro-batches would change the gradient; remove the field and set a smaller batch size",
        ),
        (VIT | {"stem": "conv"}, {"micro_batches": 4}, "micro_batches=4: model 'vit' normalises by the mean"),
    ],
    ids=["checkpointing", "resnet", "stem"],
)
def test_what_batch_normalisation_cannot_do_is_refused_before_there_is_a_folder(tmp_path, model, training, message):
    with pytest.raises(ConfigError, match=message):
        train_config(config(model, **training), tmp_path / "run", Quiet())
    assert not (tmp_path / "run").exists()


def test_a_model_that_normalises_batches_is_never_divided_by_itself():
    picture, narrow = {"num_channels": 1, "height": 8, "width": 8}, {k: v for k, v in VIT.items() if k != "name"}
    models = [Vit(VitConfig(**picture, **narrow, stem=stem)) for stem in ("none", "conv")]
    assert [micro_batches_for(model, torch.device("cpu"), 1e9) for model in models] == [10, 1]


def test_a_vit_in_micro_batches_or_computed_again_has_the_same_gradient(tmp_path):
    weights = []
    for i, training in enumerate(({}, {"micro_batches": 3}, {"activation_checkpointing": True})):
        train_config(config(VIT, **training), tmp_path / str(i), Quiet())
        weights.append(heed.load(tmp_path / str(i)).model.state_dict())
    for other in weights[1:]:
        for name, tensor in weights[0].items():
            if name.endswith("w_key.bias"):  # softmax cancels it: its gradient is rounding, which Adam enlarges
                continue
            torch.testing.assert_close(other[name], tensor, rtol=1e-3, atol=1e-4, msg=lambda s, n=name: f"{n}: {s}")


CHANGES = {"flip": True, "crop": 1}


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    """Sixty JPEG files of three sizes in two classes."""
    folder, rng = tmp_path_factory.mktemp("photos"), np.random.default_rng(0)
    for i in range(60):
        (folder / "ab"[i % 2]).mkdir(exist_ok=True)
        shape = [(14, 12, 3), (12, 20, 3), (16, 16, 3)][i % 3]
        Image.fromarray(rng.integers(0, 256, shape, dtype=np.uint8)).save(folder / "ab"[i % 2] / f"{i}.jpg")
    return folder


def photos_config(photos, **data):
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
    return weights(tmp_path_factory.mktemp("runs") / "plain", photos_config(photos, workers=0))


@pytest.mark.parametrize("data", [{"workers": 1}, {"workers": 4}, {"workers": 4, "in_memory": 0}])
def test_a_run_has_the_same_bits_with_any_number_of_workers_and_any_memory(plain, photos, tmp_path, data):
    assert weights(tmp_path / "run", photos_config(photos, **data))[0] == plain[0]


@pytest.mark.parametrize(
    ("labels", "given", "size", "flip", "crop", "said"),
    [
        (("cat", "dog"), {}, 128, True, 16, ["shifted by up to 16 pixels (augment.crop=0", "(augment.flip=false"]),
        (
            ("3", "7"),
            {},
            8,
            False,
            1,
            ["shifted by up to 1 pixel (", "since labels such as '3' may", "augment.flip=true"],
        ),
        (("turn left", "turn right"), {}, 12, False, 1, ["labels such as 'turn left' may be characters or directions"]),
        (("cat", "dog"), {"crop": 0}, 12, True, 0, ["in each pass half of them are mirrored"]),
        (("cat", "dog"), {"crop": 0, "flip": False}, 12, False, 0, []),
    ],
)
def test_few_pictures_are_changed_unless_their_labels_or_the_user_object(
    photos, tmp_path, labels, given, size, flip, crop, said
):
    for old, new in zip("ab", labels, strict=True):
        (tmp_path / new).symlink_to(photos / old, target_is_directory=True)
    values = photos_config(tmp_path, size=size).model_dump(by_alias=True) | {"augment": given}
    values["evaluation"]["select_by"] = "auto"
    task = task_class("images").prepare(check_config(values, "the test"))
    assert (task.config.augment.flip, task.config.augment.crop) == (flip, crop)
    assert task.config.evaluation.select_by == "accuracy"
    assert all(part in task.notes for part in said) and ("few training pictures" in task.notes) == bool(said)


def test_a_run_that_was_stopped_goes_on_with_the_same_changes(plain, photos, tmp_path):
    assert train_config(photos_config(photos), tmp_path / "run", Stopper(5))[0] is None
    assert weights(tmp_path / "run", photos_config(photos), resume=True)[0] == plain[0]
