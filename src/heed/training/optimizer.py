"""Optimisers by name, and the schedules of their learning rate."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.adam import adam
from torch.optim.sgd import sgd

from heed.config import TrainingConfig
from heed.kernels import enabled


@dataclass(frozen=True)
class Schedule:
    """The schedule of a run's learning rate: a linear warm-up, then the decay until the last update.

    A plan that changes during a run changes the speed of the schedule, never the position in it: what was completed at
    the update `since` stays completed, and the rest is spread evenly over the updates that are left.
    """

    warmup: int  # update at which the rate reaches its peak
    total: int | None  # last update of the run; None if the rate does not depend on it
    since: int = 0  # update from which the present plan applies
    risen: float = 0.0  # share of the warm-up completed by then
    behind: float = 0.0  # share of the decay completed by then

    def rise(self, step: int) -> float:
        """The share of the warm-up that is completed at an update, from 0 to 1."""
        if step >= self.warmup:
            return 1.0
        return self.risen + (1.0 - self.risen) * (step - self.since) / (self.warmup - self.since)

    def decay(self, step: int) -> float:
        """The share of the decay that is completed at an update, from 0 to 1."""
        begun = max(self.since, self.warmup)
        if self.total is None or step <= begun:
            return self.behind
        return self.behind + (1.0 - self.behind) * min(1.0, (step - begun) / max(1, self.total - begun))

    def factor(self, kind: str, step: int) -> float:
        """The factor of the largest learning rate for an update; `step` counts from 1.

        - all: rises linearly from 0 over the warm-up;
        - constant: then 1;
        - inverse_sqrt: then sqrt(warmup / step) (Vaswani et al. 2017, section 5.3, up to the largest rate);
        - cosine: then half a cosine from 1 to 0 at `total` (Loshchilov and Hutter 2017, arXiv:1608.03983, no restarts).
        """
        if step <= self.warmup:
            return self.rise(step)
        if kind == "inverse_sqrt":
            return math.sqrt(max(1, self.warmup) / step)
        if kind == "cosine" and self.total is not None:
            return 0.5 * (1.0 + math.cos(math.pi * self.decay(step)))
        return 1.0


@dataclass(frozen=True)
class Group:
    """Parameters that are trained alike."""

    parameters: Sequence[nn.Parameter]  # parameters in no group are trained with the full learning rate
    rate: float = 1.0  # factor of the learning rate; 0 freezes them
    since: int = 0  # update from which they are trained; before it they are frozen
    name: str = ""  # display name, needed where they are frozen at first


class Optimizer:
    """torch's optimisers by their functional forms: their classes import the compiler, which takes over a second.

    Attributes:
        param_groups: Parameters under "params", and their "lr" and "weight_decay".
        state: State of each parameter, under torch's names.
    """

    def __init__(self, groups: list[dict[str, Any]], kind: str, rate: float, betas: tuple[float, float]) -> None:
        self.param_groups: list[dict[str, Any]] = [{**group, "lr": rate} for group in groups]
        self.state: dict[nn.Parameter, dict[str, Tensor]] = {}
        self._kind = kind
        self._betas = betas
        for group in self.param_groups if kind != "sgd" else []:
            self._prepare(group["params"])

    def _prepare(self, parameters: list[nn.Parameter]) -> None:
        """Allocate zero moments contiguously before the first batch, so that batches do not fragment their memory."""
        if not parameters:
            return
        like, sizes = parameters[0].detach(), [p.numel() for p in parameters]
        moments = [like.new_zeros(sum(sizes)).split(sizes) for _ in range(2)]
        for p, average, square in zip(parameters, *moments, strict=True):
            step = torch.zeros((), device=p.device if _is_fused(p) else None)
            self.state[p] = {"step": step, "exp_avg": average.view_as(p), "exp_avg_sq": square.view_as(p)}

    def zero_grad(self) -> None:
        """Free all gradients."""
        for group in self.param_groups:
            for parameter in group["params"]:
                parameter.grad = None

    @property
    def skips(self) -> bool:
        """Whether `step` can be asked not to change anything by a number that only the device knows."""
        return self._kind != "sgd" and all(_is_fused(p) for group in self.param_groups for p in group["params"])

    @torch.no_grad()
    def step(self, skip: Tensor | None = None) -> None:
        """Update every parameter that has a gradient; none if `skip`, a single number on the device, is 1."""
        for group in self.param_groups:
            parameters = [p for p in group["params"] if p.grad is not None]
            if not parameters:
                continue
            gradients, rates = [p.grad for p in parameters], {name: group[name] for name in ("lr", "weight_decay")}
            if self._kind == "sgd":
                plain: dict[str, Any] = {"momentum": 0.0, "dampening": 0.0, "nesterov": False, "maximize": False}
                sgd(parameters, gradients, [None] * len(parameters), **plain, **rates)
            else:
                self._adam(parameters, gradients, rates, skip)

    def try_step(self) -> None:
        """A step that takes the usual time and changes nothing: all gradients and moments must be zero."""
        groups = self.param_groups
        self.param_groups = [{**group, "lr": 0.0} for group in groups]
        self.step()
        self.param_groups = groups
        for state in self.state.values():
            state["step"].zero_()

    def _adam(self, parameters: list[Any], gradients: list[Any], rates: dict[str, Any], skip: Tensor | None) -> None:
        states = [self.state[p] for p in parameters]
        averages, squares, steps = ([state[key] for state in states] for key in ("exp_avg", "exp_avg_sq", "step"))
        named: dict[str, Any] = {"beta1": self._betas[0], "beta2": self._betas[1], "eps": 1e-8, "maximize": False}
        named |= {"fused": _is_fused(parameters[0]), "decoupled_weight_decay": self._kind == "adamw", "amsgrad": False}
        adam(parameters, gradients, averages, squares, [], steps, found_inf=skip, **named, **rates)


def clip_gradient(model: nn.Module, clip: float | None) -> Tensor:
    """Scale the gradient down to the norm `clip`, if given; return its norm before, `()`."""
    return nn.utils.clip_grad_norm_(model.parameters(), clip or math.inf)


def _is_fused(parameter: nn.Parameter) -> bool:
    """True if torch has a fused Adam for the parameter's device, and fast kernels are on."""
    return enabled() and parameter.device.type in ("cpu", "cuda")


def make_optimizer(model: nn.Module, config: TrainingConfig, rates: Sequence[Group] = ()) -> Optimizer:
    """Make the optimiser: weight decay for matrices only (not biases and norms), a rate or freezing for each group."""
    for group in rates:
        for parameter in group.parameters if group.rate == 0 else ():
            parameter.requires_grad_(False)
    factors = {parameter: group.rate for group in rates for parameter in group.parameters}
    parameters = [p for p in model.parameters() if p.requires_grad]
    groups = []
    for factor in dict.fromkeys([1.0, *filter(None, factors.values())]):
        chosen = [p for p in parameters if factors.get(p, 1.0) == factor]
        for decay, matrices in ((config.weight_decay, True), (0.0, False)):
            some = [p for p in chosen if (p.dim() > 1) == matrices]
            groups.append({"params": some, "weight_decay": decay, "factor": factor})
    return Optimizer(groups, config.optimizer, config.learning_rate, config.betas)
