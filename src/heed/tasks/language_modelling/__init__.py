"""Language modelling: continue, rank and score texts."""

from heed.tasks.base.flags import BEAM, JSON, LENGTH, LOOK_BEAM, NBEST, SAMPLING
from heed.tasks.base.spec import Flag, TaskSpec

SPEC = TaskSpec(
    unit="document",
    summary="Continue, rank and score texts.",
    example="my_texts/",
    interfaces=("language_model",),
    files="any number of files or folders",
    takes=(("sentences", "{file}"),),
    architectures=("GPT2LMHeadModel", "GPT2Model"),
    flags=(
        NBEST,
        JSON,
        BEAM,
        *SAMPLING,
        Flag("predict", "repetition-penalty", float, "Above 1: tokens read or written before are less likely.", 1.0),
        LENGTH,
        Flag("predict", "stop", str, r"The output ends before this text (\n: line break); repeatable.", several=True),
        Flag("predict", "choice", str, "A continuation to rank instead of writing; repeatable.", several=True),
        Flag("predict", "choices", str, "A file of continuations to rank, one a line."),
        Flag("predict", "end", bool, "With --choice: the end token after a choice counts too.", default=False),
        Flag("predict", "score", bool, "Score every token of the text instead of writing.", default=False),
        LOOK_BEAM,
        Flag("look", "given", bool, "Look at the text alone, and write nothing.", default=False),
        Flag("look", "words", bool, "Show whole words, not the tokens that the model reads.", default=False),
        Flag("look", "length", int, "Largest number of tokens to write; 20 by default.", least=1),
    ),
    uses=(
        "heed predict {run} PROMPT",
        "heed predict {run} PROMPT --choice TEXT --choice TEXT",
        "heed predict {run} TEXT --score",
        "heed look {run} PROMPT",
        "heed evaluate {run}",
    ),
    next_command="heed predict {run} PROMPT",
)
