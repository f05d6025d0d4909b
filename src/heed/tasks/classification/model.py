"""A text classifier: a body, a pooling of its states and a linear layer, with an optional n-gram classifier."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from heed.attention import AttentionPooling
from heed.data.batch.texts import framed
from heed.data.tokens.tokenizer import START
from heed.layers import max_pooling, mean_pooling
from heed.layers.ngrams import HashedNgrams
from heed.models.base import TextEncoder, TokenEncoder, state_at
from heed.tasks.classification.config import ClassificationHead


def pooling_of(kind: str) -> str:
    """The pooling to use; "auto" stands for attention."""
    return "attention" if kind == "auto" else kind


class Pooling(nn.Module):
    """One vector per text from the states of a token encoder."""

    def __init__(self, body: TokenEncoder, head: ClassificationHead) -> None:
        super().__init__()
        self.kind = pooling_of(head.pooling)
        self.d_output = body.d_output
        if self.kind != "last":
            body.without_last()
        if self.kind == "attention":
            hops = head.pooling_hops if head.pooling_score == "self_attentive" else 1
            self.attention = AttentionPooling(
                body.d_output, score=head.pooling_score, d_attention=head.d_pooling, num_queries=hops
            )
            self.d_output = self.attention.d_output

    def forward(self, body: TokenEncoder, hidden: Tensor, mask: Tensor) -> Tensor:
        """`(batch, length, d)` to `(batch, d_output)`; zeros for a text without tokens."""
        if self.kind == "attention":
            return self.attention(hidden, mask)
        if self.kind == "last":
            return body.last(hidden, mask)
        if self.kind in ("first", "cls"):
            return state_at(hidden, mask, torch.zeros_like(mask[:, 0], dtype=torch.long))
        return {"mean": mean_pooling, "max": max_pooling}[self.kind](hidden, mask)


class Classifier(nn.Module):
    """A body, a pooling if the body gives states of tokens, and one linear layer: `logits = V pooled + b`.

    With n-grams: `logits = V pooled + b + s ngrams(text)`, where s is learned and initialised to 1.

    With pooling "cls", the start token, which never occurs in a text, is put before the text as [CLS]. Texts are
    framed for a body that reads framed texts.
    """

    def __init__(self, body: TokenEncoder | TextEncoder, head: ClassificationHead, num_outputs: int) -> None:
        super().__init__()
        self.body = body
        self.pooling = Pooling(body, head) if isinstance(body, TokenEncoder) else None
        width = body.d_output if self.pooling is None else self.pooling.d_output
        self.output = nn.Linear(width, num_outputs, bias=head.output_bias)
        self.ngrams = HashedNgrams(head.ngrams, head.ngram_buckets, num_outputs) if head.ngrams else None
        if self.ngrams is not None:
            self.ngram_scale = nn.Parameter(torch.ones(1))

    @property
    def has_cls(self) -> bool:
        """True if [CLS] is put before each text."""
        return self.framed or (self.pooling is not None and self.pooling.kind == "cls")

    @property
    def framed(self) -> bool:
        """True if each text is put between [CLS] and [SEP]."""
        return isinstance(self.body, TokenEncoder) and self.body.framed

    def forward(self, tokens: Tensor, mask: Tensor, ngram_logits: Tensor | None = None) -> Tensor:
        """Logits `(batch, num_outputs)` of texts `(batch, length)` or `(batch, sentences, words)`.

        `ngram_logits` replaces the logits of the n-gram classifier in training, `(batch, num_outputs)`.
        """
        if self.ngrams is not None and ngram_logits is None:
            ngram_logits = self.ngrams(tokens, mask)
        if self.framed:
            tokens, mask = framed(tokens, mask)
        elif self.has_cls:
            tokens, mask = pad(tokens, (1, 0), value=START), pad(mask, (1, 0), value=True)
        pooled = self.body(tokens, mask)
        if self.pooling is not None:
            pooled = self.pooling(self.body, pooled, mask)
        logits: Tensor = self.output(pooled)
        return logits if self.ngrams is None or ngram_logits is None else logits + self.ngram_scale * ngram_logits
