"""Scores of each row's next token: log-probabilities, and the best continuations of each source.

The repetition penalty: tokens that were read or written before become less likely.

    p(i) = exp(x_i / (T I(i))) / sum_j exp(x_j / (T I(j)))        I(i) = penalty if i was read or written, else 1

x are the logits and T the temperature.

Source: Keskar et al. 2019 (CTRL, arXiv:1909.05858), section 4.1; they use a penalty of 1.2.
Differs from the paper: a negative logit is multiplied by the penalty instead of divided, as `transformers` does, since
division would make its token more likely. The end token and forbidden tokens are never penalised.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager

import torch
from torch import Tensor, nn

from heed.attention import watch
from heed.generation.options import SearchOptions
from heed.kernels import Best, LargeVocabulary, best_of, enabled
from heed.layers import last_of
from heed.models.base import DecoderBody


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


def without_gradient() -> AbstractContextManager[object]:
    """Context for generation without gradients: inference mode, which is faster, unless a trace is open.

    Tensors that a trace keeps must stay usable everywhere, so then gradients are only disabled.
    """
    return torch.inference_mode() if watch.slot is None else torch.no_grad()


class NextTokenScores:
    """Scores of the next token of each row of one search; forbidden tokens get -inf.

    With the option `renormalize`, the other probabilities are renormalised.
    """

    def __init__(self, model: DecoderBody, options: SearchOptions) -> None:
        self._model = model
        self._options = options
        self._banned: dict[tuple[int, ...], Tensor] = {}
        output = model.output
        self._large = LargeVocabulary(output.weight, output.bias) if type(output) is nn.Linear else None

    def log_probs(self, hidden: Tensor, lengths: Tensor | None, written: int) -> Tensor:
        """Log-probabilities of the next token of each row, `(rows, vocab_size)`.

        Args:
            hidden: `(rows, n, d)`; only each row's last real position is used.
            lengths: `(rows,)`, number of real positions, or None if there is no padding.
            written: Number of tokens already written.
        """
        log_probs = torch.log_softmax(self._model.logits(last_of(hidden, lengths)).float(), dim=-1)
        return self._normalised(self._without_banned(log_probs, written))

    def changed(
        self, hidden: Tensor, lengths: Tensor | None, written: int, change: Callable[[Tensor], Tensor]
    ) -> tuple[Tensor, Tensor]:
        """The result of `log_probs`, and the logits after `change`, -inf if forbidden; both `(rows, vocab_size)`."""
        logits = self._model.logits(last_of(hidden, lengths)).float()
        log_probs = torch.log_softmax(logits, dim=-1)
        log_probs = self._normalised(self._without_banned(log_probs, written))
        return log_probs, self._without_banned(change(logits), written)

    def _normalised(self, log_probs: Tensor) -> Tensor:
        return torch.log_softmax(log_probs, dim=-1) if self._options.renormalize else log_probs

    def _without_banned(self, scores: Tensor, written: int) -> Tensor:
        banned = self._options.banned(written)
        if not banned:
            return scores
        if banned not in self._banned:
            self._banned[banned] = torch.tensor(banned, device=scores.device)
        return scores.index_fill_(1, self._banned[banned], -torch.inf)

    def best(self, hidden: Tensor, lengths: Tensor | None, written: int, totals: Tensor, k: int) -> Best:
        """The `k` best continuations of each source, as from `best_of`; other arguments as for `log_probs`."""
        large = None if self._options.renormalize else self._large
        if large is not None and large.pays(len(hidden), k) and self._is_unobserved_float32(hidden):
            return large.best(last_of(hidden, lengths), self._options.banned(written), totals, k)
        return best_of(self.log_probs(hidden, lengths, written), totals, k)

    def _is_unobserved_float32(self, hidden: Tensor) -> bool:
        """True if fast forms may run: enabled, on a CPU in float32, without trace, gradients or autocast."""
        if not enabled() or watch.slot is not None or torch.is_grad_enabled() or torch.is_autocast_enabled("cpu"):
            return False
        return (
            hidden.device.type == "cpu" and hidden.dtype == next(self._model.output.parameters()).dtype == torch.float32
        )
