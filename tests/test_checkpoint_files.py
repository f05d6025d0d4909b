"""Files of Hugging Face checkpoints: tensors and config.json, whole, damaged, half-downloaded and malicious."""

import json
import os
import pickle

import pytest
import torch
from safetensors.torch import save_file

from heed.errors import RunError
from heed.exchange.huggingface.files import TensorFiles, read_json


def tensors(**shapes):
    generator = torch.Generator().manual_seed(1)
    return {name.replace("__", "."): torch.randn(shape, generator=generator) for name, shape in shapes.items()}


def refused(folder, *words):
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
    refused(tmp_path, "pytorch_model.bin", "nothing in it was executed")
    torch.save({"a": Evil()}, tmp_path / "pytorch_model.bin")
    refused(tmp_path, "posix.system", "nothing in it was executed", "model.safetensors")
    assert not (tmp_path / "executed").exists()


def test_a_pickle_of_more_than_tensors_is_refused(tmp_path):
    torch.save({"a": torch.zeros(2), "epoch": 3}, tmp_path / "pytorch_model.bin")
    refused(tmp_path, "more than tensors")


@pytest.mark.parametrize("name", ["model.safetensors", "pytorch_model.bin"])
@pytest.mark.parametrize("share", [0.0, 0.1, 0.5, 0.99])
def test_truncated_files_are_refused(tmp_path, name, share):
    given = tensors(a=(100, 10))
    save_file(given, tmp_path / name) if name.endswith("safetensors") else torch.save(given, tmp_path / name)
    whole = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(whole[: int(share * len(whole))])
    refused(tmp_path, name)


def test_a_damaged_header_is_refused(tmp_path):
    save_file(tensors(a=(100, 10)), tmp_path / "model.safetensors")
    whole = bytearray((tmp_path / "model.safetensors").read_bytes())
    whole[8:20] = b"garbage garb"
    (tmp_path / "model.safetensors").write_bytes(bytes(whole))
    refused(tmp_path, "model.safetensors", "damaged")


def test_half_downloaded_folders_are_refused(tmp_path):
    refused(tmp_path / "nowhere", "no folder")
    refused(tmp_path, "no tensors", "model.safetensors")
    (tmp_path / "abc.incomplete").write_bytes(b"x")
    refused(tmp_path, "abc.incomplete", "the download is incomplete")
    (tmp_path / "model.safetensors").write_bytes(b"version https://git-lfs.github.com/spec/v1\noid sha256:1\n")
    refused(tmp_path, "is a Git LFS pointer", "git lfs pull")
    (tmp_path / "model.safetensors").unlink()
    save_file(tensors(a=(2,)), tmp_path / "model-00001-of-00002.safetensors")
    index = tmp_path / "model.safetensors.index.json"
    places = {"a": "model-00001-of-00002.safetensors", "b": "model-00002-of-00002.safetensors"}
    index.write_text(json.dumps({"weight_map": places}))
    refused(tmp_path, "lacks model-00002-of-00002.safetensors", "model.safetensors.index.json")
    save_file(tensors(c=(2,)), tmp_path / "model-00002-of-00002.safetensors")
    refused(tmp_path, "lacks tensor 'b'")
    index.write_text(json.dumps({"weight_map": {"a": "../secret.safetensors"}}))
    refused(tmp_path, "'../secret.safetensors'", "not a file beside it")
    index.write_text("{")
    refused(tmp_path, "model.safetensors.index.json is damaged")


def test_weights_of_other_libraries_and_whole_numbers_are_named(tmp_path):
    (tmp_path / "tf_model.h5").write_bytes(b"x")
    refused(tmp_path, "TensorFlow", "tf_model.h5")
    save_file({"a": torch.zeros(2, dtype=torch.int8)}, tmp_path / "model.safetensors")
    refused(tmp_path, "'a' is of int8", "quantized")


# --- config.json


@pytest.mark.parametrize("text", ["", "{", "[1]"])
def test_a_damaged_configuration_is_named(tmp_path, text):
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(RunError, match=r"config\.json is damaged"):
        read_json(tmp_path / "config.json")
    with pytest.raises(RunError, match=r"config\.json is missing; a checkpoint is a folder"):
        read_json(tmp_path / "sub" / "config.json")
