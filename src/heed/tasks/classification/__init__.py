"""Classification: give texts labels."""

from heed.tasks.base.spec import TaskSpec

SPEC = TaskSpec(
    summary="Give texts labels.",
    example="reviews.tsv",
    num_files=(1, None),
    interfaces=("encoder",),
)
