"""Forecaster: a series encoder and a linear layer that predicts the next row."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from heed.models.base import SeriesEncoder


class Forecaster(nn.Module):
    """A series encoder and a linear layer that predicts the next row."""

    def __init__(self, body: SeriesEncoder, num_columns: int, difference: bool) -> None:
        super().__init__()
        self.body = body
        self.output = nn.Linear(body.d_output, num_columns)
        self.difference = difference

    def forward(self, values: Tensor) -> Tensor:
        """Predict the next row after each row: `(batch, length, columns)` to the same shape."""
        return self.read(values)[0]

    def read(self, values: Tensor, states: Any = None) -> tuple[Tensor, Any]:
        """As `forward`, starting from the states after earlier rows; also returns the states after these rows."""
        hidden, states = self.body.read(values, states)
        change = self.output(hidden)
        said: Tensor = values + change if self.difference else change
        return said, states

    @torch.no_grad()
    def forecast(self, values: Tensor, horizon: int) -> Tensor:
        """Forecast `(batch, horizon, columns)` from `(batch, length, columns)`, feeding each forecast row back."""
        said, states = self.read(values)
        rows = [said[:, -1:]]
        while len(rows) < horizon:
            said, states = self.read(rows[-1], states)
            rows.append(said)
        return torch.cat(rows, dim=1)
