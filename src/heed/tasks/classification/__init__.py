"""Classification: give texts labels."""

from heed.tasks.base import ATTRIBUTION, BESIDE, ERRORS, GATES, JSON, NBEST, PIECES, SORT, TaskSpec

SPEC = TaskSpec(
    unit="text",
    summary="Give texts labels.",
    example="reviews.tsv",
    interfaces=("encoder",),
    flags=(NBEST, JSON, SORT, ERRORS, ATTRIBUTION, BESIDE, *GATES, PIECES),
    takes=(("labelled", "{file}"),),
    pretrained=("google-bert/bert-base-uncased", "google-bert/bert-base-multilingual-cased"),
    checkpoints="label",
)
