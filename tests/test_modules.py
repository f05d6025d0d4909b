"""Attention modules against the references; caches, masks, and keys that grow, are selected or shared by rows."""

import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.testing import assert_close

import reference as ref
from equations import randn
from heed.attention import (
    Additive,
    Attention,
    AttentionLayer,
    Keys,
    MultiHeadAttention,
    Rows,
    causal_mask,
    padding_mask,
)
from heed.attention.attend import full_mask
from heed.errors import ConfigError, ShapeError

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


# --- Keys that grow and are selected; rows that share a source without copying its keys; masks


H, D, D_VALUE = 2, 3, 4

# Which source each row belongs to, and the number of sources: repeats, omissions, any order.
SOURCES = st.integers(1, 5).flatmap(
    lambda n: st.tuples(st.lists(st.integers(0, n - 1), min_size=1, max_size=9), st.just(n))
)


def float_randn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def make_keys(batch, length, lengths=None, seed=0):
    mask = None if lengths is None else padding_mask(torch.tensor(lengths), length)
    return Keys(
        float_randn(batch, H, length, D, seed=seed), float_randn(batch, H, length, D_VALUE, seed=seed + 1), mask
    )


def assert_same_keys(left, right):
    assert_close(left.prepared, right.prepared)
    assert_close(left.value, right.value)
    assert (left.mask is None) == (right.mask is None)
    assert left.mask is None or torch.equal(left.mask, right.mask)


def test_appended_keys_follow():
    first, second = make_keys(2, 3), make_keys(2, 2, seed=7)
    both = first.append(second)
    assert len(both) == 5 and both.mask is None and both.origin is first.origin
    assert_close(both.prepared[:, :, :3], first.prepared)
    assert_close(both.prepared[:, :, 3:], second.prepared)
    assert_close(both.value, torch.cat([first.value, second.value], dim=2))


@torch.no_grad()
def test_longer_keys_share_memory_with_shorter_ones_that_stay_as_they_are():
    start, further = make_keys(2, 3), [make_keys(2, n, seed=n) for n in (1, 2, 40)]
    grown = start.append(further[0])
    branches = [grown.append(further[n]) for n in (1, 1, 2)]  # the last needs more memory, the second its own
    assert branches[0].value.data_ptr() == grown.value.data_ptr() != branches[1].value.data_ptr()
    window, chosen = branches[0].newest(2), torch.tensor([1, 1, 0])
    longer, moved = window.append(further[0]), branches[0].select(chosen)
    for keys, parts in (
        (grown, further[:1]),
        (branches[0], further[:2]),
        (branches[1], further[:2]),
        (branches[2], [further[0], further[2]]),
    ):
        expected = torch.cat([start.value, *(part.value for part in parts)], dim=2)
        assert torch.equal(keys.value, expected)
    assert torch.equal(longer.value, torch.cat([further[1].value, further[0].value], dim=2))
    assert torch.equal(moved.append(moved).prepared, branches[0].prepared[chosen].repeat(1, 1, 2, 1))
    with torch.inference_mode():  # memory of one mode is not written in the other
        inside = grown.append(further[0])
    assert torch.equal(inside.append(further[0]).value[:, :, -1:], further[0].value)


@pytest.mark.parametrize("first_lengths", [None, [3, 1]])
@pytest.mark.parametrize("second_lengths", [None, [0, 2]])
def test_appended_masks_follow_and_none_means_all(first_lengths, second_lengths):
    mask = make_keys(2, 3, first_lengths).append(make_keys(2, 2, second_lengths)).mask
    if first_lengths is None and second_lengths is None:
        assert mask is None
        return
    expected = [
        [j < (first_lengths or [3, 3])[b] for j in range(3)] + [j < (second_lengths or [2, 2])[b] for j in range(2)]
        for b in range(2)
    ]
    assert mask.tolist() == expected


def test_keys_with_a_mask_per_query_do_not_grow():
    keys = Keys(float_randn(2, H, 3, D), float_randn(2, H, 3, D_VALUE), torch.ones(2, 4, 3, dtype=torch.bool))
    with pytest.raises(ShapeError, match=r"mask per query, shape \(2, 4, 3\).*give a mask \(batch, key\)"):
        keys.append(make_keys(2, 1))


@pytest.mark.usefixtures("as_installed")
def test_each_key_needs_its_value():
    with pytest.raises(ShapeError, match=r"keys are \(batch, heads, key\) \(2, 2, 3\) but values \(2, 2, 4\)"):
        Keys(float_randn(2, H, 3, D), float_randn(2, H, 4, D_VALUE))


@given(SOURCES)
@settings(max_examples=40, deadline=None)
def test_selecting_commutes_with_appending(sources):
    chosen, batch = torch.tensor(sources[0]), sources[1]
    first, second = make_keys(batch, 3, [1 + b % 3 for b in range(batch)]), make_keys(batch, 2, seed=5)
    assert_same_keys(first.append(second).select(chosen), first.select(chosen).append(second.select(chosen)))
    assert first.select(chosen).origin is not first.origin  # row i may now be another sequence
    assert_close(first.select(chosen).value, first.value[chosen])
    assert torch.equal(first.select(chosen).mask, first.mask[chosen])


@given(SOURCES, st.integers(1, 3))
@settings(max_examples=100, deadline=None)
def test_ungrouping_undoes_grouping(sources, num_queries):
    source_of, num_sources = torch.tensor(sources[0]), sources[1]
    rows = Rows(source_of, num_sources)
    x = float_randn(len(source_of), H, num_queries, D)
    grouped = rows.group(x)
    largest = torch.bincount(source_of).max()
    assert grouped.shape == (num_sources, H, largest * num_queries, D)
    assert torch.equal(rows.ungroup(grouped), x)


def test_one_row_per_source_in_order_is_the_identity():
    assert Rows.repeat(4).is_identity
    x = float_randn(4, H, 2, D)
    assert Rows.repeat(4).group(x) is x
    assert not Rows.repeat(4, 2).is_identity
    assert not Rows(torch.tensor([1, 0]), 2).is_identity
    assert Rows.repeat(2, 3).source_of.tolist() == [0, 0, 0, 1, 1, 1]


@given(SOURCES, st.lists(st.integers(0, 8), min_size=1, max_size=9))
@settings(max_examples=100, deadline=None)
def test_selected_rows_keep_their_source_and_unused_sources_leave(sources, picks):
    source_of, num_sources = torch.tensor(sources[0]), sources[1]
    picked = torch.tensor([p % len(source_of) for p in picks])
    rows, kept = Rows(source_of, num_sources).select(picked)
    names = torch.arange(num_sources) if kept is None else kept  # new source -> old source
    assert len(names) == rows.num_sources and len(rows) == len(picked)
    assert torch.equal(names[rows.source_of], source_of[picked])
    if kept is not None:
        assert sorted(kept.tolist()) == sorted(set(source_of[picked].tolist()))
    else:
        assert rows.num_sources == num_sources


def make_attention(kind):
    torch.manual_seed(0)
    if kind == "additive":
        return Attention(Additive(6, 5, 7))
    return MultiHeadAttention(6, 2, d_key=5)


@pytest.mark.parametrize("kind", ["additive", "multi-head"])
@given(SOURCES, st.integers(1, 3), st.sampled_from(["none", "padding", "causal", "per query"]))
@settings(max_examples=60, deadline=None)
def test_rows_attend_as_if_each_had_a_copy_of_its_keys(kind, sources, num_queries, masked):
    attention = make_attention(kind)
    source_of, num_sources = torch.tensor(sources[0]), sources[1]
    query, key = float_randn(len(source_of), num_queries, 6), float_randn(num_sources, 4, 5, seed=1)
    mask = None
    if masked == "padding":
        mask = padding_mask(torch.tensor([1 + b % 4 for b in range(num_sources)]), 4)
    if masked == "per query":
        mask = float_randn(num_sources, num_queries, 4, seed=2) > -0.5
    keys = attention.prepare(key, mask=mask)
    together = attention(query, keys, causal=masked == "causal", rows=Rows(source_of, num_sources))
    copied = attention(query, keys.select(source_of), causal=masked == "causal")
    assert_close(together, copied, rtol=1e-5, atol=1e-6)


def draw(mask):
    return ["".join("1" if allowed else "." for allowed in row) for row in mask.tolist()]


@pytest.mark.parametrize(
    ("mask", "drawn"),
    [
        (padding_mask(torch.tensor([3, 1, 0, 2])), ["111", "1..", "...", "11."]),
        (padding_mask(torch.tensor([3, 1]), 5), ["111..", "1...."]),
        (causal_mask(4, 4), ["1...", "11..", "111.", "1111"]),
        (causal_mask(2, 5), ["1111.", "11111"]),  # the last query is at the last key
        (causal_mask(1, 3), ["111"]),
        (causal_mask(5, 2), ["..", "..", "..", "1.", "11"]),  # queries before the first key see nothing
    ],
    ids=["padding", "wider padding", "square", "continued", "one query", "more queries"],
)
def test_masks_by_hand(mask, drawn):
    assert draw(mask) == drawn


def test_padding_and_causal_combine():
    combined = full_mask(padding_mask(torch.tensor([2, 4])), True, 3, 4, torch.device("cpu"))
    assert combined.shape == (2, 1, 3, 4)
    assert torch.equal(combined[:, 0], padding_mask(torch.tensor([2, 4])).unsqueeze(1) & causal_mask(3, 4))


def test_a_mask_per_query_combines_with_causal():
    checkered = torch.tensor([[[True, False, True], [False, True, True], [True, True, False]]])
    assert draw(full_mask(checkered, True, 3, 3, torch.device("cpu"))[0, 0]) == [
        "1..",
        ".1.",
        "11.",
    ]


def test_where_everything_may_be_attended_to_there_is_no_mask():
    assert full_mask(None, False, 3, 4, torch.device("cpu")) is None
    assert full_mask(None, True, 1, 4, torch.device("cpu")) is None


@pytest.mark.parametrize("shape", [(2, 5), (2, 4, 4), (2, 1, 3, 4), (4,)])
def test_a_mask_of_another_shape_is_refused(shape):
    with pytest.raises(ShapeError) as error:
        full_mask(torch.ones(shape, dtype=torch.bool), False, 3, 4, torch.device("cpu"))
    assert str(error.value) == f"mask has shape {shape}, expected (batch, key 4) or (batch, query 3, key 4)"


def test_a_mask_of_another_type_is_refused():
    with pytest.raises(ShapeError, match=r"mask has type torch\.int64, expected torch\.bool"):
        full_mask(torch.ones(2, 4, dtype=torch.long), False, 3, 4, torch.device("cpu"))


@pytest.mark.parametrize(("sources", "times"), [(0, 1), (1, 1), (4, 1), (3, 5), (1, 2)])
def test_rows_that_repeat_their_sources_are_those_that_are_laid_out_by_looking(sources, times):
    known = Rows.repeat(sources, times)
    looked_at = Rows(known.source_of, sources)
    assert (known.width, known.in_order, known.is_identity) == (
        looked_at.width,
        looked_at.in_order,
        looked_at.is_identity,
    )
