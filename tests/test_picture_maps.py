"""Maps over pictures: on the right place of the picture that a person sees, in every form; attention rollout."""

import io
import json
import re
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
import torch
from PIL import Image

from heed.data.pictures.sizing import Box, Sizing
from heed.errors import ConfigError, ShapeError
from heed.layers import DecoderStack
from heed.layers.transformer import DecoderBlock, EncoderBlock
from heed.show.picture_drawing import ShownPicture, laid_over, shape_within
from heed.watch.looks import Choice
from heed.watch.pictures import (
    Patches,
    PictureLook,
    PictureMap,
    SeenAttention,
    area_of,
    centre_distances,
    class_activation,
    even_distance,
    mean_distances,
)
from heed.watch.trace import ObserveError, rollout, trace


def test_what_the_model_did_not_see_is_faded_and_has_no_number():
    picture = np.full((40, 80, 3), 100, dtype=np.uint8)
    seen = Sizing(8, 8, 3).placed((40, 80))
    drawn = laid_over(picture, PictureMap("m", torch.ones(2, 2), seen), (40, 80))
    assert np.array_equal(drawn[:, :20], np.full((40, 20, 3), round(100 * 0.3 + 225 * 0.7)))
    assert np.array_equal(drawn[:, 20:60], np.broadcast_to(drawn[0, 20], (40, 40, 3)))


def test_overlapping_patches_are_drawn_around_their_centres():
    """Patches of 8, one every 4: a cell is 4 wide, and the first begins 2 inside the picture."""
    area = area_of(Box(0, 0, 20, 20), (20, 20), (2, 2), (4, 4), (4, 4))
    one = PictureMap("m", torch.ones(4, 4), area)
    centres = [((c.top + c.bottom) / 2, (c.left + c.right) / 2) for c in (one.cell(0, 0), one.cell(3, 1))]
    assert centres == [(4, 4), (16, 8)]


def test_a_map_that_is_no_grid_is_refused():
    with pytest.raises(ShapeError, match=r"weights of 'm' have shape \(4,\), expected a grid"):
        PictureMap("m", torch.ones(4), Box(0, 0, 1, 1))


class Stack(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = torch.nn.ModuleList(EncoderBlock(16, 4, 24, norm="pre", layer=i) for i in range(3))
        for parameter in self.parameters():
            torch.nn.init.normal_(parameter, std=0.6)

    def forward(self, x, mask=None):
        for block in self.blocks:
            x = block(x, mask)
        return x


def seen_of(model, x, **more):
    with torch.no_grad(), trace(model.eval()) as seen:
        model(x, **more)
    return seen


def make_look(picture=None, leading=1):
    torch.manual_seed(0)
    picture = np.random.default_rng(0).integers(0, 256, (60, 90, 3), dtype=np.uint8) if picture is None else picture
    seen_box = Sizing(12, 12, 3).placed(picture.shape[:2])
    seen = seen_of(Stack(), torch.randn(1, 9 + leading, 16))
    area = area_of(seen_box, (12, 12), (0, 0), (4, 4), (3, 3))
    attention = SeenAttention(seen, Patches((3, 3), leading, (12, 12), (4, 4), area))
    maps = (*attention.maps(Choice()), *attention.rollout_maps(Choice()), *attention.maps(Choice(head=1), (2, 0)))
    look = PictureLook("vit on digits", "a&b<c>.jpg", picture, seen_box, (12, 12), "7", (("7", 0.9), ("1", 0.1)), maps,
                       attention.gallery(), attention.distances(), ("a note",), attention.every())  # fmt: skip
    return seen, look


def test_without_a_class_token_a_map_is_the_share_of_all_attention_that_each_patch_gets():
    seen, look = make_look(leading=0)
    weights = seen.maps("encoder", 2).weights[0]
    assert torch.allclose(look.maps[0].weights, weights.mean(0).mean(0).reshape(3, 3))
    assert look.maps[0].title.startswith("mean of all patches") and look.maps[0].outside == 0


@pytest.mark.parametrize("shape", [(60, 90, 3), (3, 500, 1)])
def test_every_form_is_complete(shape, tmp_path):
    picture = np.random.default_rng(1).integers(0, 256, shape, dtype=np.uint8)
    _, look = make_look(picture)
    shown = ShownPicture(look)
    root = ElementTree.fromstring(shown.svg())
    texts = "".join(root.itertext())
    assert "picture: a&b<c>.jpg" in texts and "label: 7 0.900, 1 0.100" in texts and "layer 2, head 3" in texts
    page, png = shown.html(), shown.png()
    assert Image.open(io.BytesIO(png)).size[0] > 1000
    assert "a&amp;b&lt;c&gt;.jpg" in page and "http" not in page.replace("http://www.w3.org", "").replace(
        "http-equiv", ""
    )
    data = json.loads(re.search(r'class="data">(.*?)</script>', page).group(1))
    ground = data["ground"]
    assert ground["grid"] == [3, 3] and ground["leading"] == 1 and len(data["maps"]) == 3 * 5 + 3
    numbers = json.loads(shown.json())
    assert np.allclose(numbers["maps"][0]["weights"], look.maps[0].weights.numpy(), atol=1e-6)
    assert np.allclose(numbers["distances"]["values"], look.distances.values.numpy(), atol=1e-6)
    for ending in ("html", "svg", "png", "json", "txt"):
        shown.save(tmp_path / f"look.{ending}")
        assert (tmp_path / f"look.{ending}").stat().st_size > 1000
    assert (tmp_path / "look.png").read_bytes() == png and (tmp_path / "look.html").read_text() == page


@pytest.mark.parametrize("width", [40, 80, 120])
def test_a_terminal_shows_plain_characters(width):
    _, look = make_look()
    plain = ShownPicture(look).text(width)
    assert "\x1b" not in plain and "\u2580" not in plain and "\u2588" in plain
    assert max(map(len, plain.split("\n")[5:])) <= max(width, 60)


def test_the_brightest_cell_of_the_terminal_is_the_largest_weight():
    picture = np.full((24, 24, 1), 90, dtype=np.uint8)
    weights = torch.zeros(3, 3)
    weights[0, 2] = 1.0
    look = PictureLook(
        "t", "p", picture, Box(0, 0, 24, 24), (12, 12), "", (), (PictureMap("m", weights, Box(0, 0, 24, 24)),)
    )
    lines = ShownPicture(look).text(100).split("\n")
    filled = [
        (i, line.index("\u2588"), line.rindex("\u2588")) for i, line in enumerate(lines) if "\u2588\u2588\u2588" in line
    ]
    first = next(i for i, line in enumerate(lines) if "\u00b7\u00b7\u00b7" in line)
    assert [i - first for i, _, _ in filled] == [0, 1, 2, 3]  # a third of 24 rows, two to a character
    assert {(a, b) for _, a, b in filled} == {(24 + 3 + 16, 24 + 3 + 23)}


def test_small_pictures_grow_by_whole_numbers_and_large_ones_shrink():
    assert shape_within((8, 8), 300) == (296, 296)
    assert shape_within((28, 20), 300) == (280, 200)
    assert shape_within((2000, 1000), 300) == (300, 150)
    assert shape_within((200, 160), 300) == (200, 160)


def test_grad_cam_against_its_equation_in_numpy():
    generator = torch.Generator().manual_seed(0)
    states, gradient = (torch.randn(6, 3, 4, generator=generator) for _ in range(2))
    expected = np.zeros((3, 4))
    for k in range(6):
        expected += np.mean(gradient[k].numpy()) * states[k].numpy()
    assert np.allclose(class_activation(states, gradient).numpy(), np.maximum(expected, 0), atol=1e-6)


def test_rollout_takes_texts_with_padding_but_is_refused_under_a_causal_mask():
    x = torch.randn(2, 5, 16)
    mask = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    rolled = rollout(seen_of(Stack(), x, mask=mask))
    assert torch.allclose(rolled.sum(-1), torch.ones(2, 5), atol=1e-6)
    assert float(rolled[1, :3, 3:].abs().max()) == 0

    class Decoder(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = DecoderStack([DecoderBlock(16, 4, 24, cross=False)])

        def forward(self, x):
            return self.blocks.whole(x)

    with pytest.raises(
        ConfigError, match="rollout is not defined under a causal mask: the tokens of decoder attention"
    ):
        rollout(seen_of(Decoder(), x))


def test_rollout_of_a_layer_or_mechanism_that_is_not_there_says_what_there_is():
    seen = seen_of(Stack(), torch.randn(1, 3, 16))
    with pytest.raises(ObserveError, match="'encoder' attention has no layer 9; recorded: encoder layer 0"):
        rollout(seen, layer=9)
    with pytest.raises(ObserveError, match="no 'cross' attention was recorded"):
        rollout(seen, "cross")


def test_mean_attention_distance_is_the_weighted_mean_of_distances_between_centres():
    rows, columns, step = 3, 4, (2.0, 5.0)
    generator = torch.Generator().manual_seed(1)
    weights = torch.rand(2, 3, 13, 13, generator=generator).softmax(-1)  # a class token, then 12 patches
    mine = mean_distances(weights, rows, columns, step)
    for entry in range(2):
        for head in range(3):
            total = 0.0
            for q in range(12):
                inside = weights[entry, head, q + 1, 1:].double()
                for k in range(12):
                    down = (q // columns - k // columns) * step[0]
                    across = (q % columns - k % columns) * step[1]
                    total += float(inside[k] / inside.sum()) * (down**2 + across**2) ** 0.5
            assert float(mine[entry, head]) == pytest.approx(total / 12)
    even = torch.full((1, 1, 12, 12), 1 / 12)
    assert float(mean_distances(even, rows, columns, step)) == pytest.approx(even_distance(rows, columns, step))
    itself = torch.eye(12)[None, None]
    assert float(mean_distances(itself, rows, columns, step)) == 0
    assert float(centre_distances(rows, columns, step)[0, -1]) == pytest.approx((4**2 + 15**2) ** 0.5)
