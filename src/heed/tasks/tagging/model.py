"""A tagger: a body, the states of words, and a head that tags words one by one or jointly."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, pad

from heed.data.batch.rows import DistinctWords
from heed.data.batch.texts import frame_size, framed, framed_features, unframed
from heed.data.kinds.tagged import may_follow
from heed.data.tokens.tokenizer import END
from heed.layers import CharacterFeatures, LinearChainCRF
from heed.models.base import TokenEncoder, learned_positions


class TagHead(nn.Module, ABC):
    """Maps the states of words to tags. Shapes: W words, K tags."""

    @abstractmethod
    def loss(self, hidden: Tensor, tags: Tensor, mask: Tensor, label_smoothing: float) -> Tensor:
        """Sum over the words of the negative log-likelihood in nats, with label smoothing if the head supports it.

        `hidden` is `(batch, W, d)`; `tags` and `mask` are `(batch, W)`, real words first.
        """

    @abstractmethod
    def decode(self, hidden: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """The best tags `(batch, W)`, and the probability of every tag of every word `(batch, W, K)`."""

    @abstractmethod
    def choose(self, probabilities: Tensor) -> list[int]:
        """The best tags of a sentence, from the probability of every tag of every word, `(W, K)`."""


class SoftmaxHead(TagHead):
    """Tags each word independently: `softmax(V h + b)`."""

    def __init__(self, d: int, labels: Sequence[str]) -> None:
        super().__init__()
        self.output = nn.Linear(d, len(labels))

    def loss(self, hidden: Tensor, tags: Tensor, mask: Tensor, label_smoothing: float) -> Tensor:
        logits = self.output(hidden[mask]).float()
        return cross_entropy(logits, tags[mask], reduction="sum", label_smoothing=label_smoothing)

    def decode(self, hidden: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        probabilities = torch.softmax(self.output(hidden).float(), dim=-1)
        return probabilities.argmax(-1), probabilities

    def choose(self, probabilities: Tensor) -> list[int]:
        return probabilities.argmax(-1).tolist()


class CrfHead(TagHead):
    """Tags all words of a sentence jointly: a linear-chain CRF over `V h + b`.

    If the tags mark entities in BIO, only legal sequences are allowed: I-x follows only B-x or I-x.
    """

    def __init__(self, d: int, labels: Sequence[str], entities: bool) -> None:
        super().__init__()
        self.output = nn.Linear(d, len(labels))
        self.crf = LinearChainCRF(
            torch.tensor([not entities or may_follow(None, tag) for tag in labels]),
            torch.tensor([[not entities or may_follow(before, tag) for tag in labels] for before in labels]),
        )

    def loss(self, hidden: Tensor, tags: Tensor, mask: Tensor, label_smoothing: float) -> Tensor:
        emissions = self.output(hidden).float()
        return (self.crf.log_partition(emissions, mask) - self.crf.score(emissions, tags, mask)).sum()

    def decode(self, hidden: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        emissions = self.output(hidden).float()
        return self.crf.best(emissions, mask), self.crf.marginals(emissions, mask)

    def choose(self, probabilities: Tensor) -> list[int]:
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
"""Heads by name: each is built from the width of the states, the tag names, and True if they are BIO."""


class Tagger(nn.Module):
    """A body that reads tokens, and optionally the characters of words, with a head over the words' states.

    The state of a word is the mean of its tokens' states, or that of its first token. Texts are framed for a body that
    reads framed texts. A sentence longer than a table of learned positions is read in pieces.

    With a delay of n, the state of token t is the body's state at token t + n; n end tokens are appended to the text.

    Source: Graves and Schmidhuber 2005, "Framewise phoneme classification", for the delay.
    """

    def __init__(
        self,
        body: TokenEncoder,
        head: TagHead,
        characters: CharacterFeatures | None,
        delay: int = 0,
        word: Literal["mean", "first"] = "mean",
    ) -> None:
        super().__init__()
        self.delay = delay
        self.word = word
        self.body = body
        self._positions = learned_positions(body.config_class, vars(body.config))
        body.without_last()
        self.characters = characters
        self.head = head

    def forward(
        self, tokens: Tensor, mask: Tensor, word_of: Tensor | None, word_mask: Tensor, characters: DistinctWords | None
    ) -> Tensor:
        """States of the words, `(batch, words, d_output)`.

        Args:
            tokens: `(batch, length)`.
            mask: `(batch, length)`, True on real tokens.
            word_of: `(batch, length)`, the word that each token belongs to; None if every word is one token.
            word_mask: `(batch, words)`, True on real words.
            characters: The characters of the words, for a model that reads them.
        """
        features = None
        if self.characters is not None:
            assert characters is not None
            features = self.characters(characters.groups, characters.place)  # (B, W, num_filters)
            if word_of is not None:
                features = features.gather(1, word_of.unsqueeze(-1).expand(-1, -1, features.shape[-1]))
        hidden = self._states(tokens, mask, features)  # (B, T, d_output)
        if word_of is None:
            return hidden
        if self.word == "first":
            mask = mask & (word_of != pad(word_of, (1, 0), value=-1)[:, :-1])
        parts = mask.to(hidden.dtype).unsqueeze(-1)
        place = word_of.unsqueeze(-1)
        sums = hidden.new_zeros(*word_mask.shape, hidden.shape[-1])
        sums = sums.scatter_add(1, place.expand_as(hidden), hidden * parts)
        counts = hidden.new_zeros(*word_mask.shape, 1).scatter_add(1, place, parts)
        return sums / counts.clamp_min(1.0)

    def _framed_states(self, tokens: Tensor, mask: Tensor, features: Tensor | None) -> Tensor:
        read = framed(tokens, mask)
        return unframed(self.body(*read, None if features is None else framed_features(features)))

    def _states(self, tokens: Tensor, mask: Tensor, features: Tensor | None) -> Tensor:
        """The state used for each token, after framing and delay, `(batch, length, d_output)`."""
        if self.body.framed:
            most = int(self.body.config.max_length) - frame_size(False)  # type: ignore[attr-defined]
            pieces = [None] * -(-tokens.shape[1] // most) if features is None else features.split(most, 1)
            parts = zip(tokens.split(most, 1), mask.split(most, 1), pieces, strict=True)
            return torch.cat([self._framed_states(*part) for part in parts], dim=1)
        if not self.delay:
            most = self._positions or tokens.shape[1]
            pieces = [None] * -(-tokens.shape[1] // most) if features is None else features.split(most, 1)
            parts = zip(tokens.split(most, 1), mask.split(most, 1), pieces, strict=True)
            states = [self.body(*part) for part in parts]
            return states[0] if len(states) == 1 else torch.cat(states, dim=1)
        read = pad(mask, (self.delay, 0), value=True)  # as many more tokens are real
        ended = pad(tokens, (0, self.delay)).masked_fill(read & ~pad(mask, (0, self.delay)), END)
        if features is not None:
            features = pad(features * mask.unsqueeze(-1), (0, 0, 0, self.delay))
        return self.body(ended, read, features)[:, self.delay :]  # type: ignore[no-any-return]
