"""Looks in files: JSON and .npz give back every field, and refuse what is damaged, of another version or no look."""

import io
import json
import typing
import zipfile
from dataclasses import MISSING, fields, is_dataclass, replace
from typing import get_args, get_origin, get_type_hints

import numpy as np
import pytest
import torch

import heed
from heed.errors import RunError
from heed.observe.looks import Look, Shading
from heed.observe.maps import Axis, Map, Part, SignedMap, Tokens, Traces
from heed.observe.picture_drawing import ShownDistances, ShownPicture
from heed.observe.picture_looks import Attentions, Distances, PictureLook, PictureMap
from heed.observe.plain import kept
from heed.observe.shown import ShownLook

AXIS = Axis("text", "word", ("a", "b\ud800", "<c>"), (Part("one", 0, 1), Part("two", 1, 3)))


def filled(kind, seed=1):
    """A value of a type in which no field has its default."""
    origin, inner = get_origin(kind), get_args(kind)
    if type(None) in inner:
        return filled(next(one for one in inner if one is not type(None)), seed)
    if kind is Axis:
        return AXIS
    if kind in (Map, SignedMap, Tokens, Traces, Shading, PictureMap, Distances):
        hints = get_type_hints(kind)
        made = {one.name: filled(hints[one.name], seed) for one in kept(kind)}
        torch.manual_seed(seed)
        if issubclass(kind, Map):
            mask = torch.tensor([[True, False, True]] * 3)
            scores = torch.randn(3, 3).masked_fill(~mask, -torch.inf)
            made |= {name: mask for name in made if torch.Tensor in (hints[name], *get_args(hints[name]))}
            made |= {"weights": scores.softmax(-1), "scores": scores}
            made |= {"tokens": (("a", "b", "c"),) * 3} if kind is Tokens else {}
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


def assert_same(found, given, exact, place="look"):
    assert type(found) is type(given), place
    if isinstance(given, torch.Tensor):
        assert found.shape == given.shape and found.dtype == given.dtype, place
        assert torch.equal(found, given) if exact else torch.allclose(found, given, atol=6e-7, rtol=0), place
    elif isinstance(given, np.ndarray):
        np.testing.assert_array_equal(found, given, place)
    elif is_dataclass(given):
        for one in fields(given):
            if one.compare:
                assert_same(getattr(found, one.name), getattr(given, one.name), exact, f"{place}.{one.name}")
    elif isinstance(given, tuple):
        assert len(found) == len(given), place
        for i, (a, b) in enumerate(zip(found, given, strict=True)):
            assert_same(a, b, exact, f"{place}.{i}")
    elif isinstance(given, dict):
        assert found.keys() == given.keys(), place
        for name in given:
            assert_same(found[name], given[name], exact, f"{place}.{name}")
    else:
        assert found == given if exact or type(given) is not float else found == pytest.approx(given, rel=1e-5), place


def shown_of(kind):
    if kind is Look:
        look = filled(Look)
        return ShownLook(replace(look, maps=(*look.maps, filled(Traces), filled(Tokens))), True)
    return ShownPicture(filled(PictureLook), True) if kind is PictureLook else ShownDistances("t", filled(Distances))


def content_of(shown):
    return shown.content()[0]


@pytest.mark.parametrize("ending", ["json", "npz"])
@pytest.mark.parametrize("kind", [Look, PictureLook, Distances])
def test_every_field_of_a_look_is_read_back(kind, ending, tmp_path):
    shown = shown_of(kind)
    for one in fields(kind):  # what has no value here would not be tested
        default = one.default_factory() if one.default_factory is not MISSING else one.default
        value = getattr(content_of(shown), one.name)
        assert not one.compare or isinstance(value, torch.Tensor | np.ndarray) or value != default, one.name
    path = tmp_path / f"look.{ending}"
    shown.save(path)
    found = heed.load_look(path)
    assert type(found) is type(shown) and found.content()[1] == shown.content()[1]
    assert_same(content_of(found), content_of(shown), ending == "npz")
    again = tmp_path / f"again.{ending}"
    found.save(again)
    assert again.read_bytes() == path.read_bytes()


@pytest.mark.parametrize("ending", ["json", "npz"])
def test_a_map_without_rows_and_one_without_columns_are_read_back(ending, tmp_path):
    nothing, some = Axis("target", "word", ()), Axis("source", "word", ("a", "b"))
    maps = []
    for query, key in ((nothing, some), (some, nothing)):
        weights = torch.ones(len(query), len(key))
        maps.append(Map("cross", 0, None, query, key, weights, None, weights > 0))
    shown = ShownLook(Look("t", "", "", tuple(maps), (), ()), False)
    shown.save(tmp_path / f"look.{ending}")
    assert_same(heed.load_look(tmp_path / f"look.{ending}").look, shown.look, True)


def test_half_precision_is_kept_as_float32(tmp_path):
    axis = Axis("source", "word", ("a", "b"))
    weights = torch.tensor([[0.3, 0.7], [0.1, 0.9]]).bfloat16()
    ShownLook(Look("t", "", "", (Map("cross", 0, None, axis, axis, weights),), (), ()), False).save(tmp_path / "l.npz")
    assert torch.equal(heed.load_look(tmp_path / "l.npz").maps[0].weights, weights.float())


def npz(**changed):
    """An .npz file of a look whose arrays are replaced, or left out if None."""
    read = io.BytesIO(shown_of(Look).npz())
    with np.load(read, allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files} | changed
    out = io.BytesIO()
    np.savez(out, **{name: array for name, array in arrays.items() if array is not None})
    return out.getvalue()


def content(**changed):
    return json.dumps(json.loads(shown_of(Look).json()) | changed).encode()


def cut(part):
    return {**json.loads(shown_of(Look).json())["maps"][0], **part}


BAD = {
    "nothing": (b"", "is neither a look as JSON nor as .npz"),
    "a text": (b"hello", "is neither a look as JSON nor as .npz"),
    "a list": (b"[1]", "is not a look: its format is None, expected one of heed-look-3, "),
    "another kind": (b'{"format": "heed-lesson-1"}', "is not a look: its format is 'heed-lesson-1'"),
    "an older version": (content(format="heed-look-2"), "has format heed-look-2, but this heed reads heed-look-3"),
    "a version to come": (content(format="heed-look-44"), "has format heed-look-44, but this heed reads heed-look-3"),
    "nested too deep": (b"[" * 100_000, "is neither a look as JSON nor as .npz"),
    "a number for a title": (content(title=3), "title is int, expected str"),
    "no steps": (content(shows_steps=None), "shows_steps is null, expected bool"),
    "a missing field": (b'{"format": "heed-look-3", "shows_steps": true}', "the look has no 'title'"),
    "maps that are none": (content(maps=[3]), "maps.0 is int, expected dict"),
    "weights of another shape": (content(maps=[cut({"weights": [[0.5]]})]), r"has shape \(1, 1\), but its axes have 3"),
    "rows of other lengths": (content(maps=[cut({"weights": [[1.0], [0.5, 0.5]]})]), "rows of maps.0.weights differ"),
    "weights that are words": (content(maps=[cut({"weights": [["x"]]})]), "maps.0.weights is str, expected float"),
    "pixels to unpack": (content(summary={"type": "uint8", "shape": [1 << 40], "zlib": "eJw="}), "is damaged"),
    "a cut zip file": (npz()[:500], "is neither a look as JSON nor as .npz"),
    "an array too few": (npz(**{"maps.0.weights": None}), "array 'maps.0.weights' of maps.0.weights is missing"),
    "an object": (npz(**{"maps.0.weights": np.array([{}], dtype=object)}), "which do not fit its data"),
    "no look inside": (npz(look=None), "is neither a look as JSON nor as .npz"),
}


@pytest.mark.parametrize("name", BAD)
def test_what_is_no_look_is_refused(name, tmp_path):
    data, said = BAD[name]
    path = tmp_path / "look.any"
    path.write_bytes(data)
    with pytest.raises(RunError, match=said) as error:
        heed.load_look(path)
    assert str(path) in str(error.value) and "\n" not in str(error.value)


def test_a_header_that_promises_too_much_reserves_no_memory(tmp_path):
    out = io.BytesIO()
    np.lib.format.write_array_header_1_0(out, {"descr": "<f4", "fortran_order": False, "shape": (1 << 50,)})
    with zipfile.ZipFile(tmp_path / "look.npz", "w") as archive:
        archive.writestr("look.npy", out.getvalue() + b"1234")
    with pytest.raises(RunError, match=r"shape \(1125899906842624,\), which do not fit its data"):
        heed.load_look(tmp_path / "look.npz")


def test_a_flipped_bit_is_found(tmp_path):
    data = bytearray(shown_of(Look).npz())
    data[len(data) // 2] ^= 1
    (tmp_path / "look.npz").write_bytes(data)
    with pytest.raises(RunError, match=r"look\.npz' is"):
        heed.load_look(tmp_path / "look.npz")


def test_types_of_all_fields_can_be_read():
    """A field of a type that `read_value` does not know is refused here, not when a user reads a file."""
    seen, open_ = set(), [Look, PictureLook, Distances, Attentions, Tokens, Traces]
    while open_:
        kind = open_.pop()
        if kind in seen or kind in (str, int, float, bool, type(None), torch.Tensor, Ellipsis):
            continue
        seen.add(kind)
        if is_dataclass(kind):
            open_ += [get_type_hints(kind)[one.name] for one in kept(kind)]
        else:
            assert get_origin(kind) in (tuple, dict, np.ndarray, typing.Union, type(int | str)) or kind.__bases__ == (
                tuple,
            )
            open_ += [one for one in get_args(kind) if get_origin(kind) is not np.ndarray]
