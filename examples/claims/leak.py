"""Predict the next step of a random walk, as a forward and a bidirectional network would a price.

Of a window of steps, the network gives at each place a guess of the following one. Inside the window, a bidirectional
network has already read that step; what it predicts is its own input. After the last step there is nothing to read, and
nothing to predict either: the steps are independent. New walks are drawn for every update, so nothing is overfitted.
"""

from __future__ import annotations

import torch
from harness import Cell, Claim, Plot, Results, Row, Verdict, cells, main
from torch import Tensor, nn

from heed.layers import Recurrent

_WINDOW, _BATCH, _STEPS, _ASKED, _WIDTH = 20, 32, 250, 4000, 16


class _Forecast(nn.Module):
    """A GRU over the steps of a walk `(batch, length, 1)`; at each place a guess of the next step."""

    def __init__(self, both: bool) -> None:
        super().__init__()
        self.layers = Recurrent(1, _WIDTH, cell="gru", bidirectional=both)
        self.output = nn.Linear(self.layers.d_output, 1)

    def forward(self, steps: Tensor) -> Tensor:
        guess: Tensor = self.output(self.layers(steps)[0])
        return guess


def _errors(model: _Forecast, count: int, generator: torch.Generator) -> Tensor:
    """Mean squared error at each place of the window, as a share of that of the last value, `(window,)`.

    To predict the last value is to predict a step of 0. After the last place comes a step outside the window.
    """
    steps = torch.randn(count, _WINDOW + 1, 1, generator=generator)
    following = steps[:, 1:]
    guess: Tensor = model(steps[:, :-1])
    return (guess - following).square().mean((0, 2)) / following.square().mean((0, 2))


def measure(cell: Cell) -> list[Row]:
    """Train one network on steps inside the window or on the one after it; the error on new walks."""
    torch.manual_seed(cell.seed)
    generator = torch.Generator().manual_seed(cell.seed)
    places = slice(0, -1) if cell["future"] == "inside" else slice(-1, None)
    model = _Forecast(cell["direction"] == "both")
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(_STEPS // 10 if cell.quick else _STEPS):
        optimizer.zero_grad()
        _errors(model, _BATCH, generator)[places].mean().backward()
        optimizer.step()
    with torch.no_grad():
        errors = _errors(model, _ASKED, generator)
    return [{"error": float(errors[places].mean()), "after": float(errors[-1])}]


def decide(results: Results) -> Verdict:
    """The rule."""
    inside = results.mean("error", direction="both", future="inside")
    outside = {one: results.mean("error", direction=one, future="outside") for one in ("forward", "both")}
    what = "error of both directions relative to that of the last value, "
    if outside["both"].high < 0.95:
        return Verdict("holds", outside["both"], what + "future outside the window")
    if inside.high < 0.5 and min(one.high for one in outside.values()) >= 0.98:
        return Verdict("does not hold here", outside["both"], what + "future outside the window")
    return Verdict("holds only", inside, what + "future inside the window", "when the window contains the future")


CLAIM = Claim(
    name="leak",
    sentence="A bidirectional network suits stock prediction.",
    varied=("direction (forward, both; GRU of 16), future inside or outside a window of 20 steps, on random walks"),
    measured="squared error of the next step relative to that of the last value",
    rule=(
        "Does not hold here if with the future inside the window both directions are below 0.5 and with it outside no "
        "network is below 0.98. Holds if with the future outside both directions are below 0.95. Otherwise holds only "
        "when the window contains the future."
    ),
    literature="audits of leakage (Kapoor and Narayanan 2023)",
    controls="random walks, where nothing can be predicted",
    finding=(
        "On a random walk the bidirectional network looks superb as long as its window contains the answer. Asked for "
        "the step after the window it knows no more than the last value. Whoever predicts should check that nothing "
        "later was read."
    ),
    grid=cells(direction=("forward", "both"), future=("inside", "outside")),
    measure=measure,
    decide=decide,
    plots=(
        Plot("error", "error relative to the last value", "future", "direction", (1.0, "last value")),
        Plot("after", "same networks, step after the window", "future", "direction", (1.0, "last value")),
    ),
)

if __name__ == "__main__":
    main(CLAIM)
