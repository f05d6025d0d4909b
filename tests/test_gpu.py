"""Training on a GPU: batches made ahead in pinned memory, the optimiser as one kernel, compiled updates."""

import pytest
import torch
from torch import nn

from heed.config import TrainingConfig
from heed.runs.train import train_config
from heed.tasks import check_config
from heed.training.loop import Trainer
from heed.training.optimizer import make_optimizer
from heed.training.progress import Quiet

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")]


def trained(folder, **training):
    """A run of four updates on the first GPU."""
    values = {
        "data": {"name": "copy", "length": [2, 6], "train": 60, "valid": 8, "test": 8},
        "model": {"name": "transformer", "size": "tiny"},
        "training": {"steps": 4, "batch_tokens": 300, "device": "cuda", **training},
        "evaluation": {"bootstrap": 5},
    }
    run, _ = train_config(check_config(values, "test"), folder / "run", Quiet())
    return run


def test_batches_are_made_ahead_in_pinned_memory_and_trained_on_the_gpu(tmp_path, monkeypatch):
    seen, update = [], Trainer._update

    def looking(self, draw, start):
        seen.append([batch.source.is_pinned() and batch.labels.is_pinned() for batch, _ in draw.batches])
        update(self, draw, start)

    monkeypatch.setattr(Trainer, "_update", looking)
    run = trained(tmp_path)
    assert len(seen) == 4 and all(all(each) for each in seen)
    assert next(run.model.parameters()).device.type == "cuda"
    assert [weight for weight in run.model.parameters() if not weight.isfinite().all()] == []


@pytest.mark.parametrize("kind", ["adam", "adamw"])
def test_the_optimiser_is_one_kernel_there_with_the_steps_of_a_processor(kind):
    config = TrainingConfig(steps=1, optimizer=kind, weight_decay=0.1, learning_rate=0.01)
    layers = [nn.Linear(3, 4), nn.Linear(3, 4)]
    layers[1].load_state_dict(layers[0].state_dict())
    for layer, device in zip(layers, ("cpu", "cuda"), strict=True):
        optimizer = make_optimizer(layer.to(device), config)
        for number in range(3):
            layer(torch.full((2, 3), float(number), device=device)).square().sum().backward()
            optimizer.step()
            optimizer.zero_grad()
        assert {state["step"].device.type for state in optimizer.state.values()} == {device}
    torch.testing.assert_close(layers[1].weight.cpu(), layers[0].weight, rtol=1e-5, atol=1e-6)


def test_updates_can_be_compiled(tmp_path):
    pytest.importorskip("triton")
    run = trained(tmp_path, compile=True)
    assert run.report["training"]["updates"] == 4
