"""Character features of words, for words that are rare or absent in the training data."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from heed.errors import ShapeError
from heed.layers.embeddings import TokenEmbedding
from heed.shapes import Float, Int

_WIDTH = 3


class CharacterFeatures(nn.Module):
    """Convolution of width 3 over the character embeddings of each word, then the maximum over the word.

    Source: Ma and Hovy 2016 (arXiv:1603.01354), section 2.1, after dos Santos and Zadrozny 2014.
    Differs from the paper: words are padded with zeros at both ends.
    """

    def __init__(self, vocab_size: int, d_character: int, num_filters: int) -> None:
        super().__init__()
        self.embedding = TokenEmbedding(vocab_size, d_character)
        self.filters = nn.Conv1d(d_character, num_filters, _WIDTH, padding=_WIDTH // 2)
        self.d_output = num_filters

    def forward(
        self, groups: Sequence[Int[Tensor, "_ _"]], place: Int[Tensor, "batch words"]
    ) -> Float[Tensor, "batch words d_output"]:
        """Features of each word, `(batch, words, d_output)`; zeros for a word without characters.

        Args:
            groups: Character ids `(distinct words, characters)`, 0 for padding, in groups of words of similar length.
            place: `(batch, words)`, each word's row in the concatenated groups, from 1; 0 where there is no word.

        Raises:
            ShapeError: A group does not have two dimensions.
        """
        features = [self.filters.weight.new_zeros(1, self.d_output)]
        for characters in groups:
            if characters.dim() != 2:
                raise ShapeError(f"characters have shape {tuple(characters.shape)}, expected (words, characters)")
            found = self.filters(self.embedding(characters).transpose(1, 2))  # (distinct words, num_filters, C)
            real = (characters != 0).unsqueeze(1)
            largest = found.masked_fill(~real, torch.finfo(found.dtype).min).amax(-1)
            features.append(largest.masked_fill(~real.any(-1), 0.0))
        return torch.cat([one.to(features[-1].dtype) for one in features])[place]
