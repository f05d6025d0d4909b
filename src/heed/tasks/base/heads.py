"""From a model's hidden states to labels: pooling and output layers, and their fields beside the model's own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import torch
from pydantic import BaseModel
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, pad

from heed.attention import AttentionPooling
from heed.config import check_section
from heed.data.read.tags import may_follow
from heed.data.tokens.tokenizer import END, START
from heed.errors import ConfigError, suggest
from heed.layers import CharacterFeatures, LinearChainCRF, max_pooling, mean_pooling
from heed.models.base import Body, ModelConfig, TextEncoder, TokenEncoder, state_at
from heed.registry import model_config
from heed.tasks.classification.config import ClassificationHead

__all__ = ["TAG_HEADS", "Classifier", "CrfHead", "Pooling", "SoftmaxHead", "TagHead", "Tagger", "model_and_head"]

H = TypeVar("H", bound=BaseModel)


def model_and_head(body: type[Body], head: type[H], size: str, fields: dict[str, Any]) -> tuple[ModelConfig, H]:
    """Split the fields of a `model` section into the model's own and the head's.

    Raises:
        ConfigError: A field belongs to neither, or cannot have that value.
    """
    own, heads = body.config_class.model_fields, head.model_fields
    for name in fields:
        if name not in own and name not in heads:
            raise ConfigError(
                f"model: unknown field '{name}' for {body.config_class.__name__}{suggest(name, [*own, *heads])}"
            )
    shared = set(own) & set(heads)
    assert not shared, f"{body.__name__} and {head.__name__} both have {shared}"
    config = model_config(body, size, {name: value for name, value in fields.items() if name in own})
    return config, check_section(head, {name: fields[name] for name in fields if name in heads}, "model")


class Pooling(nn.Module):
    """One vector per text from the states of a token encoder."""

    def __init__(self, body: TokenEncoder, head: ClassificationHead) -> None:
        super().__init__()
        self.kind = head.pooling
        self.d_output = body.d_output
        if self.kind == "attention":
            hops = head.pooling_hops if head.pooling_score == "self_attentive" else 1
            self.attention = AttentionPooling(
                body.d_output, score=head.pooling_score, d_attention=head.d_pooling, num_queries=hops
            )
            self.d_output = self.attention.d_output

    def forward(self, body: TokenEncoder, hidden: Tensor, mask: Tensor) -> Tensor:
        """`(batch, length, d)` to `(batch, d_output)`; zeros for a text without tokens."""
        if self.kind == "attention":
            return self.attention(hidden, mask)  # type: ignore[no-any-return]
        if self.kind == "last":
            return body.last(hidden, mask)
        if self.kind in ("first", "cls"):
            return state_at(hidden, mask, torch.zeros_like(mask[:, 0], dtype=torch.long))
        return {"mean": mean_pooling, "max": max_pooling}[self.kind](hidden, mask)


class Classifier(nn.Module):
    """A body, a pooling where the body gives states of tokens, and one linear layer: `logits = V pooled + b`.

    With the pooling "cls" the start token, which no text holds, stands before the text as [CLS].
    """

    def __init__(self, body: TokenEncoder | TextEncoder, head: ClassificationHead, num_outputs: int) -> None:
        super().__init__()
        self.body = body
        self.pooling = Pooling(body, head) if isinstance(body, TokenEncoder) else None
        self.output = nn.Linear(body.d_output if self.pooling is None else self.pooling.d_output, num_outputs)

    @property
    def has_cls(self) -> bool:
        """Whether [CLS] stands before each text."""
        return self.pooling is not None and self.pooling.kind == "cls"

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        """Logits `(batch, num_outputs)` of texts `(batch, length)` or `(batch, sentences, words)`."""
        if self.has_cls:
            tokens, mask = pad(tokens, (1, 0), value=START), pad(mask, (1, 0), value=True)
        pooled = self.body(tokens, mask)
        if self.pooling is not None:
            pooled = self.pooling(self.body, pooled, mask)
        return self.output(pooled)  # type: ignore[no-any-return]


class TagHead(nn.Module, ABC):
    """From the states of words to their tags. W words, K tags."""

    @abstractmethod
    def loss(self, hidden: Tensor, tags: Tensor, mask: Tensor, label_smoothing: float) -> Tensor:
        """Sum over the words of the negative log-likelihood in nats.

        Args:
            hidden: `(batch, W, d)`.
            tags: `(batch, W)`, the true ones.
            mask: `(batch, W)`, True on real words, which come first.
            label_smoothing: Probability spread evenly over the tags in the training target, where the head can.
        """

    @abstractmethod
    def decode(self, hidden: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """The best tags `(batch, W)`, and the probability of every tag of every word `(batch, W, K)`."""

    @abstractmethod
    def choose(self, probabilities: Tensor) -> list[int]:
        """The best tags of a sentence by given probabilities of every tag of every word, `(W, K)`."""


class SoftmaxHead(TagHead):
    """Each word by itself: `softmax(V h + b)`."""

    def __init__(self, d: int, labels: Sequence[str]) -> None:
        super().__init__()
        self.output = nn.Linear(d, len(labels))

    def loss(self, hidden: Tensor, tags: Tensor, mask: Tensor, label_smoothing: float) -> Tensor:
        """Sum over the words of the cross-entropy."""
        logits = self.output(hidden[mask]).float()
        return cross_entropy(logits, tags[mask], reduction="sum", label_smoothing=label_smoothing)

    def decode(self, hidden: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """The most probable tag of each word."""
        probabilities = torch.softmax(self.output(hidden).float(), dim=-1)
        return probabilities.argmax(-1), probabilities

    def choose(self, probabilities: Tensor) -> list[int]:
        """The most probable tag of each word."""
        return probabilities.argmax(-1).tolist()


class CrfHead(TagHead):
    """All words of a sentence together: a linear-chain CRF over `V h + b`.

    Where tags mark entities in BIO, only legal sequences exist: I-x follows B-x or I-x and nothing else.
    """

    def __init__(self, d: int, labels: Sequence[str], entities: bool) -> None:
        super().__init__()
        self.output = nn.Linear(d, len(labels))
        self.crf = LinearChainCRF(
            torch.tensor([not entities or may_follow(None, tag) for tag in labels]),
            torch.tensor([[not entities or may_follow(before, tag) for tag in labels] for before in labels]),
        )

    def loss(self, hidden: Tensor, tags: Tensor, mask: Tensor, label_smoothing: float) -> Tensor:
        """Sum over the sentences of the negative log-likelihood of all their tags; no label smoothing."""
        emissions = self.output(hidden).float()
        return (self.crf.log_partition(emissions, mask) - self.crf.score(emissions, tags, mask)).sum()

    def decode(self, hidden: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """The tags of the most probable sequence, and the marginal probability of every tag."""
        emissions = self.output(hidden).float()
        return self.crf.best(emissions, mask), self.crf.marginals(emissions, mask)

    def choose(self, probabilities: Tensor) -> list[int]:
        """The tags with the largest product of probabilities among the legal sequences; no transition is preferred."""
        if not len(probabilities):
            return []
        scores = probabilities.clamp_min(1e-30).log().unsqueeze(0)
        legal = LinearChainCRF(self.crf.may_start.cpu(), self.crf.may_follow.cpu()).to(scores.device)
        everything = torch.ones(1, len(probabilities), dtype=torch.bool, device=scores.device)
        return legal.best(scores, everything)[0].tolist()


TAG_HEADS: dict[str, Callable[[int, Sequence[str], bool], TagHead]] = {
    "softmax": lambda d, labels, entities: SoftmaxHead(d, labels),
    "crf": CrfHead,
}
"""Heads by name: each is built from the width of the states, the names of the tags, and whether they are BIO."""


class Tagger(nn.Module):
    """A body that reads tokens, with the characters of their words where wanted, and a head over the words' states.

    The state of a word is the mean of those of its tokens. With a delay of n the state of token t is the one that the
    body has at token t + n: it reads on for n tokens, behind the text's end further end tokens.

    Source: Graves and Schmidhuber 2005, "Framewise phoneme classification", for the delay.
    """

    def __init__(self, body: TokenEncoder, head: TagHead, characters: CharacterFeatures | None, delay: int = 0) -> None:
        super().__init__()
        self.delay = delay
        self.body = body
        self.characters = characters
        self.head = head

    def forward(
        self, tokens: Tensor, mask: Tensor, word_of: Tensor | None, word_mask: Tensor, characters: Tensor | None
    ) -> Tensor:
        """States of the words, `(batch, words, d_output)`.

        Args:
            tokens: `(batch, length)`.
            mask: `(batch, length)`, True on real tokens.
            word_of: `(batch, length)`, the word that each token belongs to; None where every word is one token.
            word_mask: `(batch, words)`, True on real words.
            characters: `(batch, words, characters)`, for a model that reads them.
        """
        features = None
        if self.characters is not None:
            assert characters is not None
            features = self.characters(characters)  # (B, W, num_filters)
            if word_of is not None:
                features = features.gather(1, word_of.unsqueeze(-1).expand(-1, -1, features.shape[-1]))
        hidden = self._states(tokens, mask, features)  # (B, T, d_output)
        if word_of is None:
            return hidden
        parts = mask.to(hidden.dtype).unsqueeze(-1)
        place = word_of.unsqueeze(-1)
        sums = hidden.new_zeros(*word_mask.shape, hidden.shape[-1])
        sums = sums.scatter_add(1, place.expand_as(hidden), hidden * parts)
        counts = hidden.new_zeros(*word_mask.shape, 1).scatter_add(1, place, parts)
        return sums / counts.clamp_min(1.0)

    def _states(self, tokens: Tensor, mask: Tensor, features: Tensor | None) -> Tensor:
        """The states that tell of each token, `(batch, length, d_output)`."""
        if not self.delay:
            return self.body(tokens, mask, features)  # type: ignore[no-any-return]
        read = pad(mask, (self.delay, 0), value=True)  # as many more tokens are real
        ended = pad(tokens, (0, self.delay)).masked_fill(read & ~pad(mask, (0, self.delay)), END)
        if features is not None:
            features = pad(features * mask.unsqueeze(-1), (0, 0, 0, self.delay))
        return self.body(ended, read, features)[:, self.delay :]  # type: ignore[no-any-return]
