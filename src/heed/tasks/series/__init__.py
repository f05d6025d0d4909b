"""Series: forecast series of numbers."""

from heed.tasks.base.spec import TaskSpec

SPEC = TaskSpec(
    summary="Forecast series of numbers.",
    example="sales.csv",
    num_files=(1, None),
    interfaces=("series",),
    next_command="heed predict {run} --input FILE",
)
