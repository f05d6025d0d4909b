"""The next row of a series: forecasts, each row from the one before.

    h(t) = body(x(1) .. x(t));    x^(t+1) = V h(t) + b, plus x(t) if `difference`;    loss: mean squared error

The last rows of a training window, `data.horizon` of them but at most half, are predicted as in a forecast, from rows
that are predicted themselves, so that training is for what is reported; the others from the rows before them.
With a season of s rows, x^ also has a share of the change to the row one season before, a (x(t+1-s) - x(t)), where a is
learned for each column. Training starts from the seasonal naive forecast, a = 1 and V = 0. In a forecast of several
rows each one is fed back. Columns are standardised by the training rows; all are forecast.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from heed.errors import ConfigError
from heed.evaluation.forecasts import Errors, Values, error_measures, error_report, last_value, seasonal_naive
from heed.evaluation.measures import Outcomes
from heed.models.base import SeriesEncoder
from heed.tasks.base.head_options import SeriesHead
from heed.tasks.base.report import counted, interval, with_interval
from heed.tasks.contracts import Batch, Draw, Facts, Head, Input
from heed.tasks.inputs.windows import Stretch, Windows, names_of
from heed.tasks.work import Work
from heed.visible import escaped

LONGEST = 100_000
"""Most rows of a forecast."""


class Forecaster(nn.Module):
    """A series encoder and a linear layer that predicts the next row."""

    def __init__(self, body: SeriesEncoder, num_columns: int, head: SeriesHead) -> None:
        super().__init__()
        self.body = body
        self.output = nn.Linear(body.d_output, num_columns)
        self.difference, self.season = head.difference, head.season
        if head.season is not None:
            self.seasonal = nn.Parameter(torch.ones(num_columns))
            nn.init.zeros_(self.output.weight)
            nn.init.zeros_(self.output.bias)

    def forward(self, values: Tensor, further: int = 0) -> Tensor:
        """Predict the next row after each row, and after `further` rows that are predicted themselves.

        From `(batch, length, columns)` to `(batch, length + further, columns)`.
        """
        said, states = self.read(values)
        rows = [said]
        for _ in range(further):
            said, states = self.read(said[:, -1:], states)
            rows.append(said)
        return torch.cat(rows, dim=1)

    def read(self, values: Tensor, states: Any = None) -> tuple[Tensor, Any]:
        """The next row after each row, and the states after them; `states` are those after earlier rows."""
        states, before = states or (None, values[:, :0])
        hidden, states = self.body.read(values, states)
        change: Tensor = self.output(hidden)
        if self.season is not None:
            known = torch.cat([before, values], dim=1)
            past = known[:, : max(0, known.shape[1] - self.season + 1)][:, -values.shape[1] :]
            count = past.shape[1]  # rows that have one a season before the next
            moved = past - values[:, values.shape[1] - count :]
            change = change + self.seasonal * pad(moved, (0, 0, values.shape[1] - count, 0))
            before = known[:, -self.season :]
        return values + change if self.difference else change, (states, before)


@dataclass(frozen=True)
class NextRow(Head):
    """The row after each row of a window; of a question, the rows that follow it."""

    options: ClassVar = SeriesHead
    names: ClassVar = "next"
    keywords: ClassVar[Mapping[str, Any]] = {"horizon": None}

    horizon: int | None = None
    """Rows to forecast; `data.horizon` by default."""

    def __post_init__(self) -> None:
        if self.horizon and not 1 <= self.horizon <= LONGEST:
            raise ConfigError(f"horizon is {self.horizon}, expected 1 to {LONGEST:,} rows")

    def settled(self, options: SeriesHead, given: dict[str, Any], work: Work) -> dict[str, Any]:
        assert isinstance(work.input, Windows)
        season = work.config.data.season
        known = isinstance(season, int) and 1 < season <= work.input.window // 2 and options.difference
        return options.model_dump() | ({"season": season} if known and "season" not in given else {})

    def build(self, body: Any, options: SeriesHead, facts: Facts) -> Forecaster:
        return Forecaster(body, len(facts.rows["columns"]), options)

    @property
    def asked_rows(self) -> int:
        """Rows to forecast."""
        rows: int = self.horizon or self.config.data.horizon
        return rows

    def encode(self, examples: Sequence[Stretch], input: Input | None = None) -> None:
        """Nothing: what follows is in the batch."""

    def collate(self, truths: None, batch: Batch, draw: Draw | None) -> Batch:
        """A training batch: the last rows are forecast; learned are those that have one a season before the next."""
        season = self.chosen.season or 1
        values, targets = batch.inputs["values"], batch.targets["rows"][:, season - 1 :]
        further = min(self.config.data.horizon, targets.shape[1] // 2)
        inputs = {"values": values[:, : values.shape[1] - further], "further": further}
        return replace(batch, inputs=inputs, targets={"rows": targets}, num_targets=targets.numel())

    def states(self, model: Forecaster, batch: Batch, carried: Any = None) -> Tensor:
        """The rows that follow each row, `(batch, rows, columns)`: in training the window, or else also a forecast."""
        states: Tensor = model(**{"further": self.asked_rows - 1, **batch.inputs})
        return states

    def loss(self, model: Forecaster, states: Tensor, batch: Batch, smoothing: float) -> Tensor:
        targets = batch.targets["rows"]
        total: Tensor = (states[:, -targets.shape[1] :].float() - targets).square().sum()
        return total

    def judge(self, model: Forecaster, states: Tensor, batch: Batch) -> Tensor:
        rows = batch.targets["rows"]
        known = ~rows.isnan()  # others are padding
        wrong = states[:, -self.asked_rows :][:, : rows.shape[1]].double() - rows
        squares, count = wrong.square().where(known, 0.0).sum((1, 2)), known.sum((1, 2)).double()
        return torch.stack([squares, torch.zeros_like(count), count], dim=1)

    def decode(self, model: Forecaster, states: Tensor, batch: Batch) -> Sequence[Tensor]:
        return [*states[:, -self.asked_rows :].double().cpu()]

    def predict(self, answer: Tensor, example: Any = None, input: Input | None = None) -> Values:  # type: ignore[override]
        assert isinstance(input, Windows) and input.standard is not None
        return input.standard.undo(answer.numpy())

    # Scores -------------------------------------------------------------------------------------------------------

    def measures(self, predictions: Sequence[Values], examples: Sequence[Stretch]) -> Sequence[Any]:
        return ()

    def outcomes(
        self, predictions: Sequence[Values], examples: Sequence[Stretch], input: Input, others: Any = None
    ) -> Outcomes:
        """Errors of the model, and in the report those of naive forecasts."""
        assert isinstance(input, Windows)
        horizon, season = self.config.data.horizon, self.config.data.season
        contexts, true = [one.values[: one.start] for one in examples], [one.values[one.start :] for one in examples]
        forecasts = {"model": predictions, "last value": [last_value(context, horizon) for context in contexts]}
        if isinstance(season, int):
            forecasts["seasonal naive"] = [seasonal_naive(context, horizon, season) for context in contexts]
        cut = {name: [f[: len(t)] for f, t in zip(made, true, strict=True)] for name, made in forecasts.items()}
        errors = error_measures(true, cut, input.columns)
        texts = [" ".join(f"{value:.6g}" for value in rows.flatten()) for rows in predictions]
        measures = [one for by in errors.values() for one in by["model"].values()]
        return Outcomes(tuple(texts), tuple(measures), report=partial(self._reported, errors, examples))

    def _reported(self, errors: Errors, examples: Sequence[Stretch], resamples: int) -> dict[str, Any]:
        """Errors of the model and of naive forecasts by column; of several series also those of each."""
        shown, data = error_report(errors, resamples), self.config.data
        report: dict[str, Any] = {"examples": len(examples), "columns": shown, "horizon": data.horizon}
        if isinstance(data.season, int):
            report["season"] = data.season
        if len(names := names_of(examples)) > 1:
            places = {name: [n for n, one in enumerate(examples) if one.origin == name] for name in names}
            report["series"] = {
                name: {
                    "forecasts": len(some),
                    "mae": {column: made["model"]["mae"].of(some).score() for column, made in errors.items()},
                }
                for name, some in places.items()
            }
        return report

    def report(self, scores: dict[str, Any]) -> list[str]:
        season = (
            f"; seasonal naive: {counted(scores['season'], 'row')} before (data.season)" if scores.get("season") else ""
        )
        lines = [f"  of up to {counted(scores['horizon'], 'row')} each (data.horizon){season}"]
        for column, shown in scores["columns"].items():
            lines.append(f"  {escaped(column)[:20]:<20} {'MAE':>32} {'RMSE':>32}   the model's MAE is lower by")
            for name, values in shown.items():
                both = " ".join(f"{with_interval(values[kind]):>32}" for kind in ("mae", "rmse"))
                missing = "" if name == "model" else "- (its MAE is almost 0)"
                gain = interval(values["gain"]) if "gain" in values else missing
                lines.append(f"    {name:<18} {both}   {gain}".rstrip())
        for name, shown in scores.get("series", {}).items():
            errors = ", ".join(f"{escaped(column)} {error:.4g}" for column, error in shown["mae"].items())
            lines.append(f"  {escaped(name)}: {counted(shown['forecasts'], 'forecast')}, MAE of the model: {errors}")
        return lines
