"""Optimisers by name."""

from __future__ import annotations

import torch
from torch import nn

from heed.config import TrainingConfig

__all__ = ["make_optimizer"]


def make_optimizer(model: nn.Module, config: TrainingConfig, device: torch.device) -> torch.optim.Optimizer:
    """Matrices decay, vectors (biases, norms) do not."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in parameters if p.dim() > 1], "weight_decay": config.weight_decay},
        {"params": [p for p in parameters if p.dim() <= 1], "weight_decay": 0.0},
    ]
    if config.optimizer == "sgd":
        return torch.optim.SGD(groups, lr=config.learning_rate)
    kind = torch.optim.AdamW if config.optimizer == "adamw" else torch.optim.Adam
    fused = device.type in ("cpu", "cuda")
    return kind(groups, lr=config.learning_rate, betas=config.betas, fused=fused)
