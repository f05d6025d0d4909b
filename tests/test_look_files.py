"""Looks in files: JSON has every field of a look, and NumPy takes the weights, as docs/looking.md shows."""

import base64
import json
import math
import zlib
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import get_args, get_origin, get_type_hints

import numpy as np
import pytest
import torch

from heed.show.picture_drawing import ShownPicture
from heed.show.shown import ShownLook
from heed.watch.looks import Look, Shading
from heed.watch.maps import Axis, Map, Part
from heed.watch.pictures import Distances, PictureLook, PictureMap
from pages import blocks, page

AXIS = Axis("text", "word", ("a", "b\ud800", "<c>"), (Part("one", 0, 1), Part("two", 1, 3)))


def kept(kind):
    """The fields that a file has."""
    return [one for one in fields(kind) if one.compare]


def filled(kind, seed=1):
    """A value of a type in which no field has its default."""
    origin, inner = get_origin(kind), get_args(kind)
    if type(None) in inner:
        return filled(next(one for one in inner if one is not type(None)), seed)
    if kind is Axis:
        return AXIS
    if kind in (Map, Shading, PictureMap, Distances):
        hints = get_type_hints(kind)
        made = {one.name: filled(hints[one.name], seed) for one in kept(kind)}
        torch.manual_seed(seed)
        if issubclass(kind, Map):
            mask = torch.tensor([[True, False, True]] * 3)
            scores = torch.randn(3, 3).masked_fill(~mask, -torch.inf)
            made |= {name: mask for name in made if torch.Tensor in (hints[name], *get_args(hints[name]))}
            made |= {"weights": scores.softmax(-1), "scores": scores}
            made |= {"tokens": (("a", "b", "c"),) * 3}
        elif kind is Shading:
            made |= {"weights": (0.5, 1e-7, float("inf")), "tags": ("X", "Y", "Z"), "others": ("", "o", "p")}
        else:
            made |= {"weights": torch.rand(2, 3)} if kind is PictureMap else {"values": torch.rand(2, 3)}
        return kind(**made)
    if kind is torch.Tensor:
        return torch.linspace(-1, 1, 5) / 3
    if origin is np.ndarray:
        return np.arange(60, dtype=np.uint8).reshape(4, 5, 3)
    if origin is tuple:
        items = [inner[0]] * 2 if inner[-1] is Ellipsis else inner
        return tuple(filled(one, seed + i) for i, one in enumerate(items))
    if origin is dict:
        return {name: filled(inner[1], seed) for name in ("x", "y.z")}
    if hasattr(kind, "_fields"):
        return kind(0.1, 0.2, 3.5, 4.5)
    if is_dataclass(kind):
        return kind(**{one.name: filled(get_type_hints(kind)[one.name], seed + i) for i, one in enumerate(kept(kind))})
    return {str: f"t{seed}", int: 3 + seed, float: seed + 1 / 3, bool: True}.get(kind, kind)


def assert_written(found, given, place="look"):
    """What JSON has of a value: numbers rounded, pixels and empty tensors packed."""
    if isinstance(given, torch.Tensor):
        given = given.numpy()
    if isinstance(given, np.ndarray):
        if given.dtype == np.uint8 or not given.size:
            unpacked = np.frombuffer(zlib.decompress(base64.b64decode(found["zlib"])), found["type"])
            found = unpacked.reshape(found["shape"])
        numbers = [-math.inf if one is None else one for one in np.array(found).flatten().tolist()]
        assert np.shape(found) == given.shape and np.allclose(numbers, given.flatten(), atol=6e-7, rtol=0), place
    elif is_dataclass(given):
        for one in kept(given):
            name = one.metadata.get("json", one.name)
            assert_written(found[name], getattr(given, one.name), f"{place}.{one.name}")
    elif isinstance(given, tuple):
        assert len(found) == len(given), place
        for i, (a, b) in enumerate(zip(found, given, strict=True)):
            assert_written(a, b, f"{place}.{i}")
    elif isinstance(given, dict):
        assert found.keys() == given.keys(), place
        for name in given:
            assert_written(found[name], given[name], f"{place}.{name}")
    elif isinstance(given, float):
        assert (float(found) == given) if math.isinf(given) else found == pytest.approx(given, rel=1e-5), place
    else:
        assert found == given, place


@pytest.mark.parametrize("kind", [Look, PictureLook])
def test_json_has_every_field_of_a_look(kind):
    look = filled(kind)
    for one in fields(kind):  # what has no value here would not be tested
        default = one.default_factory() if one.default_factory is not MISSING else one.default
        value = getattr(look, one.name)
        assert not one.compare or isinstance(value, torch.Tensor | np.ndarray) or value != default, one.name
    if kind is Look:
        content = json.loads(ShownLook(look, True).json())
        assert (content["format"], content["shows_steps"]) == ("heed-look-5", True)
    else:
        content = json.loads(ShownPicture(look).json())
    assert_written(content, look)


def test_a_map_without_rows_and_one_without_columns_are_written():
    nothing, some = Axis("target", "word", ()), Axis("source", "word", ("a", "b"))
    maps = []
    for query, key in ((nothing, some), (some, nothing)):
        weights = torch.ones(len(query), len(key))
        maps.append(Map("cross", 0, None, query, key, weights, None, weights > 0))
    look = Look("t", "", "", tuple(maps), (), ())
    assert_written(json.loads(ShownLook(look, False).json()), look)


def test_numpy_saves_the_weights_of_a_look_as_the_page_shows(untrained, tmp_path, monkeypatch):
    (example,) = (block for block in blocks(page("docs/looking.md"), "python") if "savez" in block)
    run = untrained("translation", "transformer")
    monkeypatch.chdir(tmp_path)
    exec(example, {"run": run})
    look, saved = run.look("How are you?"), np.load("look.npz")
    assert sorted(saved) == sorted(one.title for one in look.maps) and len(look.maps) == 3
    for one in look.maps:
        assert saved[one.title].shape == (len(one.query), len(one.key))
        assert np.array_equal(saved[one.title], one.weights.numpy())
    assert Path("look.json").read_text() == look.json()


def test_a_data_frame_has_each_weight_that_is_not_masked_with_its_words():
    weights = torch.tensor([[1.0, 0.0, 0.0], [0.5, 0.5, 0.0], [0.2, 0.3, 0.5]])
    causal, axis = torch.ones(3, 3).tril().bool(), Axis("text", "word", ("a", "b", "c"))
    maps = (Map("encoder", 1, 0, axis, axis, weights, None, causal), Map("encoder", 1, None, axis, axis, weights))
    frame = ShownLook(Look("t", "a b c", "", maps, (), ()), False).to_frame()
    assert len(frame) == 6 + 9 and set(frame["mechanism"]) == {"encoder"} and set(frame["layer"]) == {1}
    row = frame[(frame["head"] == 0) & (frame["query"] == "c") & (frame["key"] == "b")]
    assert row[["query_position", "key_position"]].to_numpy().tolist() == [[2, 1]]
    assert row["weight"].item() == pytest.approx(0.3) and frame["head"].isna().sum() == 9
    sums = frame.groupby(["map", "query_position"])["weight"].sum()
    assert np.allclose(sums, 1) and len(ShownLook(Look("t", "a", "", (), (), ()), False).to_frame()) == 0
