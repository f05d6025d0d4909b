"""Series: forecast series of numbers."""

from heed.tasks.base import UNITS, Flag, TaskSpec

SPEC = TaskSpec(
    input="columns",
    unit="row",
    scored_unit="forecast",
    summary="Forecast series of numbers.",
    example="sales.csv",
    interfaces=("series",),
    flags=(Flag("predict", "horizon", int, "Rows to forecast; data.horizon by default.", limits=(1, 100_000)), UNITS),
    uses=("heed predict {run} --input FILE", "heed evaluate {run}"),
    next_command="heed predict {run} --input FILE",
)
