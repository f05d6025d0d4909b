"""Ensembles: several decoders whose next-token probabilities are averaged; an ensemble is itself a decoder."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from heed.attention import Rows
from heed.models.base import Memory, ModelConfig, PairDecoder


@dataclass(frozen=True)
class EnsembleMemory(Memory):
    """The sources as encoded by each member."""

    members: tuple[Memory, ...] = ()

    def select(self, sources: Tensor) -> EnsembleMemory:
        return EnsembleMemory((), None, tuple(memory.select(sources) for memory in self.members))


@dataclass(frozen=True)
class EnsembleState:
    """Decoding state of each ensemble member."""

    members: tuple[Any, ...]

    def select(self, rows: Tensor) -> EnsembleState:
        """Reorder the rows: row i of the result continues row `rows[i]`."""
        return EnsembleState(tuple(state.select(rows) for state in self.members))


class Ensemble(PairDecoder):
    """Pair decoders of any architecture with the same source and target vocabularies.

        p(y_t | y_<t, x) = 1/N sum_n p_n(y_t | y_<t, x)

    Hidden states are those of the members, concatenated; `output` gives log-probabilities, the logarithm of the mean,
    so that code that reads logits (a search, a score) treats an ensemble like one model.

    Source: Sutskever, Vinyals and Le 2014 (arXiv:1409.3215), section 3.6, decode with an ensemble.
    Differs: they do not specify the mean; this is the arithmetic mean of probabilities.
    """

    def __init__(self, members: Sequence[PairDecoder]) -> None:
        """Combine models on one device, in evaluation mode; token ids must mean the same in all of them."""
        super().__init__(ModelConfig())
        assert members
        self.members = nn.ModuleList(members).eval()
        self.output = _MeanProbability(members, [_width(member) for member in members])

    @property
    def aligns(self) -> bool:
        return self._decoders()[0].aligns

    def encode(self, source: Tensor, source_mask: Tensor) -> EnsembleMemory:
        return EnsembleMemory((), None, tuple(member.encode(source, source_mask) for member in self._decoders()))

    def start(self, memory: Memory | None, rows: Rows) -> EnsembleState:
        assert isinstance(memory, EnsembleMemory)
        pairs = zip(self._decoders(), memory.members, strict=True)
        return EnsembleState(tuple(member.start(encoded, rows) for member, encoded in pairs))

    def step(self, tokens: Tensor, state: EnsembleState, lengths: Tensor | None = None) -> tuple[Tensor, EnsembleState]:
        pairs = zip(self._decoders(), state.members, strict=True)
        hidden, states = zip(*(member.step(tokens, before, lengths) for member, before in pairs), strict=True)
        return torch.cat(hidden, dim=-1), EnsembleState(states)

    def _decoders(self) -> list[PairDecoder]:
        return [member for member in self.members if isinstance(member, PairDecoder)]


class _MeanProbability(nn.Module):
    """From concatenated hidden states to the logarithm of the members' mean probability."""

    def __init__(self, members: Sequence[PairDecoder], widths: list[int]) -> None:
        super().__init__()
        self._members = members  # a plain list: they are already modules of the ensemble
        self._widths = widths

    def forward(self, hidden: Tensor) -> Tensor:
        """`(..., sum of d)` to `(..., vocab_size)`."""
        parts = zip(self._members, hidden.split(self._widths, dim=-1), strict=True)
        log_probs = torch.stack([torch.log_softmax(member.logits(part).float(), dim=-1) for member, part in parts])
        return torch.logsumexp(log_probs, dim=0) - math.log(len(log_probs))


@torch.no_grad()
def _width(member: PairDecoder) -> int:
    """The width of a member's hidden states, found by running one step."""
    token = torch.ones(1, 1, dtype=torch.long, device=next(member.parameters()).device)
    return int(member.eval()(token, token.bool(), token).shape[-1])
