"""Translation: write a text for a text: pairs of sentences, dates, anything in two columns."""

from heed.tasks.base.spec import TaskSpec

SPEC = TaskSpec(
    summary="Write a text for a text: pairs of sentences, dates, anything in two columns.",
    example="my.en my.yo",
    num_files=(1, 2),
    interfaces=("pair_decoder",),
)
