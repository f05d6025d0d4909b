"""The head that predicts masked words from the states at their places."""

from __future__ import annotations

from torch import Tensor, nn

from heed.kernels import Linear
from heed.layers.activations import GELU, Activation
from heed.layers.embeddings import TokenEmbedding
from heed.layers.norm import LayerNorm
from heed.shapes import Float


class MaskedWords(nn.Module):
    """From states to scores over the vocabulary: `E norm(g(W h + b)) + b_vocabulary`.

    Hand it the states of the places that are predicted and no others: the product with the vocabulary is the dearest
    of all where the vocabulary is large. The loss takes `states` and the layer `output`, so that it can work in pieces
    (`training.loss.vocabulary_loss`).

    Args:
        embedding: The table of tokens; its matrix E is the output layer's where `tied`.
        activation: g above.
        eps: Of the layer normalisation.
        tied: Whether the output layer shares the table (BERT's does); else it has a matrix of its own.

    Source: Devlin et al. 2019 (arXiv:1810.04805), section 3.1, "Masked LM"; the layer before the output layer is that
    of the published checkpoints.
    """

    def __init__(
        self, embedding: TokenEmbedding, *, activation: Activation = GELU, eps: float = 1e-12, tied: bool = True
    ) -> None:
        super().__init__()
        vocab_size, d = embedding.weight.shape
        assert not tied or embedding.padding_idx is None, "a tied table's row for padding is an output too"
        self.activation = activation
        self.dense = Linear(d, d)
        self.norm = LayerNorm(d, eps=eps)
        self.output = nn.Linear(d, vocab_size)
        for layer in (self.dense, self.output):
            nn.init.normal_(layer.weight, std=0.02)
            nn.init.zeros_(layer.bias)
        if tied:
            self.output.weight = embedding.weight

    def states(self, hidden: Float[Tensor, "*shape d"]) -> Float[Tensor, "*shape d"]:
        """What the output layer reads: `norm(g(W h + b))`."""
        return self.norm(self.activation.function(self.dense(hidden)))  # type: ignore[no-any-return]

    def forward(self, hidden: Float[Tensor, "*shape d"]) -> Float[Tensor, "*shape vocab_size"]:
        """Scores over the vocabulary."""
        return self.output(self.states(hidden))  # type: ignore[no-any-return]
