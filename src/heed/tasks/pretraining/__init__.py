"""Pretraining: learn from unlabelled text, by masked words and by pairs of texts, what other tasks start from."""

from heed.tasks.base.flags import JSON, NBEST, PIECES
from heed.tasks.base.spec import Flag, TaskSpec

SPEC = TaskSpec(
    unit="document",
    summary="Learn from unlabelled text what other tasks start from (BERT).",
    example="my_texts/",
    interfaces=("encoder",),
    per_token=True,
    files="any number of files or folders",
    flags=(
        NBEST,
        JSON,
        Flag("predict", "choice", str, "A word to rank at the mask instead of searching; repeatable.", several=True),
        Flag("predict", "next", bool, "The texts are pairs: does the second follow the first?", default=False),
        PIECES,
        Flag("look", "pair", str, "A second text: look at both, and whether it follows the first."),
    ),
    uses=(
        'heed predict {run} "The man went to the [MASK]."',
        "heed predict {run} --next TEXT TEXT",
        "heed look {run} TEXT",
        "heed evaluate {run}",
        "heed train classification FILE --from {run}",
    ),
    next_command='heed predict {run} "The man went to the [MASK]."',
    architectures=(
        "ForPreTraining",
        "ForMaskedLM",
        "ForNextSentencePrediction",
        "BertModel",
        "RobertaModel",
    ),
)
