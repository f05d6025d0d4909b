"""GPT-2 with random weights: the same states, maps, logits and written tokens, in and out again."""

import json
import random

import pytest
import torch
from safetensors.torch import load_file

import heed
from checkpoints import byte_pairs, changed, ragged, randomise, with_field, write_byte_pairs
from heed.errors import ConfigError
from heed.folder import unsealed
from heed.watch.trace import trace

transformers = pytest.importorskip("transformers")
CLOSE = dict(rtol=1e-5, atol=1e-5)
END = "<|endoftext|>"

ACTIVATIONS = ("gelu_new", "gelu", "relu", "silu", "gelu_pytorch_tanh", "swish")
SHAPES = [
    # width, heads, layers, inner, extra rows, positions
    *((8, 1, 1, None, 0, 40), (12, 3, 2, 20, 1, 33), (16, 4, 3, None, 3, 64)),
    *((24, 2, 1, 24, 5, 16), (20, 5, 2, 40, 7, 50)),
]  # fmt: skip
KINDS = ("LMHeadModel", "ForSequenceClassification", "LMHeadModel", "ForTokenClassification", "Model")
CASES = [(n, KINDS[(n + n // 5) % 5], n % 3 != 1) for n in range(10)]


def gpt2(folder, n=0, kind="LMHeadModel", own=False, **more):
    """A checkpoint; with `own` its vocabulary has a padding token and another for the start."""
    width, heads, layers, inner, extra, positions = SHAPES[n % 5]
    special = ("<|startoftext|>", "<|pad|>", END) if own else (END,)
    tokens, merges = byte_pairs(264 + extra, seed=n, special=special)
    end = tokens.index(END)
    values = {
        "vocab_size": len(tokens), "n_embd": width, "n_head": heads, "n_layer": layers, "n_inner": inner,
        "n_positions": positions, "activation_function": ACTIVATIONS[(n + n // 5) % 6],
        "layer_norm_epsilon": (1e-5, 1e-3)[n % 2], "bos_token_id": end, "eos_token_id": end,
        "pad_token_id": tokens.index("<|pad|>") if own else end,
    }  # fmt: skip
    config = transformers.GPT2Config(**values | more)
    config._attn_implementation = "eager"
    folder.mkdir(parents=True, exist_ok=True)
    model = randomise(getattr(transformers, f"GPT2{kind}")(config), n)
    model.save_pretrained(folder)
    roles = {"bos_token": END, "eos_token": END, "unk_token": END}
    if own:
        roles |= {"bos_token": "<|startoftext|>", "pad_token": "<|pad|>"}
    write_byte_pairs(folder, tokens, merges, tokenizer_class="GPT2Tokenizer", **roles)
    return model


def read_alike(run, model, side="right"):
    """Ragged texts through both; padding on the right or, for theirs, on either side."""
    texts = ragged([i for i in range(run.input.tokenizer.vocab_size) if i not in run.input.tokenizer.special])
    length = max(map(len, texts))
    mask = torch.tensor([[n < len(text) for n in range(length)] for text in texts])
    ours = torch.tensor([text + [0] * (length - len(text)) for text in texts])
    other = ours.masked_fill(~mask, model.config.pad_token_id)
    own_mask = mask
    if side == "left":
        moved = [length - len(text) for text in texts]
        other = torch.stack([row.roll(by) for row, by in zip(other, moved, strict=True)])
        own_mask = torch.stack([row.roll(by) for row, by in zip(mask, moved, strict=True)])
    places = (own_mask.long().cumsum(1) - 1).clamp_min(0)
    with torch.no_grad():
        out = model(
            other,
            attention_mask=own_mask.long(),
            position_ids=places,
            output_hidden_states=True,
            output_attentions=True,
        )
    body = run.task.body(run.model)
    with torch.no_grad(), trace(run.model) as seen:
        hidden = body(ours) if run.config.task == "language_modelling" else body(ours, mask)
    return ours, mask, own_mask, hidden, seen, out


@pytest.mark.parametrize(("n", "kind", "tied"), CASES)
def test_states_maps_and_logits_are_the_same_and_come_back(tmp_path, n, kind, tied):
    tied = tied or kind == "Model"
    model = gpt2(tmp_path / "theirs", n, kind, own=n % 4 == 3, tie_word_embeddings=tied, num_labels=3)
    run = heed.import_model(tmp_path / "theirs", tmp_path / "run", quiet=True)
    side = ("right", "left")[n % 2] if kind != "ForSequenceClassification" else "right"
    _, mask, their_mask, hidden, seen, out = read_alike(run, model, side)
    states = [*seen.tensors("states")]
    assert len(states) == len(out.hidden_states) - 1
    for own, other in zip((*states[:-1], hidden), out.hidden_states[1:], strict=True):
        torch.testing.assert_close(own[mask], other[their_mask], **CLOSE)
    for layer, other in enumerate(out.attentions):
        own = seen.maps("decoder", layer).weights
        for row in range(len(mask)):
            count, first = int(mask[row].sum()), int(their_mask[row].long().argmax())
            part = other[row, :, first : first + count, first : first + count]
            torch.testing.assert_close(own[row, :, :count, :count], part, **CLOSE)
    if kind in ("LMHeadModel", "Model"):
        logits = run.model.logits(hidden).log_softmax(-1)
        scores = out.logits if kind == "LMHeadModel" else out.last_hidden_state @ model.wte.weight.T
        torch.testing.assert_close(logits[mask], scores.log_softmax(-1)[their_mask], **CLOSE)
    elif kind == "ForSequenceClassification":
        own = run.model.output(run.model.body.last(hidden, mask))
        torch.testing.assert_close(own, out.logits, **CLOSE)
    else:
        torch.testing.assert_close(run.model.head.output(hidden)[mask], out.logits[their_mask], **CLOSE)

    heed.export(run, to="huggingface", out=tmp_path / "again")
    again = load_file(tmp_path / "again" / "model.safetensors")
    given = load_file(tmp_path / "theirs" / "model.safetensors")
    prefix = "transformer." if kind == "Model" else ""
    assert {name.removeprefix("transformer.") for name in again} == {
        name.removeprefix("transformer.") for name in given
    }
    for name, tensor in given.items():
        assert torch.equal(again[prefix + name], tensor), name
    loaded = getattr(transformers, "AutoModelForCausalLM" if kind in ("LMHeadModel", "Model") else f"GPT2{kind}")
    other, told = loaded.from_pretrained(tmp_path / "again", output_loading_info=True)
    assert not told["missing_keys"] and not told["unexpected_keys"] and not told["mismatched_keys"]
    assert other.config.n_inner == model.config.n_inner or other.config.n_inner is None


def test_two_matrices_are_two_where_they_differ(tmp_path):
    gpt2(tmp_path / "theirs", 1)
    changed(tmp_path / "theirs", lambda given: {**given, "lm_head.weight": given["transformer.wte.weight"] + 1})
    run = heed.import_model(tmp_path / "theirs", tmp_path / "run", quiet=True)
    assert not run.config.model.model_extra["tied_output"]
    model = transformers.GPT2LMHeadModel.from_pretrained(tmp_path / "theirs", attn_implementation="eager").eval()
    _, mask, _, hidden, _, out = read_alike(run, model)
    torch.testing.assert_close(run.model.logits(hidden)[mask], out.logits[mask], **CLOSE)


@pytest.mark.parametrize("beams", [1, 3])
@pytest.mark.parametrize("n", [0, 2, 7])
def test_the_same_tokens_are_written(tmp_path, n, beams):
    model = gpt2(tmp_path / "theirs", n, tie_word_embeddings=n != 2)
    run = heed.import_model(tmp_path / "theirs", tmp_path / "run", quiet=True)
    end, written = run.input.tokenizer.special.end, []
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "theirs")
    for prompt in ("the man", "one", "and then there were 3 of them", "été"):
        ids = torch.tensor([tokenizer(prompt)["input_ids"]])
        out = model.generate(
            ids, attention_mask=torch.ones_like(ids), max_new_tokens=8, do_sample=False, num_beams=beams,
            length_penalty=1.0, early_stopping=False,
        )  # fmt: skip
        expected = out[0, ids.shape[1] :].tolist()
        best = run.candidates([prompt], length=8, beam_size=beams, num_best=1)[0][0]
        ended = [end] * best.finished
        assert [*best.ids, *ended] == expected[: len(best.ids) + len(ended)]
        written.append(tuple(best.ids))
    assert len(set(written)) > 1


def test_an_empty_prompt_begins_with_the_end_token_and_scores_are_theirs(tmp_path):
    model = gpt2(tmp_path / "theirs")
    run = heed.import_model(tmp_path / "theirs", tmp_path / "run", quiet=True)
    end_token = run.input.tokenizer.special.end
    end = torch.tensor([[end_token]])
    expected = model.generate(end, attention_mask=torch.ones_like(end), max_new_tokens=4, do_sample=False)[0, 1:]
    assert [*run.predict("", length=4).ids] == [i for i in expected.tolist() if i != end_token]
    text = "the man and 3"
    ids = torch.tensor([[end_token, *run.input.tokenizer.encode(text).ids]])
    with torch.no_grad():
        scores = model(ids).logits.log_softmax(-1)[0, :-1].gather(1, ids[0, 1:, None]).squeeze(1)
    torch.testing.assert_close(torch.tensor(run.head.token_scores(run, [text])[0].log_probs).float(), scores, **CLOSE)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("scale_attn_by_inverse_layer_idx", True, "attn_by_inverse_layer_idx is true: input should be false"),
        ("reorder_and_upcast_attn", True, "reorder_and_upcast_attn is true: input should be false"),
        ("scale_attn_weights", False, "scale_attn_weights is false: input should be true"),
        ("add_cross_attention", True, "add_cross_attention is true: input should be false"),
        (
            "activation_function",
            "quick_gelu",
            'activation_function is "quick_gelu": heed does not support it; supported: gelu',
        ),
        ("n_layer", "two", 'n_layer is "two": input should be a valid integer'),
        ("architectures", ["GPT2DoubleHeadsModel"], "GPT2DoubleHeadsModel is for a task that heed does not have"),
    ],
)
def test_what_is_lacking_is_refused_by_its_name(tmp_path, field, value, message):
    gpt2(tmp_path / "theirs")
    with_field(tmp_path / "theirs", **{field: value})
    with pytest.raises(ConfigError, match=message):
        heed.import_model(tmp_path / "theirs", tmp_path / "run", quiet=True)
    assert not (tmp_path / "run").exists()


def write_lines(path, count=40):
    draw = random.Random(0)
    words = "the man went to the store and then bought one or two of them".split()
    path.write_text("".join(" ".join(draw.choices(words, k=6)) + "\n" for _ in range(count)))
    return path


SETTINGS = {"training.device": "cpu", "training.threads": 1, "training.batch_tokens": 200, "data.valid": 8}


def test_a_language_model_goes_on_training_and_is_exported_again(tmp_path):
    gpt2(tmp_path / "theirs")
    run = heed.import_model(tmp_path / "theirs", tmp_path / "run", quiet=True)
    file = write_lines(tmp_path / "lines.txt")
    settings = SETTINGS | {"data.format": "lines", "data.context": 20, "training.learning_rate": 0.02}
    settings |= {"model.from": str(run.folder)}
    before = run.score(run.read([file]))["loss"]["value"]
    child = heed.train(
        "language_modelling", train=file, steps=20, out=tmp_path / "child", settings=settings, quiet=True
    )
    assert child.config.model.model_extra["max_length"] == 20
    assert child.score(child.read([file]))["loss"]["value"] < before - 0.2
    heed.export(child, to="huggingface", out=tmp_path / "again")
    other = transformers.AutoModelForCausalLM.from_pretrained(tmp_path / "again")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "again")
    ids = tokenizer("the man", return_tensors="pt")["input_ids"]
    with torch.no_grad():
        expected = other(ids).logits.log_softmax(-1)[0, -1]
        own = child.model.logits(child.model(torch.tensor([child.input.tokenizer.encode("the man").ids])))
    torch.testing.assert_close(own.log_softmax(-1)[0, -1], expected, **CLOSE)


def test_a_run_of_an_earlier_format_is_to_be_imported_again(tmp_path):
    gpt2(tmp_path / "theirs")
    run = heed.import_model(tmp_path / "theirs", tmp_path / "run", quiet=True)
    with unsealed(run.folder, final=True):
        path = run.folder / "config.yaml"
        path.write_text(path.read_text().replace("  tied_output:", "  absent_tokens: [0, 1, 2]\n  tied_output:"))
    with pytest.raises(ConfigError, match="absent_tokens is no longer a field; import the checkpoint"):
        heed.load(run.folder)


def test_a_classifier_starts_from_a_language_model_and_is_exported(tmp_path):
    gpt2(tmp_path / "theirs", 2)
    run = heed.import_model(tmp_path / "theirs", tmp_path / "run", quiet=True)
    lines = write_lines(tmp_path / "lines.txt").read_text().splitlines()
    file = tmp_path / "labels.txt"
    file.write_text("".join(f"{'ab'['store' in line]} {line}\n" for line in lines))
    given = {"model.from": str(run.folder), "model.pooling": "last", "model.output_bias": False}
    given |= {"tokenizer.from": str(run.folder)}
    child = heed.train(
        "classification", train=file, steps=3, out=tmp_path / "child", settings=SETTINGS | given, quiet=True
    )
    special, texts = child.input.tokenizer.special, ["the man went", "one", "two of them and then"]
    assert (
        special.padding
        == special.start
        == special.end
        == json.loads((tmp_path / "theirs" / "config.json").read_text())["eos_token_id"]
    )
    assert child.input.tokenizer.tokens == run.input.tokenizer.tokens
    for together, text in zip(child.predict(texts), texts, strict=True):
        assert together.probabilities == pytest.approx(child.predict(text).probabilities, abs=1e-6)
    heed.export(child, to="huggingface", out=tmp_path / "again")
    other = transformers.AutoModelForSequenceClassification.from_pretrained(tmp_path / "again")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "again")
    ids = tokenizer("the man went", return_tensors="pt")["input_ids"]
    with torch.no_grad():
        expected = other(ids).logits.softmax(-1)[0].tolist()
    assert [child.predict("the man went").probabilities[label] for label in "ab"] == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"positions": "rotary"}, "gpt2 cannot express model.positions=rotary"),
        ({"norm": "rms"}, "gpt2 cannot express model.norm=rms"),
        ({"activation": "swiglu"}, "gpt2 cannot express model.activation=swiglu"),
        ({"bias": False}, "gpt2 cannot express model.bias=False"),
    ],
)
def test_an_export_of_what_gpt2_cannot_express_is_refused_by_field(tmp_path, fields, message):
    file = write_lines(tmp_path / "lines.txt")
    sizes = {"d_model": 8, "num_heads": 2, "num_layers": 1, "positions": "learned"} | fields
    settings = SETTINGS | {f"model.{name}": value for name, value in sizes.items()} | {"data.format": "lines"}
    run = heed.train("language_modelling", train=file, steps=1, out=tmp_path / "run", settings=settings, quiet=True)
    with pytest.raises(ConfigError, match=message):
        heed.export(run, to="huggingface", out=tmp_path / "out")
    assert not (tmp_path / "out").exists()
