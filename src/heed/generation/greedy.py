"""Greedy search: always the most probable next token."""

from __future__ import annotations

from torch import Tensor

from heed.generation.next_token import NextTokenScores
from heed.generation.options import Generated, SearchOptions
from heed.generation.stepwise import write_rows
from heed.models.base import DecoderBody, Memory


def greedy_search(
    model: DecoderBody,
    memory: Memory | None,
    prompt: Tensor,
    options: SearchOptions,
    prompt_lengths: Tensor | None = None,
) -> Generated:
    """Write the most probable token at each step: one hypothesis per source. Arguments as of `beam_search`."""

    def most_probable(
        scores: NextTokenScores, hidden: Tensor, lengths: Tensor | None, written: int, rows: list[int]
    ) -> tuple[Tensor, Tensor]:
        best = scores.best(hidden, lengths, written, hidden.new_zeros(len(hidden), 1), 1)
        return best.tokens.squeeze(1), best.log_probs.squeeze(1)

    rows = write_rows(model, memory, prompt, options, most_probable, prompt_lengths=prompt_lengths)
    return Generated([[hypothesis] for hypothesis in rows])
