"""What may follow each row: log-probabilities of the next token, and the best continuations of each source.

Logits over a vocabulary are the largest tensors of a search. On a CPU fresh memory for them costs more than what is
done with it, and reading them again costs as much as a product. So the best continuations are found from pieces of the
vocabulary, each small enough for a cache, in memory that is used again: a piece gives the logarithm of its sum of
exponentials and the largest of every 64 neighbours; the best `k` tokens are in the `k` runs whose largest are best.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from heed.attention import watch
from heed.generation.options import SearchOptions
from heed.kernels import large_empty, linear
from heed.models.base import DecoderBody

__all__ = ["Best", "Following", "best_of"]

_RUN = 64
"""Neighbouring tokens of which only the largest value is looked at first."""
_PIECE = 16 * _RUN
"""Tokens whose logits are computed together."""
_SMALL = 40_000
"""Logits among which one softmax and one sort are as fast."""
_WHOLE = 1_500_000
"""Logits up to which, for the one best token of each row, all together are faster than pieces."""


@dataclass(frozen=True)
class Best:
    """The best continuations of each source, best first.

    Attributes:
        totals: `(sources, k)`, log-probability of the whole row with its new token.
        rows: `(sources, k)`, which of the source's rows each continues.
        tokens: `(sources, k)`.
        log_probs: `(sources, k)`, log-probability of the token alone.
    """

    totals: Tensor
    rows: Tensor
    tokens: Tensor
    log_probs: Tensor


class Following:
    """Gives what may follow each row of one search.

    Args:
        model: Has the output layer.
        options: Forbidden tokens and smallest length, whose tokens get -inf (the others are not renormalised).
    """

    def __init__(self, model: DecoderBody, options: SearchOptions) -> None:
        self._model = model
        self._options = options
        self._memory = torch.empty(0, 0, 0)

    def log_probs(self, hidden: Tensor, lengths: Tensor | None, written: int) -> Tensor:
        """Log-probabilities of the next token of each row.

        Args:
            hidden: `(rows, n, d)`, of which only each row's last real position is used.
            lengths: `(rows,)` number of real positions, or None where all are.
            written: Tokens already written.

        Returns:
            `(rows, vocab_size)`.
        """
        log_probs = torch.log_softmax(self._model.logits(_last(hidden, lengths)).float(), dim=-1)
        if banned := self._options.banned(written):
            log_probs[:, list(banned)] = -torch.inf
        return log_probs

    def best(self, hidden: Tensor, lengths: Tensor | None, written: int, totals: Tensor, k: int) -> Best:
        """The `k` most probable continuations of all rows of a source, or as many as there are.

        Args:
            hidden: `(sources * beams, n, d)`, the rows of a source beside each other.
            lengths: As in `log_probs`.
            written: Tokens already written.
            totals: `(sources, beams)`, log-probability of each row so far.
            k: How many.
        """
        output = self._model.output
        if type(output) is nn.Linear and self._may_go_piecewise(hidden, output, k):
            last, size = _last(hidden, lengths), len(hidden) * output.out_features
            if k == totals.shape[1] == 1 and size <= _WHOLE:
                return self._most_probable(last, output, written, totals)
            return self._best_of_pieces(last, output, written, totals, k)
        return best_of(self.log_probs(hidden, lengths, written), totals, k)

    def _may_go_piecewise(self, hidden: Tensor, output: nn.Linear, k: int) -> bool:
        """Whether it pays, and nobody watches, differentiates or casts."""
        plain = watch.slot is None and not torch.is_grad_enabled() and not torch.is_autocast_enabled(hidden.device.type)
        fits = hidden.device.type == "cpu" and hidden.dtype == output.weight.dtype == torch.float32
        return plain and fits and len(hidden) * output.out_features > _SMALL and k * _RUN <= output.out_features

    def _most_probable(self, last: Tensor, output: nn.Linear, written: int, totals: Tensor) -> Best:
        """The best token of each row, in the run whose largest value is best: torch's argmax goes token by token."""
        logits = linear(last, output.weight, output.bias)
        log_probs = torch.log_softmax(logits, dim=-1, out=logits)
        for token in self._options.banned(written):
            log_probs[:, token] = -torch.inf
        end = output.out_features - output.out_features % _RUN
        runs = log_probs[:, :end].unflatten(1, (-1, _RUN)).amax(-1)
        if end < output.out_features:
            runs = torch.cat([runs, log_probs[:, end:].amax(-1, keepdim=True)], dim=1)
        first = runs.argmax(-1, keepdim=True) * _RUN
        tokens = (first + torch.arange(_RUN, device=last.device)).clamp_(max=output.out_features - 1)
        best, place = log_probs.gather(1, tokens).max(-1, keepdim=True)
        return Best(totals + best, torch.zeros_like(place), tokens.gather(1, place), best)

    def _best_of_pieces(self, last: Tensor, output: nn.Linear, written: int, totals: Tensor, k: int) -> Best:
        (num_sources, beams), device = totals.shape, last.device
        pieces, runs, norm = self._pieces(last, output)
        for token in self._options.banned(written):
            piece, place = divmod(token, _PIECE)
            pieces[piece, :, place] = -torch.inf
            run = place // _RUN
            runs[piece, :, run] = pieces[piece, :, run * _RUN : (run + 1) * _RUN].amax(-1)

        # Relative to the likeliest row of a source: one row alone is ranked by its logits, whatever their size.
        added = totals - norm.view_as(totals)
        added = (added - added.amax(1, keepdim=True).clamp_min(torch.finfo(added.dtype).min)).flatten()
        num_runs = runs.shape[0] * runs.shape[2]
        joint = (runs + added.unsqueeze(-1)).transpose(0, 1).reshape(num_sources, beams * num_runs)
        chosen = joint.topk(k, dim=-1).indices  # (sources, k)
        row_of_source, run = chosen // num_runs, chosen % num_runs
        row = row_of_source + torch.arange(num_sources, device=device).unsqueeze(1) * beams
        tokens = (run * _RUN).unsqueeze(-1) + torch.arange(_RUN, device=device)  # (sources, k, run)
        start = run * _RUN // _PIECE * pieces.stride(0) + row * pieces.stride(1)
        logits = self._memory.view(-1)[(start.unsqueeze(-1) + tokens % _PIECE).flatten(1)]  # (sources, k * run)
        place = (logits + added[row].repeat_interleave(_RUN, dim=1)).topk(k, dim=-1).indices
        which = place // _RUN
        row_of_source = row_of_source.gather(1, which)
        log_probs = logits.gather(1, place) - norm[row.gather(1, which)]
        return Best(
            totals.gather(1, row_of_source) + log_probs, row_of_source, tokens.flatten(1).gather(1, place), log_probs
        )

    def _pieces(self, last: Tensor, output: nn.Linear) -> tuple[Tensor, Tensor, Tensor]:
        """The logits in pieces, the largest of each run, and the logarithm of each row's sum of exponentials.

        Returns:
            `(pieces, rows, tokens)`, -inf beyond the vocabulary; `(pieces, rows, runs of a piece)`; `(rows,)`.
        """
        vocab_size, num_rows = output.out_features, len(last)
        starts = range(0, vocab_size, _PIECE)
        if self._memory.shape[1] < num_rows:
            self._memory = large_empty((len(starts), num_rows, _PIECE), last)
            self._memory[-1, :, vocab_size - starts[-1] :] = -torch.inf
        pieces = self._memory[:, :num_rows]
        runs, norms = last.new_empty(len(starts), num_rows, _PIECE // _RUN), last.new_empty(len(starts), num_rows)
        lowest = torch.finfo(last.dtype).min
        for n, (start, piece) in enumerate(zip(starts, pieces, strict=True)):
            end = min(start + _PIECE, vocab_size)
            bias = None if output.bias is None else output.bias[start:end]
            logits = linear(last, output.weight[start:end], bias)
            piece[:, : end - start] = logits
            torch.amax(piece.unflatten(1, (-1, _RUN)), -1, out=runs[n])
            # Relative to the piece's largest logit, or to a finite number where no token has any probability.
            largest = runs[n].amax(1, keepdim=True).clamp_min_(lowest)
            torch.sum(logits.sub_(largest).exp_(), 1, out=norms[n]).log_().add_(largest.squeeze(1))
        return pieces, runs, torch.logsumexp(norms, dim=0)


def _last(hidden: Tensor, lengths: Tensor | None) -> Tensor:
    """Each row's last real position, `(rows, d)`."""
    if lengths is None:
        return hidden[:, -1]
    return hidden[torch.arange(len(hidden), device=hidden.device), lengths - 1]


def best_of(log_probs: Tensor, totals: Tensor, k: int) -> Best:
    """The `k` best continuations of all rows of each source, or as many as there are.

    Args:
        log_probs: `(sources * beams, vocab_size)`.
        totals: `(sources, beams)`.
        k: How many.
    """
    (num_sources, beams), vocab_size = totals.shape, log_probs.shape[-1]
    joint = totals.unsqueeze(-1) + log_probs.view(num_sources, beams, vocab_size)
    best, flat = joint.flatten(1).topk(min(k, beams * vocab_size), dim=-1)
    return Best(best, flat // vocab_size, flat % vocab_size, log_probs.view(num_sources, -1).gather(1, flat))
