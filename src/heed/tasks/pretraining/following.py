"""Next-sentence prediction: the probability that a text follows another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.nn.functional import softmax

from heed.data.batch.framed import frame, frame_size
from heed.data.batch.rows import pad_rows
from heed.errors import ConfigError, InputError
from heed.tasks.base.predictions import short
from heed.tasks.pretraining.passages import plain_text
from heed.tasks.pretraining.rows import FOLLOWS

if TYPE_CHECKING:
    from heed.tasks.pretraining.model import Pretrainer
    from heed.tasks.pretraining.task import Pretraining

_TOGETHER = 32


@dataclass(frozen=True)
class NextSentence:
    """Two texts, and the probability that the second follows the first.

    Attributes:
        first: The first text.
        second: The second text.
        probability: The probability that it follows.
        unread: Number of tokens that were not read, in texts longer than the model's positions.
    """

    first: str
    second: str
    probability: float
    unread: int = 0

    @property
    def follows(self) -> bool:
        """True if the probability is above one half."""
        return self.probability > 0.5

    @property
    def answer(self) -> str:
        """The answer in words."""
        return "follows" if self.follows else "does not follow"

    def rows(self) -> list[dict[str, Any]]:
        """As a row of a data frame."""
        return [{"first": self.first, "second": self.second, "follows": self.follows, "probability": self.probability}]

    def __repr__(self) -> str:
        return f"<{short(self.second)} {self.answer}: {self.probability:.3f}>"


@torch.inference_mode()
def follow(task: Pretraining, model: Pretrainer, pairs: Sequence[tuple[str, str]]) -> list[NextSentence]:
    """Predict for each pair the probability that the second text follows the first.

    If the texts are longer than the model's positions, the end of the first and the beginning of the second are read.

    Raises:
        ConfigError: The run has no head for pairs, or a text is blank.
    """
    if model.order is None:
        raise ConfigError(
            "this run has no head for pairs (model.next_sentence is false), so it cannot say whether a text follows "
            "another"
        )
    room = task.positions - frame_size(is_pair=True, double=task.double_separator)
    rows, unread = [], []
    for first, second in pairs:
        for name, text in (("first", first), ("second", second)):
            if not text.strip():
                raise InputError(f"the {name} text of a pair is blank")
        a, b = (task.tokenizer.encode(plain_text(text)[0]).ids for text in (first, second))
        total = len(a) + len(b)
        if total > room:
            longest = max(room // 2, room - len(a))
            b = b[:longest]
            a = a[len(a) - min(len(a), room - len(b)) :]
        unread.append(total - len(a) - len(b))
        rows.append(frame(a, b, task.double_separator))
    device = next(model.parameters()).device
    found: list[float] = []
    for start in range(0, len(rows), _TOGETHER):
        tokens, real = (tensor.to(device) for tensor in pad_rows(rows[start : start + _TOGETHER]))
        logits = model.order_scores(model(tokens, real), real)
        found += softmax(logits.float(), dim=-1)[:, FOLLOWS].tolist()
    return [NextSentence(*pair, share, left) for pair, share, left in zip(pairs, found, unread, strict=True)]
