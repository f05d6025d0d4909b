"""Tagging: give each word of a sentence a tag."""

from heed.tasks.base.spec import TaskSpec

SPEC = TaskSpec(
    summary="Give each word of a sentence a tag.",
    example="train.conll",
    num_files=(1, None),
    interfaces=("encoder",),
)
