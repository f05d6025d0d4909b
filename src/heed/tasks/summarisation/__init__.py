"""Summarisation: write a short text for a long one."""

from heed.tasks.base import ATTRIBUTION, BESIDE, GATES, OF_PAIRS, TARGET, WRITING, TaskSpec

SPEC = TaskSpec(
    unit="pair",
    summary="Write a short text for a long one: summaries, subject lines.",
    example="mails.jsonl",
    interfaces=("pair_decoder",),
    num_files=(1, 2),
    files="two parallel files, documents first, or one with both sides",
    flags=(
        *WRITING,
        *OF_PAIRS,
        *TARGET,
        ATTRIBUTION,
        BESIDE,
        *GATES,
    ),
    uses=(
        "heed predict {run} --input documents.txt",
        "heed look {run} TEXT",
        "heed evaluate {run}",
    ),
)
