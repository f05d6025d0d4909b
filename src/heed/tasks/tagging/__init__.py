"""Tagging: give each word of a sentence a tag."""

from heed.tasks.base import ATTRIBUTION, BESIDE, ERRORS, GATES, JSON, PIECES, SORT, Flag, TaskSpec

SPEC = TaskSpec(
    unit="sentence",
    summary="Give each word of a sentence a tag.",
    example="train.conll",
    takes=(("tagged", "{file}"),),
    interfaces=("encoder",),
    per_token=True,
    flags=(
        JSON,
        SORT,
        Flag("predict", "columns", bool, "Read --input as a column file; write it with predicted tags.", served=False),
        ERRORS,
        ATTRIBUTION,
        BESIDE,
        *GATES,
        PIECES,
    ),
    pretrained=("google-bert/bert-base-cased", "google-bert/bert-base-multilingual-cased"),
    checkpoints="tags",
)
