"""Translation: write a text for a text."""

from heed.tasks.base.flags import JSON, NBEST
from heed.tasks.base.spec import Flag, TaskSpec

SPEC = TaskSpec(
    summary="Write a text for a text: translation, dates, anything in two columns.",
    example="my.en my.yo",
    interfaces=("pair_decoder",),
    num_files=(1, 2),
    files="two parallel files, source first, or one with both sides",
    flags=(
        NBEST,
        JSON,
        Flag("predict", "beam", int, "Beam size; the run's by default.", least=1),
        Flag("predict", "sample", bool, "Draw outputs instead of searching for the best.", default=False),
        Flag("predict", "temperature", float, "With --sample: below 1 sharper, above 1 flatter.", default=1.0),
        Flag("predict", "top-k", int, "With --sample: from this many best tokens only."),
        Flag("predict", "top-p", float, "With --sample: from the best holding this share."),
        Flag("predict", "seed", int, "With --sample: the same seed draws the same outputs.", default=1),
        Flag("predict", "prefix", str, "Every output begins with this text.", default=""),
        Flag("predict", "align", bool, "Add which source word each word looked at most.", default=False),
        Flag(
            "predict",
            "engine",
            ("torch", "ctranslate2", "ctranslate2-int8"),
            "What runs the model; others than torch need heed export.",
            default="torch",
        ),
        Flag("look", "target", str, "Look at this output instead of the model's own."),
        Flag("look", "beam", int, "Beam size; the run's by default.", least=1, keyword="beam_size"),
    ),
)
