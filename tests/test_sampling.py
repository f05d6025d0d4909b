"""Sampling: what is drawn follows the distribution, its limits hold exactly, and a seed says everything."""

import math

import pytest
import torch

from heed.errors import ConfigError
from heed.generation import SamplingOptions, SearchOptions, generate
from heed.models.bahdanau import Bahdanau, BahdanauConfig
from test_generation import Chain

START, END = 1, 2


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
