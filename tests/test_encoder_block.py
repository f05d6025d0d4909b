"""BERT's block over texts laid end to end: as the modules on padded texts, fast and plain, and what it needs."""

from importlib import import_module

import pytest
import torch
from torch.nn.functional import layer_norm, linear
from torch.testing import assert_close

import heed
from heed.kernels import byte_dropout
from heed.layers.elementwise import PLAIN
from heed.layers.transformer import EncoderBlock
from heed.models.bert import Bert, BertConfig

encoder_block = import_module("heed.kernels.encoder_block")  # the package has a function of this name
LENGTHS = (9, 20, 9, 3, 0, 20, 17)


def make_model(**fields):
    torch.manual_seed(0)
    values = {"vocab_size": 50, "d_model": 32, "num_heads": 4, "num_layers": 2, "d_ff": 64, "dropout": 0.0, **fields}
    model = Bert(BertConfig(**values)).train()
    model.without_last()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model


def batch(lengths=LENGTHS):
    mask = torch.arange(max(lengths)) < torch.tensor(lengths).unsqueeze(1)
    return torch.randint(3, 50, mask.shape, generator=torch.Generator().manual_seed(1)).masked_fill(~mask, 0), mask


def results(model, *given):
    """States of real tokens and gradients, by their names, of one pass."""
    model.zero_grad()
    torch.manual_seed(3)
    hidden = model(*given)
    mask = given[1]
    weights = torch.randn(*mask.shape, 32, generator=torch.Generator().manual_seed(2))
    (hidden * weights)[mask].sum().backward()
    found = {name: p.grad.clone() for name, p in model.named_parameters() if p.requires_grad}
    return {"hidden": hidden[mask].detach()} | found


def equations(x, groups, s, w):
    """The block on packed texts in torch's operations, with dropout drawn in the order of the kernel."""

    def dropped(y, p):
        return byte_dropout(y, p) if p > 0 else y

    q, k, v = (linear(x, *of) for of in ((w.query, w.query_bias), (w.key, w.key_bias), (w.value, w.value_bias)))
    contexts = []
    for rows, texts in encoder_block._places(groups, s.num_heads):
        query, key, value = (encoder_block._heads(part[rows], texts, s.num_heads) for part in (q, k, v))
        weights = dropped(torch.softmax(s.scale * query @ key.transpose(1, 2), dim=-1), s.attention_dropout)
        context = (weights @ value).unflatten(0, (texts, s.num_heads))  # (texts, heads, length, d_head)
        contexts.append(context.transpose(1, 2).flatten(2).flatten(0, 1))
    h = dropped(linear(torch.cat(contexts), w.out, w.out_bias), s.dropout)
    first = layer_norm(x + h, x.shape[1:], w.norm_1, w.norm_1_bias, s.eps)
    active = PLAIN[s.activation].function(linear(first, w.inner, w.inner_bias))
    h = dropped(linear(active, w.outer, w.outer_bias), s.dropout)
    return layer_norm(first + h, x.shape[1:], w.norm_2, w.norm_2_bias, s.eps)


def assert_same(found, expected):
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        close = 1e-4 * max(1.0, float(value.abs().max()))
        assert_close(found[name], value, rtol=1e-4, atol=close, msg=lambda text, name=name: f"{name}: {text}")


@pytest.mark.parametrize(
    ("activation", "dropout"),
    [("gelu", (0.1, 0.3)), ("gelu_tanh", (0.2, 0.0)), ("relu", (0.0, 0.2)), ("silu", (0.0, 0.0))],
    ids=str,
)
def test_the_block_is_its_equations_with_the_same_dropout(monkeypatch, activation, dropout):
    model = make_model(activation=activation, dropout=dropout[0], attention_dropout=dropout[1])
    fast = results(model, *batch())
    assert_same(results(model, *batch()), fast)  # memory that is used again changes nothing
    monkeypatch.setattr("heed.layers.transformer.encoder_block", equations)
    assert_same(results(model, *batch()), fast)


def test_texts_end_to_end_are_the_modules_on_padded_texts(monkeypatch):
    model = make_model(d_features=3)
    features = torch.randn(len(LENGTHS), max(LENGTHS), 3)
    segments = torch.randint(0, 2, (len(LENGTHS), max(LENGTHS)))
    given = *batch(), features, segments
    packed = results(model, *given)
    monkeypatch.setattr(EncoderBlock, "packed_form", lambda block, x: None)
    assert_same(packed, results(model, *given))


@pytest.mark.parametrize("dropout", [(0.25, 0.0), (0.0, 0.25)], ids=str)
def test_every_real_token_feels_dropout(dropout):
    model = make_model(dropout=dropout[0], attention_dropout=dropout[1])
    drawn = torch.stack([model(*batch()).detach() for _ in range(2)])
    assert (drawn[0] - drawn[1])[batch()[1]].abs().sum(-1).min() > 1e-3


def test_padding_costs_nothing_and_changes_nothing():
    model = make_model()
    tokens, mask = batch()
    expected = model(tokens, mask)
    wide = torch.cat([tokens, torch.full_like(tokens, 9)], dim=1), torch.cat([mask, torch.zeros_like(mask)], dim=1)
    found = model(*wide)
    assert_close(found[:, : mask.shape[1]][mask], expected[mask])
    assert not found[~wide[1]].any()


def test_a_watched_pass_in_training_has_its_maps():
    model = make_model()
    tokens, mask = batch()
    expected = model(tokens, mask)
    with heed.trace(model) as seen:
        found = model(tokens, mask)
    assert seen.mechanisms() == [("encoder", 0), ("encoder", 1)]
    assert_close(found[mask], expected[mask], rtol=1e-4, atol=1e-4)


def test_going_backward_twice_is_an_error_that_says_what_to_do():
    model = make_model()
    loss = model(*batch()).sum()
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match=r"backward cannot run twice .* within heed.kernels.plain\(\)"):
        loss.backward()


@pytest.mark.parametrize("fields", [{"norm": "pre"}, {"drops_inner": True}, {"bias": False}], ids=str)
def test_other_blocks_are_not_packed(fields):
    block = EncoderBlock(24, 3, 40, **{"drops_inner": False} | {k: v for k, v in fields.items() if k != "bias"})
    if "bias" in fields:
        block.attention.w_query.bias = None
    assert block.packed_form(torch.randn(2, 5, 24)) is None
    assert EncoderBlock(24, 3, 40, drops_inner=False).packed_form(torch.randn(2, 5, 24)) is not None


def test_the_first_position_alone_is_that_of_the_whole_block():
    torch.manual_seed(0)
    block, x = EncoderBlock(24, 3, 40, norm="pre"), torch.randn(5, 7, 24)
    mask = torch.arange(7) < torch.tensor([7, 3, 1, 5, 2]).unsqueeze(1)
    for masks in ((), (mask,)):
        found, expected = block(x, *masks, only_first=True), block(x, *masks)[:, :1]
        assert_close(found, expected)
        gradients = [torch.autograd.grad(y.sin().sum(), block.attention.w_key.weight) for y in (found, expected)]
        assert_close(*gradients, rtol=1e-4, atol=1e-5)
