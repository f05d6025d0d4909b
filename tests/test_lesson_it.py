"""The lesson it: every number by a slow reference, and what two heads and a second layer are needed for."""

import numpy as np
import pytest

import reference
from heed.lessons import run_lesson
from heed.lessons.it import SENTENCES

IT = 2


@pytest.fixture(scope="module")
def lesson():
    return run_lesson("it")


def by_loops(x, matrices, heads):
    """Weights of "it" in each head, and its contexts side by side, one vector pair at a time."""
    query, key, value = (x @ np.array(w) for w in matrices)
    size, weights, contexts = query.shape[1] // heads, [], []
    for head in range(heads):
        part = slice(head * size, (head + 1) * size)
        context, seen = reference.attend(
            query[:, part], key[:, part], value[:, part], None, lambda a, b: reference.dot(a, b) / size**0.5
        )
        weights.append(seen)
        contexts.append(context)
    return np.array(weights), np.concatenate(contexts, axis=1)


@pytest.mark.parametrize("last", SENTENCES)
def test_both_layers_agree_with_the_slow_reference(lesson, last):
    place, x = list(SENTENCES).index(last), lesson["words"][last].numpy()
    matrices = [lesson["projections"][name].tolist() for name in ("W_Q", "W_K", "W_V")]
    weights, contexts = by_loops(x, matrices, 2)
    np.testing.assert_allclose(lesson["heads"][last].numpy(), weights, atol=1e-12)
    np.testing.assert_allclose(lesson["concatenate"]["contexts"][place].numpy(), contexts[IT], atol=1e-12)
    states = x + contexts @ lesson["concatenate"]["W_O"].numpy()
    np.testing.assert_allclose(lesson["concatenate"]["states"][place].numpy(), states[IT], atol=1e-12)
    second = [lesson["second-layer"][name].tolist() for name in ("W_Q", "W_K", "W_K")]
    np.testing.assert_allclose(
        lesson["second-layer"]["weights"][place].numpy(), by_loops(states, second, 1)[0][0, IT], atol=1e-12
    )
    single = by_loops(x, matrices, 1)[0][0, IT]
    np.testing.assert_allclose(lesson["one-head"]["first"][place].numpy(), single, atol=1e-12)


def test_the_second_layer_finds_the_noun_and_two_heads_are_surer_than_one(lesson):
    tired, congested = lesson["second-layer"]["weights"].tolist()
    assert tired.index(max(tired)) == 0 and congested.index(max(congested)) == 1
    assert (round(max(tired), 3), round(max(congested), 3)) == (0.981, 0.981)
    assert lesson["one-head"]["second"].max(-1).values.tolist() == pytest.approx([0.926, 0.926], abs=5e-4)
    # the first layer prefers neither noun, in either head
    for last in SENTENCES:
        weights = lesson["heads"][last][:, IT]
        assert weights[:, 0].tolist() == weights[:, 1].tolist()
