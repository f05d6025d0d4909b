"""The optimisers are torch's, step by step and to the bit."""

import subprocess
import sys

import pytest
import torch
from torch import nn

from heed.config import TrainingConfig
from heed.training.optimizer import make_optimizer


@pytest.mark.parametrize("kind", ["adamw", "adam", "sgd"])
def test_steps_are_those_of_torchs_class(kind):
    torch.manual_seed(0)
    ours, theirs = nn.Sequential(nn.Linear(5, 4), nn.Linear(4, 3)), nn.Sequential(nn.Linear(5, 4), nn.Linear(4, 3))
    theirs.load_state_dict(ours.state_dict())
    config = TrainingConfig(steps=1, optimizer=kind, learning_rate=0.1, weight_decay=0.2, betas=(0.8, 0.9))
    optimizer = make_optimizer(ours, config)
    matrices = [p for p in theirs.parameters() if p.dim() > 1]
    vectors = [p for p in theirs.parameters() if p.dim() <= 1]
    groups = [{"params": matrices, "weight_decay": 0.2}, {"params": vectors, "weight_decay": 0.0}]
    if kind == "sgd":
        reference = torch.optim.SGD(groups, lr=0.1)
    else:
        kinds = {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}
        reference = kinds[kind](groups, lr=0.1, betas=(0.8, 0.9), fused=True)
    for step in range(4):
        x = torch.randn(6, 5)
        for model, one in ((ours, optimizer), (theirs, reference)):
            hidden = model[0](x) if step == 2 else model(x)  # a parameter without a gradient stays
            hidden.square().sum().backward()
            for group in one.param_groups:
                group["lr"] = 0.1 / (step + 1)
            one.step()
            one.zero_grad()
        for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
            assert torch.equal(a, b) and a.grad is None
    for a, b in zip(ours.parameters(), theirs.parameters(), strict=True):
        kept, wanted = optimizer.state.get(a, {}), {k: v for k, v in reference.state[b].items() if v is not None}
        assert kept.keys() == wanted.keys() and all(torch.equal(kept[name], wanted[name]) for name in kept)


def test_moments_are_there_before_the_first_step_side_by_side():
    model = nn.Sequential(nn.Linear(5, 4), nn.Linear(4, 3))
    optimizer = make_optimizer(model, TrainingConfig(steps=1))
    first, second = (optimizer.state[layer.weight]["exp_avg"] for layer in model)
    assert second.data_ptr() - first.data_ptr() == first.numel() * first.element_size()
    assert not any(kept["exp_avg"].any() or kept["exp_avg_sq"].any() for kept in optimizer.state.values())
    assert not make_optimizer(model, TrainingConfig(steps=1, optimizer="sgd")).state


def test_training_does_not_import_the_compiler(tmp_path):
    program = f"""
import sys, heed
heed.train("translation", data="copy", steps=2, out={str(tmp_path / "run")!r}, quiet=True, settings={{
    "data.train": 50, "data.valid": 5, "data.test": 5, "training.threads": 1, "training.device": "cpu",
    "training.validate_every": 2, "evaluation.bootstrap": 5}})
assert "torch._dynamo" not in sys.modules
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
