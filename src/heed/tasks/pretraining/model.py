"""A body with the two heads of pretraining: masked words and next-sentence prediction."""

from __future__ import annotations

from torch import Tensor, nn

from heed.layers import mean_pooling
from heed.layers.masked_words import MaskedWords
from heed.models.base import TokenEncoder
from heed.models.bert import ACTIVATIONS
from heed.tasks.pretraining.config import PretrainingHead


class Pretrainer(nn.Module):
    """A body that reads framed texts, and heads that are dropped when another task starts from its weights.

    Attributes:
        body: Computes a state for each token.
        words: Scores over the vocabulary at masked places; None if no words are masked.
        order: Maps one vector of the row to two scores: 0, the second text follows the first; 1, it does not. None
            without pairs.

    Source: Devlin et al. 2019 (arXiv:1810.04805), section 3.1.
    Differs from the paper: the vector is the mean of the states (`pooling`) unless [CLS] is asked for. A small model
    learns to compare two texts in minutes from their mean and not at all from [CLS]: docs/pretraining.md.
    """

    def __init__(self, body: TokenEncoder, head: PretrainingHead) -> None:
        super().__init__()
        self.body = body
        self.words: MaskedWords | None = None
        self.order: nn.Linear | None = None
        if head.masked_words:
            config, inputs = body.config, body.inputs
            activation, eps = getattr(config, "activation", "gelu"), getattr(config, "norm_eps", 1e-12)
            self.words = MaskedWords(
                inputs.embedding,  # type: ignore[union-attr, arg-type]  # of a framed body, a TokenInput
                activation=ACTIVATIONS[activation],
                eps=eps,
                tied=head.tied_output,
            )
        self.pooling = head.pooling
        if not head.next_sentence:
            body.without_last()
        if head.next_sentence:
            self.order = nn.Linear(body.d_output, 2)
            nn.init.normal_(self.order.weight, std=0.02)
            nn.init.zeros_(self.order.bias)

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """States of framed texts `(batch, length)`, `(batch, length, d)`."""
        return self.body(tokens, mask)  # type: ignore[no-any-return]

    def order_scores(self, hidden: Tensor, mask: Tensor) -> Tensor:
        """Scores of both answers `(batch, 2)` from the states of pairs; needs `order`."""
        assert self.order is not None
        body = self.body
        pooled = body.pooled(mean_pooling(hidden, mask)) if self.pooling == "mean" else body.last(hidden, mask)
        return self.order(pooled)  # type: ignore[no-any-return]
