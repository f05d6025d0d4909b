"""Table: give rows of numbers labels."""

from heed.tasks.base.spec import TaskSpec

SPEC = TaskSpec(
    summary="Give rows of numbers labels.",
    example="flowers.csv",
    num_files=(1, None),
    interfaces=("rows",),
    next_command="heed predict {run} --input FILE",
)
