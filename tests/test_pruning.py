"""Heads that are removed for good: the model without them is the model with them zeroed, in every form of it."""

import json
from dataclasses import replace

import pytest
import torch
from torch.testing import assert_close

import heed
from commands import call
from heed.attention import Rows
from heed.attention.modules import MultiHeadAttention
from heed.errors import ConfigError
from heed.generation import SearchOptions, generate
from heed.models.attention_lm import AttentionLM
from heed.models.base import DecoderBody
from heed.models.bert import Bert
from heed.models.encoder import Encoder
from heed.models.gpt import GPT, GPTEncoder
from heed.models.transformer import Transformer
from heed.models.vit import Vit
from heed.observe.edits import ZeroHead
from heed.runs.heads import prune, score_heads
from small_runs import SMALL
from test_encoder_block import batch, make_model, results
from test_models import make_config
from test_models import make_model as make_body

KEPT = {"encoder": [1, 3], "decoder": [2, 1], "cross": [3, 1]}


def pair(body, seed=1):
    """A model of 2 layers of 4 heads, and the same without the last heads of each layer."""
    mechanisms = {
        Transformer: ("encoder", "decoder", "cross"),
        **dict.fromkeys((GPT, GPTEncoder, AttentionLM), ("decoder",)),
    }
    kept = {name: KEPT[name] for name in mechanisms.get(body, ("encoder",))}
    fields = {"num_heads": 4, "num_layers": 2, "d_model": 16}
    whole = make_body(body, make_config(body, **fields), seed)
    cut = make_body(body, make_config(body, **fields, kept_heads=kept), seed)
    state = whole.state_dict()
    for name, module in cut.named_modules():
        if isinstance(module, MultiHeadAttention):
            rows = 4 * module.num_heads
            for layer in ("w_query", "w_key", "w_value"):
                for part in ("weight", "bias"):
                    state[f"{name}.{layer}.{part}"] = state[f"{name}.{layer}.{part}"][:rows]
            state[f"{name}.w_out.weight"] = state[f"{name}.w_out.weight"][:, :rows]
    cut.load_state_dict(state)
    zeros = [
        ZeroHead(name, i, head) for name, counts in kept.items() for i, n in enumerate(counts) for head in range(n, 4)
    ]
    return whole, cut, zeros


@pytest.mark.parametrize("body", [Transformer, Encoder, Bert, GPT, GPTEncoder, AttentionLM, Vit])
def test_a_model_without_heads_is_the_model_with_these_heads_zeroed(body):
    whole, cut, zeros = pair(body)
    args = body.example(whole.config, 1)
    assert sum(p.numel() for p in cut.parameters()) < sum(p.numel() for p in whole.parameters())
    with torch.no_grad():
        with heed.edit(whole, *zeros):
            expected = whole(**args)
        assert_close(cut(**args), expected, rtol=1e-4, atol=1e-5)
        with heed.trace(cut) as seen:
            cut(**args)
    counts = {(one.mechanism, one.layer): one.num_heads for one in cut.modules() if isinstance(one, MultiHeadAttention)}
    assert {place: seen.maps(*place).weights.shape[1] for place in seen.mechanisms()} == counts
    if isinstance(whole, DecoderBody):
        source = {name: value for name, value in args.items() if name not in ("target", "tokens")}
        memory = cut.encode(**source) if source else None
        start, found = torch.full((3, 1), 2), []
        for watched in (False, True):
            state = cut.start(memory, Rows.repeat(3))
            with torch.no_grad(), torch.set_grad_enabled(watched):  # with a gradient, block by block
                steps = []
                for token in (start, start + 2, start + 3):
                    hidden, state = cut.step(token, state)
                    steps.append(hidden.detach())
            found.append(torch.cat(steps, 1))
        assert_close(found[0], found[1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("beam_size", [1, 3])
def test_writing_is_the_same_fast_and_watched(beam_size):
    _, cut, _ = pair(Transformer)
    args = Transformer.example(cut.config, 1)
    options = SearchOptions(3, 6, beam_size=beam_size, num_best=beam_size, forbidden=(0, 1, 2))
    with torch.no_grad():
        memory, prompt = cut.encode(args["source"], args["source_mask"]), torch.full((3, 1), 2)
        fast = generate(cut, memory, prompt, options).hypotheses
        with heed.trace(cut):
            plain = generate(cut, memory, prompt, options).hypotheses
    assert [[one.tokens for one in group] for group in fast] == [[one.tokens for one in group] for group in plain]


def test_training_on_packed_texts_is_that_of_the_modules():
    model = make_model(kept_heads={"encoder": [1, 3]})
    fast = results(model, *batch())
    with heed.kernels.plain():
        plain = results(model, *batch())
    assert_close(fast, plain, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("kept", "message"),
    [
        ({"encodr": [1, 1]}, "model.kept_heads has encodr: [1, 1], expected one of encoder"),
        ({"encoder": [1]}, "has encoder: [1], expected a number for each layer, from 1 to 4: [4, 4]"),
        ({"encoder": [0, 4]}, "has encoder: [0, 4], expected a number for each layer, from 1 to 4: [4, 4]"),
    ],
)
def test_numbers_of_heads_that_do_not_fit_are_named(kept, message):
    with pytest.raises(ConfigError) as refused:
        make_body(Bert, make_config(Bert, num_heads=4, num_layers=2, d_model=16, kept_heads=kept))
    assert message in str(refused.value)


BLOCKS = {"model.d_model": 8, "model.num_heads": 4, "model.num_layers": 2, "model.d_ff": 8, "model.size": "tiny"}
NO_RNN = {"model.d_embedding": None, "model.d_hidden": None}
CASES = {
    "translation": ("transformer", {**NO_RNN, "model.d_attention": None, "model.norm": "post"}),
    "classification": ("encoder", NO_RNN),
    "language_modelling": ("gpt", {"model.positions": "learned"}),
    "pretraining": ("bert", {}),
    "images": ("vit", {"model.num_filters": None, "model.convolutions": None, "model.patch_size": 4}),
}


@pytest.mark.parametrize("name", CASES)
def test_every_command_works_on_a_pruned_run(name, data, tmp_path, capsys):
    model, more = CASES[name]
    small = replace(SMALL[name], model=model, settings={**SMALL[name].settings, **BLOCKS, **more})
    small.trained(data, tmp_path / "whole")
    small.trained(data, tmp_path / "other")
    whole, out = tmp_path / "whole", tmp_path / "pruned"
    code, said, err = call(capsys, "heads", whole, "--prune", 3, "--out", out, "--examples", 4, "--json")
    assert code == 0, err
    report = json.loads(said)["pruned"]
    before, after = heed.load(whole), heed.load(out)
    counts = [sum(p.numel() for p in one.model.parameters()) for one in (before, after)]
    assert report["parameters"] == {"before": counts[0], "after": counts[1]} and len(report["removed"]) == 3
    # 3 heads of width 2: their rows of three matrices with biases, and their columns of the fourth
    assert counts[0] - counts[1] == 3 * 2 * (4 * 8 + 3)
    examples = after.examples("valid")
    cut = [ZeroHead(*one.values()) for one in report["removed"]]
    with heed.edit(before, *cut):
        expected = [one.score() for one in before.score_and_loss(examples) if one is not None]
    found = [one.score() for one in after.score_and_loss(examples) if one is not None]
    assert found == pytest.approx(expected, nan_ok=True, rel=1e-5)
    commands = small.commands(str(out), str(whole), data, tmp_path)
    commands.pop("compare"), commands.pop("ensemble")
    for command in ("predict", "look", "evaluate", "check", "start"):
        code, _, err = call(capsys, *commands[command])
        assert code == 0, (command, err)
    for how in [("huggingface", "--out", tmp_path / "e"), *([("ctranslate2",)] if name == "translation" else [])]:
        code, _, err = call(capsys, "export", out, "--to", *how)
        assert code == 2 and ("kept_heads" in err or model == "encoder"), err  # an `encoder` has no checkpoints
    code, said, err = call(capsys, "heads", out, "--prune", 1, "--out", tmp_path / "again", "--examples", 2)
    assert code == 0 and "removed 1 head:" in said, err


def test_training_goes_on_from_a_pruned_run(data, tmp_path):
    model, more = CASES["translation"]
    small = replace(SMALL["translation"], model=model, settings={**SMALL["translation"].settings, **BLOCKS, **more})
    small.trained(data, tmp_path / "whole")
    run = heed.load(tmp_path / "whole")
    heads = score_heads(run, "valid", 2, say=lambda line: None)
    pruned = prune(run, heads, 5, tmp_path / "pruned")
    assert heads.worst_first[0].place in pruned.removed
    settings = {"training.threads": 1, "training.warmup": 1, "evaluation.bootstrap": 5, "data.valid": 6}
    given = {"parent": tmp_path / "pruned", "settings": {**settings, "tokenizer.kind": "word"}, "quiet": True}
    child = heed.train("translation", train=data / "pairs.tsv", steps=2, out=tmp_path / "child", **given)
    assert child.model.config.kept_heads == pruned.run.model.config.kept_heads and not child.report["parent"]["new"]


def test_no_more_heads_are_removed_than_can_go(data, tmp_path, capsys):
    SMALL["pretraining"].trained(data, tmp_path / "run")
    code, _, err = call(capsys, "heads", tmp_path / "run", "--prune", 2)
    assert code == 2 and "--prune 2: 1 to 1 heads of this model can be removed, since each layer" in err
    SMALL["translation"].trained(data, tmp_path / "luong")
    code, _, err = call(capsys, "heads", tmp_path / "luong", "--prune", 1)
    assert code == 2 and "--prune 1: no layer of this model has several heads" in err
    code, _, err = call(capsys, "heads", tmp_path / "run", "--prune", 1, "--out", tmp_path / "luong")
    assert code == 2 and "already exists" in err
    code, _, err = call(capsys, "heads", tmp_path / "run", "--out", tmp_path / "heads.pdf")
    assert code == 2 and "does not end in .html, .svg, .png, .json, .txt, .csv" in err
