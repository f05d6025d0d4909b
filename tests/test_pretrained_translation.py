"""Translation from a body that reads or writes one text: its states stay the same, and what is taken is said."""

import pytest
import torch
from torch.testing import assert_close

import heed
import marian
from heed.attention import Rows
from heed.data.tokens import END, START
from heed.errors import ConfigError
from heed.layers.transformer import DecoderBlock
from heed.watch.trace import trace

PAIRS = [*zip(marian.ENGLISH, marian.GERMAN, strict=True)]
SMALL = {"model.d_model": 16, "model.num_heads": 2, "model.num_layers": 2, "model.d_ff": 24, "training.threads": 1}
LEARNED = {"model.positions": "learned", "model.norm": "layer", "model.bias": True, "model.activation": "gelu"}
CLOSE = {"rtol": 1e-5, "atol": 1e-5}


def train(task, folder, settings, **more):
    settings = SMALL | settings if "parent" not in more else {"training.threads": 1, **settings}
    return heed.train(task, steps=2, out=folder, settings=settings, quiet=True, **more)


def write_documents(folder):
    """A folder of a few documents."""
    names = [folder / "book" / f"{n}.txt" for n in range(20)]
    names[0].parent.mkdir()
    for n, name in enumerate(names):
        name.write_text(" ".join(marian.ENGLISH[n : n + 4]))
    return [*map(str, names)]


@pytest.fixture(scope="module")
def parents(tmp_path_factory):
    folder = tmp_path_factory.mktemp("parents")
    book = write_documents(folder)
    texts = [(a, "short" if len(a) < 45 else "long") for a in marian.ENGLISH]
    return {
        "bert": train("pretraining", folder / "bert", {}, train=book, valid=4, model="bert"),
        "gpt": train("language_modelling", folder / "gpt", LEARNED, train=book, valid=4, model="gpt"),
        "encoder": train("classification", folder / "encoder", {}, train=texts, valid=8, model="encoder"),
    }


@pytest.fixture(scope="module")
def children(parents, tmp_path_factory):
    folder = tmp_path_factory.mktemp("children")
    made = {}

    def child(name, take="auto", **settings):
        key = f"{name}-{take}-{settings}"
        if key not in made:
            settings = {"training.learning_rate": 1e-30} | settings
            settings |= {} if take == "auto" else {"model.take": take}
            out = folder / str(len(made))
            parent = parents[name].folder
            made[key] = train("translation", out, settings, train=PAIRS, valid=PAIRS[:4], parent=parent)
        return made[key]

    return child


def encoded(run, tokens):
    with torch.no_grad(), trace(run.model) as seen:
        run.model.encode(tokens, torch.ones_like(tokens, dtype=torch.bool))
    return seen.tensors("states")


def states_of(run, tokens):
    body = run.task.body(run.model)
    with torch.no_grad(), trace(body) as seen:
        body(tokens, torch.ones_like(tokens, dtype=torch.bool)) if run.config.model.name != "gpt" else body(tokens)
    return seen.tensors("states")


@pytest.mark.parametrize("name", ["bert", "encoder"])
def test_the_encoder_is_the_body_by_default(parents, children, name):
    parent, child = parents[name], children(name)
    assert child.config.model.name == "transformer"
    ids = child.input.framed(child.input.source_tokenizer.encode("The quick dog").ids)
    assert (ids[0], ids[-1]) == ((START, END) if name == "bert" else (ids[0], ids[-1]))
    assert child.input.source_tokenizer.tokens == parent.tokenizer.tokens
    tokens = torch.tensor([ids])
    for ours, theirs in zip(encoded(child, tokens), states_of(parent, tokens), strict=True):
        assert_close(ours, theirs, **CLOSE)
    taken = child.report["parent"]
    assert {name.split(".")[0] for name in taken["new"]} >= {"decoder", "target_embedding"}
    assert not any(name.startswith("encoder") for name in taken["new"])
    count = len(parent.tokenizer.tokens)
    assert taken["tokens"] == {"source_embedding.weight": {"taken": count, "of": count}}


def test_the_decoder_is_the_language_model(parents, children):
    parent, child = parents["gpt"], children("gpt")
    assert child.input.target_tokenizer.tokens == parent.tokenizer.tokens
    tokens = torch.tensor([[START, *child.input.target_tokenizer.encode("The quick dog").ids]])
    model = child.model
    blocks = [block for block in model.decoder if isinstance(block, DecoderBlock)]
    kept = [block.cross.w_out.weight.clone() for block in blocks]
    with torch.no_grad():
        for block in blocks:  # without what it reads of the source it is the language model
            block.cross.w_out.weight.zero_()
        memory = model.encode(tokens, torch.ones_like(tokens, dtype=torch.bool))
        hidden, _ = model.step(tokens, model.start(memory, Rows.repeat(1)))
        assert_close(hidden, parent.task.body(parent.model)(tokens), **CLOSE)
        for block, weight in zip(blocks, kept, strict=True):
            block.cross.w_out.weight.copy_(weight)
    assert {name.split(".")[2] for name in child.report["parent"]["new"] if name.startswith("decoder.")} == {
        "cross",
        "around_cross",
    }


def test_both_halves_of_one_body(parents, children):
    parent, child = parents["bert"], children("bert", "both")
    assert child.config.tokenizer.shared and child.input.source_tokenizer is child.input.target_tokenizer
    state, theirs = child.model.state_dict(), parent.task.body(parent.model).state_dict()
    for half in ("encoder", "decoder"):
        for name, tensor in theirs.items():
            if name.startswith("blocks."):
                assert torch.equal(state[f"{half}.{name.removeprefix('blocks.')}"], tensor)
    assert torch.equal(state["target_embedding.weight"], theirs["inputs.embedding.weight"])
    again = heed.load(child.folder)
    assert again.predict("The dog").text == child.predict("The dog").text


def test_a_run_is_resumed_and_fields_of_the_user_win(children):
    run = children("bert", **{"model.num_layers": 1, "tokenizer.kind": "char"})
    assert len(run.model.encoder) == len(run.model.decoder) == 1
    assert run.input.source_tokenizer.unit == "character"
    assert run.config.model.model_extra["source_frame"] == "both"


def test_one_half_of_a_translator(children, tmp_path):
    parent = children("bert")
    settings = {"model.take": "encoder", "training.learning_rate": 1e-30, "training.seed": 2}
    child = train("translation", tmp_path / "run", settings, train=PAIRS, valid=PAIRS[:4], parent=parent.folder)
    own, theirs = child.model.state_dict(), parent.model.state_dict()
    same = {name for name in own if own[name].shape == theirs[name].shape and torch.equal(own[name], theirs[name])}
    assert all(name in same for name in own if name.startswith(("encoder.", "source_embedding.", "positions.")))
    assert not any(name in same for name in own if name.startswith("decoder.") and own[name].dim() > 1)


@pytest.mark.parametrize(
    ("name", "settings", "said"),
    [
        ("bert", {"model.name": "bahdanau"}, r"the blocks of .* \(bert\) fit 'transformer' only"),
        ("gpt", {"model.take": "half"}, r"take is 'half'"),
    ],
)
def test_what_cannot_be_taken_is_refused(parents, tmp_path, name, settings, said):
    with pytest.raises(ConfigError, match=said):
        train("translation", tmp_path / "run", settings, train=PAIRS, valid=PAIRS[:4], parent=parents[name].folder)


def test_fields_that_the_transformer_lacks_are_named(parents, tmp_path):
    book = write_documents(tmp_path)
    settings = {"model.positions": "rotary"}
    gpt = train("language_modelling", tmp_path / "gpt", settings, train=book, valid=4, model="gpt")
    with pytest.raises(ConfigError, match=r"has model\.positions=rotary, which 'transformer' lacks"):
        train("translation", tmp_path / "run", {}, train=PAIRS, valid=PAIRS[:4], parent=gpt.folder)
    with pytest.raises(ConfigError, match=r"model\.take is encoder, but model\.from names no run"):
        heed.train("translation", data="copy", steps=1, out=tmp_path / "x", settings={"model.take": "encoder"})
