"""Files of Hugging Face checkpoints: tensors and config.json, whole, damaged, half-downloaded and malicious."""

import json
import os
import pickle
import re

import pytest
import torch
from safetensors.torch import save_file

from heed.errors import ConfigError, RunError
from heed.exchange.huggingface.files import (
    NEVER,
    TRANSPOSED,
    Settings,
    TensorFiles,
    after,
    entry,
    joined,
    load,
    rows_of,
    store,
)
from heed.exchange.huggingface.numbering import Numbering


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


def test_old_names_and_a_missing_prefix(tmp_path):
    save_file(
        tensors(encoder__LayerNorm__gamma=(2,), encoder__LayerNorm__beta=(2,), cls__bias=(2,)),
        tmp_path / "model.safetensors",
    )
    files = TensorFiles(tmp_path)
    files.with_prefix("bert.", heads=("cls.",))
    assert sorted(files.names) == ["bert.encoder.LayerNorm.bias", "bert.encoder.LayerNorm.weight", "cls.bias"]
    files.with_prefix("bert.")
    assert "bert.encoder.LayerNorm.bias" in files  # once


def test_names_that_hold_nothing_are_left_out(tmp_path):
    save_file({**tensors(a=(2,)), "h.position_ids": torch.arange(3)}, tmp_path / "model.safetensors")
    assert TensorFiles(tmp_path, [r"\.position_ids$"]).names == ["a"]


def test_a_malicious_pickle_is_refused_and_not_executed(tmp_path):
    class Evil:
        def __reduce__(self):
            return os.system, (f"touch {tmp_path / 'executed'}",)

    (tmp_path / "pytorch_model.bin").write_bytes(pickle.dumps({"a": Evil()}))
    refused(tmp_path, "pytorch_model.bin", "nothing in it was executed")
    torch.save({"a": Evil()}, tmp_path / "pytorch_model.bin")
    refused(tmp_path, "posix.system", "nothing was executed", "model.safetensors")
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


def test_fields_are_read_with_their_kind(tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"a": 3, "b": 0.5, "c": True, "d": "gelu", "e": None}))
    settings = Settings.read(tmp_path / "config.json")
    assert (settings.count("a"), settings.number("b"), settings.flag("c"), settings.text("d")) == (3, 0.5, True, "gelu")
    assert settings.count("e", 7) == 7 and settings.one_of("d", {"gelu": "GELU"}, "relu") == "GELU"
    for ask, message in (
        (lambda: settings.count("b"), "b is 0.5, expected a whole number of at least 1"),
        (lambda: settings.count("c"), "c is true, expected a whole number"),
        (lambda: settings.flag("a"), "a is 3, expected true or false"),
        (lambda: settings.count("f"), "lacks the field 'f'"),
        (
            lambda: settings.one_of("d", {"relu": 1, "silu": 2}, "relu"),
            "d is 'gelu', which heed does not support; supported: relu, silu",
        ),
        (lambda: settings.accept({"d": ("relu",)}), 'd is "gelu", which heed does not support'),
    ):
        with pytest.raises(ConfigError, match=re.escape(message)):
            ask()
    settings.accept({"e": (1,), "missing": (1,), "a": (2, 3)})


@pytest.mark.parametrize("text", ["", "{", "[1]"])
def test_a_damaged_configuration_is_named(tmp_path, text):
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(RunError, match=r"config\.json is damaged"):
        Settings.read(tmp_path / "config.json")
    with pytest.raises(RunError, match=r"config\.json is missing; a checkpoint is a folder"):
        Settings.read(tmp_path / "sub" / "config.json")


# --- tables


def test_transforms_are_undone():
    numbering = Numbering([2, None, 0, 3, 1], 4)
    for transform, theirs in (
        (TRANSPOSED, [torch.randn(3, 2)]),
        (joined(3, axis=1, transposed=True), [torch.randn(2, 6)]),
        (joined(3, axis=0), [torch.randn(6)]),
        (rows_of(numbering), [torch.randn(4, 3)]),
    ):
        ours = transform.to_ours(theirs)
        torch.testing.assert_close(transform.to_theirs(ours), theirs, rtol=0, atol=0)
        meta = transform.to_theirs([one.to("meta") for one in ours])
        assert [one.shape for one in meta] == [one.shape for one in theirs]
    assert after(2).to_ours([torch.arange(5.0)])[0].tolist() == [2, 3, 4]
    assert after(2).to_theirs([torch.arange(2.0, 5)])[0].tolist() == [0, 0, 2, 3, 4]
    assert rows_of(numbering, NEVER).to_ours([torch.arange(4.0)])[0].tolist() == [2, NEVER, 0, 3, 1]


TABLE = [
    entry("x.weight", "a", TRANSPOSED),
    entry("tied.bias", "b", also=("x.bias",), copied=True),
    entry("elsewhere", "not.ours"),
]


def test_a_table_loads_stores_and_lists_what_it_does_not_use(tmp_path):
    given = tensors(x__weight=(3, 2), x__bias=(3,), pooler=(4,))
    save_file(given, tmp_path / "model.safetensors")
    loaded = load(TABLE, TensorFiles(tmp_path), {"a": torch.Size((2, 3)), "b": torch.Size((3,))})
    assert loaded.unused == ("pooler",)
    assert set(loaded.tensors) == {"a", "b"}
    torch.testing.assert_close(loaded.tensors["a"], given["x.weight"].T)
    back = store(TABLE, loaded.tensors)
    assert set(back) == {"x.weight", "tied.bias", "x.bias"}
    torch.testing.assert_close(back["x.weight"], given["x.weight"])


def test_a_table_names_what_is_missing_and_what_does_not_fit(tmp_path):
    save_file(tensors(x__weight=(3, 2)), tmp_path / "model.safetensors")
    shapes = {"a": torch.Size((2, 3)), "b": torch.Size((3,))}
    with pytest.raises(
        RunError, match=re.escape("lacks tensor 'tied.bias' of this architecture; it has tensor 'x.weight'")
    ):
        load(TABLE, TensorFiles(tmp_path), shapes)
    save_file(tensors(x__weight=(3, 5), x__bias=(3,)), tmp_path / "model.safetensors")
    with pytest.raises(
        RunError,
        match=re.escape(
            "tensor 'x.weight' has shape (3, 5), but by config.json and the tokenizer it should have (3, 2)"
        ),
    ):
        load(TABLE, TensorFiles(tmp_path), shapes)


# --- ids of imported vocabularies: ours and theirs, there and back


def test_rows_go_to_our_order_and_back():
    numbering = Numbering([5, 0, None, 2, 1, 3, 4], 6)
    rows = torch.arange(12.0).view(6, 2)
    ours = numbering.to_ours(rows, absent=-1e4)
    assert ours[:, 0].tolist() == [10, 0, -1e4, 4, 2, 6, 8]
    assert torch.equal(numbering.to_theirs(ours), rows)
    assert (len(numbering), numbering.absent) == (7, [2])
    assert Numbering.from_json(numbering.as_json()) == numbering


def test_of_two_tokens_in_one_row_the_first_is_written_back():
    numbering = Numbering([3, 1, 3, 0, 2], 4)
    ours = numbering.to_ours(torch.arange(4.0))
    assert ours.tolist() == [3, 1, 3, 0, 2]
    ours[2] = 9.0
    assert numbering.to_theirs(ours).tolist() == [0, 1, 2, 3]


def test_a_vocabulary_of_our_own_keeps_its_order():
    rows = torch.randn(5, 3)
    assert torch.equal(Numbering.same(5).to_theirs(rows), rows)


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ({"theirs": [0, 1]}, "needs 'theirs' and 'size'"),
        ({"theirs": "01", "size": 2}, "needs 'theirs' and 'size'"),
        ({"theirs": [0, 2], "size": 2}, "ids outside its 2 rows"),
        ({"theirs": [0, -1], "size": 2}, "ids outside its 2 rows"),
    ],
)
def test_a_damaged_numbering_is_refused(state, said):
    with pytest.raises(RunError, match=said):
        Numbering.from_json(state)
