"""Activation checkpointing: the same gradients, less kept, the same names; refused where nothing can be left out."""

import copy

import pytest
import torch
from torch.testing import assert_close

import heed
from contract import assert_close_in_scale, gradients_of
from heed.errors import ConfigError
from heed.runs.prepare import model_to_train
from heed.runs.train import train_config
from heed.tasks import check_config, task_class
from heed.training.device import recompute_blocks, recomputed_blocks, saved_bytes, without_recomputation
from heed.training.loop import Trainer
from heed.training.progress import Quiet
from resuming import translation

TRANSFORMER = {"name": "transformer", "size": "tiny", "num_layers": 3, "dropout": 0.3, "attention_dropout": 0.2}


def config(model=TRANSFORMER, **training):
    return translation(model, **{"steps": 3, "batch_tokens": 300, **training})


def tagging(tmp_path, **training):
    names = [f"Name{n}" for n in range(40)]
    lines = [line for name in names for line in (f"{name}\tB-PER", "sees\tO", "Bob\tB-PER", ".\tO", "")]
    (tmp_path / "train.conll").write_text("\n".join(lines))
    values = {
        "task": "tagging",
        "data": {"train": str(tmp_path / "train.conll"), "valid": 8},
        "model": {"name": "encoder", "size": "tiny", "dropout": 0.3},
        "training": {"steps": 2, "threads": 1, "device": "cpu", **training},
    }
    return check_config(values, "the test")


def prepared(settings):
    task = task_class(settings.task).prepare(settings)
    torch.manual_seed(1)
    return task, task.build_model()


def gradients(task, model, batch):
    torch.manual_seed(7)
    model.zero_grad(set_to_none=True)
    loss = task.loss(model, batch, 0.1)
    loss.backward()
    return loss.detach(), gradients_of(model), torch.get_rng_state()


@pytest.mark.parametrize("kind", ["transformer", "encoder"])
def test_gradients_are_the_same_with_dropout_and_less_is_saved(tmp_path, kind):
    task, model = prepared(config() if kind == "transformer" else tagging(tmp_path))
    twice = copy.deepcopy(model)
    recompute_blocks(twice, kind)
    batch = task.collate(task.train_batches(0)[0])
    loss, plain, state = gradients(task, model.train(), batch)
    other_loss, other, other_state = gradients(task, twice.train(), batch)
    assert_close(other_loss, loss)
    assert torch.equal(state, other_state)  # what is drawn next is the same, too
    assert_close_in_scale(other, plain, 1e-6, rtol=1e-6)
    assert gradients(task, model.eval(), batch)[0] != loss  # there was dropout
    model.train()
    counted = [saved_bytes(one, lambda one=one: gradients(task, one, batch)) for one in (model, twice)]
    assert counted[1] < 0.6 * counted[0]
    with without_recomputation(recomputed_blocks(twice)):
        assert saved_bytes(twice, lambda: gradients(task, twice, batch)) == counted[0]


def test_whoever_watches_sees_every_call_once():
    task, model = prepared(config())
    recompute_blocks(model, "transformer")
    batch = task.collate(task.train_batches(0)[0])
    with heed.trace(model) as seen:
        task.loss(model.train(), batch, 0.0).backward()
    assert len(seen.attention_records) == 9  # 3 encoder, 3 decoder and 3 cross


def test_a_run_is_the_plain_one_and_its_weights_have_the_same_names(tmp_path):
    runs = [train_config(config(activation_checkpointing=on), tmp_path / str(on), Quiet())[0] for on in (False, True)]
    plain, twice = (run.model.state_dict() for run in runs)
    assert plain.keys() == twice.keys()
    for name, tensor in plain.items():
        assert_close(twice[name], tensor, atol=1e-5, rtol=1e-5)
    opened = heed.load(tmp_path / "True")
    assert [p.text for p in opened.predict(["1 2 3"])] == [p.text for p in runs[1].predict(["1 2 3"])]
    assert copy.deepcopy(runs[1].model) is not None


def test_the_prediction_knows_it(tmp_path):
    task, _ = prepared(config())
    costs = []
    for on in (False, True):
        task.config = task.config.model_copy(
            update={"training": task.config.training.model_copy(update={"activation_checkpointing": on})}
        )
        model = model_to_train(task)
        costs.append(Trainer(model, task, task.config.training, "loss", tmp_path, Quiet()).predict_cost(task.work))
    assert costs[1].activations < 0.7 * costs[0].activations


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"model": {"name": "bahdanau"}}, "model 'bahdanau' has no Transformer blocks to recompute"),
        ({"guided_attention": 0.1}, "guided_attention=0.1 cannot be combined with training.activation_checkp"),
    ],
)
def test_what_cannot_be_is_refused_before_there_is_a_folder(tmp_path, settings, message):
    with pytest.raises(ConfigError, match=message):
        train_config(config(**settings, activation_checkpointing=True), tmp_path / "run", Quiet())
    assert not (tmp_path / "run").exists()
