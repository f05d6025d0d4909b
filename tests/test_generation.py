"""Greedy and beam search against exhaustive search, one by one against many, and every limit."""

import math
from dataclasses import dataclass

import pytest
import torch
from torch import nn

import reference as ref
from heed.attention import Rows
from heed.errors import ConfigError
from heed.generation import SearchOptions, generate
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
