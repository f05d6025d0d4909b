"""A body with the two heads of pretraining: masked words, and whether a text follows another."""

from __future__ import annotations

from torch import Tensor, nn

from heed.layers.masked_words import MaskedWords
from heed.models.base import TokenEncoder
from heed.models.bert import ACTIVATIONS
from heed.tasks.pretraining.config import PretrainingHead


class Pretrainer(nn.Module):
    """A body that reads framed texts, and heads that are dropped when another task starts from it.

    Attributes:
        body: Gives a state for each token.
        words: Scores over the vocabulary at masked places; None where no words are masked.
        order: From `body.last` to two scores, 0 where the second text follows the first and 1 where it does not; None
            without pairs.

    Source: Devlin et al. 2019 (arXiv:1810.04805), section 3.1.
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
        if head.next_sentence:
            self.order = nn.Linear(body.d_output, 2)
            nn.init.normal_(self.order.weight, std=0.02)
            nn.init.zeros_(self.order.bias)

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """States of framed texts `(batch, length)`, `(batch, length, d)`."""
        return self.body(tokens, mask)  # type: ignore[no-any-return]
