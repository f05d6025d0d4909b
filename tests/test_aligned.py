"""The GRU that looks before every step, trained as a whole, is the model's step by step, and its own gradient."""

import pytest
import torch
from torch.nn.functional import dropout as drop
from torch.testing import assert_close

from contract import assert_close_in_scale
from heed.kernels import aligned_gru
from heed.models.bahdanau import Bahdanau, BahdanauConfig

B, T, K, D_INPUT, D, D_ATTENTION, D_VALUE, D_CONTEXT = 4, 3, 5, 2, 3, 4, 6, 5
LENGTHS = torch.tensor([5, 2, 0, 1])  # a source without tokens too
MASK = torch.arange(K) < LENGTHS.unsqueeze(1)


def inputs():
    shapes = {
        "x": (B, T, D_INPUT),
        "first": (B, D),
        "key": (B, K, D_ATTENTION),
        "value": (B, K, D_VALUE),
        "query_weight": (D_ATTENTION, D),
        "v": (D_ATTENTION,),
        "w_ih": (3 * D, D_INPUT + D_CONTEXT),
        "w_hh": (3 * D, D),
        "b_ih": (3 * D,),
        "b_hh": (3 * D,),
    }
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(*shape, generator=generator, dtype=torch.float64).requires_grad_() for shape in shapes.values()]


def draw(dropout):
    return drop(torch.ones(T, B, 1, K, dtype=torch.float64), dropout) if dropout else None


@pytest.mark.parametrize("dropout", [0.0, 0.4])
def test_the_gradient_by_hand_is_that_of_finite_differences(dropout):
    def run(x, first, key, value, query_weight, v, *cell):
        torch.manual_seed(2)  # the same weights are dropped every time
        return aligned_gru(x, first, key, value, MASK, query_weight, v, cell, draw(dropout))

    assert torch.autograd.gradcheck(run, inputs(), fast_mode=True)


def test_dropped_weights_leave_the_others_scaled_up():
    x, first, key, value, query_weight, v, *cell = (part.detach() for part in inputs())
    value = torch.eye(K, dtype=torch.float64).expand(B, K, K)  # what is seen are the weights themselves
    seen = []
    for dropout in (0.0, 0.4):
        torch.manual_seed(3)
        _, weights = aligned_gru(x, first, key, value, MASK, query_weight, v, tuple(cell), draw(dropout))
        seen.append(weights[:, 0])  # later steps see other states
    whole, dropped = seen
    assert_close(whole.sum(-1), MASK.any(1).double())
    gone = (dropped == 0) & (whole > 0)
    assert gone.any() and (dropped > 0).any()
    assert_close(dropped, (whole / 0.6).masked_fill(gone, 0.0))


@pytest.mark.parametrize("fields", [{}, {"lexical": True}, {"score": "concat", "d_readout": None}])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float64, 1e-12), (torch.float32, 1e-5)])
def test_training_as_a_whole_is_training_step_by_step(monkeypatch, fields, dtype, tolerance):
    torch.manual_seed(0)
    sizes = {"d_embedding": 4, "d_hidden": 5, "d_attention": 3, "d_readout": 4, **fields}
    model = Bahdanau(BahdanauConfig(source_vocab_size=11, target_vocab_size=11, **sizes)).to(dtype).train()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2)  # away from uniform weights
    source, target = torch.randint(4, 11, (B, K)), torch.randint(4, 11, (B, T))
    parameters = [p for name, p in model.named_parameters() if not name.startswith("output")]
    results = []
    for whole in (True, False):
        if not whole:
            monkeypatch.setattr("heed.layers.recurrent._in_one_call", lambda *given: False)
        else:
            monkeypatch.setattr("heed.layers.recurrent.StepwiseRun", None)
        hidden = model(source, MASK, target)
        results.append((hidden, *torch.autograd.grad(hidden.square().sum(), parameters)))
        monkeypatch.undo()
    assert_close_in_scale(*results, tolerance, rtol=0)
