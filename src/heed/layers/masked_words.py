"""Head for masked language modelling: predicts masked words from the states at their positions."""

from __future__ import annotations

from torch import Tensor, nn

from heed.kernels import Linear
from heed.layers.elementwise import GELU, Activation, LayerNorm
from heed.layers.embeddings import TokenEmbedding
from heed.shapes import Float


class MaskedWords(nn.Module):
    """States to logits over the vocabulary: `E norm(g(W h + b)) + b_vocabulary`.

    Pass only the states of predicted positions: with a large vocabulary the output layer is the most expensive product
    of the model. The loss takes `states` and the layer `output` separately, so that it can work in pieces
    (`training.loss.vocabulary_loss`).

    Args:
        embedding: The token embeddings, whose matrix is E if `tied`.
        activation: g above.
        eps: Epsilon of the layer normalisation.
        tied: Whether the output layer shares the embedding matrix, as BERT's does; otherwise it has its own.

    Source: Devlin et al. 2019 (arXiv:1810.04805), section 3.1, "Masked LM"; the layer before the output layer is that
    of the published checkpoints.
    """

    def __init__(
        self, embedding: TokenEmbedding, *, activation: Activation = GELU, eps: float = 1e-12, tied: bool = True
    ) -> None:
        super().__init__()
        vocab_size, d = embedding.weight.shape
        assert not tied or embedding.padding_idx is None, "a tied embedding must not have a padding token"
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
        """The input of the output layer: `norm(g(W h + b))`."""
        return self.norm(self.activation.function(self.dense(hidden)))

    def forward(self, hidden: Float[Tensor, "*shape d"]) -> Float[Tensor, "*shape vocab_size"]:
        """Logits over the vocabulary."""
        return self.output(self.states(hidden))  # type: ignore[no-any-return]
