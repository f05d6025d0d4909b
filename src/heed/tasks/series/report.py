"""The scores of forecasts as readable text."""

from __future__ import annotations

from typing import Any

from heed.tasks.base.report import counted, interval, plain
from heed.visible import escaped


def body(report: dict[str, Any]) -> list[str]:
    """The scores of one set."""
    lines = [f"  of up to {counted(report['horizon'], 'row')} each (data.horizon)"]
    for column, shown in report["columns"].items():
        lines.append(f"  {escaped(column)[:20]:<20} {'MAE':>32} {'RMSE':>32}   the model's MAE is lower by")
        for name, values in shown.items():
            scores = " ".join(f"{plain(values[kind]):>32}" for kind in ("mae", "rmse"))
            gain = (
                interval(values["gain"]) if "gain" in values else "" if name == "model" else "- (its MAE is almost 0)"
            )
            lines.append(f"    {name:<18} {scores}   {gain}".rstrip())
    return lines
