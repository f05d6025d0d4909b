"""What is said of a map holds for it, by the stated number; one definition for looks and `heed heads`."""

import json
import re

import pytest
import torch

import heed
from heed.show.draw_svg import map_scene
from heed.show.scene import to_svg
from heed.show.shown import ShownLook, map_to_text
from heed.visible import clean
from heed.watch.looks import Look
from heed.watch.maps import Axis, Map
from heed.watch.remarks import entropy, looks_at, remarks
from test_draw import look_to_html

CAUSAL = torch.ones(6, 6, dtype=torch.bool).tril()


def made(weights, mask=None, links=None, labels=None, **more):
    weights = torch.as_tensor(weights, dtype=torch.float)
    axes = [Axis("text", "word", labels or tuple("abcdefgh"[:size])) for size in weights.shape]
    return Map("encoder", 0, 0, *axes, weights, mask=mask, links=links, **more)


def peaked(columns, size=6, at=0.8):
    """Rows with `at` of their weight on one key and the rest spread."""
    weights = torch.full((len(columns), size), (1 - at) / (size - 1))
    weights[range(len(columns)), columns] = at
    return weights


EVEN = torch.full((6, 6), 1 / 6)
CASES = {
    "near-uniform": (made(EVEN), 1.0),
    "near-uniform under a mask": (made(CAUSAL / CAUSAL.sum(-1, keepdim=True), CAUSAL), 1.0),
    "sink": (made(peaked([3, 3, 3, 3, 3, 0])), (5 * 0.8 + 0.04) / 6),
    "previous": (made(peaked([0, 0, 1, 2, 3, 4])), 5 / 6),
    "next": (made(peaked([1, 2, 3, 4, 5, 0])), 5 / 6),
    "same": (made(peaked([0, 1, 2, 3, 4, 5])), 1.0),
    "alignment": (made(peaked([5, 4, 3, 2, 1, 0]), links=torch.eye(6, dtype=torch.bool).flip(0)), 1.0),
}


@pytest.mark.parametrize("name", CASES)
def test_a_remark_says_its_number_in_every_form(name):
    map, value = CASES[name]
    (found,) = remarks(map)
    assert found.kind == name.split(" ")[0] and found.value == pytest.approx(value, abs=1e-6)
    assert f"{value:.2f}" in found.text
    assert f"remark: {found.text}" in map_to_text(map)
    lines = re.findall(r"<text[^>]*>([^<]*)</text>", to_svg(map_scene(map)).replace("&#x27;", "'"))
    assert f"Remark: {found.text}." in " ".join(lines)
    look = Look("", "", "", (map,), (), ())
    shown = clean(found.text).replace("'", "&#39;")
    assert f'<ul class="remarks"><li dir="auto">{shown}</li></ul>' in look_to_html(look)
    (drawn,) = json.loads(ShownLook(look, False).json())["maps"]
    assert [(one["kind"], one["value"]) for one in drawn["remarks"]] == [(found.kind, pytest.approx(value, abs=1e-6))]


@pytest.mark.parametrize(
    "map",
    [
        made(peaked([3, 1, 4, 0, 5, 2])),
        made(peaked([2, 2])),  # two rows prove nothing
        made(peaked([0, 0, 0])[:, :1] / peaked([0, 0, 0])[:, :1]),  # a single key
        made(torch.zeros(4, 4)),
        made(torch.zeros(0, 4)),
        made(EVEN, unit="value"),
        made(peaked([5, 3, 1, 4, 0, 2]), links=torch.eye(6, dtype=torch.bool)),
    ],
)
def test_nothing_is_said_where_nothing_holds(map):
    assert remarks(map) == []
    assert "remark" not in map_to_text(map)
    assert "remarks" not in json.loads(ShownLook(Look("", "", "", (map,), (), ()), False).json())["maps"][0]


def test_rows_with_one_key_and_ties_look_nowhere():
    previous = torch.eye(4).roll(1, 0)
    previous[0] = torch.tensor([1.0, 0, 0, 0])
    at = looks_at(made(previous, CAUSAL[:4, :4]))
    assert at["previous"].tolist() == [False, True, True, True] and not at["same"].any()
    assert at["first"].tolist() == [False, True, False, False]
    tied = made([[0.5, 0.5, 0.0], [0.2, 0.2, 0.6], [0.1, 0.8, 0.1]])
    assert {name for name, rows in looks_at(tied).items() if rows[0]} == set()
    wide = torch.zeros(2, 5)
    wide[:, 4] = 1.0
    assert [name for name, rows in looks_at(made(wide)).items() if rows.all()] == ["last"]


def test_a_key_that_was_read_one_step_earlier_is_the_previous_one():
    query, key = (Axis("target", "word", tuple(labels.split())) for labels in ("a b c d end", "start a b c d"))
    written = Map("decoder", 0, 0, query, key, torch.eye(5), mask=torch.ones(5, 5).tril().bool())
    assert [one.kind for one in remarks(written)] == ["previous"]
    other = Map("cross", 0, 0, query, Axis("source", "word", tuple("vwxyz")), torch.eye(5).roll(1, 0))
    assert {"previous", "next"}.isdisjoint(looks_at(other))


def test_a_separator_is_known_by_its_label():
    labels = ("[CLS]", "a", "b", "[SEP]", "c", "[SEP]")
    at = looks_at(made(peaked([3, 5, 3, 1, 2, 3]), labels=labels))
    assert at["separator"].tolist() == [True, True, True, False, False, True]
    assert "separator" not in looks_at(made(EVEN))


def test_the_alignment_is_known_for_held_out_examples_of_embedded_data(tmp_path):
    small = {"data.name": "reverse", "data.train": 20, "data.valid": 5, "data.test": 5, "data.length": [4, 5]}
    settings = small | {"model.name": "bahdanau", "model.size": "tiny", "training.steps": 1, "training.threads": 1}
    run = heed.train("translation", settings=settings, out=tmp_path / "run", quiet=True)
    pair, known = run.examples("test")[0], run.examples("train")[0]
    (map,) = run.look(pair.source, target=pair.target).maps
    length = len(pair.source)
    assert map.links[:length, :length].int().tolist() == torch.eye(length).flip(0).int().tolist()
    assert map.links.shape == map.weights.shape and not map.links[length:].any()
    assert run.look(known.source, target=known.target).maps[0].links is None
    assert run.look(pair.source, target=pair.source[:-1]).maps[0].links is None


def test_entropy_is_a_share_of_the_largest_possible_over_allowed_keys():
    half = torch.tensor([[1.0, 0, 0, 0], [0.5, 0.5, 0, 0], [1, 0, 0, 0], [0.25, 0.25, 0.25, 0.25]])
    assert entropy(made(half, CAUSAL[:4, :4])) == pytest.approx((1 + 0 + 1) / 3)
