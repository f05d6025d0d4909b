"""The scores of a forecast for people."""

from __future__ import annotations

from typing import Any

from heed.tasks.base.report import interval, plain
from heed.visible import escaped


def body(report: dict[str, Any]) -> list[str]:
    """The scores of one set."""
    lines = [f"  forecasts of {report['horizon']} rows from each of {report['examples']} rows on"]
    for column, shown in report["columns"].items():
        lines.append(f"  {escaped(column)[:20]:<20} {'MAE':>32} {'RMSE':>32}   MAE of the model is less by")
        for name, values in shown.items():
            scores = " ".join(f"{plain(values[kind]):>32}" for kind in ("mae", "rmse"))
            lines.append(f"    {name:<18} {scores}" + (f"   {interval(values['gain'])}" if "gain" in values else ""))
    return lines
