"""Attention modules against the references, with copied weights, and what a cache and a mask may not change."""

import sys

import pytest
import torch
from torch.testing import assert_close

import reference as ref
from equations import randn
from heed.attention import Additive, Attention, AttentionLayer, MultiHeadAttention, padding_mask
from heed.errors import ConfigError

B, Q, K, D_MODEL, D_KEY, HEADS = 3, 4, 5, 6, 8, 2
LENGTHS = torch.tensor([5, 2, 3])


def arrays(module):
    return {name: p.detach().numpy() for name, p in module.named_parameters()}


def make_multi_head(d_key=None, bias=True):
    torch.manual_seed(1)
    return MultiHeadAttention(D_MODEL, HEADS, d_key=d_key, bias=bias).double()


def reference_multi_head(module, x_query, x_key, mask):
    w = arrays(module)
    sides = [w.get(f"w_{side}.{part}") for side in ("query", "key", "value", "out") for part in ("weight", "bias")]
    return torch.from_numpy(ref.multi_head(x_query, x_key, *sides, module.num_heads, mask)[0])


def make_additive():
    torch.manual_seed(2)
    return Attention(Additive(D_MODEL, D_KEY, 7)).double()


def test_additive_attention_is_the_reference():
    attention, query, key, value = make_additive(), randn(B, Q, D_MODEL), randn(B, K, D_KEY, seed=1), randn(B, K, 3)
    mask = padding_mask(LENGTHS, K)
    context = attention(query, attention.prepare(key, value, mask))
    w = arrays(attention.score)

    def score(q, k):
        return ref.additive(q, k, w["w_query.weight"], w["w_key.weight"], w["w_key.bias"], w["v"])

    for b in range(B):
        expected, _ = ref.attend(query[b], key[b], value[b], mask[b].expand(Q, K).numpy(), score)
        assert_close(context[b], torch.from_numpy(expected), rtol=0, atol=1e-12)


def test_keys_are_their_own_values_by_default():
    attention, query, key = make_additive(), randn(B, Q, D_MODEL), randn(B, K, D_KEY, seed=1)
    assert_close(attention(query, attention.prepare(key)), attention(query, attention.prepare(key, key)))


@pytest.mark.parametrize("masked", [False, True])
def test_the_attention_layer_of_the_notes(masked):
    torch.manual_seed(3)
    layer = AttentionLayer(D_MODEL, D_KEY, 3).double()
    queries, inputs = randn(B, Q, D_MODEL), randn(B, K, D_KEY, seed=1)
    mask = padding_mask(LENGTHS, K) if masked else None
    outputs = layer(queries, layer.prepare(inputs, mask=mask))
    w = arrays(layer)  # torch's matrices act from the left, the notes' from the right
    w_key, w_value = w["score.w_key.weight"].T, w["w_value.weight"].T
    for b in range(B):
        one_mask = None if mask is None else mask[b].expand(Q, K).numpy()
        expected, _ = ref.attention_layer(queries[b], inputs[b], w_key, w_value, one_mask)
        assert_close(outputs[b], torch.from_numpy(expected), rtol=0, atol=1e-12)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("causal", [False, True])
def test_multi_head_self_attention_is_the_reference(causal, bias):
    attention, x, mask = make_multi_head(bias=bias), randn(B, K, D_MODEL), padding_mask(LENGTHS, K)
    outputs = attention(x, mask=mask, causal=causal)
    for b in range(B):
        allowed = mask[b].expand(K, K).numpy()
        if causal:
            allowed = allowed & ref.causal_mask(K, K)
        assert_close(outputs[b], reference_multi_head(attention, x[b], x[b], allowed), rtol=0, atol=1e-12)


def test_multi_head_cross_attention_is_the_reference():
    attention, x, memory = make_multi_head(D_KEY), randn(B, Q, D_MODEL), randn(B, K, D_KEY, seed=1)
    mask = padding_mask(LENGTHS, K)
    outputs = attention(x, attention.prepare(memory, mask=mask))
    for b in range(B):
        expected = reference_multi_head(attention, x[b], memory[b], mask[b].expand(Q, K).numpy())
        assert_close(outputs[b], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize("chunks", [[1] * 6, [3, 1, 2], [6]], ids=str)
def test_a_cache_read_in_steps_is_the_full_causal_pass(chunks):
    attention, x = make_multi_head(), randn(B, 6, D_MODEL)
    expected = attention(x, causal=True)
    cache, outputs, read = None, [], 0
    for n in chunks:
        new = attention.prepare(x[:, read : read + n])
        cache = new if cache is None else cache.append(new)
        outputs.append(attention(x[:, read : read + n], cache, causal=True))
        read += n
    assert_close(torch.cat(outputs, dim=1), expected, rtol=0, atol=1e-12)


def padded(x, garbage):
    return torch.cat([x, torch.full((len(x), garbage, x.shape[-1]), 1e3, dtype=x.dtype)], dim=1)


@pytest.mark.parametrize("kind", ["additive", "multi-head"])
def test_padding_never_changes_an_output(kind):
    attention = make_additive() if kind == "additive" else make_multi_head(D_KEY)
    x, memory, mask = randn(B, Q, D_MODEL), randn(B, K, D_KEY, seed=1), padding_mask(LENGTHS, K)
    outputs = attention(x, attention.prepare(memory, mask=mask))
    more = attention(x, attention.prepare(padded(memory, 3), mask=padding_mask(LENGTHS, K + 3)))
    assert_close(more, outputs, rtol=0, atol=1e-12)
    for b, length in enumerate(LENGTHS):  # nor is it any different without padding and alone
        alone = attention(x[b : b + 1], attention.prepare(memory[b : b + 1, :length]))
        assert_close(alone[0], outputs[b], rtol=0, atol=1e-12)


def test_heads_must_divide_the_width():
    with pytest.raises(ConfigError, match="d_model 6 is not divisible by num_heads 4"):
        MultiHeadAttention(6, 4)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("kind", ["self", "cached", "cross"])
def test_one_product_of_stacked_weights_is_the_products_of_each_and_has_their_gradients(kind, bias, monkeypatch):
    attention, x, memory = make_multi_head(bias=bias), randn(B, Q, D_MODEL), randn(B, K, D_MODEL, seed=1)
    attention.w_key.weight.requires_grad_(False)
    calls, product = [], torch.nn.functional.linear

    def computed(stacked):
        monkeypatch.setattr(sys.modules["heed.kernels.linear"], "stacks", lambda x: stacked)
        given = [x.clone().requires_grad_(), memory.clone().requires_grad_()]
        calls.clear()
        if kind == "self":
            found = attention(given[0], mask=padding_mask(torch.tensor([4, 2, 3]), Q))
        elif kind == "cached":
            found = attention.extend(given[0], attention.prepare(given[1]), causal=True)[0]
        else:
            found = attention(given[0], attention.prepare(given[1], mask=padding_mask(LENGTHS, K)))
        of = [*given, *(p for p in attention.parameters() if p.requires_grad)]
        return [found, *torch.autograd.grad(found.sin().sum(), of, materialize_grads=True)], len(calls)

    monkeypatch.setattr(torch.nn.functional, "linear", lambda *given: calls.append(1) or product(*given))
    (apart, many), (together, few) = computed(False), computed(True)
    assert (many, few) == {"self": (4, 2), "cached": (6, 3), "cross": (4, 3)}[kind]
    for one, other in zip(together, apart, strict=True):
        assert_close(one, other, rtol=0, atol=1e-12)
