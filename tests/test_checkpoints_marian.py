"""Random Marian models, imported: the same states, weights, logits and translations as in the library transformers."""

import json
import random

import pytest
import torch
from torch.testing import assert_close

import marian
from heed.data.batch.pairs import TokenPair, collate_pairs
from heed.data.tokens.tokenizer import START
from heed.exchange.huggingface.marian import _alternating as alternating
from heed.observe.trace import trace
from heed.runs.imported import import_checkpoint

pytest.importorskip("sentencepiece")
transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.filterwarnings("ignore:Recommended. pip install sacremoses")

CLOSE = {"rtol": 1e-5, "atol": 1e-5}
TEXTS = [
    *marian.ENGLISH[:4],
    "fox",
    ">>deu<< Do you know the dog?",
    "\u6771\u4eac and milk, \u00fcber",
    "apples , apples",
]
TABLES = {"one": {}, "two": {"separate": True}}
SEPARATE = {"share_encoder_decoder_embeddings": False}
SHAPES = {
    "plain": {},
    "swish-unscaled": {"scale_embedding": False},
    "relu": {"activation_function": "relu"},
    "gelu": {"activation_function": "gelu"},
    "gelu-new": {"activation_function": "gelu_new"},
    "silu": {"activation_function": "silu"},
    "deep-encoder": {"encoder_layers": 4, "decoder_layers": 1},
    "deep-decoder": {"encoder_layers": 1, "decoder_layers": 3},
    "heads": {"encoder_attention_heads": 2, "decoder_attention_heads": 8},
    "one-head": {"encoder_attention_heads": 1, "decoder_attention_heads": 1},
    "widths": {"encoder_ffn_dim": 8, "decoder_ffn_dim": 40},
    "wide": {"d_model": 48, "encoder_attention_heads": 6},
    "odd": {"d_model": 15, "encoder_attention_heads": 3, "decoder_attention_heads": 5},
    "separate": SEPARATE,
    "untied": {"tie_word_embeddings": False},
    "separate-untied": {**SEPARATE, "tie_word_embeddings": False},
    "beam-2": {"generation": {"num_beams": 2, "length_penalty": 0.5}},
    "beam-6": {"generation": {"num_beams": 6, "renormalize_logits": True}},
    "first-six": {"generation": {"num_beams": 6, "early_stopping": True}},
    "never": {"generation": {"num_beams": 3, "early_stopping": "never", "min_length": 4}},
    "forced-end": {"generation": {"num_beams": 4, "max_length": 7, "forced_eos_token_id": 0}},
    "short": {"generation": {"max_new_tokens": 3}},
}
CASES = [
    pytest.param(tables, shape, id=f"{name}-{shape}")
    for shape in SHAPES
    for name, tables in TABLES.items()
    if name == "one" or SHAPES[shape].get("share_encoder_decoder_embeddings") is False
]


@pytest.fixture(scope="module")
def pieces(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pieces")
    return folder, marian.train_pieces(folder)


def checkpoint(folder, pieces, tables=None, seed=1, **fields):
    """A folder as `save_pretrained` leaves it, and the model."""
    folder.mkdir(exist_ok=True)
    models, names = pieces
    for name in ("source.spm", "target.spm"):
        (folder / name).write_bytes((models / name).read_bytes())
    sizes = marian.write_tokenizers(folder, names, **(tables or {}))
    model = marian.write_model(folder, sizes, seed, **fields)
    model.set_attn_implementation("eager")
    return model


def imported(folder):
    return import_checkpoint(folder, folder.parent / f"{folder.name}-run").run


def numbers(run):
    state = json.loads((run.folder / "huggingface.json").read_text(encoding="utf-8"))["vocabularies"]
    return [[i or 0 for i in state[side]["theirs"]] for side in ("source", "target")]


def batch(run, seed=1):
    """Ragged sources and targets of random tokens, ours and theirs."""
    source, target = numbers(run)
    drawn = random.Random(seed)
    rows = [
        TokenPair([*drawn.choices(range(4, len(source)), k=n), 3], drawn.choices(range(4, len(target)), k=m))
        for n, m in ((9, 5), (1, 7), (30, 2), (4, 12))
    ]
    ours = collate_pairs(rows, list(range(len(rows))))
    theirs = {
        "input_ids": torch.tensor(source)[ours.source],
        "attention_mask": ours.source_mask.long(),
        "decoder_input_ids": torch.tensor(target)[ours.target],
    }
    return ours, theirs


@pytest.mark.parametrize(("tables", "shape"), CASES)
def test_states_weights_and_logits_are_the_same(tmp_path, pieces, tables, shape):
    model = checkpoint(tmp_path / "model", pieces, tables, **SHAPES[shape])
    run = imported(tmp_path / "model")
    ours, given = batch(run)
    with torch.no_grad():
        expected = model(**given, output_hidden_states=True, output_attentions=True)
        with trace(run.model) as seen:
            logits = run.model.logits(run.model(ours.source, ours.source_mask, ours.target))
    order = alternating(run.model.config.d_model)
    source, target = ours.source_mask, ours.target_mask
    layers = len(run.model.encoder), len(run.model.decoder)
    states = seen.tensors("states")
    assert len(states) == sum(layers)
    for state, other in zip(states[: layers[0]], expected.encoder_hidden_states[1:], strict=True):
        assert_close(state[source], other[..., order][source], **CLOSE)
    for state, other in zip(states[layers[0] :], expected.decoder_hidden_states[1:], strict=True):
        assert_close(state[target], other[..., order][target], **CLOSE)
    for kind, others in (
        ("encoder", expected.encoder_attentions),
        ("decoder", expected.decoder_attentions),
        ("cross", expected.cross_attentions),
    ):
        rows = source if kind == "encoder" else target
        for layer, other in enumerate(others):
            weights = seen.weights(kind, layer).transpose(1, 2)[rows]
            assert_close(weights, other.transpose(1, 2)[rows], **CLOSE)
    known = torch.tensor([i for i in range(logits.shape[-1]) if i != START])
    theirs = torch.tensor(numbers(run)[1])[known]
    assert_close(logits[target][:, known], expected.logits[target][:, theirs], **CLOSE)
    assert logits[target][:, START].max() < -9_000


@pytest.mark.parametrize(("tables", "shape"), CASES)
def test_the_same_tokens_are_written(tmp_path, pieces, tables, shape):
    model = checkpoint(tmp_path / "model", pieces, tables, **SHAPES[shape])
    library = transformers.AutoTokenizer.from_pretrained(tmp_path / "model")
    run = imported(tmp_path / "model")
    numbering = numbers(run)[1]
    for options in ({}, {"num_beams": 1}, {"num_beams": 4}):
        own = {"beam_size": options["num_beams"]} if options else {}
        predictions = run.predict(TEXTS, **own)
        for text, prediction in zip(TEXTS, predictions, strict=True):
            inputs = library(text, return_tensors="pt")
            (written,) = model.generate(**inputs, **options).tolist()
            ended = [model.config.eos_token_id] if written[-1] == model.config.eos_token_id else []
            ids = [numbering[i] for i in prediction.ids]
            assert [model.config.decoder_start_token_id, *ids, *ended] == written, (text, options)
            assert prediction.text == library.decode(written, skip_special_tokens=True)
