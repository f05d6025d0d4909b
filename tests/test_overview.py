"""Overviews: thumbnails of every head, their entropy and remarks, in the order asked for."""

import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch

import heed
from commands import call
from heed.errors import ConfigError
from heed.show.overview import overview_scene, overview_to_text, thumbnail
from heed.show.shown import ShownLook
from heed.watch.looks import Look
from heed.watch.maps import Axis, Map
from heed.watch.remarks import entropy


def made(weights, layer=0, head=0, mechanism="encoder", mask=None):
    weights = torch.as_tensor(weights, dtype=torch.float)
    axes = [Axis("text", "word", tuple(f"w{i}" for i in range(size))) for size in weights.shape]
    return Map(mechanism, layer, head, *axes, weights, mask=mask)


def every(layers=2, heads=3, size=6):
    random = torch.Generator().manual_seed(0)
    draw = lambda: torch.randn(size, size, generator=random).mul(2).softmax(-1)  # noqa: E731
    maps = [made(draw(), layer, head) for layer in range(layers) for head in range(heads)]
    maps[1] = made(torch.eye(size).roll(1, 0) * 0.9 + 0.1 / size, 0, 1)
    return [*maps, made(draw()[:1], 0, 0, "pooling")]


def test_a_thumbnail_keeps_the_strongest_weight_of_each_square():
    weights = torch.zeros(130, 50)
    weights[:, 0], weights[77, 31] = 0.1, 0.9
    mask = torch.ones(130, 50, dtype=torch.bool)
    mask[:, 40:] = False
    found = thumbnail(made(weights, mask=mask), 13, 5)
    assert found.shape == (13, 5) and found[7, 3] == pytest.approx(0.9) and np.isnan(found[:, 4]).all()
    assert np.delete(found[:, :4].ravel(), [31]).tolist() == pytest.approx(
        [0.1, 0, 0, 0] * 7 + [0.1, 0, 0] + [0.1, 0, 0, 0] * 5
    )
    assert thumbnail(made(weights[:4, :5]), 13, 5).shape == (4, 5)


@pytest.mark.parametrize("color", [False, True])
def test_the_terminal_shows_each_map_with_its_entropy_and_remark(color):
    maps = every()
    text = "\n".join(overview_to_text(maps, None, 60, color))
    plain = re.sub(r"\x1b\[[0-9;]*m", "", text)
    assert all(len(line) <= 60 for line in plain.splitlines())
    assert re.findall(r"H(\d) (\.\d\d)", plain) == [(str(map.head), f"{entropy(map):.2f}"[1:]) for map in maps]
    assert "encoder attention: 6 maps, 6 x 6 words" in plain and "pooling attention: 1 map" in plain
    assert re.search(r"^ +prev$", plain, re.MULTILINE) and "prev: L0 H1 0.83" in plain
    assert text.count("\x1b[0m") == text.count("▀") + text.count("▄") and ("\x1b" in text) == color


def test_heads_that_do_not_fit_the_width_go_on_below():
    lines = overview_to_text(every(1, 16), None, 60, False)
    assert max(map(len, lines)) <= 60 and len(re.findall(r"H\d+ \.\d\d", "\n".join(lines))) == 17


def test_an_overview_can_be_ordered_by_entropy():
    maps = every()
    text = "\n".join(overview_to_text(maps, "entropy", 60, False))
    expected = sorted((map for map in maps if map.mechanism == "encoder"), key=entropy)
    shown = re.findall(r"L(\d) H(\d) \.\d\d", text.split("pooling")[0])
    assert shown == [(str(map.layer), str(map.head)) for map in expected] and "Ordered by" in text


def test_the_drawing_has_a_picture_for_each_map():
    axes = Axis("gates", "gate", ("a",)), Axis("text", "word", ("b",))
    gates = Map("forward", 0, None, *axes, torch.rand(1, 1), unit="value")
    shown = ShownLook(Look("a model", "", "", (*every(), gates), (), ()), False, True, "entropy")
    root = ElementTree.fromstring(shown.svg())
    scale = 160  # the width of the colour bar of a map below the overview
    images = [one for one in root.iter("{http://www.w3.org/2000/svg}image") if float(one.get("width")) != scale]
    assert len(images) == 7 and max(float(one.get("width")) for one in images) == 64
    assert any("looks at the previous word: 0.83" in one[0].text for one in images)
    assert shown.svg() == shown.svg() and 'class="figure"' in shown.svg(0)


def test_several_maps_are_drawn_by_their_indices():
    shown = ShownLook(Look("a model", "", "", (*every(),), (), ()), False)
    titles = [one.text for one in shown.scene([3, 0]).items if getattr(one, "style", "") == "title"]
    assert titles == [shown.maps[3].title, shown.maps[0].title] and shown.scene([3]) == shown.scene(3)


def test_labels_of_thumbnails_do_not_overlap():
    maps = [replace(map, layer=11, head=10 + map.head, untrained=0.25) for map in every(1, 4)[:4]]
    items = [one for one in overview_scene(maps, "t", "untrained").items if getattr(one, "text", "").startswith("L11")]
    assert len(items) == 4 and items[0].text == "L11 H10 \u03940.25"
    starts = sorted(one.x for one in items)
    assert all(b - a > 6.2 * len(items[0].text) for a, b in pairwise(starts))


def test_the_command_and_python_draw_all_layers_and_heads(small_run, tmp_path, capsys):
    folder = small_run("translation")
    run = heed.load(folder)
    text = run.examples("valid")[0].source
    every_map = run.look(text, layer="all", head="all").maps
    assert [str(map) for map in run.look(text, overview=True).maps] == [str(map) for map in every_map]
    code, out, err = call(capsys, "look", folder, text, "--overview")
    assert code == 0 and out.count(" H") + out.count("H0") >= len({map.mechanism for map in every_map}), err
    for ending in ("html", "svg", "json"):
        out = tmp_path / f"look.{ending}"
        assert call(capsys, "look", folder, text, "--sort", "entropy", "--out", out)[0] == 0
        assert out.exists()
    code, _, err = call(capsys, "look", folder, text, "--sort", "size")
    assert code == 2 and "sort is 'size'; valid: entropy" in err
    with pytest.raises(ConfigError, match="sort is 'size'"):
        run.look(text, sort="size")
