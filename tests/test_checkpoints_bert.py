"""BERT, RoBERTa, XLM-R and DistilBERT with random weights: the same states, maps and logits, in and out again."""

import json

import pytest
import torch
from safetensors.torch import load_file

import heed
from checkpoints import (
    byte_pairs,
    changed,
    ragged,
    randomise,
    refused,
    round_trip,
    with_field,
    word_pieces,
    write_byte_pairs,
    write_word_pieces,
)
from heed.data.tokens import OWN
from heed.errors import ConfigError, RunError
from heed.runs.checkpoints import import_checkpoint
from heed.watch.trace import trace

transformers = pytest.importorskip("transformers")
CLOSE = dict(rtol=1e-5, atol=1e-5)

ACTIVATIONS = ("gelu", "gelu_new", "relu", "silu", "gelu_pytorch_tanh")
SHAPES = [
    # width, heads, layers, inner, extra tokens, positions
    *((8, 1, 1, 16, 0, 40), (12, 3, 2, 20, 1, 33), (16, 4, 3, 8, 3, 64), (24, 2, 1, 24, 5, 16), (20, 5, 2, 40, 7, 50)),
]


def bert(folder, n, kind, **more):
    width, heads, layers, inner, extra, positions = SHAPES[n % 5]
    tokens = word_pieces(97 + extra, seed=n)
    config = transformers.BertConfig(
        vocab_size=len(tokens), hidden_size=width, num_attention_heads=heads, num_hidden_layers=layers,
        intermediate_size=inner, max_position_embeddings=positions, type_vocab_size=1 + (n + n // 5) % 3,
        hidden_act=ACTIVATIONS[(n + n // 5) % 5], layer_norm_eps=(1e-12, 1e-5)[n % 2],
        pad_token_id=tokens.index("[PAD]"), **more,
    )  # fmt: skip
    return saved(folder, f"Bert{kind}", config, n, lambda: write_word_pieces(folder, tokens))


def distilbert(folder, n, kind, **more):
    width, heads, layers, inner, extra, positions = SHAPES[n % 5]
    tokens = word_pieces(97 + extra, seed=n)
    config = transformers.DistilBertConfig(
        vocab_size=len(tokens), dim=width, n_heads=heads, n_layers=layers, hidden_dim=inner,
        max_position_embeddings=positions, activation=("gelu", "relu", "silu", "gelu_new")[n % 4],
        sinusoidal_pos_embds=n % 3 == 0, pad_token_id=tokens.index("[PAD]"), **more,
    )  # fmt: skip
    return saved(folder, f"DistilBert{kind}", config, n, lambda: write_word_pieces(folder, tokens))


def roberta(folder, n, kind, name="Roberta", **more):
    width, heads, layers, inner, extra, positions = SHAPES[n % 5]
    tokens, merges = byte_pairs(265 + extra, seed=n)
    pad = tokens.index("<pad>")
    words = kind == "ForMaskedLM"
    config = getattr(transformers, f"{name}Config")(
        vocab_size=len(tokens), hidden_size=width, num_attention_heads=heads, num_hidden_layers=layers,
        intermediate_size=inner, max_position_embeddings=positions + pad + 1, type_vocab_size=1 + n % 2,
        hidden_act="gelu" if words else ACTIVATIONS[(n + n // 5) % 5], layer_norm_eps=1e-5, pad_token_id=pad,
        bos_token_id=tokens.index("<s>"), eos_token_id=tokens.index("</s>"), **more,
    )  # fmt: skip
    return saved(folder, f"{name}{kind}", config, n, lambda: write_byte_pairs(folder, tokens, merges))


def xlm_roberta(folder, n, kind, **more):
    return roberta(folder, n, kind, "XLMRoberta", **more)


def saved(folder, architecture, config, seed, write_tokenizer):
    """A model with random weights, saved in a folder with its tokenizer."""
    folder.mkdir(parents=True, exist_ok=True)
    config._attn_implementation = "eager"
    model = randomise(getattr(transformers, architecture)(config), seed)
    model.save_pretrained(folder)
    write_tokenizer()
    return model


FAMILIES = {"bert": bert, "distilbert": distilbert, "roberta": roberta, "xlm_roberta": xlm_roberta}
HEADS = ("ForMaskedLM", "ForSequenceClassification", "ForTokenClassification", "Model")
HEADS_OF_BERT = (*HEADS, "ForPreTraining", "ForNextSentencePrediction")


def kinds(name):
    return HEADS_OF_BERT if name == "bert" else HEADS


SHAPES_OF = {"bert": 12, "distilbert": 8, "roberta": 10, "xlm_roberta": 2}  # the last is RoBERTa by another name
CASES = [(name, n, kinds(name)[n % len(kinds(name))], n % 3 != 1) for name in FAMILIES for n in range(SHAPES_OF[name])]


def rows(run, longest):
    """Texts as both sides read them: ours padded with zeros, theirs with their padding token; and the mask."""
    special = run.tokenizer.special
    known = [i for i in range(run.tokenizer.vocab_size) if i not in special]
    texts = [[special.start, *text, special.end] for text in ragged(known, longest=longest - 2)]
    length = max(map(len, texts))
    mask = torch.tensor([[n < len(text) for n in range(length)] for text in texts])
    ours = torch.tensor([text + [0] * (length - len(text)) for text in texts])
    return ours, ours.masked_fill(~mask, special.padding), mask


def outputs_of(run, tokens, mask):
    """States after the embeddings' normalisation and each block, maps, and logits of the heads by name."""
    model = run.model
    body = model.body
    with torch.no_grad(), trace(model) as seen:
        hidden = body(tokens, mask)
        states = [*seen.tensors("states")]
        maps = [seen.maps("encoder", layer).weights for layer in range(len(states))]
    with torch.no_grad():
        heads = {}
        for name, head in model.named_children():
            if name == "words":
                heads["words"] = head(hidden)
            if name == "order":
                heads["order"] = head(body.last(hidden, mask))
            if name == "output":
                heads["labels"] = head(body.last(hidden, mask))
            if name == "head":
                heads["tags"] = head.output(hidden)
    return states, maps, heads


def theirs_of(model, tokens, mask, **more):
    with torch.no_grad():
        return model(tokens, attention_mask=mask.long(), output_hidden_states=True, output_attentions=True, **more)


def logits_of(out, architecture):
    if "ForPreTraining" in architecture:
        return {"words": out.prediction_logits, "order": out.seq_relationship_logits}
    found = {"MaskedLM": "words", "NextSentence": "order", "Sequence": "labels", "Token": "tags"}
    return {head: out.logits for part, head in found.items() if part in architecture.removeprefix("Bert")}


def assert_same(run, model, longest=None):
    """The run and a model of transformers compute the same."""
    ours, theirs, mask = rows(run, longest or run.config.model.model_extra["max_length"])
    out = theirs_of(model, theirs, mask)
    states, maps, heads = outputs_of(run, ours, mask)
    if run.config.model.model_extra["num_segments"] > 1:  # theirs takes no segments from the tokens
        assert (run.model.body.segments_of(ours)[mask] == 0).all()
    for n, state in enumerate(states):
        torch.testing.assert_close(state[mask], out.hidden_states[n + 1][mask], **CLOSE)
        seen = mask[:, None, :, None] & mask[:, None, None, :]
        torch.testing.assert_close(maps[n] * seen, out.attentions[n] * seen, **CLOSE)
    expected = logits_of(out, type(model).__name__)
    assert {*expected} <= {*heads}  # a run may have further heads; its export is of their class
    for name, logits in expected.items():
        if logits.dim() == 3:
            torch.testing.assert_close(heads[name][mask], logits[mask], **CLOSE)
        else:
            torch.testing.assert_close(heads[name], logits, **CLOSE)


@pytest.mark.parametrize(("name", "n", "kind", "tied"), CASES, ids=lambda value: str(value))
def test_random_models_compute_the_same_in_and_out(tmp_path, name, n, kind, tied):
    more = {"num_labels": 2 + n % 4} if "Classification" in kind else {}
    model = FAMILIES[name](tmp_path / "theirs", n, kind, tie_word_embeddings=tied, **more)
    _, written = round_trip(tmp_path, model, assert_same)
    assert written.architecture == type(model).__name__
    before, after = (load_file(tmp_path / one / "model.safetensors") for one in ("theirs", "ours"))
    assert not (before.keys() - after.keys())


# --- special tokens with other ids


@pytest.mark.parametrize(("name", "model"), [("bert", "bert"), ("roberta", "roberta"), ("roberta", "cnn")])
def test_children_keep_the_ids_and_padding_changes_no_answer(tmp_path, name, model):
    FAMILIES[name](tmp_path / "theirs", 3, "Model")
    parent = import_checkpoint(tmp_path / "theirs", tmp_path / "parent").run
    special = parent.tokenizer.special
    assert special.padding != 0 and special != OWN
    start = {"parent": parent.folder} if name == model else {}
    settings = {"training.threads": 1, "training.device": "cpu", "training.learning_rate": 0.01, "training.warmup": 0}
    settings |= {"tokenizer.from": str(parent.folder), "model.train_embeddings": True}
    settings |= {} if start else {"model.name": model, "model.size": "tiny"}
    texts = ["man", "the man went to the store", "it was good", "milk"]
    rows = [(text, label) for text in texts for label in ("a", "b")] * 2
    run = heed.train("classification", train=rows, valid=rows, steps=3, out=tmp_path / "child", settings=settings,
                     quiet=True, **start)  # fmt: skip
    assert run.tokenizer.special == special
    together, alone = run.predict(texts), [run.predict(text) for text in texts]
    for a, b in zip(together, alone, strict=True):
        assert a.probabilities == pytest.approx(b.probabilities, abs=1e-6)
    if start:
        heed.export(run, to="huggingface", out=tmp_path / "out")
        before, after = (json.loads((tmp_path / one / "config.json").read_text()) for one in ("theirs", "out"))
        ids = ("pad_token_id", "bos_token_id", "eos_token_id", "vocab_size")
        assert [after.get(name) for name in ids] == [before.get(name) for name in ids]
        libraries = [transformers.AutoTokenizer.from_pretrained(tmp_path / one) for one in ("theirs", "out")]
        assert libraries[0].get_vocab() == libraries[1].get_vocab()


def test_segments_of_a_pair_begin_after_the_end_token(tmp_path):
    model = bert(tmp_path / "theirs", 1, "ForNextSentencePrediction")
    run = import_checkpoint(tmp_path / "theirs", tmp_path / "run").run
    assert run.model.body.config.end_token == run.tokenizer.special.end != 3
    library = transformers.AutoTokenizer.from_pretrained(tmp_path / "theirs")
    pair = ("the man went", "it was good")
    with torch.no_grad():
        expected = model(**library(*pair, return_tensors="pt")).logits.softmax(-1)[0, 0]
    assert run.follows([pair])[0].probability == pytest.approx(float(expected), abs=1e-5)


# --- names of tensors


def renamed(old, new):
    return lambda tensors: {name.replace(old, new): one for name, one in tensors.items()}


@pytest.mark.parametrize("name", FAMILIES)
def test_a_prefix_may_be_missing_and_old_names_stand(tmp_path, name):
    model = FAMILIES[name](tmp_path / "theirs", 1, "ForMaskedLM")
    prefix = f"{model.base_model_prefix}."
    changed(tmp_path / "theirs", renamed(prefix, ""))
    changed(tmp_path / "theirs", renamed("LayerNorm.weight", "LayerNorm.gamma"))
    changed(tmp_path / "theirs", renamed("LayerNorm.bias", "LayerNorm.beta"))
    changed(tmp_path / "theirs", lambda tensors: {**tensors, "embeddings.position_ids": torch.arange(9)[None]})
    imported = import_checkpoint(tmp_path / "theirs", tmp_path / "run")
    assert not imported.unused
    assert_same(imported.run, model, 9)


def test_tied_tensors_may_be_repeated_and_are_two_where_they_differ(tmp_path):
    model = bert(tmp_path / "theirs", 1, "ForMaskedLM")
    table = "bert.embeddings.word_embeddings.weight"
    matrix = "cls.predictions.decoder.weight"
    changed(tmp_path / "theirs", lambda given: {**given, matrix: given[table].clone()})
    imported = import_checkpoint(tmp_path / "theirs", tmp_path / "run")
    assert not imported.unused and imported.run.config.model.model_extra["tied_output"]
    assert_same(imported.run, model, 9)
    changed(tmp_path / "theirs", lambda given: {**given, matrix: given[table] + 1})
    run = import_checkpoint(tmp_path / "theirs", tmp_path / "untied").run
    assert not run.config.model.model_extra["tied_output"]
    again = type(model).from_pretrained(tmp_path / "theirs", attn_implementation="eager").eval()
    assert_same(run, again, 9)


def test_tensors_without_use_are_listed(tmp_path):
    bert(tmp_path / "theirs", 1, "ForSequenceClassification")
    changed(tmp_path / "theirs", lambda given: {**given, "cls.seq_relationship.bias": torch.zeros(2)})
    imported = import_checkpoint(tmp_path / "theirs", tmp_path / "run")
    assert imported.unused == ("cls.seq_relationship.bias",)
    assert "1 tensor not used: cls.seq_relationship.bias" in str(imported)
    assert imported.run.report["imported"]["unused_tensors"] == ["cls.seq_relationship.bias"]


def test_a_missing_tensor_and_another_shape_are_named(tmp_path):
    bert(tmp_path / "theirs", 1, "ForSequenceClassification")
    whole = load_file(tmp_path / "theirs/model.safetensors")
    name = "bert.encoder.layer.0.attention.self.query.weight"
    changed(tmp_path / "theirs", lambda given: {**given, name: torch.zeros(12, 11)})
    refused(RunError, tmp_path / "theirs", f"'{name}' has shape (12, 11)", "(12, 12)")
    changed(tmp_path / "theirs", lambda given: {key: one for key, one in whole.items() if key != name})
    refused(RunError, tmp_path / "theirs", f"lacks tensor '{name}'")
    changed(tmp_path / "theirs", lambda given: {**whole, "classifier.weight": torch.zeros(3, 12)})
    refused(RunError, tmp_path / "theirs", "'classifier.weight' has shape (3, 12)", "(2, 12)")


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("position_embedding_type", "relative_key", ('position_embedding_type is "relative_key"', "'absolute'")),
        ("hidden_act", "mish", ('hidden_act is "mish"', "relu")),
        ("is_decoder", True, ("is_decoder is true",)),
        ("hidden_size", "12", ('hidden_size is "12"', "valid integer")),
        ("model_type", "deberta", ("model_type is 'deberta'", "roberta")),
        ("architectures", ["BertForQuestionAnswering"], ("BertForQuestionAnswering", "BertForMaskedLM")),
        ("id2label", {"0": "a", "2": "b"}, ("id2label", "each number from 0 to 1")),
        ("id2label", {"0": "a"}, ("id2label is", "two labels or more")),
        ("problem_type", "regression", ('problem_type is "regression"', "single_label_classification")),
        ("quantization_config", {"bits": 4}, ("quantization_config",)),
    ],
)
def test_what_heed_lacks_is_refused_by_name(tmp_path, field, value, words):
    bert(tmp_path / "theirs", 1, "ForSequenceClassification")
    with_field(tmp_path / "theirs", **{field: value})
    refused(ConfigError, tmp_path / "theirs", "config.json", *words)


def test_a_checkpoint_without_architectures_is_refused_with_the_classes(tmp_path):
    bert(tmp_path / "theirs", 1, "ForPreTraining")
    with_field(tmp_path / "theirs", architectures=None)
    refused(ConfigError, tmp_path / "theirs", 'lacks "architectures"', "BertForPreTraining or BertForSequence")
