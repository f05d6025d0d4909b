"""Greedy search: always the most probable next token."""

from __future__ import annotations

from collections.abc import Generator

from torch import Tensor

from heed.generation.next_token import NextTokenScores
from heed.generation.options import Generated, SearchOptions
from heed.generation.repetition import Repetition
from heed.generation.stepwise import Step, to_the_end, write_steps
from heed.models.base import DecoderBody, Memory


def greedy_search(
    model: DecoderBody,
    memory: Memory | None,
    prompt: Tensor,
    options: SearchOptions,
    prompt_lengths: Tensor | None = None,
) -> Generated:
    """Write the most probable token at each step: one hypothesis per source. Arguments as for `beam_search`."""
    return to_the_end(greedy_steps(model, memory, prompt, options, prompt_lengths))


def greedy_steps(
    model: DecoderBody,
    memory: Memory | None,
    prompt: Tensor,
    options: SearchOptions,
    prompt_lengths: Tensor | None = None,
) -> Generator[Step, None, Generated]:
    """Like `greedy_search`, step by step; yields like `write_steps`."""
    repetition = None if options.repetition_penalty == 1 else Repetition(options, prompt, prompt_lengths)

    def most_probable(
        scores: NextTokenScores, hidden: Tensor, lengths: Tensor | None, written: int, rows: list[int]
    ) -> tuple[Tensor, Tensor]:
        if repetition is None:
            best = scores.best(hidden, lengths, written, hidden.new_zeros(len(hidden), 1), 1)
            return best.tokens.squeeze(1), best.log_probs.squeeze(1)
        log_probs, penalised = scores.changed(hidden, lengths, written, lambda logits: repetition(logits, rows))
        tokens = penalised.argmax(-1)
        repetition.add(rows, tokens)
        return tokens, log_probs.gather(1, tokens.unsqueeze(1)).squeeze(1)

    rows = yield from write_steps(model, memory, prompt, options, most_probable, prompt_lengths=prompt_lengths)
    return Generated([[hypothesis] for hypothesis in rows])
