"""Language modelling: continue, rank and score texts."""

from heed.tasks.base import ATTRIBUTION, BESIDE, CHOICE, UNITS, WRITING, Flag, TaskSpec

SPEC = TaskSpec(
    unit="document",
    summary="Continue, rank and score texts.",
    example="my_texts/",
    interfaces=("language_model",),
    files="any number of files or folders",
    takes=(("sentences", "{file}"),),
    checkpoints="next_token",
    flags=(
        *WRITING,
        Flag("predict", "repetition-penalty", float, "Above 1: tokens that occurred before become less likely.", 1.0),
        Flag("predict", "stop", str, r"End the output before this text (\n: line break); repeatable.", several=True),
        CHOICE,
        Flag("predict", "end", bool, "With --choice: also count the end token after each choice."),
        Flag("predict", "score", bool, "Score every token of the text instead of generating."),
        ATTRIBUTION,
        BESIDE,
        UNITS,
        Flag("look", "given", bool, "Show how the text is read; generate nothing."),
        Flag("look", "words", bool, "Show whole words."),
        Flag("look beams", "length", int, "Largest number of tokens to generate; 20 by default.", limits=(1, 1_000)),
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
