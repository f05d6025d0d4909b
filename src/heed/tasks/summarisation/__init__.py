"""Summarisation: write a short text for a long one."""

from heed.tasks.base import ATTRIBUTION, BESIDE, ENGINE, GATES, LOOK_BEAM, NO_REPEAT, TARGET, WRITING, Flag, TaskSpec

SPEC = TaskSpec(
    unit="pair",
    summary="Write a short text for a long one: summaries, subject lines.",
    example="mails.jsonl",
    interfaces=("pair_decoder",),
    num_files=(1, 2),
    files="two parallel files, documents first, or one with both sides",
    checkpoints="summarised",
    flags=(
        *WRITING,
        NO_REPEAT,
        Flag("predict", "prefix", str, "Begin every output with this text.", default=""),
        ENGINE,
        Flag("predict", "align", bool, "Add links i-j from source word i to output word j.", default=False),
        *TARGET,
        ATTRIBUTION,
        BESIDE,
        LOOK_BEAM,
        *GATES,
    ),
    uses=(
        "heed predict {run} --input documents.txt",
        "heed look {run} TEXT",
        "heed evaluate {run}",
    ),
)
