"""What may follow each row: log-probabilities of the next token, and the best continuations of each source.

Logits over a vocabulary are the largest tensors of a search. On a CPU fresh memory for them costs more than what is
done with it, and reading them again costs as much as a product. So the best continuations are found from pieces of the
vocabulary, each small enough for a cache, in memory that is used again: a piece gives its part of the softmax's sum
and the largest value of every 64 neighbours; the best `k` tokens are in the `k` runs whose largest values are best.
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
        pieces, norms = self._pieces(last, output)
        if banned := self._options.banned(written):
            tokens = torch.tensor(banned, device=device)
            pieces[tokens // _PIECE, :, tokens % _PIECE] = -torch.inf
        norm = torch.logsumexp(norms, dim=0)  # (rows,)

        added = norms + (totals.flatten() - norm)  # to what is in the pieces
        runs = pieces.unflatten(2, (-1, _RUN)).amax(-1) + added.unsqueeze(-1)  # (pieces, rows, runs of a piece)
        num_runs = runs.shape[0] * runs.shape[2]
        joint = runs.transpose(0, 1).reshape(num_sources, beams * num_runs)
        chosen = joint.topk(k, dim=-1).indices  # (sources, k)
        row_of_source, run = chosen // num_runs, chosen % num_runs
        row = row_of_source + torch.arange(num_sources, device=device).unsqueeze(1) * beams
        tokens = (run * _RUN).unsqueeze(-1) + torch.arange(_RUN, device=device)  # (sources, k, run)
        piece = run * _RUN // _PIECE
        place = ((piece * pieces.stride(0) + row * pieces.stride(1)).unsqueeze(-1) + tokens % _PIECE).flatten(1)
        found = self._memory.view(-1)[place]
        best, place = (found + added[piece, row].repeat_interleave(_RUN, dim=1)).topk(k, dim=-1)
        which = place // _RUN
        row, piece = row.gather(1, which), piece.gather(1, which)
        log_probs = found.gather(1, place) + (norms[piece, row] - norm[row])
        return Best(best, row_of_source.gather(1, which), tokens.flatten(1).gather(1, place), log_probs)

    def _pieces(self, last: Tensor, output: nn.Linear) -> tuple[Tensor, Tensor]:
        """Log-softmax of each piece of the logits by itself, and what is to be added to make them logits again.

        Returns:
            `(pieces, rows, tokens)`, -inf beyond the vocabulary, and `(pieces, rows)`.
        """
        vocab_size, num_rows = output.out_features, len(last)
        starts = range(0, vocab_size, _PIECE)
        if self._memory.shape[1] < num_rows:
            self._memory = large_empty((len(starts), num_rows, _PIECE), last)
            self._memory[-1, :, vocab_size - starts[-1] :] = -torch.inf
        pieces, norms = self._memory[:, :num_rows], []
        for start, piece in zip(starts, pieces, strict=True):
            end = min(start + _PIECE, vocab_size)
            bias = None if output.bias is None else output.bias[start:end]
            logits = linear(last, output.weight[start:end], bias)
            part = torch.log_softmax(logits, dim=-1, out=piece[:, : end - start])
            norms.append(logits[:, 0] - part[:, 0])
        return pieces, torch.stack(norms)


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
