"""Rating: rate texts with a number."""

from heed.tasks.base import Flag, TaskSpec

SPEC = TaskSpec(
    summary="Rate texts by a number.",
    example="reviews.ratings",
    interfaces=("encoder",),
    flags=(Flag("predict", "digits", int, "Digits after the point.", default=2, least=0),),
)
