"""What every language model promises beside the rest (test_models.py): it writes what its full pass says.

A new model is tested by these the moment its file exists.
"""

import pytest
import torch
from torch.testing import assert_close

from heed import kernels
from heed.attention import Rows
from heed.generation import SamplingOptions, SearchOptions, generate
from heed.layers import SearchState
from heed.models.base import LanguageModel
from test_models import VOCAB_SIZE, in_turn, variants_of

END = 3
LENGTHS = (5, 1, 9, 3)
CLOSE = {"rtol": 1e-5, "atol": 1e-5}

every_language_model = pytest.mark.parametrize(("body", "config"), variants_of(LanguageModel))


def language_models(name, *ways):
    return pytest.mark.parametrize(("body", "config", name), in_turn(variants_of(LanguageModel), *ways))


def make_model(body, config, seed=0):
    """With weights so large that the probabilities of the tokens lie apart."""
    torch.manual_seed(seed)
    model = body(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1.5).add_(torch.randn_like(parameter), alpha=0.25)
    return model


def prompts(seed=0):
    """Left-aligned prompts of unequal length, their lengths, and each by itself."""
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(4, VOCAB_SIZE, (len(LENGTHS), max(LENGTHS)), generator=generator)
    alone = [tokens[n : n + 1, :length].clone() for n, length in enumerate(LENGTHS)]
    lengths = torch.tensor(LENGTHS)
    return tokens.masked_fill(torch.arange(max(LENGTHS)) >= lengths.unsqueeze(1), 0), lengths, alone


def switched(fast):
    return torch.no_grad() if fast else kernels.plain()


@language_models("fast", True, False)
def test_what_is_written_is_what_every_prefix_read_anew_says(body, config, fast):
    model = make_model(body, config)
    options = SearchOptions(END, 12, min_length=12, forbidden=(0, 1, 2))
    for prompt in prompts()[2]:
        with switched(fast):
            (written,) = generate(model, None, prompt, options).hypotheses[0]
        tokens, log_probs = prompt, []
        for n in range(12):
            with torch.no_grad():
                scores = torch.log_softmax(model.logits(model(tokens)[:, -1]), dim=-1)
            scores[:, [0, 1, 2, END]] = -torch.inf
            best = scores.argmax(-1, keepdim=True)
            log_probs.append(float(scores.gather(1, best)))
            tokens = torch.cat([tokens, best], dim=1)
            assert written.tokens[n] == int(best)
        assert written.log_probs == pytest.approx(log_probs, abs=1e-5, rel=1e-5)


def same(one, other):
    assert [h.tokens for h in one] == [h.tokens for h in other]
    for mine, theirs in zip(one, other, strict=True):
        assert mine.log_probs == pytest.approx(theirs.log_probs, abs=1e-5, rel=1e-5)


@language_models("way", "greedy", "plain", "beam", "sampled")
def test_prompts_of_unequal_length_together_are_written_on_as_each_alone(body, config, way):
    model = make_model(body, config)
    together, lengths, alone = prompts()
    limits = (11, 6, 8, 12)  # some end before the others
    few = {"beam": {"beam_size": 3, "num_best": 3}, "sampled": {"num_best": 2}}.get(way, {})

    def write(prompt, limit, seeds, lengths=None):
        sampling = SamplingOptions(temperature=0.8, top_k=5, seed=seeds) if way == "sampled" else None
        options = SearchOptions(END, limit, min_length=2, forbidden=(0, 1, 2, END)[: 3 + (way != "beam")], **few)
        with switched(way in ("greedy", "beam")):
            return generate(model, None, prompt, options, lengths, sampling).hypotheses

    found = write(together, limits, (7, 8, 9, 10), lengths)
    assert way == "beam" or [len(group[0].tokens) for group in found] == [*limits]
    for n, prompt in enumerate(alone):
        same(found[n], write(prompt, (limits[n],), (7 + n,))[0])


@language_models("way", "greedy", "beam")
def test_prompts_read_in_groups_of_like_length_are_written_on_alike(monkeypatch, body, config, way):
    model = make_model(body, config)
    together, lengths, _ = prompts()
    options = SearchOptions(END, 7, min_length=2, forbidden=(0, 1, 2), beam_size=1 if way == "greedy" else 3)
    expected = generate(model, None, together, options, lengths).hypotheses
    monkeypatch.setattr("heed.layers.decoder_stack._PADDING", 1)
    for groups in (2, 4):
        monkeypatch.setattr("heed.layers.decoder_stack._GROUPS", groups)
        found = generate(model, None, together, options, lengths).hypotheses
        for mine, theirs in zip(found, expected, strict=True):
            same(mine, theirs)


@every_language_model
def test_beams_after_prompts_of_unequal_length_are_those_of_the_blocks(body, config):
    model = make_model(body, config)
    together, lengths, _ = prompts()
    with torch.no_grad():
        hidden, fast = model.step(together, model.start(None, Rows.repeat(4)), lengths)
        with kernels.plain():
            expected, plain = model.step(together, model.start(None, Rows.repeat(4)), lengths)
    inside = torch.arange(max(LENGTHS)) < lengths.unsqueeze(1)
    assert_close(hidden[inside], expected[inside], **CLOSE)
    generator = torch.Generator().manual_seed(5)
    rows = torch.arange(4).repeat_interleave(3)
    for n in range(24):
        fast, plain = fast.select(rows), plain.select(rows)
        tokens = torch.randint(4, VOCAB_SIZE, (len(rows), 1), generator=generator)
        with torch.no_grad():
            hidden, fast = model.step(tokens, fast)
            with kernels.plain():
                expected, plain = model.step(tokens, plain)
        assert_close(hidden, expected, rtol=1e-4, atol=1e-5)
        sources = [0, *range(len(rows) // 3)][1 if n % 6 else 2 :]  # every sixth time the first one leaves
        rows = torch.tensor(
            [3 * i + int(torch.randint(0, 3, (1,), generator=generator)) for i in sources for _ in "abc"]
        )
        if not len(rows):
            break
    if isinstance(fast, SearchState):  # and back
        tokens = torch.randint(4, VOCAB_SIZE, (len(plain.position), 2), generator=generator)
        assert_close(model.step(tokens, fast)[0], model.step(tokens, plain)[0], rtol=1e-4, atol=1e-5)


@language_models("fast", True, False)
def test_packed_documents_give_the_states_of_each_document_alone(body, config, fast):
    if body.carries:
        return
    model = make_model(body, config)
    lengths = [(5, 1, 6), (12,), (2, 10), (1, 1, 10)]
    documents = torch.tensor([[n for n, length in enumerate(row, 3) for _ in range(length)] for row in lengths])
    tokens = torch.randint(4, VOCAB_SIZE, documents.shape, generator=torch.Generator().manual_seed(1))
    with switched(fast):
        packed = model(tokens, documents)
        for row, parts in enumerate(lengths):
            states = [model(part.unsqueeze(0))[0] for part in tokens[row].split(parts)]
            assert_close(packed[row], torch.cat(states), **CLOSE)
    whole = torch.full_like(documents, 2)
    assert torch.equal(model(tokens, whole), model(tokens))
