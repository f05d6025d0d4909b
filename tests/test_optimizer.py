"""The optimisers are torch's, step by step and to the bit."""

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
