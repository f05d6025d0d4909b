"""Prints the graphs that run in a compiled pass of some models, and its difference from the pass itself, as JSON.

A process of its own (`python tests/graphs.py`): the shape checks of the tests split graphs.
"""

import json
from functools import partial

import torch

from heed.models.gpt import GPT, GPTConfig
from heed.models.transformer import Transformer, TransformerConfig
from heed.models.vit import Vit, VitConfig
from heed.training.device import compiled

WIDTH = {"d_model": 16, "num_heads": 2, "num_layers": 2}


def counting(graph, inputs):
    """A compiler's back end that counts how many graphs ran, and needs no C compiler."""

    def run(*args):
        counting.runs += 1
        return graph.forward(*args)

    return run


def models(dropout):
    """Models of two layers, what they read, and whether all batches have one shape."""
    tokens, mask = torch.randint(4, 50, (2, 8)), torch.arange(8) < torch.tensor([[8], [6]])
    for positions in ("learned", "rotary"):
        config = GPTConfig(vocab_size=50, max_length=16, positions=positions, dropout=dropout, **WIDTH)
        yield f"gpt {positions}", GPT(config), (tokens,), True
    config = VitConfig(num_channels=1, height=8, width=8, patch_size=4, dropout=dropout, **WIDTH)
    yield "vit", Vit(config), (torch.rand(3, 1, 8, 8).double(),), True
    config = TransformerConfig(source_vocab_size=50, target_vocab_size=50, dropout=dropout, **WIDTH)
    yield "transformer", Transformer(config), (tokens, mask, tokens), False


def slopes(model, inputs):
    """The output and the gradients of its squares' sum."""
    out = model(*inputs)
    parameters = [p for p in model.parameters() if p.requires_grad]
    return out, *torch.autograd.grad(out.square().sum(), parameters, allow_unused=True, materialize_grads=True)


def main():
    torch.compile = partial(torch.compile, backend=counting)
    counting.runs, report = 0, {}
    for dropout in (0.1, 0.0):
        for name, model, inputs, same_shapes in models(dropout):
            model.double().train()
            expected = slopes(model, inputs)
            with compiled(model, same_shapes):
                slopes(model, inputs)
                counting.runs = 0
                results = slopes(model, inputs)
            pairs = zip(results, expected, strict=True)
            apart = max(float((result - other).norm() / (1 + other.norm())) for result, other in pairs)
            report[f"{name}, dropout {dropout}"] = counting.runs, apart
    print(json.dumps(report))


if __name__ == "__main__":
    torch.manual_seed(0)
    main()
