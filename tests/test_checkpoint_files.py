"""Files of Hugging Face checkpoints: whole, damaged, half-downloaded, malicious or malformed."""

import json
import os
import pickle
import re

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoTokenizer

import heed
from checkpoints import refused
from heed.errors import ConfigError, HeedError, RunError
from heed.exchange.huggingface.files import TensorFiles, read_json
from heed.exchange.huggingface.tokenizers import read_tokenizer
from heed.runs.checkpoints import import_checkpoint
from test_checkpoints_bert import bert, roberta
from test_checkpoints_vit import vit
from tokenizer_folders import GPT2, ROBERTA, merges_txt, spm_saved


def tensors(**shapes):
    generator = torch.Generator().manual_seed(1)
    return {name.replace("__", "."): torch.randn(shape, generator=generator) for name, shape in shapes.items()}


def refused_files(folder, *words):
    with pytest.raises(RunError) as caught:
        files = TensorFiles(folder)
        [files.read(name) for name in files.names]
    for word in words:
        assert word in str(caught.value)


# --- tensors


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("form", ["safetensors", "bin", "shards", "bin shards"])
def test_every_form_is_read_as_float32(tmp_path, form, kind):
    given = {name: one.to(kind) for name, one in tensors(a__weight=(3, 2), a__bias=(3,), b=(4,)).items()}
    halves = dict(list(given.items())[:2]), dict(list(given.items())[2:])
    if form == "safetensors":
        save_file(given, tmp_path / "model.safetensors")
    elif form == "bin":
        torch.save(given, tmp_path / "pytorch_model.bin")
    else:
        stem, ending = ("model", "safetensors") if form == "shards" else ("pytorch_model", "bin")
        places = {}
        for n, half in enumerate(halves, start=1):
            path = tmp_path / f"{stem}-{n:05}-of-00002.{ending}"
            save_file(half, path) if form == "shards" else torch.save(half, path)
            places |= dict.fromkeys(half, path.name)
        (tmp_path / f"{stem}.{ending}.index.json").write_text(json.dumps({"weight_map": places}))
    files = TensorFiles(tmp_path)
    assert sorted(files.names) == sorted(given)
    for name, tensor in given.items():
        assert files.shape(name) == tensor.shape
        assert files.read(name).dtype == torch.float32
        torch.testing.assert_close(files.read(name), tensor.float(), rtol=0, atol=0)


def test_a_malicious_pickle_is_refused_and_not_executed(tmp_path):
    class Evil:
        def __reduce__(self):
            return os.system, (f"touch {tmp_path / 'executed'}",)

    (tmp_path / "pytorch_model.bin").write_bytes(pickle.dumps({"a": Evil()}))
    refused_files(tmp_path, "pytorch_model.bin", "nothing in it was executed")
    torch.save({"a": Evil()}, tmp_path / "pytorch_model.bin")
    refused_files(tmp_path, "posix.system", "nothing in it was executed", "model.safetensors")
    assert not (tmp_path / "executed").exists()


def test_a_pickle_of_more_than_tensors_is_refused(tmp_path):
    torch.save({"a": torch.zeros(2), "epoch": 3}, tmp_path / "pytorch_model.bin")
    refused_files(tmp_path, "more than tensors")


@pytest.mark.parametrize("name", ["model.safetensors", "pytorch_model.bin"])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.99])
def test_truncated_files_are_refused(tmp_path, name, share):
    given = tensors(a=(100, 10))
    save_file(given, tmp_path / name) if name.endswith("safetensors") else torch.save(given, tmp_path / name)
    whole = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(whole[: int(share * len(whole))])
    refused_files(tmp_path, name)


def test_a_damaged_header_is_refused(tmp_path):
    save_file(tensors(a=(100, 10)), tmp_path / "model.safetensors")
    whole = bytearray((tmp_path / "model.safetensors").read_bytes())
    whole[8:20] = b"garbage garb"
    (tmp_path / "model.safetensors").write_bytes(bytes(whole))
    refused_files(tmp_path, "model.safetensors", "damaged")


def test_half_downloaded_folders_are_refused(tmp_path):
    refused_files(tmp_path / "nowhere", "no folder")
    refused_files(tmp_path, "no tensors", "model.safetensors")
    (tmp_path / "abc.incomplete").write_bytes(b"x")
    refused_files(tmp_path, "abc.incomplete", "the download is incomplete")
    (tmp_path / "model.safetensors").write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:1\n")
    refused_files(tmp_path, "is a Git LFS pointer", "git lfs pull")
    (tmp_path / "model.safetensors").unlink()
    save_file(tensors(a=(2,)), tmp_path / "model-00001-of-00002.safetensors")
    index = tmp_path / "model.safetensors.index.json"
    places = {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}
    index.write_text(json.dumps({"weight_map": places}))
    refused_files(tmp_path, "lacks model-00002-of-00002.safetensors", "model.safetensors.index.json")
    save_file(tensors(c=(2,)), tmp_path / "model-00002-of-00002.safetensors")
    refused_files(tmp_path, "lacks tensor 'b'")
    index.write_text(json.dumps({"weight_map": {"a": "../secret.safetensors"}}))
    refused_files(tmp_path, "'../secret.safetensors'", "not a file beside it")
    index.write_text("{")
    refused_files(tmp_path, "model.safetensors.index.json is damaged")


def test_weights_of_other_libraries_and_whole_numbers_are_named(tmp_path):
    (tmp_path / "tf_model.h5").write_bytes(b"x")
    refused_files(tmp_path, "TensorFlow", "tf_model.h5")
    save_file({"a": torch.zeros(2, dtype=torch.int8)}, tmp_path / "model.safetensors")
    refused_files(tmp_path, "'a' is of int8", "quantized")


# --- config.json


@pytest.mark.parametrize("text", ["", "{", "[1]"])
def test_a_damaged_configuration_is_named(tmp_path, text):
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(RunError, match=r"config\.json is damaged"):
        read_json(tmp_path / "config.json")
    with pytest.raises(RunError, match=r"config\.json is missing; a checkpoint is a folder"):
        read_json(tmp_path / "sub" / "config.json")


# --- Checkpoints whose files make no sense: one line names file and field within seconds, and no run is made


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
