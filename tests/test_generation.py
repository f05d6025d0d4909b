"""Writing: greedy and beam search against exhaustive searches, sampling against its distribution, and every limit."""

import importlib
import math
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

import reference as ref
from heed import kernels
from heed.attention import Rows
from heed.errors import ConfigError
from heed.generation import SamplingOptions, SearchOptions, generate
from heed.models.attention_lm import AttentionLM, AttentionLMConfig
from heed.models.bahdanau import Bahdanau, BahdanauConfig
from heed.models.base import LanguageModel, ModelConfig

START, END = 1, 2
CLOSE = {"abs": 1e-4}


@dataclass
class NoState:
    def select(self, rows):
        return self


class Chain(LanguageModel):
    """A language model small enough to search by hand: the next token depends on the last one only."""

    config_class = ModelConfig

    def __init__(self, probabilities):
        super().__init__(ModelConfig())
        table = torch.tensor(probabilities).clamp_min(1e-30).log()
        self.output = nn.Linear(*table.shape, bias=False)
        self.output.weight.data = table.T.contiguous()

    def start(self, memory, rows):
        return NoState()

    def step(self, tokens, state, lengths=None):
        return nn.functional.one_hot(tokens, self.output.in_features).float(), state


# From the start (1), token 3 looks best, but what follows it is spread out; token 0 is followed by the end.
GARDEN_PATH = Chain([
    [0.0, 0.0, 1.0, 0.0],
    [0.4, 0.0, 0.0, 0.6],
    [0.0, 0.0, 1.0, 0.0],
    [0.3, 0.0, 0.3, 0.4],
])  # fmt: skip


def make_language_model(vocab_size=4, seed=0, sharp=6.0):
    torch.manual_seed(seed)
    model = AttentionLM(AttentionLMConfig(vocab_size=vocab_size, d_model=8, num_heads=2)).eval()
    model.output.weight.data *= sharp
    return model


def make_pair_model(seed=1, vocab_size=8, sharp=4.0):
    torch.manual_seed(seed)
    sizes = {"source_vocab_size": 11, "target_vocab_size": vocab_size, "d_embedding": 8, "d_hidden": 8}
    model = Bahdanau(BahdanauConfig(**sizes, d_attention=8)).eval()
    for name, parameter in model.named_parameters():
        parameter.data *= sharp if name.startswith("output") else 4.0  # so that sources are written for differently
    return model


def make_sources(count, seed=0):
    generator = torch.Generator().manual_seed(seed)
    lengths = torch.randint(1, 8, (count,), generator=generator)
    mask = torch.arange(int(lengths.max())) < lengths.unsqueeze(1)
    return torch.randint(4, 11, mask.shape, generator=generator).masked_fill(~mask, 0), mask


def starts(count):
    return torch.full((count, 1), START)


def next_log_probs(model, prompt, memory=None):
    """The model as the reference wants it: a whole pass over prompt and prefix each time."""

    def of(prefix):
        tokens = torch.tensor([[*prompt, *prefix]])
        with torch.no_grad():
            hidden, _ = model.step(tokens, model.start(memory, Rows.repeat(1)))
            return ref.log_softmax(model.logits(hidden)[0, -1].double().numpy())

    return of


def with_end(hypothesis):
    return (*hypothesis.tokens, END) if hypothesis.finished else hypothesis.tokens


# --- greedy


def test_greedy_is_the_argmax_of_the_full_pass():
    model = make_pair_model()
    source, mask = make_sources(20)
    memory = model.encode(source, mask)
    found = generate(model, memory, starts(20), SearchOptions(END, 12)).hypotheses
    assert len({len(h[0].tokens) for h in found}) > 2  # sources leave at different times
    for i, (hypothesis,) in enumerate(found):
        tokens = with_end(hypothesis)
        assert hypothesis.finished or len(tokens) == 12
        inputs = torch.tensor([[START, *tokens[:-1]]])
        log_probs = model.logits(model(source[i : i + 1], mask[i : i + 1], inputs))[0].log_softmax(-1)
        assert tuple(log_probs.argmax(-1).tolist()) == tokens
        assert hypothesis.log_probs == pytest.approx(log_probs.max(-1).values.tolist(), **CLOSE)


def test_greedy_scores_as_hypotheses_are_compared():
    options = SearchOptions(END, 3, length_penalty=0.5, forbidden=(3,))
    (hypothesis,) = generate(GARDEN_PATH, None, starts(1), options).hypotheses[0]
    assert with_end(hypothesis) == (0, END)  # 0.4 * 1
    assert hypothesis.log_prob == pytest.approx(math.log(0.4))
    assert hypothesis.score == pytest.approx(math.log(0.4) / math.sqrt(2))


# --- beam


@pytest.mark.parametrize(("seed", "min_length", "length_penalty"), [(0, 0, 0.0), (1, 2, 0.6), (0, 2, 1.0), (1, 0, 2.0)])
def test_a_wide_beam_is_exhaustive_search(seed, min_length, length_penalty):
    model = make_language_model(seed=seed)
    expected = ref.exhaustive_search(next_log_probs(model, [START]), END, 4, min_length, length_penalty)
    width = 4**4
    options = SearchOptions(END, 4, min_length, width, length_penalty, num_best=width)
    found = generate(model, None, starts(1), options).hypotheses[0]
    assert {with_end(h) for h in found} == {tokens for _, tokens in expected}
    assert [h.score for h in found] == pytest.approx([score for score, _ in expected], **CLOSE)
    scores = {tokens: score for score, tokens in expected}
    for h in found:
        assert h.score == pytest.approx(scores[with_end(h)], **CLOSE)
        assert h.score == pytest.approx(h.log_prob / len(with_end(h)) ** length_penalty)
    # asked for fewer, it may stop early, and returns the same ones
    few = generate(model, None, starts(1), SearchOptions(END, 4, min_length, width, length_penalty, num_best=3))
    assert [h.score for h in few.hypotheses[0]] == pytest.approx([score for score, _ in expected[:3]], **CLOSE)


@pytest.mark.parametrize("beam_size", [1, 3])
def test_a_batch_of_many_is_one_by_one(beam_size):
    model = make_pair_model()
    source, mask = make_sources(25)
    options = SearchOptions(END, 10, beam_size=beam_size, num_best=beam_size, forbidden=(0, START))
    together = generate(model, model.encode(source, mask), starts(25), options).hypotheses
    for i in range(25):
        length = int(mask[i].sum())
        memory = model.encode(source[i : i + 1, :length], mask[i : i + 1, :length])
        (alone,) = generate(model, memory, starts(1), options).hypotheses
        assert [h.tokens for h in alone] == [h.tokens for h in together[i]]
        assert [h.score for h in alone] == pytest.approx([h.score for h in together[i]], **CLOSE)
        assert [h.score for h in alone] == sorted((h.score for h in alone), reverse=True)


# --- limits, for both searches


@pytest.mark.parametrize("beam_size", [1, 3])
class TestLimits:
    def search(self, beam_size, **options):
        model = make_pair_model()
        options = SearchOptions(END, beam_size=beam_size, num_best=beam_size, **options)
        return generate(model, model.encode(*make_sources(25)), starts(25), options).hypotheses

    def test_nothing_is_longer_than_the_largest_length(self, beam_size):
        found = self.search(beam_size, max_length=3)
        lengths = [len(with_end(h)) for hypotheses in found for h in hypotheses]
        assert max(lengths) == 3
        assert any(not h.finished for hypotheses in found for h in hypotheses)

    def test_each_source_has_its_own_largest_length(self, beam_size):
        limits = tuple(1 + i % 5 for i in range(25))
        found = self.search(beam_size, max_length=limits)
        for limit, hypotheses in zip(limits, found, strict=True):
            assert hypotheses and max(len(with_end(h)) for h in hypotheses) <= limit
        unlimited = self.search(beam_size, max_length=5)
        assert [h.tokens for h in found[4]] == [h.tokens for h in unlimited[4]]

    def test_nothing_ends_before_the_smallest_length(self, beam_size):
        assert min(len(h.tokens) for hypotheses in self.search(beam_size, max_length=9) for h in hypotheses) < 4
        found = self.search(beam_size, max_length=9, min_length=4)
        assert min(len(h.tokens) for hypotheses in found for h in hypotheses) >= 4

    def test_forbidden_tokens_are_never_written(self, beam_size):
        def tokens(found):
            return {token for hypotheses in found for h in hypotheses for token in h.tokens}

        assert {5, 6} <= tokens(self.search(beam_size, max_length=9))
        assert not {5, 6} & tokens(self.search(beam_size, max_length=9, forbidden=(5, 6)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_best": 4}, "num_best is 4, expected at most beam_size, 3"),
        ({"length_penalty": -0.5}, r"length_penalty is -0\.5, expected at least 0"),
    ],
)
def test_options_that_do_not_fit_are_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        generate(GARDEN_PATH, None, starts(1), SearchOptions(END, 4, beam_size=3, **options))


# --- prompts


def test_a_forced_prefix_is_continued_not_repeated():
    model = make_pair_model()
    memory = model.encode(*make_sources(10))
    free = generate(model, memory, starts(10), SearchOptions(END, 8)).hypotheses
    for i, (hypothesis,) in enumerate(free):
        prefix = torch.tensor([[START, *hypothesis.tokens[:2]]])
        forced = generate(model, memory.select(torch.tensor([i])), prefix, SearchOptions(END, 6)).hypotheses[0][0]
        assert hypothesis.tokens[:2] + forced.tokens == hypothesis.tokens or len(hypothesis.tokens) < 2


# --- Searches over small and large vocabularies, with tokens of no probability, against a search written in NumPy


LINEAR = importlib.import_module("heed.kernels.linear")  # the package has a function of that name
LIMIT, NUM_SOURCES = 6, 7
WIDTH = 8
PIECE = 1024  # tokens whose logits the fast search computes together


@dataclass
class Position:
    number: int

    def select(self, rows):
        return self


class ChainByPosition(LanguageModel):
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
    return ChainByPosition(vocab_size, blocked, large).eval(), prompts


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


def tokens_of(hypothesis):
    return [*hypothesis.tokens, *([END] if hypothesis.finished else [])]


@both_ways
@every_case
def test_greedy_search_is_the_independent_one(monkeypatch, way, vocab_size, blocked, large):
    model, prompts = prepare(monkeypatch, way, vocab_size, blocked, large)
    for forbidden in ((), (0, 4)):
        found = generate(model, None, prompts, SearchOptions(END, LIMIT, forbidden=forbidden)).hypotheses
        for prompt, (hypothesis,) in zip(prompts[:, 0].tolist(), found, strict=True):
            expected, log_probs = numpy_greedy(model, prompt, forbidden)
            assert tokens_of(hypothesis) == expected
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
        assert [tuple(tokens_of(h)) for h in hypotheses[:known]] == [tokens for tokens, _ in expected[:known]]


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
        assert tokens_of(greedy[source][0]) == tokens
        assert greedy[source][0].log_probs == pytest.approx(log_probs, rel=1e-5, abs=1e-4)
        rows, done = [((), 0.0)], []
        for length in range(1, LIMIT + 1):
            found = [((*t, n), total + p) for t, total in rows for n, p in enumerate(scores(list(t))) if p > -np.inf]
            found = sorted(found, key=lambda one: -one[1])[:8]
            rows = [one for one in found if one[0][-1] != END][:4]
            ended = [one for one in found if one[0][-1] == END] + (rows if length == LIMIT else [])
            done += [(t, total / length) for t, total in ended]
        best = sorted(done, key=lambda one: -one[1])[:2]
        assert [tuple(tokens_of(h)) for h in beams[source]] == [t for t, _ in best]
        assert [h.score for h in beams[source]] == pytest.approx([score for _, score in best], rel=1e-5, abs=1e-4)


# --- Sampling: what is drawn follows the distribution, its limits hold exactly, and a seed says everything


FIRST = [0.05, 0.0, 0.1, 0.4, 0.25, 0.2]  # after the start; the end is token 2
CHAIN = Chain([FIRST, FIRST, FIRST, [0.0, 0.0, 1.0, 0.0, 0.0, 0.0], [0.5, 0.0, 0.2, 0.1, 0.1, 0.1], FIRST])


def draw(times=1, *, sources=1, max_length=1, model=CHAIN, seed=1, min_length=0, forbidden=(), **options):
    search = SearchOptions(END, max_length, min_length, num_best=times, forbidden=forbidden)
    prompt = torch.full((sources, 1), START)
    with torch.no_grad():
        return generate(model, None, prompt, search, sampling=SamplingOptions(seed=seed, **options)).hypotheses


def first_tokens(hypotheses):
    return [h.tokens[0] if h.tokens else END for h in hypotheses]


def assert_drawn_from(tokens, probabilities):
    """Each count within five standard deviations of a binomial, and nothing that has no probability."""
    for token, p in enumerate(probabilities):
        count, n = tokens.count(token), len(tokens)
        if p in (0.0, 1.0):
            assert count == p * n
        else:
            assert abs(count - n * p) < 5 * math.sqrt(n * p * (1 - p)), (token, count / n, p)


def normal(weights):
    return [w / sum(weights) for w in weights]


# --- what is drawn


def test_frequencies_follow_the_distribution():
    assert_drawn_from(first_tokens(draw(20_000)[0]), FIRST)
    assert_drawn_from(first_tokens(draw(20_000, seed=2)[0]), FIRST)


def test_later_tokens_follow_what_was_drawn_before():
    after_four = [h for h in draw(20_000, max_length=2)[0] if h.tokens[:1] == (4,)]
    second = [h.tokens[1] if len(h.tokens) > 1 else END for h in after_four]
    assert_drawn_from(second, [0.5, 0.0, 0.2, 0.1, 0.1, 0.1])
    for h in draw(300, max_length=2)[0]:
        if h.tokens[:1] == (3,):
            assert h.tokens == (3,) and h.finished  # certain


def test_different_sources_draw_different_numbers_from_seeds_of_their_own():
    per_source = draw(1, sources=4_000, seed=tuple(range(4_000)))
    assert_drawn_from([first_tokens(h)[0] for h in per_source], FIRST)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_temperature_sharpens_and_flattens(temperature):
    tokens = first_tokens(draw(20_000, temperature=temperature)[0])
    assert_drawn_from(tokens, normal([p ** (1 / temperature) if p else 0.0 for p in FIRST]))


@pytest.mark.parametrize("k", [1, 2, 3, 6, 100])
def test_top_k_draws_from_the_k_best_only(k):
    best = sorted(FIRST, reverse=True)[:k]
    tokens = first_tokens(draw(10_000, top_k=k)[0])
    assert_drawn_from(tokens, normal([p if p in best else 0.0 for p in FIRST]))


@pytest.mark.parametrize(
    ("p", "kept"),
    [
        (0.01, {3}),
        (0.39, {3}),
        (0.41, {3, 4}),
        (0.64, {3, 4}),
        (0.66, {3, 4, 5}),
        (0.9, {3, 4, 5, 2}),
        (1.0, {0, 2, 3, 4, 5}),
    ],
)
def test_top_p_draws_from_the_smallest_set_that_holds_p(p, kept):
    tokens = first_tokens(draw(10_000, top_p=p)[0])
    assert_drawn_from(tokens, normal([q if token in kept else 0.0 for token, q in enumerate(FIRST)]))


def test_temperature_comes_before_the_cuts_and_top_k_before_top_p():
    flat = normal([p**0.25 if p else 0.0 for p in FIRST])
    assert_drawn_from(first_tokens(draw(8_000, temperature=4.0, top_k=2)[0]), normal([0, 0, 0, flat[3], flat[4], 0]))
    # Of the three best, 0.4 + 0.25 of 0.85 is more than three quarters.
    assert set(first_tokens(draw(3_000, top_k=3, top_p=0.75)[0])) == {3, 4}
    assert set(first_tokens(draw(3_000, top_k=5, top_p=0.75)[0])) == {3, 4, 5}


def test_forbidden_tokens_and_the_end_before_the_smallest_length_are_never_drawn():
    kept = normal([0.0, 0.0, 0.1, 0.4, 0.25, 0.0])
    assert_drawn_from(first_tokens(draw(8_000, forbidden=(0, 1, 5))[0]), kept)
    assert END not in first_tokens(draw(8_000, min_length=1)[0])


# --- limits that are greedy search


@pytest.fixture
def translator():
    torch.manual_seed(3)
    config = BahdanauConfig(source_vocab_size=9, target_vocab_size=8, d_embedding=8, d_hidden=8, d_attention=8)
    model = Bahdanau(config).eval()
    model.output.weight.data *= 8
    source = torch.randint(3, 9, (5, 6))
    lengths = torch.tensor([6, 2, 5, 1, 4])
    return model, source, torch.arange(6) < lengths.unsqueeze(1)


@torch.no_grad()
def written(translator, chosen, sampling, times=1, max_length=9):
    model, source, mask = translator
    memory = model.encode(source[chosen], mask[chosen])
    search = SearchOptions(END, max_length, num_best=times, forbidden=(0, 1))
    return generate(model, memory, torch.full((len(chosen), 1), START), search, sampling=sampling).hypotheses


@pytest.mark.parametrize(
    "options", [{"top_k": 1}, {"temperature": 1e-4}, {"temperature": 1e-300}, {"top_p": 1e-9}], ids=str
)
def test_the_narrowest_sampling_is_greedy_search(translator, options):
    everything = list(range(5))
    greedy = written(translator, everything, None)
    for seed in (1, 2):
        drawn = written(translator, everything, SamplingOptions(seed=seed, **options))
        for (one,), (best,) in zip(drawn, greedy, strict=True):
            assert (one.tokens, one.finished) == (best.tokens, best.finished)
            assert one.log_probs == pytest.approx(best.log_probs, abs=1e-5)


def test_probabilities_are_the_models_whatever_was_cut():
    for h in draw(50, temperature=0.3, top_k=3)[0]:
        assert h.log_probs[0] == pytest.approx(math.log(FIRST[first_tokens([h])[0]]), abs=1e-5)
    many = draw(50)[0]
    assert [h.log_prob for h in many] == sorted((h.log_prob for h in many), reverse=True)


# --- seeds


def test_the_same_seed_draws_the_same_and_another_one_does_not(translator):
    everything = list(range(5))
    one, again, other = (written(translator, everything, SamplingOptions(seed=seed), 3) for seed in (4, 4, 5))
    assert one == again
    assert [[h.tokens for h in group] for group in one] != [[h.tokens for h in group] for group in other]


def test_what_is_drawn_for_a_source_does_not_depend_on_its_batch(translator):
    seeds = (11, 12, 13, 14, 15)
    together = written(translator, [0, 1, 2, 3, 4], SamplingOptions(seed=seeds), 3)
    for chosen in ([0], [3], [4, 2], [1, 0, 3]):
        apart = written(translator, chosen, SamplingOptions(seed=tuple(seeds[i] for i in chosen)), 3)
        assert [[h.tokens for h in group] for group in apart] == [[h.tokens for h in together[i]] for i in chosen]


def test_a_row_that_ends_early_changes_nothing_for_the_others():
    long, short = (draw(6, max_length=n, seed=7)[0] for n in (12, 3))
    assert {h.tokens[:3] for h in long} == {h.tokens[:3] for h in short}
    assert any(len(h.tokens) < 3 for h in long), "some rows end early"


def test_the_global_random_state_is_left_alone():
    torch.manual_seed(0)
    before = torch.get_rng_state()
    draw(10)
    assert torch.equal(before, torch.get_rng_state())


# --- errors


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"temperature": 0}, "temperature is 0, expected"),
        ({"temperature": math.inf}, "temperature is inf, expected"),
        ({"temperature": math.nan}, "temperature is nan, expected"),
        ({"top_k": 0}, "top_k is 0, expected at least 1"),
        ({"top_p": 0.0}, r"top_p is 0.0, expected more than 0 and at most 1"),
        ({"top_p": 1.01}, r"top_p is 1.01, expected"),
        ({"top_p": math.nan}, "top_p is nan, expected"),
    ],
)
def test_what_cannot_be_is_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        SamplingOptions(**options)
