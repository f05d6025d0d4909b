"""Table: classify rows of numbers."""

from heed.tasks.base import ERRORS, JSON, TaskSpec

SPEC = TaskSpec(
    unit="row",
    summary="Classify rows of numbers.",
    example="flowers.csv",
    interfaces=("rows",),
    flags=(JSON, ERRORS),
    takes=(("rows", "{file}"),),
    uses=("heed predict {run} --input FILE", "heed evaluate {run}"),
    next_command="heed predict {run} --input FILE",
)
