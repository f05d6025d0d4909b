"""Dialogue: write the response to the turns of a conversation so far."""

from heed.tasks.base import ATTRIBUTION, BESIDE, GATES, TARGET, WRITING, Flag, TaskSpec

_SPEAKER = "Name of the speaker who responds, if the data names speakers."
SPEC = TaskSpec(
    input="turns",
    unit="conversation",
    summary="Write the response to the turns of a conversation so far.",
    example="talks.jsonl",
    takes=(("conversations", "{file}"),),
    interfaces=("turn_decoder", "pair_decoder"),
    flags=(
        *WRITING,
        Flag("predict look attribute beams", "speaker", str, _SPEAKER),
        *TARGET,
        *GATES,
        BESIDE,
        ATTRIBUTION,
    ),
    uses=("heed predict {run}", "heed predict {run} TURN TURN", "heed look {run} TURN TURN", "heed evaluate {run}"),
    next_command="heed predict {run}",
)
