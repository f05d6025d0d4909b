"""Searches over small and large vocabularies, with tokens of no probability, against a search written in NumPy."""

import importlib
import math
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from heed import kernels
from heed.generation import SearchOptions, generate
from heed.models.base import LanguageModel, ModelConfig

LINEAR = importlib.import_module("heed.kernels.linear")  # the package has a function of that name
START, END, LIMIT, NUM_SOURCES = 1, 2, 6, 7
WIDTH = 8
PIECE = 1024  # tokens whose logits the fast search computes together


@dataclass
class Position:
    number: int

    def select(self, rows):
        return self


class Chain(LanguageModel):
    """The next token depends on the last one and on its position: two tables of vectors and an output layer."""

    config_class = ModelConfig

    def __init__(self, vocab_size, blocked, large):
        super().__init__(ModelConfig())
        torch.manual_seed(vocab_size)
        self.table = nn.Embedding(vocab_size, WIDTH)
        self.positions = nn.Embedding(LIMIT, WIDTH)
        self.output = nn.Linear(WIDTH, vocab_size)
        self.output.weight.data.normal_(std=1.2)
        self.output.bias.data.normal_()
        self.output.bias.data[END] += math.log(vocab_size) + 2
        for token, value in large.items():
            self.output.bias.data[token] = value
        self.output.bias.data[blocked] = -torch.inf

    def start(self, memory, rows):
        return Position(0)

    def step(self, tokens, state, lengths=None):
        return self.table(tokens) + self.positions.weight[state.number], Position(state.number + 1)

    def log_probs(self, token, position):
        """Of what follows a token, in double precision."""
        hidden = self.table.weight[token] + self.positions.weight[position]
        parts = (hidden, self.output.weight, self.output.bias)
        hidden, weight, bias = (part.detach().double().numpy() for part in parts)
        logits = weight @ hidden + bias
        largest = logits.max()
        return logits - (largest + np.log(np.exp(logits - largest).sum()))


def places(vocab_size):
    """Where there is no probability, by name: tokens."""
    firsts = [n for n in range(0, vocab_size, PIECE) if n != END]
    spread = np.random.default_rng(0).permutation(vocab_size)
    spread = spread[spread != END]
    return {
        "nowhere": [],
        "padding": [0],
        "first of each piece": firsts,
        "a third": spread[: vocab_size // 3].tolist(),
        "all but a few": spread[9:].tolist(),
        "the first piece": [n for n in range(min(PIECE, vocab_size - 9)) if n != END],
        "the last piece": list(range(max(END + 9, (vocab_size - 1) // PIECE * PIECE), vocab_size)),
    }


def cases():
    for vocab_size in (50, 3_000, 32_000):
        for name, blocked in places(vocab_size).items():
            yield pytest.param(vocab_size, blocked, {}, id=f"{vocab_size}-{name}")
        yield pytest.param(vocab_size, [1], {0: -1e6}, id=f"{vocab_size}-tiny")
        yield pytest.param(vocab_size, [], {n: -1e30 for n in range(0, vocab_size, PIECE)}, id=f"{vocab_size}-tiniest")
        yield pytest.param(vocab_size, [], {5: 1e6}, id=f"{vocab_size}-huge")


every_case = pytest.mark.parametrize(("vocab_size", "blocked", "large"), list(cases()))
both_ways = pytest.mark.parametrize("way", ["runs", "plain"])


def prepare(monkeypatch, way, vocab_size, blocked, large):
    """The model and prompts; the search takes the way it is told to wherever that is possible."""
    monkeypatch.setattr(kernels.private, "_enabled", way != "plain")
    monkeypatch.setattr(LINEAR, "_SMALL", 0)
    prompts = 3 + torch.arange(NUM_SOURCES).unsqueeze(1)
    return Chain(vocab_size, blocked, large).eval(), prompts


def allowed(log_probs, forbidden):
    log_probs = log_probs.copy()
    log_probs[list(forbidden)] = -np.inf
    return log_probs


def numpy_greedy(model, token, forbidden):
    written, total = [], []
    while len(written) < LIMIT:
        log_probs = allowed(model.log_probs(token, len(written)), forbidden)
        token = int(log_probs.argmax())
        written.append(token)
        total.append(log_probs[token])
        if token == END:
            break
    return written, total


def numpy_beam(model, first, forbidden, width, num_best):
    """By the definition in `heed.generation.beam_search`: sequences and scores (mean log-probabilities), best first."""
    rows, done = [((), 0.0)], []
    for length in range(1, LIMIT + 1):
        candidates = []
        for tokens, total in rows:
            log_probs = total + allowed(model.log_probs(tokens[-1] if tokens else first, len(tokens)), forbidden)
            best = np.argsort(-log_probs)[: 2 * width]
            candidates += [((*tokens, int(t)), log_probs[t]) for t in best if log_probs[t] > -np.inf]
        candidates = sorted(candidates, key=lambda c: -c[1])[: 2 * width]
        rows = [c for c in candidates if c[0][-1] != END][:width]
        ended = [c for c in candidates if c[0][-1] == END] + (rows if length == LIMIT else [])
        done = sorted([*done, *((tokens, total / length) for tokens, total in ended)], key=lambda c: -c[1])
        if not rows or (len(done) >= num_best and done[num_best - 1][1] >= rows[0][1] / LIMIT):
            break
    return done[:num_best]


def with_end(hypothesis):
    return [*hypothesis.tokens, *([END] if hypothesis.finished else [])]


@both_ways
@every_case
def test_greedy_search_is_the_independent_one(monkeypatch, way, vocab_size, blocked, large):
    model, prompts = prepare(monkeypatch, way, vocab_size, blocked, large)
    for forbidden in ((), (0, 4)):
        found = generate(model, None, prompts, SearchOptions(END, LIMIT, forbidden=forbidden)).hypotheses
        for prompt, (hypothesis,) in zip(prompts[:, 0].tolist(), found, strict=True):
            expected, log_probs = numpy_greedy(model, prompt, forbidden)
            assert with_end(hypothesis) == expected
            assert hypothesis.log_probs == pytest.approx(log_probs, rel=1e-5, abs=1e-4)


@both_ways
@every_case
def test_beam_search_is_the_independent_one(monkeypatch, way, vocab_size, blocked, large):
    model, prompts = prepare(monkeypatch, way, vocab_size, blocked, large)
    options = SearchOptions(END, LIMIT, beam_size=4, num_best=3, forbidden=(0, 4))
    found = generate(model, None, prompts, options).hypotheses
    for prompt, hypotheses in zip(prompts[:, 0].tolist(), found, strict=True):
        expected = numpy_beam(model, prompt, (0, 4), 4, 3)
        assert [h.score for h in hypotheses] == pytest.approx([score for _, score in expected], rel=1e-5, abs=1e-4)
        known = len(hypotheses) if max(large.values(), default=0) < 1e6 else 1  # the others are equal in float32
        assert [tuple(with_end(h)) for h in hypotheses[:known]] == [tokens for tokens, _ in expected[:known]]


def constrained(model, first, tokens, size, forced):
    """Log-probabilities of what follows, by the definition: a forced first token is certain, n-grams do not repeat."""
    if forced is not None and not tokens:
        certain = np.full(model.output.out_features, -np.inf)
        certain[forced] = 0.0
        return certain
    log_probs, text = model.log_probs(tokens[-1] if tokens else first, len(tokens)), [first, *tokens]
    ngrams = {tuple(text[n : n + size]) for n in range(len(text) - size + 1)}
    for token in range(len(log_probs)):
        if len(text) >= size and tuple([*text, token][-size:]) in ngrams:
            log_probs[token] = -np.inf
    return log_probs


@both_ways
@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("forces", [False, True])
def test_searches_repeat_no_ngram_and_begin_with_a_forced_token(monkeypatch, way, size, forces):
    model, prompts = prepare(monkeypatch, way, 12, [], {END: -3.0})
    model.positions.weight.data.zero_()  # then what is most probable soon goes round in a circle
    forced = tuple(11 - n % 3 for n in range(NUM_SOURCES)) if forces else ()
    options = SearchOptions(END, LIMIT, no_repeat_ngram=size, forced=forced, beam_size=4, num_best=2)
    beams = generate(model, None, prompts, options).hypotheses
    greedy = generate(model, None, prompts, replace(options, beam_size=1, num_best=1)).hypotheses
    free = generate(model, None, prompts, SearchOptions(END, LIMIT)).hypotheses
    assert [h[0].tokens for h in greedy] != [h[0].tokens for h in free]
    for source, (first,) in enumerate(prompts.tolist()):
        scores = partial(constrained, model, first, size=size, forced=forced[source] if forces else None)
        tokens, log_probs = [], []
        while len(tokens) < LIMIT and END not in tokens:
            tokens.append(int(scores(tokens).argmax()))
            log_probs.append(scores(tokens[:-1])[tokens[-1]])
        assert with_end(greedy[source][0]) == tokens
        assert greedy[source][0].log_probs == pytest.approx(log_probs, rel=1e-5, abs=1e-4)
        rows, done = [((), 0.0)], []
        for length in range(1, LIMIT + 1):
            found = [((*t, n), total + p) for t, total in rows for n, p in enumerate(scores(list(t))) if p > -np.inf]
            found = sorted(found, key=lambda one: -one[1])[:8]
            rows = [one for one in found if one[0][-1] != END][:4]
            ended = [one for one in found if one[0][-1] == END] + (rows if length == LIMIT else [])
            done += [(t, total / length) for t, total in ended]
        best = sorted(done, key=lambda one: -one[1])[:2]
        assert [tuple(with_end(h)) for h in beams[source]] == [t for t, _ in best]
        assert [h.score for h in beams[source]] == pytest.approx([score for _, score in best], rel=1e-5, abs=1e-4)
