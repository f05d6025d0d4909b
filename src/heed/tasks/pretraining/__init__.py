"""Pretraining: train an encoder on unlabelled text, by masked words and pairs of texts, for use in other tasks."""

from heed.tasks.base import ATTRIBUTION, BESIDE, CHOICE, JSON, NBEST, PIECES, Flag, TaskSpec

SPEC = TaskSpec(
    unit="document",
    summary="Pretrain a text encoder (BERT) on unlabelled text.",
    example="my_texts/",
    interfaces=("encoder",),
    per_token=True,
    framed=True,
    files="any number of files or folders",
    flags=(
        NBEST,
        JSON,
        CHOICE,
        Flag("predict", "next", bool, "Read pairs of texts: does the second follow the first?"),
        PIECES,
        ATTRIBUTION,
        BESIDE,
        Flag("look attribute", "pair", str, "A second text: show both, and whether it follows the first."),
    ),
    uses=(
        'heed predict {run} "The man went to the [MASK]."',
        "heed predict {run} --next TEXT TEXT",
        "heed look {run} TEXT",
        "heed evaluate {run}",
        "heed train classification FILE --from {run}",
    ),
    next_command='heed predict {run} "The man went to the [MASK]."',
    checkpoints="masked",
)
