"""BERT over texts laid end to end: as the modules on padded texts, and attention as its equations."""

import pytest
import torch
from torch.testing import assert_close

import heed
from contract import assert_close_in_scale
from heed import kernels
from heed.kernels import byte_dropout, packed, packed_attention
from heed.kernels.packed import heads, pieces
from heed.layers.transformer import EncoderBlock
from heed.models.bert import Bert, BertConfig
from heed.training.device import recompute_blocks

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


def equations(q, k, v, groups, num_heads, scale, dropout):
    """Attention within each text in torch's operations, with dropout drawn in the order of the kernel."""
    contexts = []
    for rows, texts in pieces(groups, num_heads):
        query, key, value = (heads(part[rows], texts, num_heads) for part in (q, k, v))
        weights = torch.softmax(scale * query @ key.transpose(1, 2), dim=-1)
        weights = byte_dropout(weights, dropout) if dropout > 0 else weights
        context = (weights @ value).unflatten(0, (texts, num_heads))  # (texts, heads, length, d_head)
        contexts.append(context.transpose(1, 2).flatten(2).flatten(0, 1))
    return torch.cat(contexts)


def assert_same(found, expected):
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        close = 1e-4 * max(1.0, float(value.abs().max()))
        assert_close(found[name], value, rtol=1e-4, atol=close, msg=lambda text, name=name: f"{name}: {text}")


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_attention_is_its_equations_with_the_same_dropout(dropout):
    groups = [(2, 90), (3, 9), (1, 1)]  # with 8 heads, the first texts are computed one by one
    three = torch.randn(3, 208, 32, requires_grad=True)
    results = []
    for function in (packed_attention, equations):
        torch.manual_seed(3)
        context = function(*three, groups, 8, 0.5, dropout)
        (gradient,) = torch.autograd.grad(context.sin().sum(), three)
        results.append((context.detach(), gradient))
    for found, expected in zip(*results, strict=True):
        assert_close(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("fields", [{}, {"activation": "relu"}], ids=str)
@pytest.mark.parametrize("recomputed", [False, True])
def test_texts_end_to_end_are_the_modules_on_padded_texts(fields, recomputed):
    model = make_model(d_features=3, **fields)
    if recomputed:
        recompute_blocks(model, "bert")
    features = torch.randn(len(LENGTHS), max(LENGTHS), 3)
    segments = torch.randint(0, 2, (len(LENGTHS), max(LENGTHS)))
    given = *batch(), features, segments
    packed = results(model, *given)
    with kernels.plain():
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


def test_the_first_position_alone_is_that_of_the_whole_block():
    torch.manual_seed(0)
    block, x = EncoderBlock(24, 3, 40, norm="pre"), torch.randn(5, 7, 24)
    mask = torch.arange(7) < torch.tensor([7, 3, 1, 5, 2]).unsqueeze(1)
    for masks in ((), (mask,)):
        found, expected = block(x, *masks, only_first=True), block(x, *masks)[:, :1]
        assert_close(found, expected)
        gradients = [torch.autograd.grad(y.sin().sum(), block.attention.w_key.weight) for y in (found, expected)]
        assert_close_in_scale(*gradients)


def test_under_autocast_texts_are_packed_and_attention_is_in_float32(monkeypatch):
    model, given = make_model(), batch()
    plain = results(model, *given)
    kinds = []
    apply = packed._PackedAttention.apply
    monkeypatch.setattr(packed._PackedAttention, "apply", lambda *all: kinds.append(all[0].dtype) or apply(*all))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        half = results(model, *given)
    assert kinds == [torch.float32] * 2
    assert not torch.equal(half["hidden"], plain["hidden"])
    for name, tensor in plain.items():
        if not name.endswith("w_key.bias"):  # whose gradient is zero
            assert (half[name] - tensor).norm() < 0.03 * tensor.norm(), name
