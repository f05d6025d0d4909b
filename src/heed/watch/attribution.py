"""Attribution: how much each part of an input adds to a score of the model, by gradients or by leaving parts out.

The score is any scalar of one input: a label's logit, the log-probability of an output, a difference of two. For token
vectors x and a baseline b, with f the score:

grad:        |df/dx_i|                            the norm, (L,)
gradxinput:  sum(x_i * df/dx_i)
ig:          sum((x_i - b_i) * mean over t of df/dx_i at b + t (x - b)),   t = (k - 1/2) / steps
loo:         f(x) - f(x without part i)

The values of ig add up to f(x) - f(b) (completeness); the number of steps is doubled until their error is at most 1 %
of the sum of their absolute values. The difference is no scale: it may vanish where single words add and take much.

Gradients with respect to the vectors of several inputs at once need no hook: a virtual embedding table has a row for
each vector of each input, after the rows of the real one, and the model reads their numbers as tokens. So models that
regroup their input (a hierarchical network reads sentences of similar length together) need no special case.

Source: Simonyan et al. 2014, arXiv:1312.6034 (grad); Shrikumar et al. 2016, arXiv:1605.01713 (gradxinput);
Sundararajan et al. 2017, arXiv:1703.01365 (ig); Li et al. 2016, arXiv:1612.08220 (loo).
Differs from Sundararajan et al.: the integral is a sum over midpoints, which is as exact with half the steps.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn
from torch.func import functional_call

from heed.errors import ConfigError, suggest

METHODS = {
    "ig": "integrated gradients",
    "grad": "size of the gradient",
    "gradxinput": "gradient times input",
    "loo": "leave-one-out",
}
"""Methods by name, with the names shown."""
BASELINES = ("mean", "zero", "unknown")
"""What stands in for a token: the mean of all vectors (the default), zeros, or the vector of the unknown token. Zeros
have no direction, so a layer norm makes the score jump there: of a GPT the values were off by 31 % after 400 steps."""
OPTIONS = {"baseline": ("ig",), "steps": ("ig",), "without": ("loo",)}
"""Options, with the methods that read them."""
LEFT_OUT = -1
"""In place of a token's number: the token is left out."""
_STEPS, _MAX_STEPS = 25, 400
"""Steps of the integral: of the first try, and the maximum."""
_EXACT = 0.01
"""Completeness error that ends the doubling, as a share of the sum of the absolute values."""
_USELESS = 0.1
"""Completeness error, as such a share, above which the values mean nothing."""
_POSITIONS = 8_192
"""Maximum number of token positions that are read in one pass."""
_PIXELS = 131_072
"""Maximum number of pixels that are read in one pass."""


def check_options(method: str, options: Mapping[str, Any], readers: Mapping[str, Sequence[str]] = OPTIONS) -> None:
    """Refuse options that a method would not read; `options` are those of a call, None where omitted.

    Raises:
        ConfigError: There is no such method, or it does not read an option that was passed.
    """
    if method not in METHODS:
        raise ConfigError(f"unknown attribution {method!r}{suggest(method, METHODS)}")
    for name, value in options.items():
        if value is not None and method not in readers[name]:
            methods = " and ".join(map(repr, readers[name]))
            raise ConfigError(f"{name} {value!r} has no effect on method {method!r}; it is for {methods}")


class Inputs(ABC):
    """One input of L vectors, and a score of the model that any vectors in their place have."""

    model: nn.Module
    max_positions: int  # positions that are read in one pass

    @property
    @abstractmethod
    def vectors(self) -> Tensor:
        """The input, `(L, d)`."""

    @abstractmethod
    def of_vectors(self, vectors: Tensor) -> Tensor:
        """The scores of `(N, L, d)` vectors in place of the input's, `(N,)`, differentiable in the vectors."""

    @abstractmethod
    def baseline(self, kind: str) -> Tensor:
        """The vector that stands in for a position, `(d,)`, or those for each, `(L, d)`.

        Raises:
            ConfigError: There is no such baseline.
        """

    def gradients(self, vectors: Tensor) -> tuple[Tensor, Tensor]:
        """The scores of `(N, L, d)` vectors, `(N,)`, and their gradients, `(N, L, d)`."""
        scores, gradients = [], []
        with torch.enable_grad(), differentiable(vectors):
            for some in vectors.split(self.at_once):
                leaves = some.detach().requires_grad_()
                score = self.of_vectors(leaves)
                gradients.append(torch.autograd.grad(score.sum(), leaves)[0])
                scores.append(score.detach())
        return torch.cat(scores), torch.cat(gradients)

    @property
    def at_once(self) -> int:
        """Inputs that are read in one pass."""
        return max(1, self.max_positions // max(1, len(self.vectors)))


@dataclass(frozen=True, eq=False)
class Picture(Inputs):
    """A picture, whose pixels are the positions, and a score of the model that any picture has."""

    model: nn.Module
    pixels: Tensor  # `(channels, height, width)`, normalised
    score: Callable[[Tensor], Tensor]  # of pictures `(N, channels, height, width)`, `(N,)`
    max_positions = _PIXELS

    @property
    def vectors(self) -> Tensor:
        return self.pixels.flatten(1).T

    def of_vectors(self, vectors: Tensor) -> Tensor:
        self.model.eval()
        return self.score(vectors.transpose(1, 2).unflatten(2, self.pixels.shape[1:])).float()

    def baseline(self, kind: str) -> Tensor:
        """The mean colour of the picture, or zeros, the mean of the training pictures."""
        if kind not in ("mean", "zero"):
            raise ConfigError(f"unknown baseline {kind!r} for a picture{suggest(kind, ('mean', 'zero'))}")
        colour = self.vectors.mean(0)
        return colour if kind == "mean" else torch.zeros_like(colour)


@dataclass(frozen=True, eq=False)
class Scored(Inputs):
    """One input of L tokens, and a score of the model that any tokens in their place have."""

    model: nn.Module
    table: str  # name of the embedding table's parameter in the model, such as "body.inputs.embedding.weight"
    tokens: Tensor  # `(L,)`
    # from the model and tokens `(N, L)`, `LEFT_OUT` for those left out, to N scores `(N,)`
    score: Callable[[nn.Module, Tensor], Tensor]
    unknown: int | None = None  # the unknown token, if the vocabulary has one
    fixed: Tensor | None = None  # `(L,)`, True for tokens that stay as they are (masks, separators), or None
    max_positions = _POSITIONS

    @property
    def vectors(self) -> Tensor:
        """The tokens' vectors, `(L, d)`."""
        return self._weight[self.tokens]

    @property
    def _weight(self) -> Tensor:
        return self.model.get_parameter(self.table).detach()

    def baseline(self, kind: str) -> Tensor:
        if kind not in BASELINES:
            raise ConfigError(f"unknown baseline {kind!r}{suggest(kind, BASELINES)}")
        if kind == "unknown":
            if self.unknown is None:
                raise ConfigError("baseline is 'unknown', but this vocabulary has no unknown token; use zero or mean")
            return self._weight[self.unknown]
        return self._weight.mean(0) if kind == "mean" else torch.zeros_like(self._weight[0])

    @torch.no_grad()
    def of_tokens(self, tokens: Tensor) -> Tensor:
        """The scores of `(N, L)` tokens in place of those of the input, `(N,)`."""
        self.model.eval()
        return torch.cat([self.score(self.model, some).float() for some in tokens.split(self.at_once)])

    def of_vectors(self, vectors: Tensor) -> Tensor:
        self.model.eval()
        table = self._weight
        rows = torch.cat([table, vectors.flatten(0, 1).to(table.dtype)])
        tokens = len(table) + torch.arange(vectors.shape[0] * vectors.shape[1], device=table.device)
        parameters = {f"model.{self.table}": rows}
        # A tied output layer keeps the real table.
        tokens = tokens.view(vectors.shape[:2])
        if self.fixed is not None:
            tokens = torch.where(self.fixed, self.tokens, tokens)
        scores: Tensor = functional_call(_Call(self.model, self.score), parameters, (tokens,), tie_weights=False)
        return scores.float()


class _Call(nn.Module):
    """A score of a model as a module, whose parameters can be replaced for one call."""

    def __init__(self, model: nn.Module, score: Callable[[nn.Module, Tensor], Tensor]) -> None:
        super().__init__()
        self.model = model
        self._score = score

    def forward(self, tokens: Tensor) -> Tensor:
        return self._score(self.model, tokens)


def differentiable(tensor: Tensor) -> AbstractContextManager[object]:
    """Context manager in which recurrent networks in evaluation mode have gradients: on a GPU, without cuDNN.

    cuDNN's backward pass of recurrent networks works in training mode only.
    """
    return torch.backends.cudnn.flags(enabled=False) if tensor.device.type == "cuda" else nullcontext()


@dataclass(frozen=True, eq=False)
class Attribution:
    """The contribution of each token, or each part, to a score."""

    method: str
    values: Tensor  # `(L,)`, or for leave-one-out a value for each part, in float64
    score: float  # of the input
    baseline_score: float | None = None  # of the baseline, for integrated gradients
    steps: int | None = None  # of the integral
    without: Literal["deleted", "unknown", "mean"] | None = None  # what leave-one-out does

    @property
    def error(self) -> float | None:
        """How far the values of integrated gradients are from adding up to the difference of the scores."""
        if self.baseline_score is None:
            return None
        return abs(float(self.values.sum()) - (self.score - self.baseline_score))

    @property
    def is_exact(self) -> bool:
        """True if the values add up to the difference, to 1 % of the sum of their absolute values."""
        return (self.error or 0.0) <= _EXACT * float(self.values.abs().sum())

    @property
    def note(self) -> str:
        """The method, with its score and error, as a line."""
        if self.baseline_score is not None:
            error, whole = self.error or 0.0, float(self.values.abs().sum())
            warning = ""
            if not self.is_exact:
                verdict = (
                    "far too much for the values to mean anything: use leave-one-out (loo)"
                    if error > _USELESS * whole
                    else "more than 1 %, so that small values may be wrong"
                )
                share = f"{error / whole:.2g} times" if error > whole > 0 else f"{error / (whole or 1.0):.1%} of"
                warning = f", which is {share} the sum of their absolute values, {verdict}" if whole else f": {verdict}"
            return (
                f"{METHODS[self.method]}: score {self.score:.4f}, of the baseline {self.baseline_score:.4f}; the "
                f"values add up to the difference with an error of {error:.2g} ({self.steps} steps){warning}"
            )
        replacement = {"unknown": "replaced by the unknown token", "mean": "replaced by the mean"}
        how = "" if self.without is None else f", each {replacement.get(self.without, self.without)}"
        return f"{METHODS[self.method]}{how}: score {self.score:.4f}"


def attribute(scored: Inputs, method: str, *, baseline: str = "mean", steps: int | None = None) -> Attribution:
    """Attribute a score to each token, or pixel, by a method that uses gradients: "grad", "gradxinput" or "ig".

    Args:
        scored: The input and its score.
        method: A name of `METHODS`.
        baseline: A name of `BASELINES`, for integrated gradients.
        steps: Steps of the integral; by default as many as completeness needs.

    Raises:
        ConfigError: There is no such method or baseline.
    """
    vectors = scored.vectors
    if method == "ig":
        return _integrated(scored, vectors, scored.baseline(baseline).expand_as(vectors), steps)
    if method not in ("grad", "gradxinput"):
        raise ConfigError(f"unknown attribution {method!r}{suggest(method, METHODS)}")
    scores, gradients = scored.gradients(vectors.unsqueeze(0))
    gradient = gradients[0].double()
    values = gradient.norm(dim=1) if method == "grad" else (gradient * vectors).sum(1)
    return Attribution(method, values.cpu(), float(scores[0]))


def _integrated(scored: Inputs, vectors: Tensor, base: Tensor, steps: int | None) -> Attribution:
    with torch.no_grad():
        score, without = scored.of_vectors(torch.stack([vectors, base])).tolist()
    number = steps or _STEPS
    while True:
        middles = (torch.arange(number, device=vectors.device) + 0.5) / number
        total = torch.zeros_like(vectors, dtype=torch.float64)
        for some in middles.split(scored.at_once):
            total += scored.gradients(base + some[:, None, None] * (vectors - base))[1].double().sum(0)
        values = ((vectors - base).double() * total / number).sum(1)
        attribution = Attribution("ig", values.cpu(), score, without, number)
        if steps is not None or attribution.is_exact or 2 * number > _MAX_STEPS:
            return attribution
        number *= 2


def leave_one_out(
    scored: Inputs, parts: Sequence[Sequence[int]], how: Literal["deleted", "unknown", "mean"] = "deleted"
) -> Attribution:
    """The fall of a score for each part of the input that is left out, or replaced.

    Args:
        scored: The input and its score.
        parts: The positions of each part (the tokens of a word, the pixels of a patch).
        how: Whether tokens are deleted, or replaced by the unknown token or by the mean of all tokens' vectors. Of a
            picture nothing can be deleted.

    Raises:
        ConfigError: The vocabulary has no unknown token.
    """
    vectors = scored.vectors
    inside = torch.zeros(1 + len(parts), len(vectors), dtype=torch.bool, device=vectors.device)
    for row, part in enumerate(parts, start=1):
        inside[row, list(part)] = True
    if how == "deleted" and isinstance(scored, Scored):
        scores = scored.of_tokens(scored.tokens.where(~inside, LEFT_OUT))
    else:
        with torch.no_grad():
            other = scored.baseline(how)
            each = (torch.where(some.unsqueeze(2), other, vectors) for some in inside.split(scored.at_once))
            scores = torch.cat([scored.of_vectors(some) for some in each])
    whole = scores[0].double()
    return Attribution("loo", (whole - scores[1:].double()).cpu(), float(whole), without=how)
