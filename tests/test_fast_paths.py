"""What is fast equals what can be read, for every model: whole training steps, and records of ragged batches."""

import torch
from torch.testing import assert_close

import heed
from contract import assert_close_in_scale, gradients_of
from heed.attention import Score, attend
from heed.attention import modules as fused
from heed.attention.modules import Attends
from heed.kernels import vocabulary_loss
from heed.layers import RecurrentCell
from heed.models.base import DecoderBody
from test_models import VOCAB_SIZE, every_variant, make_model


def readable(monkeypatch):
    """Every attention by `attend`, every recurrent cell by its equations, a step at a time."""

    def slow(projected, prepared, value, mask, *, causal, scale, dropout=0.0):
        assert dropout == 0.0
        allowed = fused.full_mask(mask, causal, projected.shape[2], prepared.shape[2], projected.device)
        score = Score()
        score.scale = scale
        return attend(projected, prepared, value, allowed, score)[0]

    def unrolled(cell, inputs, initial):
        hidden, state = [], initial
        for t in range(inputs.shape[1]):
            state = cell.readable_step(inputs[:, t], state)
            hidden.append(state[0])
        return torch.stack(hidden, dim=1), state

    monkeypatch.setattr("heed.attention.modules.fused_attend", slow)
    monkeypatch.setattr(RecurrentCell, "sequence", unrolled)
    monkeypatch.setattr(RecurrentCell, "step", RecurrentCell.readable_step)
    monkeypatch.setattr("heed.layers.recurrent._in_one_call", lambda *given: False)
    monkeypatch.setattr("heed.layers.transformer.trains_by_hand", lambda x: False)


def loss_of(model, args, in_pieces):
    """The training loss of a decoder, in pieces or from whole logits; of another model some function of its output."""
    out = model(**args)
    if not isinstance(model, DecoderBody):
        mask = args.get("mask")
        real = out if mask is None or out.dim() != 3 else out[mask]
        return (real * torch.linspace(-1, 1, real.shape[-1], dtype=real.dtype)).sin().sum()
    hidden, smoothing = out.flatten(0, 1), 0.1
    labels = torch.arange(len(hidden)) % VOCAB_SIZE
    if in_pieces:
        return vocabulary_loss(hidden, model.output, labels, smoothing, piece=5)
    return torch.nn.functional.cross_entropy(model.logits(hidden), labels, label_smoothing=smoothing, reduction="sum")


@every_variant
def test_a_training_step_is_the_readable_one_in_loss_and_every_gradient(monkeypatch, body, config):
    model = make_model(body, config.model_copy(update={"dropout": 0.0})).train()
    args = body.example(config, 1)
    results = []
    for fast in (True, False):
        with monkeypatch.context() as patch:
            if not fast:
                readable(patch)
            model.zero_grad()
            loss = loss_of(model, args, in_pieces=fast)
            loss.backward()
        results.append((loss.detach(), gradients_of(model)))
    (fast_loss, fast_gradients), (loss, gradients) = results
    assert_close_in_scale(fast_loss, loss)
    assert any(gradient.any() for gradient in gradients.values())
    assert_close_in_scale(fast_gradients, gradients)


def alone(args, i):
    """Text i without the padding that the others made necessary."""
    cut = {}
    for name, value in args.items():
        mask = args.get("mask" if name in ("tokens", "mask") else f"{name.removesuffix('_mask')}_mask")
        one = value[i : i + 1]
        if mask is not None and mask.shape == value.shape:
            for axis in range(1, mask.dim()):
                real = mask[i].any(dim=tuple(a for a in range(mask.dim() - 1) if a != axis - 1))
                one = one.narrow(axis, 0, int(real.sum()))
        cut[name] = one
    return cut


def response_alone(args, i):
    """Response i with its own conversation, without the padding that the others made necessary."""
    turns = args["turns"][args["conversation"][i]]
    turns = turns[turns >= 0]
    mask = args["mask"][turns]
    words = slice(int(mask.sum(1).max()))
    return {
        "tokens": args["tokens"][turns][:, words],
        "mask": mask[:, words],
        "turns": torch.arange(len(turns)).unsqueeze(0),
        "speakers": args["speakers"][turns],
        "target": args["target"][i : i + 1],
        "conversation": torch.tensor([0]),
        "read": args["read"][i : i + 1],
    }


def looks(model, args):
    with torch.no_grad(), heed.trace(model) as seen:
        model(**args)
    return {(mechanism, layer): seen.maps(mechanism=mechanism, layer=layer) for mechanism, layer in seen.mechanisms()}


@every_variant
def test_a_look_at_a_text_among_others_is_the_look_at_it_alone(body, config):
    model, args = make_model(body, config), body.example(config, 1)
    if not any(isinstance(module, Attends) for module in model.modules()):
        assert not looks(model, args)
        return
    together = looks(model, args)
    assert together
    of_turns = body.interface == "turn_decoder"
    apart, count = (response_alone, len(args["target"])) if of_turns else (alone, len(next(iter(args.values()))))
    starts = dict.fromkeys(together, 0)  # sentences of all texts lie side by side: as many rows as each has alone
    for i in range(count):
        for key, maps in looks(model, apart(args, i)).items():
            rows, _, queries, keys = maps.weights.shape
            many = slice(starts[key], starts[key] + rows), slice(None), slice(queries)
            starts[key] += rows
            weights, context = together[key].weights[many], together[key].context[many]
            assert not weights[..., keys:].any(), key
            assert_close(weights[..., :keys], maps.weights, rtol=0, atol=1e-5, msg=lambda text, k=key: f"{k}: {text}")
            if of_turns:  # behind the contexts of turns stand their weights, as many as the longest conversation has
                context = context[..., : maps.context.shape[-1]]
            assert_close(context, maps.context, rtol=0, atol=1e-5, msg=lambda text, k=key: f"{k}: {text}")
    for key, maps in together.items():
        assert starts[key] == len(maps.weights), key
