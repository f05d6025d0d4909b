"""Steps of a search: the same hidden states as block by block, whatever becomes of rows and sources."""

import importlib

import pytest
import torch
from torch.testing import assert_close

import heed
from heed.attention import Rows
from heed.errors import ShapeError
from heed.generation import SearchOptions, generate, without_gradient
from heed.generation.search import NextTokenScores, without
from heed.kernels import best_of
from heed.layers import SearchState, StackState
from heed.models.attention_lm import AttentionLM, AttentionLMConfig
from heed.models.transformer import Transformer, TransformerConfig

LINEAR = importlib.import_module("heed.kernels.linear")  # the package has a function of that name
START, END = 2, 3
CLOSE = {"rtol": 1e-4, "atol": 1e-5}


def make_model(seed=1, **fields):
    torch.manual_seed(seed)
    sizes = {"source_vocab_size": 20, "target_vocab_size": 20, "d_model": 16, "num_heads": 4, "num_layers": 2}
    model = Transformer(TransformerConfig(**{**sizes, "d_ff": 24, **fields})).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.5).add_(torch.randn_like(parameter), alpha=0.3)
    return model


def make_memory(model, lengths=(5, 3, 7, 1)):
    mask = torch.arange(max(lengths)) < torch.tensor(lengths).unsqueeze(1)
    source = torch.randint(4, 20, mask.shape, generator=torch.Generator().manual_seed(3)).masked_fill(~mask, 0)
    with torch.no_grad():
        return model.encode(source, mask)


class Pair:
    """The same model in a search and block by block, one step after the other."""

    def __init__(self, model, memory, times=1):
        self.model = model
        self.fast = self.plain = model.start(memory, Rows.repeat(len(memory.keys[0].prepared), times))

    def step(self, tokens):
        with torch.no_grad():
            hidden, self.fast = self.model.step(tokens, self.fast)
        with torch.enable_grad():  # what may be differentiated goes block by block
            expected, self.plain = self.model.step(tokens, self.plain)
        assert isinstance(self.plain, StackState)
        assert_close(hidden, expected.detach(), **CLOSE)

    def select(self, rows):
        self.fast, self.plain = (state.select(torch.tensor(rows)) for state in (self.fast, self.plain))


def draw(count, n=1, seed=0):
    return torch.randint(4, 20, (count, n), generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize(("norm", "positions"), [("pre", "learned"), ("post", "sinusoidal")])
def test_steps_are_those_of_the_blocks(norm, positions):
    pair = Pair(model := make_model(norm=norm, positions=positions, max_length=64), make_memory(model))
    for n in range(40):  # beyond the first room for keys and positions
        pair.step(draw(4, seed=n))
    assert isinstance(pair.fast, SearchState)


def test_beams_move_split_and_leave():
    pair = Pair(model := make_model(), make_memory(model))
    pair.step(torch.full((4, 1), START))
    pair.select([n for n in range(4) for _ in range(3)])
    generator = torch.Generator().manual_seed(5)
    sources = 4
    for n in range(45):
        pair.step(draw(3 * sources, seed=n))
        stay = list(range(sources))
        if n in (10, 20, 30):
            stay = without({0}, sources)  # the last takes its place
            sources -= 1
        parents = torch.randint(0, 3, (sources, 3), generator=generator).tolist()
        pair.select([3 * source + row for source, rows in zip(stay, parents, strict=True) for row in rows])
    assert isinstance(pair.fast, SearchState) and sources == 1


def test_rows_that_do_not_fit_and_longer_steps_go_on_block_by_block():
    for rows in ([0, 0, 1, 3], [3, 1, 0, 2], [2, 2], [1]):
        pair = Pair(model := make_model(), make_memory(model))
        for n in range(3):
            pair.step(draw(4, seed=n))
        pair.select(rows)
        pair.step(draw(len(rows), seed=7))
        pair.step(draw(len(rows), 3, seed=8))  # several tokens at once
        assert isinstance(pair.fast, StackState)
        pair.step(draw(len(rows), seed=9))


def test_a_state_can_be_stepped_from_twice():
    model = make_model()
    state = model.start(make_memory(model), Rows.repeat(4))
    with torch.no_grad():
        _, state = model.step(torch.full((4, 1), START), state)
        one, _ = model.step(draw(4, seed=1), state)
        two, after = model.step(draw(4, seed=2), state)
        again, _ = model.step(draw(4, seed=1), state)
        assert torch.equal(one, again) and not torch.equal(one, two)
        hidden, _ = model.step(draw(4, seed=3), after)
        whole = torch.cat([torch.full((4, 1), START), draw(4, seed=2), draw(4, seed=3)], dim=1)
        expected, _ = model.step(whole, model.start(make_memory(model), Rows.repeat(4)))
    assert_close(hidden[:, 0], expected[:, -1], **CLOSE)


def test_whoever_begins_to_watch_sees_everything_from_there_on():
    pair = Pair(model := make_model(), make_memory(model))
    for n in range(3):
        pair.step(draw(4, seed=n))
    with torch.no_grad(), heed.trace(model) as seen:
        model.step(draw(4, seed=3), pair.fast)
    with torch.no_grad(), heed.trace(model) as expected:
        model.step(draw(4, seed=3), pair.plain)
    for mechanism in ("decoder", "cross"):
        mine, theirs = (trace.maps(mechanism, layer=1).weights for trace in (seen, expected))
        assert mine.shape[-1] > 3
        assert_close(mine, theirs, **CLOSE)


def test_learned_positions_end_where_their_table_ends():
    model = make_model(positions="learned", max_length=5)
    pair = Pair(model, make_memory(model, (3, 2)))
    for n in range(5):
        pair.step(draw(2, seed=n))
    with torch.no_grad(), pytest.raises(ShapeError, match="length 6 does not fit 5 learned positions"):
        model.step(draw(2), pair.fast)


def test_a_source_without_anything_to_look_at_is_written_for():
    model = make_model()
    mask = torch.tensor([[True, True], [False, False]])
    with torch.no_grad():
        memory = model.encode(draw(2, 2).masked_fill(~mask, 0), mask)
    pair = Pair(model, memory)
    pair.step(draw(2))
    assert isinstance(pair.fast, StackState)


@pytest.mark.parametrize("beam_size", [1, 4])
def test_searches_write_the_same_watched_or_not(beam_size):
    model = make_model()
    memory = make_memory(model)
    options = SearchOptions(END, 12, beam_size=beam_size, num_best=beam_size, forbidden=(0, 1, 2))
    prompt = torch.full((4, 1), START)
    fast = generate(model, memory, prompt, options).hypotheses
    with heed.trace(model):
        plain = generate(model, memory, prompt, options).hypotheses
    assert [[h.tokens for h in group] for group in fast] == [[h.tokens for h in group] for group in plain]
    assert [h.score for g in fast for h in g] == pytest.approx([h.score for g in plain for h in g], abs=1e-4)


# --- scores of the next token


@pytest.mark.parametrize(("beams", "k", "vocab_size"), [(1, 1, 2048), (1, 1, 2100), (3, 6, 5000), (3, 6, 2048)])
def test_the_best_of_runs_are_the_best_of_all(vocab_size, beams, k):
    torch.manual_seed(0)
    model = AttentionLM(AttentionLMConfig(vocab_size=vocab_size, d_model=8, num_heads=2)).eval()
    model.output.weight.data *= 5
    options = SearchOptions(END, 9, min_length=2, forbidden=(0, 1, vocab_size - 1))
    scores = NextTokenScores(model, options)
    assert 23 * vocab_size > LINEAR._SMALL
    for num_sources in (24, 23):  # memory is used again for fewer
        hidden, totals = torch.randn(num_sources * beams, 2, 8), torch.randn(num_sources, beams)
        totals[0, 0] = -torch.inf if beams > 1 else 0.0
        hidden[1:3, -1] = 4.0 * model.output.weight.data[-3:-1]  # their best are among the last tokens
        for written in (0, 5):
            with torch.no_grad():
                found = scores.best(hidden, None, written, totals, k)
                expected = best_of(scores.log_probs(hidden, None, written), totals, k)
            assert torch.equal(found.tokens, expected.tokens) and torch.equal(found.rows, expected.rows)
            assert_close(found.totals, expected.totals, **CLOSE)
            assert_close(found.log_probs, expected.log_probs, **CLOSE)


def test_what_a_watcher_keeps_can_be_differentiated():
    model = make_model()
    with without_gradient():
        assert torch.is_inference_mode_enabled()
    with heed.trace(model), without_gradient():
        assert not torch.is_inference_mode_enabled() and not torch.is_grad_enabled()
