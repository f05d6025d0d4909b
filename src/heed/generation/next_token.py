"""Scores of each row's next token: log-probabilities, and the best continuations of each source."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager

import torch
from torch import Tensor, nn

from heed.attention import watch
from heed.generation.options import SearchOptions
from heed.kernels import Best, LargeVocabulary, best_of, enabled
from heed.layers import last_of
from heed.models.base import DecoderBody


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
