"""Optimisers by name."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.adam import adam
from torch.optim.sgd import sgd

from heed.config import TrainingConfig

__all__ = ["Optimizer", "make_optimizer"]


class Optimizer:
    """torch's own steps, by its functions: its class imports the compiler, more than a second of every start.

    Attributes:
        param_groups: Parameters under "params", and their "lr" and "weight_decay".
        state: What is kept of each parameter, under torch's names.
    """

    def __init__(self, groups: list[dict[str, Any]], kind: str, rate: float, betas: tuple[float, float]) -> None:
        self.param_groups: list[dict[str, Any]] = [{**group, "lr": rate} for group in groups]
        self.state: dict[nn.Parameter, dict[str, Tensor]] = {}
        self._kind = kind
        self._betas = betas

    def zero_grad(self) -> None:
        """Free all gradients."""
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.grad = None

    @torch.no_grad()
    def step(self) -> None:
        """Move every parameter that has a gradient."""
        for group in self.param_groups:
            parameters = [p for p in group["params"] if p.grad is not None]
            if not parameters:
                continue
            gradients = [p.grad for p in parameters]
            move = self._descend if self._kind == "sgd" else self._adam
            move(parameters, gradients, {name: group[name] for name in ("lr", "weight_decay")})

    def _descend(self, parameters: list[nn.Parameter], gradients: list[Tensor], group: dict[str, Any]) -> None:
        still: dict[str, Any] = {"momentum": 0.0, "dampening": 0.0, "nesterov": False, "maximize": False}
        sgd(parameters, gradients, [None] * len(parameters), **still, **group)  # type: ignore[arg-type]

    def _adam(self, parameters: list[nn.Parameter], gradients: list[Tensor], group: dict[str, Any]) -> None:
        fused = parameters[0].device.type in ("cpu", "cuda")
        for p in parameters:
            if p not in self.state:
                step = torch.zeros((), device=p.device if fused else None)
                self.state[p] = {"step": step, "exp_avg": torch.zeros_like(p), "exp_avg_sq": torch.zeros_like(p)}
        adam(
            parameters,  # type: ignore[arg-type]
            gradients,
            [self.state[p]["exp_avg"] for p in parameters],
            [self.state[p]["exp_avg_sq"] for p in parameters],
            [],
            [self.state[p]["step"] for p in parameters],
            fused=fused,
            decoupled_weight_decay=self._kind == "adamw",
            amsgrad=False,
            beta1=self._betas[0],
            beta2=self._betas[1],
            eps=1e-8,
            maximize=False,
            **group,
        )


def make_optimizer(model: nn.Module, config: TrainingConfig) -> Optimizer:
    """Matrices decay, vectors (biases, norms) do not."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in parameters if p.dim() > 1], "weight_decay": config.weight_decay},
        {"params": [p for p in parameters if p.dim() <= 1], "weight_decay": 0.0},
    ]
    return Optimizer(groups, config.optimizer, config.learning_rate, config.betas)
