"""Hierarchical recurrent encoder-decoder for dialogue: Serban et al. 2016, with attention to words and turns.

| here | paper | meaning |
|---|---|---|
| tokens, target | w_m,n | words of utterance m; of the response |
| word states | h_m,n = [h->_m,n ; h<-_m,n] | both directions over the words of an utterance |
| utterance vector | h_m,N | last state of each direction, concatenated |
| speaker | - | learned embedding of the speaker |
| dialogue state | c_m | state after utterance m, of width `d_context` |
| state | d_n | the decoder's hidden state, s_t below |
| turns: weights | - | b_ti: attention of response word t to turn i |
| words: weights | - | a_tij: attention of response word t to word j of turn i |
| hidden | omega | input of the output layer for word t |

    h_ij = words(x_i1 ... x_in)_j                      v_i = [h->_in ; h<-_i1] for each utterance
    c_i  = turns(v_i + r_i, c_{i-1}),  c_0 = 0         r_i the embedding of its speaker
    s_0  = tanh(D c_m + d)                             after m turns
    s_t  = cell([x'_t ; c_m], s_{t-1})                 x'_t the embedding of the previous word
    b_ti = softmax_i(score(s_t, c_i))                  turn_attention: over the turns read
    a_tij = b_ti softmax_j(score(s_t, h_ij))           word_attention too: over the words of each turn
    a_tij = softmax_ij(score(s_t, h_ij))               word_attention alone: over all words read
    y_t  from softmax(W_o [s_t ; sum_i b_ti c_i ; sum_ij a_tij h_ij])
                                                       d_readout: softmax(W_o tanh(W_r [the same ; x'_t]))

No c_i depends on later turns, so a conversation is encoded once for all its responses; each response reads only the
turns before it. Utterances are read in groups of similar length, and a conversation's words are concatenated without
padding between turns, so that neither a long turn nor a long conversation adds much padding to others.

Source: arXiv:1507.04808, section 3 (HRED-Bidirectional, with concatenated last states); base size of section 5.
Attention over turns and words: the lecture notes (docs/systems.md, B8 and B9) and `heed.attention.hierarchical`.
Differs from the paper: the dialogue state also enters each step of the decoder; speakers have embeddings; without
`d_readout` the output layer is a single matrix, with it a tanh layer also reads x'_t as in the paper.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from pydantic import Field
from torch import Tensor, nn
from torch.nn.functional import pad

from heed.attention import Attention, Keys, Rows, make_score, padding_mask, watch
from heed.attention.hierarchical import HierarchicalAttention
from heed.attention.host import host_copy, sent
from heed.kernels import Linear
from heed.layers import Dropout, Recurrent, RecurrentState, TokenEmbedding
from heed.layers.ragged import length_groups
from heed.layers.recurrent import CellKind, State
from heed.models.base import Memory, TurnConfig, TurnDecoder, named_sizes


class HREDConfig(TurnConfig):
    """Fields of `hred`; the defaults are the paper's."""

    d_embedding: int = Field(300, gt=0)
    """Width of the token embeddings."""
    d_hidden: int = Field(300, gt=0)
    """Width of each layer of the decoder and of each direction over the words."""
    d_context: int = Field(300, gt=0)
    """Width of the dialogue state."""
    d_attention: int = Field(300, gt=0)
    """Width of the layer that compares query and key, for the scores that project both: concat, additive, key_query."""
    cell: CellKind = "gru"
    """Recurrent cell of words, turns and decoder: gru (the paper's), rnn, lstm or gru_notes."""
    num_layers: int = Field(1, gt=0)
    """Number of layers over the words, over the turns and in the decoder, each."""
    bidirectional: bool = True
    """Whether a second network reads each utterance from right to left."""
    word_attention: bool = False
    """Whether the decoder attends to the words of the turns so far (not in the paper). With `turn_attention`, the
    weights of a turn's words sum to the weight of the turn."""
    turn_attention: bool = False
    """Whether the decoder attends to the dialogue state after each turn so far (not in the paper)."""
    score: str = "general"
    """Score of the decoder's state and a word or turn; `heed models --scores` lists all."""
    d_readout: int | None = Field(None, gt=0)
    """Width of a tanh layer before the output layer, which also reads the previous word; null for none. A width below
    that of its input saves computation in the output layer."""
    dropout: float = Field(0.0, ge=0, lt=1)
    """Dropout probability of embeddings, hidden states and attention weights."""

    sizes = named_sizes(
        tiny=dict(
            **dict(d_embedding=64, d_hidden=128, d_context=128, d_attention=128),
            **dict(word_attention=True, turn_attention=True),
        ),
        small=dict(
            **dict(d_embedding=256, d_hidden=256, d_context=256, d_attention=256, d_readout=256),
            **dict(word_attention=True, turn_attention=True, dropout=0.3),
        ),
    )


@dataclass(frozen=True)
class DialogueMemory(Memory):
    """Encoded conversations; `summary` is the dialogue state after all turns."""

    states: Tensor  # `(batch, turn, d_context)`, the dialogue state after each turn
    turn_of: Tensor  # `(batch, key)`, the turn of each word; a conversation's words are concatenated along `key`
    words: Keys | None  # keys and values of the words; None without word attention
    turns: Keys | None  # keys and values of the turns; None without turn attention

    def select(self, sources: Tensor) -> DialogueMemory:
        summary = None if self.summary is None else self.summary.index_select(0, sources)
        states, turn_of = self.states.index_select(0, sources), self.turn_of.index_select(0, sources)
        words, turns = (None if keys is None else keys.select(sources) for keys in (self.words, self.turns))
        return _memory(summary, states, turn_of, words, turns)


@dataclass(frozen=True)
class DialogueState(RecurrentState):
    """Decoding state of `HRED`; `fed` is the dialogue state that enters each step."""

    memory: DialogueMemory  # the encoded conversations
    rows: Rows  # the conversation of each row
    read: Tensor | None  # `(rows,)`, number of turns that each row may read; None for all turns of its conversation
    position: Tensor  # `(rows,)`, number of tokens read so far

    def select(self, rows: Tensor) -> DialogueState:
        remaining, sources = self.rows.select(rows)
        memory = self.memory if sources is None else self.memory.select(sources)
        moved = super().select(rows)
        read = None if self.read is None else self.read.index_select(0, rows)
        return DialogueState(moved.states, moved.fed, memory, remaining, read, self.position.index_select(0, rows))


class HRED(TurnDecoder):
    """Recurrent networks over the words and over the utterances, and a decoder that can attend to both."""

    config_class = HREDConfig
    summary = "hierarchical recurrent, for dialogue"
    paper = "Serban et al. 2016"
    config: HREDConfig

    def __init__(self, config: HREDConfig) -> None:
        super().__init__(config)
        c = config
        self.embedding = TokenEmbedding(c.vocab_size, c.d_embedding)
        layers: dict[str, Any] = {"cell": c.cell, "num_layers": c.num_layers, "dropout": c.dropout}
        self.words = Recurrent(c.d_embedding, c.d_hidden, bidirectional=c.bidirectional, **layers)
        d_word = self.words.d_output
        self.speaker = TokenEmbedding(c.num_speakers, d_word)
        self.turns = Recurrent(d_word, c.d_context, **layers)
        self.initial = nn.ModuleList(nn.Linear(c.d_context, c.d_hidden) for _ in range(c.num_layers))
        self.decoder = Recurrent(c.d_embedding + c.d_context, c.d_hidden, **layers)
        d_seen = c.d_hidden
        self.turn_attention: Attention | None = None
        if c.turn_attention:
            score = make_score(c.score, c.d_hidden, c.d_context, c.d_attention)
            self.turn_attention = Attention(score, dropout=c.dropout, mechanism="turns")
            d_seen += c.d_context
        self.word_attention: Attention | None = None
        if c.word_attention:
            score = make_score(c.score, c.d_hidden, d_word, c.d_attention)
            kind = HierarchicalAttention if c.turn_attention else Attention
            self.word_attention = kind(score, dropout=c.dropout, mechanism="words")
            d_seen += d_word
        self.readout = Linear(d_seen + c.d_embedding, c.d_readout) if c.d_readout else None
        self.output = nn.Linear(c.d_readout or d_seen, c.vocab_size)
        self.dropout = Dropout(c.dropout)

    def forward(
        self,
        tokens: Tensor,
        mask: Tensor,
        turns: Tensor,
        speakers: Tensor,
        target: Tensor,
        conversation: Tensor,
        read: Tensor,
    ) -> Tensor:
        """As `TurnDecoder.forward`, with responses read in groups of similar length; all at once when observed.

        Batches are made of whole conversations, so their responses cannot be batched by length. Hidden states of
        padding are zero where there are several groups.
        """
        on_host, device = host_copy(target), target.device
        lengths = ((on_host != 0) * torch.arange(1, on_host.shape[1] + 1, device=on_host.device)).amax(1).clamp_min(1)
        groups = length_groups(lengths.tolist())
        if watch.observer.current is not None or len(groups) == 1:
            return super().forward(tokens, mask, turns, speakers, target, conversation, read)
        memory, parts = self.encode(tokens, mask, turns, speakers), []
        for group in groups:
            rows = sent(torch.tensor(group), device)
            width = int(lengths[group[0]])
            state = self.start(memory, Rows(sent(host_copy(conversation)[group], device), len(turns)), read[rows])
            hidden, _ = self.step(target[rows, :width], state)
            parts.append(pad(hidden, (0, 0, 0, target.shape[1] - width)))
        order = torch.tensor([row for group in groups for row in group])
        return torch.cat(parts)[sent(torch.argsort(order), device)]

    def encode(self, tokens: Tensor, mask: Tensor, turns: Tensor, speakers: Tensor) -> DialogueMemory:
        """Encode each utterance, then the conversations; arguments as `TurnDecoder.encode`.

        A conversation of two turns, "a b" and "c d e", utterances 0 and 1 (`turns` is [[0, 1]]):

            word states   c d e a b -    one row for each, both utterances as one group, the longer one first
            first         [3, 0]         row of each utterance's first word
            ends          [[2, 5]]       number of words up to the end of each turn
            place           0 1 2 3 4    of each word of the conversation
            turn_of       [[0 0 1 1 1]]  the number of turns that end before it
            inside        [[0 1 0 1 2]]  its index within its turn
            row           [[3 4 0 1 2]]  its word state: first + inside
        """
        lengths = mask.sum(1)
        states, vectors, first = self._utterances(tokens, mask, host_copy(mask).sum(1))
        real = turns >= 0  # (B, T)
        heard = pad(self.dropout(vectors + self.speaker(speakers)), (0, 0, 0, 1))  # (U + 1, d_word): row -1 is zero
        dialogue, _ = self.turns(heard[turns], real)  # (B, T, d_context)
        dialogue = self.dropout(dialogue)
        words_of_turn = pad(lengths, (0, 1))[turns]  # (B, T)
        ends = words_of_turn.cumsum(1)  # (B, T)
        longest = int(pad(host_copy(mask).sum(1), (0, 1))[host_copy(turns)].sum(1).max())
        place = torch.arange(longest, device=tokens.device)
        turn_of = (place >= ends.unsqueeze(-1)).sum(1).clamp_max(turns.shape[1] - 1)  # (B, K)
        words = turn_keys = None
        if self.word_attention is not None:
            inside = place - (ends - words_of_turn).gather(1, turn_of)  # index of the word within its turn
            is_word = place < ends[:, -1:]
            row = (pad(first, (0, 1))[turns].gather(1, turn_of) + inside).masked_fill(~is_word, 0)
            words = self.word_attention.prepare(self.dropout(states)[row], mask=is_word)
        if self.turn_attention is not None:
            which = torch.eye(turns.shape[1], device=tokens.device, dtype=dialogue.dtype).expand(len(turns), -1, -1)
            turn_keys = self.turn_attention.prepare(dialogue, torch.cat([dialogue, which], dim=-1), mask=real)
        every = torch.arange(len(turns), device=tokens.device)
        return _memory(_after(dialogue, every, real.sum(1)), dialogue, turn_of, words, turn_keys)

    def _utterances(self, tokens: Tensor, mask: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Encode utterances in groups of similar length.

        Returns:
            The word states of all utterances, `(words, d_word)`, with little padding between utterances; one vector per
            utterance, `(utterances, d_word)`; and `(utterances,)`, the index of each utterance's first word state.
        """
        if not len(tokens):
            nothing = self.embedding.weight.new_zeros(0, self.words.d_output)
            return nothing, nothing, sent(lengths, tokens.device)
        states, vectors, places, order, start = [], [], [], [], 0
        for group in length_groups(lengths.tolist()):
            rows = sent(torch.tensor(group), tokens.device)
            width = int(lengths[group[0]])
            embedded = self.dropout(self.embedding(tokens[rows, :width]))  # (G, width, d_embedding)
            hidden, finals = self.words(embedded, sent(host_copy(mask)[group, :width], tokens.device))
            states.append(hidden.flatten(0, 1))
            vectors.append(torch.cat([final[0] for final in finals[-1]], dim=-1))
            places.append(start + width * torch.arange(len(group), device=tokens.device))
            order.append(rows)
            start += len(group) * width
        back = torch.argsort(torch.cat(order))
        return torch.cat(states), torch.cat(vectors)[back], torch.cat(places)[back]

    def start(self, memory: Memory | None, rows: Rows, read: Tensor | None = None) -> DialogueState:
        """Initial decoding state of each row: `s_0` from the dialogue state after the `read` turns."""
        assert isinstance(memory, DialogueMemory) and memory.summary is not None
        row = rows.source_of
        fed = memory.summary[row] if read is None else _after(memory.states, row, read)
        states: list[list[State]] = []
        for layer in self.initial:
            s_0 = torch.tanh(layer(fed))
            states.append([(s_0, torch.zeros_like(s_0)) if self.config.cell == "lstm" else (s_0,)])
        return DialogueState(states, fed, memory, rows, read, torch.zeros_like(row))

    def step(self, tokens: Tensor, state: DialogueState, lengths: Tensor | None = None) -> tuple[Tensor, DialogueState]:
        """Update the states, then attend; arguments and result as `DecoderBody.step`.

        No state depends on a context, so all tokens are read in one run of the recurrent layers.
        """
        assert state.fed is not None
        embedded = self.dropout(self.embedding(tokens))  # (R, n, d_embedding)
        fed = state.fed.unsqueeze(1).expand(-1, tokens.shape[1], -1)
        mask = None if lengths is None else padding_mask(lengths, tokens.shape[1])
        hidden, states = self.decoder(torch.cat([embedded, fed], dim=-1), mask, state.states)  # (R, n, d_hidden)
        out = torch.cat([hidden, *self._look(hidden, state)], dim=-1)
        if self.readout is not None:
            out = torch.tanh(self.readout(torch.cat([self.dropout(out), embedded], dim=-1)))
        position = state.position + (tokens.shape[1] if lengths is None else lengths)
        return self.dropout(out), replace(state, states=states, position=position)

    def _look(self, hidden: Tensor, state: DialogueState) -> list[Tensor]:
        """Contexts of states `(rows, n, d_hidden)` over the turns and over the words, `(rows, n, ...)` each."""
        contexts, memory, read = [], state.memory, state.read
        where: dict[str, Any] = {"rows": state.rows, "offset": state.position}
        turn_weights = seen = None
        if self.turn_attention is not None:
            assert memory.turns is not None
            if read is not None:
                seen = torch.arange(len(memory.turns), device=read.device) < read.unsqueeze(1)  # (R, T)
            context = self.turn_attention(hidden, memory.turns, seen=seen, **where)
            context, turn_weights = context.split([self.config.d_context, len(memory.turns)], dim=-1)
            contexts.append(context)
        if self.word_attention is not None:
            assert memory.words is not None
            if read is not None:
                seen = memory.turn_of[state.rows.source_of] < read.unsqueeze(1)  # (R, K)
            inside = [] if turn_weights is None else [memory.turn_of, turn_weights]
            contexts.append(self.word_attention(hidden, memory.words, *inside, seen=seen, **where))
        return contexts


def _memory(
    summary: Tensor | None, states: Tensor, turn_of: Tensor, words: Keys | None, turns: Keys | None
) -> DialogueMemory:
    keys = tuple(part for part in (turns, words) if part is not None)
    return DialogueMemory(keys, summary, states, turn_of, words, turns)


def _after(states: Tensor, row: Tensor, read: Tensor) -> Tensor:
    """Dialogue states c_m of conversations `row` after m = `read` turns each, `(rows, d_context)`; c_0 = 0."""
    return states[row, (read - 1).clamp_min(0)] * (read > 0).unsqueeze(-1)
