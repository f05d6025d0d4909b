"""Two ways to respond that learn nothing: always the most frequent response; the response to the nearest history."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from heed.data.examples import Conversation
from heed.tasks.dialogue.data import DialogueData
from heed.tasks.translation.baselines import NearestSentence

_LAST = 2
"""Turns of a history by which the nearest one is found: of more, the topic would decide and not what was asked."""


class PlainResponses:
    """Responses of the training conversations, to be given again."""

    def __init__(self, task: DialogueData, conversations: Sequence[Conversation]) -> None:
        """Keep the responses in conversations and what they respond to."""
        self._task = task
        found = [(one, turn) for one in conversations for turn in task.responses(one)]
        self.most_frequent = Counter(one.turns[turn] for one, turn in found).most_common(1)[0][0] if found else ""
        self._nearest = NearestSentence((_last(one, turn), one.turns[turn]) for one, turn in found)

    def of(self, conversations: Sequence[Conversation]) -> dict[str, list[str]]:
        """By the name of the baseline, what it responds at every response of these conversations, in their order."""
        histories = [_last(one, turn) for one in conversations for turn in self._task.responses(one)]
        return {
            "most frequent response": [self.most_frequent] * len(histories),
            "response to the nearest history": self._nearest.translate(histories),
        }


def _last(conversation: Conversation, turn: int) -> str:
    """The last turns before one."""
    return "\n".join(conversation.turns[max(0, turn - _LAST) : turn])
