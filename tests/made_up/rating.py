"""Rating: a number for a text."""

import random
from collections.abc import Sequence
from typing import Any

from heed.data.kinds.kind import kind_of
from heed.tasks.heads.number import mean_number
from heed.tasks.heads.pooled import TextNumber
from heed.tasks.inputs.texts import Texts
from heed.tasks.look import contrast, explain, look_at_texts
from heed.tasks.work import Looks, Task

RATINGS = kind_of("review", texts=("text",), truth={"rating": float})


def sample(count: int) -> Sequence[tuple[Any, ...]]:
    """Texts of five words, rated by the number of good ones."""
    draw = random.Random(1)
    drawn = [draw.choices(["good", "bad"], k=5) for _ in range(count)]
    return [(" ".join(words), words.count("good") + 0.5) for words in drawn]


TASK = Task(
    "rating",
    input=Texts(RATINGS),  # what the model reads: everything from a file to the page follows from the kind
    head=TextNumber(),  # what is compared with its states: the module, the loss, predictions, measures
    looks=Looks(look_at_texts, explain, contrast),
    baselines=mean_number,
    summary="Rate texts by a number.",
    sample=sample,
)
