"""Hierarchical attention network: attention over words gives sentence vectors, attention over these a document vector.

| here | paper | meaning |
|---|---|---|
| word states | h_it = [h->_it ; h<-_it] | both directions over the words of sentence i |
| words: key | u_it = tanh(W_w h_it + b_w) | hidden representation of a word |
| words: query | u_w | learned word context vector: "what is the informative word" |
| words: weights, context | alpha_it, s_i | one row per sentence; s_i is the sentence vector |
| sentence states | h_i = [h->_i ; h<-_i] | both directions over the sentences |
| sentences: key, query | u_i = tanh(W_s h_i + b_s), u_s | as for words, with separate weights |
| sentences: weights, context | alpha_i, v | v is the document vector |

    alpha_it = softmax_t(u_it' u_w);  s_i = sum_t alpha_it h_it
    alpha_i  = softmax_i(u_i' u_s);   v   = sum_i alpha_i h_i

Sentences of all documents are read in groups of similar length, without empty ones, so that neither a long document nor
a long sentence adds padding to the others.

Source: Yang et al. 2016 (NAACL N16-1174), section 2; sizes of section 3.3.
Differs from the paper: the options `cell`, `bidirectional` and `dropout` (of embeddings and v; 0 by default, as there).
"""

from __future__ import annotations

from typing import Any

import torch
from pydantic import Field
from torch import Tensor
from torch.nn.functional import pad

from heed.attention import AttentionPooling
from heed.attention.host import host_copy, sent
from heed.layers import Dropout, Recurrent, TokenEmbedding
from heed.layers.ragged import length_groups
from heed.layers.recurrent import CellKind
from heed.models.base import TextConfig, TextEncoder, named_sizes


class HANConfig(TextConfig):
    """Fields of `han`; the defaults are the paper's."""

    d_embedding: int = Field(200, gt=0)
    """Width of the token embeddings."""
    d_hidden: int = Field(50, gt=0)
    """Width of the state of each direction, for words and for sentences."""
    d_attention: int = Field(100, gt=0)
    """Width of u, the hidden representation of a word or sentence, and of the learned queries."""
    cell: CellKind = "gru"
    """Recurrent cell: gru (the paper's), rnn, lstm or gru_notes."""
    bidirectional: bool = True
    """Whether words and sentences are also read from right to left."""
    dropout: float = Field(0.0, ge=0, lt=1)
    """Dropout probability of embeddings and of the document vector."""

    sizes = named_sizes(
        tiny=dict(d_embedding=64, d_hidden=32, d_attention=64),
        small=dict(d_embedding=128, dropout=0.3),
    )


class HAN(TextEncoder):
    """Recurrent layers and attention with a learned query, over words and then over sentences."""

    config_class = HANConfig
    summary = "attention to words, then to sentences"
    paper = "Yang et al. 2016"
    hierarchical = True

    def __init__(self, config: HANConfig) -> None:
        super().__init__(config)
        c = config
        self.embedding = TokenEmbedding(c.vocab_size, c.d_embedding)
        self.words = Recurrent(c.d_embedding, c.d_hidden, cell=c.cell, bidirectional=c.bidirectional)
        d = self.words.d_output
        self.word_pooling = AttentionPooling(d, d_attention=c.d_attention, mechanism="words")
        self.sentences = Recurrent(d, c.d_hidden, cell=c.cell, bidirectional=c.bidirectional)
        self.sentence_pooling = AttentionPooling(d, d_attention=c.d_attention, mechanism="sentences")
        self.dropout = Dropout(c.dropout)
        self.d_output = d

    @classmethod
    def example(cls, config: Any, seed: int) -> dict[str, Tensor]:
        """Three documents with unequal numbers of sentences of unequal length."""
        mask = torch.arange(5) < torch.tensor([[5, 3, 4, 1], [2, 5, 0, 0], [4, 0, 0, 0]]).unsqueeze(-1)
        tokens = torch.randint(4, config.vocab_size, mask.shape, generator=torch.Generator().manual_seed(seed))
        return {"tokens": tokens.masked_fill(~mask, 0), "mask": mask}

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """Documents `(batch, sentences, words)` to `(batch, d_output)`; zeros for a document without words."""
        real, on_host = mask.any(-1), host_copy(mask)  # (B, S)
        rows = on_host.flatten(0, 1).any(-1).nonzero().squeeze(1)
        words = tokens.flatten(0, 1)[sent(rows, tokens.device)]
        vectors = self._sentence_vectors(words, on_host.flatten(0, 1)[rows])  # (N, d), N real sentences in order
        laid = vectors.new_zeros(*real.shape, vectors.shape[-1]).masked_scatter(real.unsqueeze(-1), vectors)
        states, _ = self.sentences(laid, real)  # (B, S, d)
        return self.dropout(self.sentence_pooling(states, real))

    def _sentence_vectors(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """Sentences `(N, words)` to vectors `(N, d)`: recurrent layers group by group, then one attention call.

        The mask may be on the CPU.
        """
        lengths = mask.sum(1)
        if not len(lengths):
            return self.embedding.weight.new_zeros(0, self.d_output)
        groups, longest = length_groups(lengths.tolist()), int(lengths.max())
        parts = []
        for group in groups:
            rows = torch.tensor(group, device=mask.device)
            width = int(lengths[rows].max())
            embedded = self.dropout(
                self.embedding(tokens[sent(rows, tokens.device), :width])
            )  # (G, width, d_embedding)
            states, _ = self.words(embedded, sent(mask[rows, :width], tokens.device))
            parts.append(pad(states, (0, 0, 0, longest - width)))
        order = torch.tensor([row for group in groups for row in group])
        states = torch.cat(parts)[sent(torch.argsort(order), tokens.device)]  # (N, longest, d)
        return self.word_pooling(states, sent(mask[:, :longest], tokens.device))
