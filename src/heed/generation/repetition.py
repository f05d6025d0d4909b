"""The repetition penalty: tokens that were read or written before become less likely.

    p(i) = exp(x_i / (T I(i))) / sum_j exp(x_j / (T I(j)))        I(i) = penalty if i was read or written, else 1

x are the logits and T the temperature.

Source: Keskar et al. 2019 (CTRL, arXiv:1909.05858), section 4.1; they use a penalty of 1.2.
Differs from the paper: a negative logit is multiplied by the penalty instead of divided, as `transformers` does, since
division would make its token more likely. The end token and forbidden tokens are never penalised.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from heed.generation.options import SearchOptions


class Repetition:
    """Penalises the logits of rows and remembers which tokens each has read and written.

    Args:
        options: The penalty, the tokens that count as read, and those that are never penalised.
        prompt: `(sources, n)`, the tokens that count as read by default.
        prompt_lengths: `(sources,)`, if prompts are padded on the right.
        times: Number of rows of each source; they are adjacent.
    """

    def __init__(self, options: SearchOptions, prompt: Tensor, prompt_lengths: Tensor | None, times: int = 1) -> None:
        options.check_repetition()
        self._penalty = options.repetition_penalty
        self._never = (options.end_token, *options.forbidden)
        read: Sequence[Sequence[int]] | None = options.read
        if read is None:
            lengths = [prompt.shape[1]] * len(prompt) if prompt_lengths is None else prompt_lengths.tolist()
            read = [tokens[:length] for tokens, length in zip(prompt.tolist(), lengths, strict=True)]
        self._read = [tokens for tokens in read for _ in range(times)]
        self._seen = torch.empty(0)

    def __call__(self, logits: Tensor, rows: list[int]) -> Tensor:
        """Penalised logits `(open rows, vocab_size)` of the rows numbered `rows`."""
        if not len(self._seen):
            self._seen = torch.zeros(len(self._read), logits.shape[-1], dtype=torch.bool, device=logits.device)
            for seen, tokens in zip(self._seen, self._read, strict=True):
                seen[list(tokens)] = True
            self._seen[:, list(self._never)] = False
        penalised = torch.where(logits < 0, logits * self._penalty, logits / self._penalty)
        return torch.where(self._seen[rows], penalised, logits)

    def add(self, rows: list[int], tokens: Tensor) -> None:
        """Record the token that each of these rows wrote, `(open rows,)`; an end token closes its row."""
        self._seen[rows, tokens] = True
