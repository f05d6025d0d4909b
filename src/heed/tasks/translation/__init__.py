"""Translation: write a text for a text."""

from heed.tasks.base import ATTRIBUTION, BESIDE, GATES, OF_PAIRS, TARGET, WRITING, Flag, TaskSpec

SPEC = TaskSpec(
    unit="pair",
    summary="Write a text for a text: translation, dates, any two columns.",
    example="my.en my.yo",
    interfaces=("pair_decoder",),
    num_files=(1, 2),
    files="two parallel files, source first, or one with both sides",
    pretrained=("Helsinki-NLP/opus-mt-{source}-{target}",),
    few=100_000,
    checkpoints="written",
    takes=(("pairs", "{file}"), ("sentences", "{file} TRANSLATIONS")),
    flags=(
        *WRITING,
        *OF_PAIRS,
        Flag(
            "predict",
            "engine",
            str,
            "Program that runs the model; all but torch need heed export.",
            "torch",
            ("torch", "ctranslate2", "ctranslate2-int8"),
            served=False,
        ),
        Flag(
            "evaluate", "alignment", str, "Correct links, a line for each pair: score the run's links.", metavar="FILE"
        ),
        *TARGET,
        *GATES,
        ATTRIBUTION,
        BESIDE,
    ),
)
