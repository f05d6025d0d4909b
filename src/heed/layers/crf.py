"""Linear-chain conditional random field: the tags of a sentence are chosen jointly.

| here | paper | meaning |
|---|---|---|
| emissions | P_{i,j} | score of tag j for word i |
| transitions | A_{i,j} | score of tag j after tag i |
| start, end | A_{0,j}, A_{i,k+1} | scores of the first and the last tag |

    s(X, y)   = start(y_1) + sum_t emissions(t, y_t) + sum_{t>1} transitions(y_{t-1}, y_t) + end(y_n)
    p(y | X)  = exp(s(X, y)) / Z(X),   Z(X) = sum over all legal sequences of exp(s(X, y))

Source: Lafferty, McCallum and Pereira 2001; in the form of Lample et al. 2016 (arXiv:1603.01360), section 2.2.
Differs from the paper: which transitions are illegal is given, not learned; they have probability 0.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from heed.shapes import Bool, Float, Int

_ILLEGAL = -1e4
"""Score of an illegal transition: its exponential is exactly 0 in float32, yet a sum over illegal transitions alone
stays finite (-inf would give NaN in the gradient)."""


class LinearChainCRF(nn.Module):
    """Scores tag sequences. B sentences, W words, K tags; every sentence has at least one word.

    Parameters: `start` and `end`, `(K,)`; `transitions`, `(K, K)`: row = previous tag, column = next tag.
    """

    may_start: Tensor
    may_follow: Tensor

    def __init__(self, may_start: Bool[Tensor, " tags"], may_follow: Bool[Tensor, "tags tags"]) -> None:
        """Start with equal scores for all legal transitions; `may_follow[i, j]`: tag j may follow tag i."""
        super().__init__()
        self.register_buffer("may_start", may_start, persistent=False)
        self.register_buffer("may_follow", may_follow, persistent=False)
        self.start = nn.Parameter(torch.zeros(len(may_start)))
        self.transitions = nn.Parameter(torch.zeros(may_follow.shape))
        self.end = nn.Parameter(torch.zeros(len(may_start)))

    def _legal(self) -> tuple[Tensor, Tensor]:
        start = self.start.masked_fill(~self.may_start, _ILLEGAL)
        return start, self.transitions.masked_fill(~self.may_follow, _ILLEGAL)

    def score(
        self, emissions: Float[Tensor, "batch words tags"], tags: Int[Tensor, "batch words"], mask: Tensor
    ) -> Float[Tensor, " batch"]:
        """`s(X, y)` of the given tags; tags outside the mask `(B, W)` are ignored."""
        start, transitions = self._legal()
        rows = torch.arange(len(tags), device=tags.device)
        each = emissions.gather(2, tags.unsqueeze(2)).squeeze(2)  # (B, W)
        between = transitions[tags[:, :-1], tags[:, 1:]]  # (B, W - 1)
        total = (each * mask).sum(1) + (between * mask[:, 1:]).sum(1)
        return total + start[tags[:, 0]] + self.end[tags[rows, mask.sum(1) - 1]]

    def log_partition(
        self, emissions: Float[Tensor, "batch words tags"], mask: Bool[Tensor, "batch words"]
    ) -> Float[Tensor, " batch"]:
        """`log Z(X)` in nats, by the forward algorithm."""
        start, transitions = self._legal()
        inside = mask.unsqueeze(2).unbind(1)
        first, *others = emissions.unbind(1)
        alpha = start + first  # (B, K): log of the sum over all prefixes that end in each tag
        for t, emission in enumerate(others, start=1):
            longer = torch.logsumexp(alpha.unsqueeze(2) + transitions, dim=1) + emission
            alpha = torch.where(inside[t], longer, alpha)
        return torch.logsumexp(alpha + self.end, dim=1)

    def marginals(
        self, emissions: Float[Tensor, "batch words tags"], mask: Bool[Tensor, "batch words"]
    ) -> Float[Tensor, "batch words tags"]:
        """The marginal probability of each tag for each word, zero outside the mask: the gradient of `log Z`."""
        with torch.enable_grad():
            leaf = emissions.detach().requires_grad_()
            (gradient,) = torch.autograd.grad(self.log_partition(leaf, mask).sum(), leaf)
        return gradient

    @torch.no_grad()
    def best(
        self, emissions: Float[Tensor, "batch words tags"], mask: Bool[Tensor, "batch words"]
    ) -> Int[Tensor, "batch words"]:
        """The legal sequence with the highest score, 0 outside the mask, by the Viterbi algorithm."""
        start, transitions = self._legal()
        num_words = emissions.shape[1]
        score = start + emissions[:, 0]  # (B, K): of the best prefix that ends in each tag
        came_from = []
        for t in range(1, num_words):
            longer, before = (score.unsqueeze(2) + transitions).max(1)
            score = torch.where(mask[:, t : t + 1], longer + emissions[:, t], score)
            came_from.append(before)  # (B, K)
        tag = (score + self.end).argmax(1)
        tags = torch.zeros_like(mask, dtype=torch.long)
        for t in range(num_words - 1, 0, -1):
            tags[:, t] = tag
            # In the padding after a sentence, keep its last tag.
            tag = torch.where(mask[:, t], came_from[t - 1].gather(1, tag.unsqueeze(1)).squeeze(1), tag)
        tags[:, 0] = tag
        return tags * mask
