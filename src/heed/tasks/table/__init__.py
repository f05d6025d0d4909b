"""Table: predict a label or a number of rows of numbers."""

from heed.tasks.base import ERRORS, JSON, TaskSpec

SPEC = TaskSpec(
    input="row",
    unit="row",
    summary="Predict a label or a number of rows of numbers.",
    example="flowers.csv",
    interfaces=("rows",),
    flags=(JSON, ERRORS),
    why_not={"look": "its network reads a whole row at once, so it has no steps, no gates and no attention"},
    takes=(("rows", "{file}"),),
    uses=("heed predict {run} --input FILE", "heed evaluate {run}"),
    next_command="heed predict {run} --input FILE",
)
