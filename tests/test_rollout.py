"""Rollout and attention distance, against slow forms in NumPy."""

import numpy as np
import pytest
import torch

from heed.errors import ConfigError
from heed.layers import DecoderStack
from heed.layers.transformer import DecoderBlock, EncoderBlock
from heed.observe.picture_looks import centre_distances, even_distance, mean_distances
from heed.observe.trace import ObserveError, rolled_out, rollout, trace


class Stack(torch.nn.Module):
    def __init__(self, layers=4, d_model=16, heads=4, seed=0):
        super().__init__()
        torch.manual_seed(seed)
        self.blocks = torch.nn.ModuleList(EncoderBlock(d_model, heads, 24, norm="pre", layer=i) for i in range(layers))
        for parameter in self.parameters():
            torch.nn.init.normal_(parameter, std=0.6)

    def forward(self, x, mask=None):
        for block in self.blocks:
            x = block(x, mask)
        return x


def seen_of(model, x, **more):
    with torch.no_grad(), trace(model.eval()) as seen:
        model(x, **more)
    return seen


def slow_rollout(layers):
    """Each entry by the sum over all ways through the layers, in double precision."""
    state = np.eye(layers[0].shape[-1])
    for layer in layers:
        mean = sum(np.asarray(head, dtype=np.float64) for head in layer) / len(layer)
        new = np.zeros_like(state)
        for i in range(len(state)):
            for j in range(len(state)):
                for k in range(len(state)):
                    a = mean[i, k] / 2 + (0.5 if i == k else 0.0)
                    new[i, j] += a * state[k, j]
        state = new
    return state


def test_rollout_is_the_product_of_the_halves_of_weights_and_residual_and_its_rows_sum_to_one_at_every_layer():
    model = Stack()
    seen = seen_of(model, torch.randn(2, 7, 16))
    layers = [seen.maps("encoder", i).weights for i in range(4)]
    for depth in range(4):
        mine = rollout(seen, layer=depth)
        assert torch.allclose(mine.sum(-1), torch.ones(2, 7), atol=1e-6)
        for entry in range(2):
            expected = slow_rollout([layer[entry].numpy() for layer in layers[: depth + 1]])
            assert np.abs(mine[entry].numpy() - expected).max() < 1e-6
    assert torch.equal(rollout(seen, "encoder", -1, entries=[1]), rollout(seen)[1:])
    assert len(rolled_out(layers)) == 4


def test_rollout_takes_texts_with_padding_but_is_refused_under_a_causal_mask():
    x = torch.randn(2, 5, 16)
    mask = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    rolled = rollout(seen_of(Stack(), x, mask=mask))
    assert torch.allclose(rolled.sum(-1), torch.ones(2, 5), atol=1e-6)
    assert float(rolled[1, :3, 3:].abs().max()) == 0

    class Decoder(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = DecoderStack([DecoderBlock(16, 4, 24, cross=False)])

        def forward(self, x):
            return self.blocks.whole(x)

    with pytest.raises(
        ConfigError, match="rollout is not defined under a causal mask: the tokens of decoder attention"
    ):
        rollout(seen_of(Decoder(), x))


def test_rollout_of_a_layer_or_mechanism_that_is_not_there_says_what_there_is():
    seen = seen_of(Stack(), torch.randn(1, 3, 16))
    with pytest.raises(ObserveError, match="'encoder' attention has no layer 9; recorded: encoder layer 0"):
        rollout(seen, layer=9)
    with pytest.raises(ObserveError, match="no 'cross' attention was recorded"):
        rollout(seen, "cross")


def test_mean_attention_distance_is_the_weighted_mean_of_distances_between_centres():
    rows, columns, step = 3, 4, (2.0, 5.0)
    generator = torch.Generator().manual_seed(1)
    weights = torch.rand(2, 3, 13, 13, generator=generator).softmax(-1)  # a class token, then 12 patches
    mine = mean_distances(weights, rows, columns, step)
    for entry in range(2):
        for head in range(3):
            total = 0.0
            for q in range(12):
                inside = weights[entry, head, q + 1, 1:].double()
                for k in range(12):
                    down = (q // columns - k // columns) * step[0]
                    across = (q % columns - k % columns) * step[1]
                    total += float(inside[k] / inside.sum()) * (down**2 + across**2) ** 0.5
            assert float(mine[entry, head]) == pytest.approx(total / 12)
    even = torch.full((1, 1, 12, 12), 1 / 12)
    assert float(mean_distances(even, rows, columns, step)) == pytest.approx(even_distance(rows, columns, step))
    itself = torch.eye(12)[None, None]
    assert float(mean_distances(itself, rows, columns, step)) == 0
    assert float(centre_distances(rows, columns, step)[0, -1]) == pytest.approx((4**2 + 15**2) ** 0.5)
