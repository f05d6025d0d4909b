"""Translation: write a text for a text."""

from heed.tasks.base import ATTRIBUTION, BESIDE, ENGINE, GATES, LOOK_BEAM, NO_REPEAT, TARGET, WRITING, Flag, TaskSpec

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
        NO_REPEAT,
        Flag("predict", "to", str, "Language to write; data.target_language by default.", keyword="target_language"),
        Flag("predict", "source-language", str, "Language of the input; data.source_language by default."),
        Flag("predict", "prefix", str, "Begin every output with this text.", default=""),
        Flag("predict", "align", bool, "Add links i-j from source word i to output word j.", default=False),
        ENGINE,
        Flag(
            "evaluate", "alignment", str, "Correct links, a line for each pair: score the run's links.", metavar="FILE"
        ),
        *TARGET,
        *GATES,
        ATTRIBUTION,
        BESIDE,
        LOOK_BEAM,
    ),
)
