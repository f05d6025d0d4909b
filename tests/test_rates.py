"""Fine-tuning: learning rates by layer, frozen parts, gradual unfreezing, and that a stopped run goes on alike."""

import pytest
import torch

from heed.errors import ConfigError
from heed.runs.train import train_config
from heed.tasks import check_config, task_class
from heed.tasks.base.rates import layers_of, num_layers
from heed.training.progress import Quiet

SMALL = {"d_model": 8, "num_heads": 2, "d_ff": 8, "num_layers": 2, "dropout": 0.0}
STEADY = {
    "steps": 1, "optimizer": "sgd", "learning_rate": 0.5, "schedule": "constant", "warmup": 0, "clip": None,
    "threads": 1, "device": "cpu", "precision": "float32", "micro_batches": 1,
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("rates")
    words = "one two three four five six".split()
    lines = [f"{'ab'[n % 2]} {words[n % 6]} {words[n % 5]} {words[n % 3]}\n" for n in range(40)]
    (folder / "texts.txt").write_text("".join(lines))
    return folder


def config_of(folder, model=None, **training):
    return check_config(
        {
            "task": "classification",
            "data": {"train": str(folder / "texts.txt"), "valid": 8},
            "tokenizer": {"kind": "word", "min_count": 1},
            "model": {"name": "encoder", "pooling": "mean", **SMALL, **(model or {})},
            "training": {**STEADY, **training},
            "evaluation": {"bootstrap": 5},
        },
        "the test",
    )


class Said(Quiet):
    def __init__(self):
        self.said = []

    def say(self, message):
        self.said.append(message)


def moved(folder, model=None, **training):
    """How far one update moves each tensor, and the run."""
    config = config_of(folder, model, **training)
    task = task_class("classification").prepare(config)
    torch.manual_seed(task.config.training.seed)
    drawn = task.build_model().state_dict()
    run, _ = train_config(config, folder / f"run-{len(list(folder.iterdir()))}", Said())
    return {name: tensor - drawn[name] for name, tensor in run.model.state_dict().items()}


def test_each_layer_moves_at_its_share_of_the_rate(folder):
    plain, slow = moved(folder), moved(folder, layer_decay=0.5)
    shares = {
        "output.weight": 1.0,
        "body.blocks.1.feed_forward.inner.weight": 0.5,
        "body.blocks.0.feed_forward.inner.weight": 0.25,
        "body.inputs.embedding.weight": 0.125,
    }
    for name, share in shares.items():
        assert plain[name].abs().max() > 0
        torch.testing.assert_close(slow[name], share * plain[name])
    assert all(torch.equal(tensor, plain[name]) for name, tensor in moved(folder, layer_decay=1.0).items())


@pytest.mark.parametrize(
    ("freeze", "still"),
    [
        ("body", ["body."]),
        (["embeddings", "layers<1"], ["body.inputs.", "body.blocks.0."]),
        (["layers < 2"], ["body.blocks."]),
        (["body.blocks.1.attention", "output.bias"], ["body.blocks.1.attention.", "output.bias"]),
    ],
)
def test_frozen_parts_stay_as_they_were(folder, freeze, still):
    for name, by in moved(folder, freeze=freeze).items():
        assert bool(by.any()) != name.startswith(tuple(still)), name


@pytest.mark.parametrize(
    ("freeze", "message"),
    [
        ("layers<3", r"training.freeze: 'layers<3', but the body has 2 layers"),
        ("bodi", r"training.freeze: 'bodi' is not a part of the model; did you mean 'body'\?; its parts are body, "),
        (["body", "output"], r"training.freeze leaves nothing to train: body, output"),
    ],
)
def test_what_cannot_be_frozen_is_said_before_there_is_a_folder(folder, freeze, message):
    with pytest.raises(ConfigError, match=message):
        train_config(config_of(folder, freeze=freeze), folder / "refused", Quiet())
    assert not (folder / "refused").exists()


def test_layers_are_unfrozen_one_by_one_from_the_last_one_down(folder):
    drawn, at, said = {}, {}, Said()

    def note(event):
        if event.run is None:
            return
        for name, tensor in event.run.model.state_dict().items():
            tensor = tensor.clone()
            if event.step > 1 and not torch.equal(drawn[name], tensor):
                at.setdefault(name, event.step)
            drawn[name] = tensor

    config = config_of(folder, unfreeze_every=2, steps=8, validate_every=1, patience=None)
    train_config(config, folder / "gradual", said, callback=note)
    first = {
        part: min(step for name, step in at.items() if name.startswith(part))
        for part in ("output.", "body.blocks.1.", "body.blocks.0.", "body.inputs.")
    }
    assert first == {"output.": 2, "body.blocks.1.": 3, "body.blocks.0.": 5, "body.inputs.": 7}
    assert [line for line in said.said if "from here on" in line] == [
        "update 2: training layer 2 of 2 from here on",
        "update 4: training layer 1 of 2 from here on",
        "update 6: training the embeddings from here on",
    ]


def test_gradual_unfreezing_goes_on_after_a_resume(folder):
    fields = {"unfreeze_every": 2, "optimizer": "adamw", "learning_rate": 0.01, "layer_decay": 0.8, "steps": 8}
    whole, _ = train_config(config_of(folder, **fields), folder / "whole", Quiet())
    train_config(config_of(folder, **fields | {"steps": 3}), folder / "half", Quiet())
    half, _ = train_config(config_of(folder, **fields), folder / "half", Quiet(), resume=True)
    # The learning rate is constant, so that a run of 3 updates is the beginning of one of 8.
    for name, tensor in whole.model.state_dict().items():
        assert torch.equal(tensor, half.model.state_dict()[name]), name


def test_embeddings_that_are_not_trained_stay_frozen_when_their_turn_comes(folder):
    by = moved(folder, {"train_embeddings": False}, unfreeze_every=1, steps=5)
    assert not by["body.inputs.embedding.weight"].any() and by["body.blocks.0.feed_forward.inner.weight"].any()


def test_patience_waits_until_everything_is_trained(folder):
    fields = {"learning_rate": 1e-12, "patience": 1, "validate_every": 1, "steps": 9}
    _, result = train_config(config_of(folder, unfreeze_every=2, **fields), folder / "patient", Quiet())
    assert result.progress.step == 6
    _, result = train_config(config_of(folder, **fields), folder / "impatient", Quiet())
    assert result.progress.step == 2


@pytest.mark.parametrize(
    ("name", "count", "embeddings", "top"),
    [("rnn", 2, {"inputs"}, set()), ("bag", 2, {"embedding"}, set()), ("cnn", 0, {"embedding"}, {"filters"})],
)
def test_the_layers_of_other_bodies(folder, name, count, embeddings, top):
    fields = {"num_layers": 2} if name in ("rnn", "bag") else {}
    values = {
        "task": "classification",
        "data": {"train": str(folder / "texts.txt"), "valid": 8},
        "tokenizer": {"kind": "word", "min_count": 1},
        "model": {"name": name, **fields},
        "training": {"steps": 1},
    }
    body = task_class("classification").prepare(check_config(values, "the test")).build_model().body
    layers = layers_of(body)
    assert num_layers(body) == count
    assert {n.split(".")[0] for n, layer in layers.items() if layer == -1} == embeddings
    assert {n.split(".")[0] for n, layer in layers.items() if layer is None} == top
    assert {layer for layer in layers.values() if layer is not None and layer >= 0} == set(range(count))
