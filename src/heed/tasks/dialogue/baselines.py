"""Two baselines: always the most frequent response; the training response to the nearest history."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from heed.data.examples import Conversation
from heed.tasks.dialogue.data import DialogueData
from heed.tasks.translation.baselines import NearestSentence

_LAST = 2
"""Last turns that are compared to find the nearest history: with more, the topic would decide, not the question."""


class PlainResponses:
    """Baseline responses, copied from the training conversations."""

    def __init__(self, task: DialogueData, conversations: Sequence[Conversation]) -> None:
        """Keep the responses in conversations and the turns before them."""
        self._task = task
        found = [(one, turn) for one in conversations for turn in task.responses(one)]
        self.most_frequent = Counter(one.turns[turn] for one, turn in found).most_common(1)[0][0] if found else ""
        self._nearest = NearestSentence((_last(one, turn), one.turns[turn]) for one, turn in found)

    def of(self, conversations: Sequence[Conversation]) -> dict[str, list[str]]:
        """For each baseline, by name, its output for every response in these conversations, in order."""
        histories = [_last(one, turn) for one in conversations for turn in self._task.responses(one)]
        return {
            "most frequent response": [self.most_frequent] * len(histories),
            "response to the nearest history": self._nearest.translate(histories),
        }


def _last(conversation: Conversation, turn: int) -> str:
    """The last turns before a turn."""
    return "\n".join(conversation.turns[max(0, turn - _LAST) : turn])
