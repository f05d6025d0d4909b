"""Random Marian models, imported: the same states, weights, logits and translations as in the library transformers."""

import json
import random

import pytest
import torch
from safetensors.torch import load_file
from torch.testing import assert_close

import heed
import marian
from checkpoints import with_field
from contract import collate_pairs
from heed.data.batch import TokenPair
from heed.data.tokens import START
from heed.errors import ConfigError, RunError
from heed.exchange.huggingface.encoder_decoder import alternating
from heed.runs.checkpoints import import_checkpoint
from heed.watch.trace import trace

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
    "widths": {"encoder_ffn_dim": 8, "decoder_ffn_dim": 40},
    "odd": {"d_model": 15, "encoder_attention_heads": 3, "decoder_attention_heads": 5},
    "separate": SEPARATE,
    "untied": {"tie_word_embeddings": False},
    "separate-untied": {**SEPARATE, "tie_word_embeddings": False},
    "beam-6": {"generation": {"num_beams": 6, "length_penalty": 0.5, "renormalize_logits": True}},
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


def batch(run, seed=1):
    """Ragged sources and targets of random tokens, ours and theirs."""
    drawn, both = random.Random(seed), [run.input.source_tokenizer, run.input.target_tokenizer]
    source, target = ([i for i in range(one.vocab_size) if i not in one.special] for one in both)
    end = both[0].special.end
    rows = [
        TokenPair([*drawn.choices(source, k=n), end], drawn.choices(target, k=m))
        for n, m in ((9, 5), (1, 7), (30, 2), (4, 12))
    ]
    ours = collate_pairs(rows, list(range(len(rows))), both[1].special)
    theirs = {
        "input_ids": ours.source,
        "attention_mask": ours.source_mask.long(),
        "decoder_input_ids": ours.target,
    }
    return ours, theirs


@pytest.mark.parametrize(("tables", "shape"), CASES)
def test_states_weights_logits_and_written_tokens_are_the_same(tmp_path, pieces, tables, shape):
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
    assert_close(logits[target], expected.logits[target], **CLOSE)
    assert_same_tokens(tmp_path / "model", model, run, "generation" in SHAPES[shape])


def assert_same_tokens(folder, model, run, searches):
    """What both write as the checkpoint says, and by the other kind of search."""
    library = transformers.AutoTokenizer.from_pretrained(folder)
    for options in ({}, {"num_beams": 1 if searches else 4}):
        own = {"beam_size": options["num_beams"]} if options else {}
        predictions = run.predict(TEXTS, **own)
        for text, prediction in zip(TEXTS, predictions, strict=True):
            inputs = library(text, return_tensors="pt")
            (written,) = model.generate(**inputs, **options).tolist()
            ended = [model.config.eos_token_id] if written[-1] == model.config.eos_token_id else []
            assert [model.config.decoder_start_token_id, *prediction.ids, *ended] == written, (text, options)
            assert prediction.text == library.decode(written, skip_special_tokens=True)


def tensors(folder):
    return load_file(folder / "model.safetensors")


@pytest.mark.parametrize(
    ("tables", "fields"), [({}, {}), (TABLES["two"], SEPARATE), ({}, SHAPES["untied"]), ({}, SHAPES["odd"])]
)
def test_an_export_gives_the_checkpoint_back(tmp_path, pieces, tables, fields):
    model = checkpoint(tmp_path / "model", pieces, tables, **fields, generation={"num_beams": 3})
    run = imported(tmp_path / "model")
    heed.export(run, to="huggingface", out=tmp_path / "out")
    before, after = tensors(tmp_path / "model"), tensors(tmp_path / "out")
    assert all(torch.equal(after[name], tensor) for name, tensor in before.items() if name in after)
    assert before.keys() - after.keys() <= {"model.shared.weight", "lm_head.weight"}  # copies of what is there
    for name in ("source.spm", "target.spm", "vocab.json"):
        kept, written = (tmp_path / where / name for where in ("model", "out"))
        same = json.loads if name.endswith("json") else bytes
        assert same(kept.read_bytes()) == same(written.read_bytes())
    other = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "out")
    libraries = [transformers.AutoTokenizer.from_pretrained(tmp_path / where) for where in ("model", "out")]
    for text in TEXTS:
        inputs = [library(text, return_tensors="pt") for library in libraries]
        assert torch.equal(model.generate(**inputs[0]), other.generate(**inputs[1]))


PAIRS = [(source, target) for source, target in zip(marian.ENGLISH, marian.GERMAN, strict=True)]


def test_an_imported_model_is_trained_on_looked_at_and_exported(tmp_path, pieces):
    checkpoint(tmp_path / "model", pieces)
    parent = imported(tmp_path / "model")
    look = parent.look("The fox jumps").look
    assert look.maps[0].key.labels[-1] == "end"
    assert parent.evaluate(PAIRS[:4])
    settings = {"tokenizer.from": str(parent.folder), "training.learning_rate": 0.01, "training.threads": 1}
    run = heed.train(
        "translation",
        train=PAIRS,
        valid=PAIRS[:4],
        parent=parent.folder,
        steps=3,
        out=tmp_path / "run",
        settings=settings,
        quiet=True,
    )
    assert run.report["parent"]["new"] == []
    vocabulary = json.loads((tmp_path / "model" / "vocab.json").read_text())
    ids = [vocabulary[name] for name in ("<pad>", "<unk>", "<pad>", "</s>")]
    assert [*run.input.source_tokenizer.special] == [*run.input.target_tokenizer.special] == ids
    assert [one.text for one in run.predict(TEXTS)] == [run.predict(text).text for text in TEXTS]
    heed.export(run, to="huggingface", out=tmp_path / "out")
    assert json.loads((tmp_path / "out" / "vocab.json").read_text()) == vocabulary
    other = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "out").eval()
    library = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    special = parent.task.input.target_tokenizer.special
    for text in TEXTS:
        (written,) = other.generate(**library(text, return_tensors="pt")).tolist()
        assert [i for i in written if i not in special] == [*run.predict(text).ids]


@pytest.mark.parametrize(("frame", "kind"), [("none", "bpe"), ("end", "char"), ("both", "bpe")])
def test_a_post_norm_transformer_of_our_own_is_exported(tmp_path, frame, kind):
    settings = {
        "model.norm": "post",
        "model.d_model": 16,
        "model.num_heads": 4,
        "model.d_ff": 24,
        "model.source_frame": frame,
        "tokenizer.kind": kind,
        "tokenizer.vocab_size": 60,
        "training.threads": 1,
        "generation.beam_size": 3,
        "generation.max_length": 12,
        "generation.early_stopping": "heuristic",
    }
    run = heed.train(
        "translation",
        train=PAIRS,
        valid=PAIRS[:4],
        model="transformer",
        size="tiny",
        steps=8,
        out=tmp_path / "run",
        settings=settings,
        quiet=True,
    )
    heed.export(run, to="huggingface", out=tmp_path / "out")
    other = transformers.AutoModelForSeq2SeqLM.from_pretrained(tmp_path / "out").eval()
    source = transformers.AutoTokenizer.from_pretrained(tmp_path / "out")
    target = transformers.AutoTokenizer.from_pretrained(tmp_path / "out" / "target_tokenizer")
    for folder in (tmp_path / "out", tmp_path / "out" / "target_tokenizer"):
        fields = json.loads((folder / "tokenizer_config.json").read_text())
        assert fields["clean_up_tokenization_spaces"] is False and fields["split_special_tokens"] is True
    for text in [*TEXTS[:5], "</s> and <pad>"]:
        inputs = source(text, return_tensors="pt", return_token_type_ids=False)
        assert inputs["input_ids"][0].tolist() == run.input.framed(run.input.source_tokenizer.encode(text).ids)
        (written,) = other.generate(**inputs).tolist()
        assert written[0] == START
        assert [i for i in written[1:] if i not in (0, 3)] == list(run.predict(text).ids)
        assert target.decode(written, skip_special_tokens=True).strip() == run.predict(text).text.strip()
    again = imported(tmp_path / "out")
    assert [one.text for one in again.predict(TEXTS[:5])] == [one.text for one in run.predict(TEXTS[:5])]


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("norm", "pre", r"model\.norm=pre: Marian normalises after each sublayer; train with model\.norm=post"),
        ("positions", "learned", r"model\.positions=learned: Marian has fixed sinusoids"),
        ("normalized_embeddings", True, r"model\.normalized_embeddings=True"),
        ("norm_eps", 0.1, r"model\.norm_eps=0\.1: its value is 1e-05"),
    ],
)
def test_what_marian_cannot_express_is_refused_by_field(tmp_path, field, value, said):
    settings = {"model.norm": "post", "model.d_model": 8, "model.num_heads": 2, "model.d_ff": 8}
    settings |= {f"model.{field}": value, "training.threads": 1}
    run = heed.train(
        "translation", data="copy", model="transformer", size="tiny", steps=1, out=tmp_path / "run",
        settings=settings | {"data.train": 20, "data.valid": 4, "data.test": 4}, quiet=True,
    )  # fmt: skip
    with pytest.raises(ConfigError, match=said):
        heed.export(run, to="huggingface", out=tmp_path / "out")


@pytest.mark.parametrize(
    ("change", "error", "said"),
    [
        ({"activation_function": "tanh"}, ConfigError, 'activation_function is "tanh": heed does not support it'),
        ({"is_encoder_decoder": False}, ConfigError, "is_encoder_decoder is false"),
        ({"encoder_layers": 3}, RunError, r"lacks tensors 'model\.encoder\.layers\.2\.self_attn\.q_proj\.weight'"),
        ({"decoder_ffn_dim": 8}, RunError, r"fc1\.weight' has shape \(24, 16\).*it should have \(8, 16\)"),
        ({"vocab_size": 50, "decoder_vocab_size": 50}, RunError, "but config.json has 50 tokens"),
        ({"architectures": ["MarianForCausalLM"]}, ConfigError, "MarianForCausalLM is for a task that heed does"),
    ],
)
def test_a_checkpoint_that_does_not_fit_is_refused(tmp_path, pieces, change, error, said):
    checkpoint(tmp_path / "model", pieces)
    with_field(tmp_path / "model", **change)
    with pytest.raises(error, match=said):
        imported(tmp_path / "model")
