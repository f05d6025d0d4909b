"""Writing of responses to histories, by search or sampling."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import torch

from heed.data.batch.turns import TokenTurn
from heed.generation import SamplingOptions, SearchOptions, generate, without_gradient
from heed.models.base import DecoderBody
from heed.tasks.translation.writing import Prediction, cached_bytes, prediction_of, search_options, seeds_of
from heed.threads import threads_for
from heed.training.micro_batches import kept_bytes

if TYPE_CHECKING:
    from heed.tasks.dialogue.task import Dialogue


def respond(
    task: Dialogue,
    model: DecoderBody,
    histories: Sequence[Sequence[TokenTurn]],
    speakers: Sequence[int],
    *,
    beam_size: int | None = None,
    num_best: int = 1,
    length_penalty: float | None = None,
    min_length: int | None = None,
    max_length: int | None = None,
    sampling: SamplingOptions | None = None,
) -> list[list[Prediction]]:
    """Write the response to each history; options default to the configuration's.

    Args:
        task: The task, with its tokenizer and its way of reading.
        model: The model that writes.
        histories: The turns so far, at least one each. Histories of one conversation share their `TokenTurn` objects,
            so that a model that reads turn by turn reads each of them once.
        speakers: The number of the speaker who responds to each.
        beam_size: Width of the beam; 1 is greedy.
        num_best: Number of candidates per history.
        length_penalty: See `heed.generation`.
        min_length: Smallest number of tokens.
        max_length: Largest number of tokens.
        sampling: Draw instead of searching.

    Returns:
        For each history its candidates, best first.
    """
    options = options_of(
        task,
        beam_size=beam_size,
        num_best=num_best,
        length_penalty=length_penalty,
        min_length=min_length,
        max_length=max_length,
    )
    reading = task.reading
    model.eval()
    device = next(model.parameters()).device
    results: list[list[Prediction]] = [[] for _ in histories]
    for chosen in reading.plan(histories, options.beam_size):
        read = [histories[i] for i in chosen]
        with without_gradient(), threads_for(model, len(chosen)):
            memory = reading.memory(model, read, device)
        prompt = torch.tensor([[reading.start(speakers[i])] for i in chosen], device=device)
        generated = generate(model, memory, prompt, options, sampling=drawing_of(sampling, read))
        for i, hypotheses in zip(chosen, generated.hypotheses, strict=True):
            results[i] = [prediction_of(task.tokenizer, hypothesis, []) for hypothesis in hypotheses]
    return results


def writing_memory(task: Dialogue, model: DecoderBody, histories: Sequence[Sequence[TokenTurn]], written: int) -> int:
    """Bytes that greedy responses to histories take, with at most `written` tokens each.

    For a Transformer, these are keys and values; a recurrent encoder holds about as much as for a backward pass.
    """
    reading = task.reading
    plan = [[histories[i] for i in chosen] for chosen in reading.plan(histories, 1)]
    read = [reading.positions(some) for some in plan]
    held = cached_bytes(model, max(count + len(some) * written for count, some in zip(read, plan, strict=True)))
    if held:
        return held
    few = plan[0][:8]
    model.eval()
    device = next(model.parameters()).device
    return round(kept_bytes(model, lambda: reading.memory(model, few, device)) / reading.positions(few) * max(read))


def options_of(
    task: Dialogue,
    *,
    beam_size: int | None = None,
    num_best: int = 1,
    length_penalty: float | None = None,
    min_length: int | None = None,
    max_length: int | None = None,
) -> SearchOptions:
    """Search options: the given ones, and the configuration's for those that are None."""
    given = task.config.generation
    return search_options(
        given,
        beam_size=beam_size,
        num_best=num_best,
        length_penalty=length_penalty,
        min_length=min_length,
        max_length=(given.max_length or 100) if max_length is None else max_length,
        forbidden=task.never_written(),
    )


def drawing_of(sampling: SamplingOptions | None, histories: Sequence[Sequence[TokenTurn]]) -> SamplingOptions | None:
    """The sampling options with a seed for each history, derived from its tokens."""
    read = [[token for turn in history for token in (turn.speaker, *turn.ids)] for history in histories]
    return sampling and replace(sampling, seed=seeds_of(sampling.seed, read))
