"""Writing one response token by token."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import torch

from heed.data.examples import Conversation
from heed.errors import ConfigError
from heed.generation import SamplingOptions, generate_steps, without_gradient
from heed.tasks.dialogue.writing import drawing_of, options_of
from heed.tasks.language_modelling.pieces import INCOMPLETE
from heed.tasks.translation.writing import Prediction, prediction_of
from heed.threads import threads_for

if TYPE_CHECKING:
    from heed.tasks.dialogue.run import DialogueRun


def stream_response(
    run: DialogueRun,
    conversation: Conversation,
    speaker: str | None = None,
    *,
    sampling: SamplingOptions | None = None,
    **given: Any,
) -> Generator[str, None, Prediction]:
    """Write the response to a conversation, yielding its text as soon as no later token can change it.

    The pieces add up to the text of the returned prediction. Options as of `respond`, without a beam search.

    Raises:
        ConfigError: The speaker does not exist, the conversation has no turn, or the options ask for a beam search.
    """
    task, model = run.task, run.model
    options = options_of(task, **given)
    if not (options.num_best == 1 and (options.beam_size == 1 or sampling is not None)):
        raise ConfigError(
            "a response is shown while it is written by greedy search or sampling only; set beam_size=1 and num_best=1"
        )
    if speaker is not None:
        task.speakers.check(speaker, "speaker")
    if not conversation.turns:
        raise ConfigError("the conversation has no turn to respond to")
    history = task.encode([conversation]).conversations[0]
    model.eval()
    device = next(model.parameters()).device
    with without_gradient(), threads_for(model, 1):
        memory = task.reading.memory(model, [history], device)
    start = task.reading.start(task.speakers.number(run.who_responds(conversation, speaker)))
    prompt = torch.tensor([[start]], device=device)
    steps = generate_steps(model, memory, prompt, options, sampling=drawing_of(sampling, [history]))
    tokens: list[int] = []
    shown = ""
    while True:
        try:
            tokens += [token for _, token in next(steps)]
        except StopIteration as end:
            (hypothesis,) = end.value.hypotheses[0]
            prediction = prediction_of(task.tokenizer, hypothesis, [])
            if rest := prediction.text.removeprefix(shown):
                yield rest
            return prediction
        text = task.tokenizer.decode(tokens).rstrip(INCOMPLETE)
        if text.startswith(shown) and text != shown:
            yield text[len(shown) :]
            shown = text
