"""Predict the next step of a series, as a forward and a bidirectional network would that of a price.

Of a window of steps, the network gives at each place a guess of the following one. Inside the window, a bidirectional
network has already read that step; what it predicts is its own input. After the last step there is nothing to read. The
steps of a random walk are independent, so nothing can be predicted there; those of a trend are 0.8 of the step before
and noise, so 64 % of their variance can be predicted. New series are drawn for every update, so nothing is overfitted.
"""

from __future__ import annotations

import torch
from harness import Cell, Claim, Pair, Part, Plot, Results, Row, Verdict, cells, control, judge, main
from torch import Tensor, nn

from heed.layers import Recurrent

_WINDOW, _BATCH, _STEPS, _ASKED, _WIDTH = 20, 32, 250, 4000, 16
_KEPT = {"random walk": 0.0, "trend": 0.8}
"""The share of a step that the following one repeats; the rest is noise, and all steps have variance 1."""


class _Forecast(nn.Module):
    """A GRU over the steps of a walk `(batch, length, 1)`; at each place a guess of the next step."""

    def __init__(self, both: bool) -> None:
        super().__init__()
        self.layers = Recurrent(1, _WIDTH, cell="gru", bidirectional=both)
        self.output = nn.Linear(self.layers.d_output, 1)

    def forward(self, steps: Tensor) -> Tensor:
        guess: Tensor = self.output(self.layers(steps)[0])
        return guess


def _errors(model: _Forecast, kept: float, count: int, generator: torch.Generator) -> Tensor:
    """Mean squared error at each place of the window, as a share of that of the last value, `(window,)`.

    To predict the last value is to predict a step of 0. After the last place comes a step outside the window.
    """
    steps = torch.randn(count, _WINDOW + 1, 1, generator=generator)
    for place in range(_WINDOW):
        steps[:, place + 1] = kept * steps[:, place] + (1 - kept**2) ** 0.5 * steps[:, place + 1]
    following = steps[:, 1:]
    guess: Tensor = model(steps[:, :-1])
    return (guess - following).square().mean((0, 2)) / following.square().mean((0, 2))


def measure(cell: Cell) -> list[Row]:
    """Train one network on steps inside the window or on the one after it; the error on new series."""
    torch.manual_seed(cell.seed)
    generator = torch.Generator().manual_seed(cell.seed)
    places = slice(0, -1) if cell["future"] == "inside" else slice(-1, None)
    model, kept = _Forecast(cell["direction"] == "both"), _KEPT[cell["series"]]
    cell.fit(model, lambda _: _errors(model, kept, _BATCH, generator)[places].mean(), _STEPS, 0.01)
    with torch.no_grad():
        errors = _errors(model, kept, _ASKED, generator)
    return [{"error": float(errors[places].mean()), "after": float(errors[-1])}]


def decide(results: Results) -> Verdict:
    """The rule."""
    better = []
    for series in reversed(_KEPT):
        where = {"series": series, "future": "outside"}
        outside = Pair("error", {"direction": "forward"}, {"direction": "both"}, where)
        what = f"error of the step after the window ({series}), forward minus both directions"
        better.append(Part(what, outside.difference(results), "above", 0.02))
    return judge(("", better), ("when the series can be predicted", better[:1]))


_READ, _ASKED_FOR = {"future": "inside", "direction": "both"}, {"future": "outside", "direction": "forward"}

CLAIM = Claim(
    name="leak",
    sentence="A bidirectional network suits stock prediction.",
    varied=(
        "direction (forward, both; GRU of 16), future inside or outside a window of 20 steps, random walks and trends, "
        "whose steps repeat 0.8 of the step before"
    ),
    measured="squared error of the next step relative to that of the last value",
    rule=(
        "Holds if for the step after the window the error of the forward network minus that of both directions is "
        "above 0.02 on both series; holds only when the series can be predicted if this is so for trends alone. "
        "Otherwise does not hold here."
    ),
    literature="audits of leakage (Kapoor and Narayanan 2023)",
    finding=(
        "Inside its window a bidirectional network has read the answer (error 0.003). For the step after it, both "
        "directions predict a trend as well as one (0.37; the least is 0.36), and a random walk no better than the "
        "last value. The series are generated: no prices were predicted."
    ),
    grid=cells(series=tuple(_KEPT), direction=("forward", "both"), future=("inside", "outside")),
    measure=measure,
    decide=decide,
    checks=(
        control("error of both directions inside the window", "error", _READ, high=0.1),
        control("forward error after a random walk", "error", {"series": "random walk", **_ASKED_FOR}, 0.98),
        control(
            "forward error after a trend (0.36 is the least)", "error", {"series": "trend", **_ASKED_FOR}, high=0.4
        ),
    ),
    plots=tuple(
        Plot("error", f"error, {series}", "future", "direction", (1.0, "last value"), {"series": series})
        for series in _KEPT
    ),
)

if __name__ == "__main__":
    main(CLAIM)
