"""Summarisation: write a short text for a long one."""

from heed.tasks.base import (
    ATTRIBUTION,
    BEAM,
    JSON,
    LENGTH,
    LENS,
    LOOK_BEAM,
    NBEST,
    PATCH,
    SAMPLING,
    VERDICT,
    WITH_BASELINE,
    Flag,
    TaskSpec,
)

SPEC = TaskSpec(
    unit="pair",
    summary="Write a short text for a long one: summaries, subject lines.",
    example="mails.jsonl",
    interfaces=("pair_decoder",),
    num_files=(1, 2),
    files="two parallel files, documents first, or one with both sides",
    flags=(
        NBEST,
        JSON,
        BEAM,
        *SAMPLING,
        LENGTH,
        WITH_BASELINE,
        Flag("predict", "prefix", str, "Every output begins with this text.", default=""),
        Flag("predict", "align", bool, "Add links i-j from source word i to output word j.", default=False),
        Flag("look", "target", str, "Look at this output instead of the model's own."),
        *ATTRIBUTION,
        PATCH,
        LENS,
        *VERDICT,
        LOOK_BEAM,
    ),
    uses=(
        "heed predict {run} --input documents.txt",
        "heed look {run} TEXT",
        "heed evaluate {run}",
    ),
)
