"""Checkpoints whose files make no sense: one line names file and field within seconds, and no run is made."""

import json
import os
import re

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer

import heed
from checkpoints import refused
from heed.errors import ConfigError, HeedError, RunError
from heed.exchange.huggingface.tokenizers import read_tokenizer
from heed.runs.checkpoints import import_checkpoint
from test_checkpoints_bert import bert, roberta
from test_checkpoints_vit import vit
from tokenizer_folders import GPT2, ROBERTA, merges_txt, spm_saved


@pytest.fixture
def folder(tmp_path):
    """A classifier with `vocab.txt`."""
    bert(tmp_path / "theirs", 1, "ForSequenceClassification")
    return tmp_path / "theirs"


@pytest.fixture
def whole(folder):
    """The same with `tokenizer.json`."""
    AutoTokenizer.from_pretrained(folder).save_pretrained(folder)
    return folder


def edit(path, **fields):
    values = json.loads(path.read_text()) if path.is_file() else {}
    path.write_text(json.dumps(values | fields).replace('"1e400"', "1e400"))


# --- config.json


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("layer_norm_eps", 1e300, r"layer_norm_eps is 1e\+300: input should be less than or equal to 1"),
        ("layer_norm_eps", "1e400", "layer_norm_eps is Infinity: input should be a finite number"),
        ("layer_norm_eps", float("nan"), "layer_norm_eps is NaN: input should be a finite number"),
        ("hidden_dropout_prob", -0.1, "hidden_dropout_prob is -0.1: input should be greater than or equal to 0"),
        ("hidden_size", 10**13, "hidden_size is 10000000000000: input should be at most 98"),
        ("intermediate_size", 4 * 10**9, "intermediate_size is 4000000000: input should be at most 98"),
        ("num_hidden_layers", 10**13, "num_hidden_layers is 10000000000000: input should be at most 98"),
        (
            "num_hidden_layers",
            90,
            r"num_hidden_layers is 90: input should be at most \d+: the checkpoint has \d+ tensors",
        ),
        (
            "vocab_size",
            10**13,
            "vocab_size is 10000000000000: input should be at most 98, as no tensor has a larger size",
        ),
        (
            "max_position_embeddings",
            2**70,
            "max_position_embeddings is 1180591620717411303424: input should be at most",
        ),
        ("type_vocab_size", 97, r"token_type_embeddings.weight' has shape .* it should have \(97, 12\)"),
        ("id2label", {"9" * 5_000: "a"}, r"id2label\.9{100,200}\.\[key\] is \"9{100,200}\.\.\.: string should match"),
        ("id2label", {str(i): "a" for i in range(1, 9_000)}, r"id2label is .{200}\.\.\., expected a name for each"),
    ],
)
def test_a_number_that_makes_no_sense_is_named(folder, field, value, said):
    edit(folder / "config.json", **{field: value})
    with pytest.raises(HeedError, match=said) as caught:
        import_checkpoint(folder, folder.parent / "run")
    assert str(folder) in str(caught.value) and len(str(caught.value)) < 1_000
    assert not (folder.parent / "run").exists()


@pytest.mark.parametrize(
    ("field", "value"),
    [("image_std", [1e-300] * 3), ("image_mean", [float("nan")] * 3), ("image_mean", [1e300] * 3), ("size", 10**13)],
)
def test_a_number_of_the_preprocessor_that_makes_no_sense_is_named(tmp_path, field, value):
    vit(tmp_path / "theirs", 1)
    edit(tmp_path / "theirs/preprocessor_config.json", **{field: value})
    refused(ConfigError, tmp_path / "theirs", f"preprocessor_config.json: {field}")


# --- labels


def test_labels_of_one_name_are_numbered_in_and_out(tmp_path):
    """ImageNet has "crane" twice, a bird and a machine."""
    names = ("crane", "cat", "crane", "crane (2)", "crane")
    model = vit(tmp_path / "theirs", 1, classes=names)
    imported = import_checkpoint(tmp_path / "theirs", tmp_path / "run")
    numbered = ["crane", "cat", "crane (3)", "crane (2)", "crane (4)"]
    assert list(imported.run.head.labels) == numbered
    heed.export(heed.load(tmp_path / "run"), to="huggingface", out=tmp_path / "ours")
    again = type(model).from_pretrained(tmp_path / "ours")
    assert [again.config.id2label[i] for i in range(5)] == numbered
    torch.testing.assert_close(again.classifier.weight, model.classifier.weight, rtol=0, atol=0)


# --- tokenizers


def test_a_vocabulary_that_lacks_rows_is_refused_or_said(folder):
    names = (folder / "vocab.txt").read_text().splitlines()
    first = [*sorted(names, key=lambda name: not name.startswith("["))]
    for some in (first[:60], first[:30] * 3):
        (folder / "vocab.txt").write_text("".join(f"{name}\n" for name in some))
        refused(RunError, folder, "rows of the embedding have no token", "empty, cut short or of another checkpoint")
    (folder / "vocab.txt").write_text("")
    refused(ConfigError, folder, "the vocabulary lacks the unknown token '[UNK]'")
    spare = [i for i, name in enumerate(names) if not name.startswith("[")]
    twice = [names[spare[0]] if i == spare[1] else name for i, name in enumerate(names)]
    (folder / "vocab.txt").write_text("".join(f"{name}\n" for name in twice))
    said = str(import_checkpoint(folder, folder.parent / "run"))
    assert f"1 of 98 rows of the embedding have no token ({spare[0]}): the vocabulary is shorter, or names" in said


@pytest.mark.parametrize("family", ["gpt2", "roberta"])
def test_merges_that_were_cut_short_are_refused(tmp_path, family):
    vocabulary, merges = GPT2 if family == "gpt2" else ROBERTA
    merges_txt(tmp_path / "theirs", vocabulary, merges[: len(merges) // 2])
    config = {"model_type": family, "vocab_size": len(vocabulary)}
    with pytest.raises(RunError, match=r"merges\.txt: no merge makes \d+ of \d+ tokens; it was cut short"):
        read_tokenizer(tmp_path / "theirs", config)


REPLACED = {"type": "Replace", "pattern": {"String": "\u00e9"}, "content": "\u00e9" * 900}


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"normalizer": {"type": "Sequence", "normalizers": [REPLACED] * 4}}, "lengthens texts without end"),
        ({"normalizer": REPLACED | {"content": "x" * 10**6}}, "lengthens texts without end"),
        ({"normalizer": {"type": "Sequence", "normalizers": 5}}, "tokenizer.json is damaged"),
        ({"normalizer": {"type": "Replace"}}, "tokenizer.json is damaged"),
        ({"added_tokens": 5}, "tokenizer.json is damaged"),
        ({"added_tokens": [5]}, "tokenizer.json is damaged"),
    ],
)
def test_a_tokenizer_that_makes_no_sense_is_refused(whole, fields, said):
    path, settings = whole / "tokenizer.json", {"tokenizer_class": "PreTrainedTokenizerFast", "cls_token": "[CLS]"}
    edit(path, **fields)
    (whole / "tokenizer_config.json").write_text(json.dumps(settings))
    with pytest.raises(HeedError, match=re.escape(said)) as caught:
        import_checkpoint(whole, whole.parent / "run")
    assert str(whole) in str(caught.value) and len(str(caught.value)) < 1_000


def test_a_model_without_tokens_is_refused_though_other_files_have_them(tmp_path):
    vocabulary, merges = GPT2
    merges_txt(tmp_path / "theirs", vocabulary, merges)
    edit(tmp_path / "theirs/tokenizer.json", model={})
    with pytest.raises(RunError, match=r"tokenizer\.json is damaged: 'vocab'"):
        read_tokenizer(tmp_path / "theirs", {"model_type": "gpt2", "vocab_size": len(vocabulary)})


def test_an_id_that_no_vocabulary_has_is_refused(whole, tmp_path):
    """The library counts up to the highest id."""
    path = whole / "tokenizer.json"
    values = json.loads(path.read_text())
    values["model"]["vocab"]["the"] = 4 * 10**9
    path.write_text(json.dumps(values))
    refused(RunError, whole, "token 'the' has the id 4000000000, expected at most 16,777,216")
    roberta(tmp_path / "pairs" / "theirs", 1, "ForSequenceClassification")
    edit(tmp_path / "pairs/theirs/vocab.json", the=4 * 10**9)
    refused(RunError, tmp_path / "pairs" / "theirs", "token 'the' has the id 4000000000, expected at most 16,777,216")


@pytest.mark.parametrize(
    ("file", "fields"),
    [
        ("tokenizer_config.json", {"cls_token": {"id": 1}}),
        ("tokenizer_config.json", {"pad_token": 5}),
        ("tokenizer_config.json", {"additional_special_tokens": 5}),
        ("tokenizer_config.json", {"additional_special_tokens": [{"id": 1}]}),
        ("tokenizer_config.json", {"extra_special_tokens": [5]}),
        ("tokenizer_config.json", {"added_tokens_decoder": {"1": {}}}),
        ("tokenizer_config.json", {"added_tokens_decoder": ["<x>"]}),
        ("special_tokens_map.json", {"mask_token": []}),
        ("added_tokens.json", {"<x>": "1"}),
        ("added_tokens.json", {"<x>": [1]}),
    ],
)
def test_special_tokens_that_make_no_sense_are_refused(folder, file, fields):
    edit(folder / file, **fields)
    refused(RunError, folder, f"{file} is damaged", next(iter(fields)))


# --- files


@pytest.mark.parametrize("file", ["config.json", "model.safetensors", "vocab.txt", "tokenizer_config.json"])
@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_a_pipe_or_a_device_is_not_read(folder, file, kind):
    (folder / file).unlink()
    os.mkfifo(folder / file) if kind == "pipe" else (folder / file).symlink_to("/dev/zero")
    refused(RunError, folder, f"{folder / file} is {'a named pipe' if kind == 'pipe' else 'a device'}")


@pytest.mark.parametrize("file", ["vocab.json", "merges.txt"])
def test_a_pipe_among_the_files_of_byte_pairs_is_not_read(tmp_path, file):
    roberta(tmp_path / "theirs", 1, "ForSequenceClassification")
    (tmp_path / "theirs" / file).unlink()
    os.mkfifo(tmp_path / "theirs" / file)
    refused(RunError, tmp_path / "theirs", f"{file} is a named pipe")


@pytest.mark.parametrize("file", ["vocab.json", "merges.txt"])
def test_a_terabyte_of_byte_pairs_is_not_read(tmp_path, file):
    roberta(tmp_path / "theirs", 1, "ForSequenceClassification")
    os.truncate(tmp_path / "theirs" / file, 1 << 40)
    refused(RunError, tmp_path / "theirs", f"{file} is damaged: it has more than")


def test_scores_that_are_not_finite_are_refused(tmp_path):
    spm_saved(tmp_path / "theirs")
    path = tmp_path / "theirs" / "tokenizer.json"
    values = json.loads(path.read_text())
    values["model"]["vocab"][9][1] = float("nan")
    path.write_text(json.dumps(values))
    with pytest.raises(RunError, match=r"tokenizer\.json is damaged: the score of '.*' is not a finite number"):
        read_tokenizer(tmp_path / "theirs", {"model_type": "xlm-roberta"})


def test_a_link_to_the_file_itself_is_followed(folder):
    """The cache of the Hub consists of links."""
    for path in [*folder.iterdir()]:
        path.rename(folder.parent / f"blob-{path.name}")
        path.symlink_to(f"../blob-{path.name}")
    assert import_checkpoint(folder, folder.parent / "run").unused == ()


NAME = "bert.embeddings.LayerNorm.weight"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({5: torch.zeros(2)}, "more than tensors"),
        ({NAME: torch.eye(12).to_sparse()}, f"'{NAME}' is "),
        ({NAME: torch.zeros(12, device="meta")}, f"'{NAME}' is "),
        ({NAME: torch.zeros(12, dtype=torch.complex64)}, f"'{NAME}' is of complex64"),
        ({NAME: torch.zeros(())}, f"'{NAME}' has shape ()"),
        ({NAME: torch.zeros(1).expand(10**6, 10**6)}, f"'{NAME}' has shape (1000000, 1000000)"),
    ],
    ids=["number", "sparse", "meta", "complex", "scalar", "expanded"],
)
def test_a_pickle_of_odd_tensors_is_refused(folder, changes, said):
    torch.save(load_file(folder / "model.safetensors") | changes, folder / "pytorch_model.bin")
    (folder / "model.safetensors").unlink()
    refused(RunError, folder, "pytorch_model.bin", said)


@pytest.mark.parametrize("shape", [(), (0,), (1, 1, 1)])
def test_tensors_of_other_shapes_are_refused(folder, shape):
    path = folder / "model.safetensors"
    save_file({name: torch.zeros(shape) for name in load_file(path)}, path)
    with pytest.raises(HeedError, match=r"has shape|input should be|no row"):
        import_checkpoint(folder, folder.parent / "run")
