"""Looking at pictures: maps on the right place of the picture that a person sees, in every form; attention rollout."""

import io
import json
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import numpy as np
import pytest
import torch
from PIL import Image

import heed
from commands import call, failing
from contract import assert_close_in_scale
from heed.data.pictures.sizing import Box, Sizing
from heed.errors import ConfigError, DataError, ShapeError
from heed.layers import DecoderStack
from heed.layers.transformer import DecoderBlock, EncoderBlock
from heed.show.picture_drawing import ShownPicture, laid_over, ramp, shape_within
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

GREY, RED, BLUE = (128, 128, 128), (255, 88, 0), (60, 130, 255)
QUICK = {
    "data.size": 32, "data.valid": 4, "training.threads": 1, "training.warmup": 0, "evaluation.bootstrap": 1,
    "training.batch_size": 8,
}  # fmt: skip
VIT = {"model.name": "vit", "model.patch_size": 4, "model.d_model": 8, "model.num_heads": 2, "model.num_layers": 3,
       "model.d_ff": 8}  # fmt: skip
CNN = {"model.name": "cnn", "model.num_filters": [4, 8], "model.convolutions": 1}
RESNET = {"model.name": "resnet", "model.form": "cifar", "model.depth": 8, "model.num_filters": 4}


def picture(color, height=60, width=100, top=8, left=60, side=12):
    shown = np.full((height, width, 3), GREY, dtype=np.uint8)
    shown[top : top + side, left : left + side] = color
    return shown


@pytest.fixture(scope="module")
def photos(tmp_path_factory):
    root = tmp_path_factory.mktemp("look") / "photos"
    for label, color in (("red", RED), ("blue", BLUE)):
        (root / label).mkdir(parents=True)
        for i in range(8):
            Image.fromarray(picture(color, top=4 * i, left=25 + 5 * i)).save(root / label / f"{i}.png")
    return root


def trained(photos, settings, name=None):
    out = photos.parent / (name or settings["model.name"])
    return heed.train("images", train=photos, steps=1, out=out, settings={**QUICK, **settings}, quiet=True)


@pytest.fixture(scope="module")
def vit(photos):
    return trained(photos, VIT)


@pytest.fixture(scope="module")
def cnn(photos):
    return trained(photos, CNN)


def test_maps_are_the_models_own_weights(vit, photos):
    path = photos / "red" / "3.png"
    shown = vit.look(path, layer="all", head="all", map=["attention", "rollout"])
    pixels = vit.input.form.tensor([np.asarray(Image.open(path))])
    with torch.no_grad(), heed.trace(vit.model.eval()) as seen:
        probabilities = vit.model(pixels).softmax(-1)[0]
    weights = [seen.maps("encoder", layer).weights[0] for layer in range(3)]
    for i, one in enumerate(shown.maps[:6]):
        assert torch.allclose(one.weights, weights[i // 2][i % 2][0, 1:].reshape(8, 8), atol=1e-6)
        assert one.outside + float(one.weights.sum()) == pytest.approx(1, abs=1e-5)
    rolled = np.eye(65)
    for layer, one in zip(weights, shown.maps[6:], strict=True):
        rolled = (layer.double().mean(0).numpy() + np.eye(65)) / 2 @ rolled
        assert np.allclose(rolled.sum(1), 1)
        assert np.allclose(one.weights.numpy().ravel(), rolled[0, 1:], atol=1e-6)
    assert shown.look.top[0][1] == pytest.approx(float(probabilities.max()), abs=1e-5)
    assert [len(maps) for _, maps in shown.look.gallery.rows] == [2, 2, 2]
    patch = vit.look(path, map="attention", patch=(2, 5), head=1).maps[0]
    assert torch.allclose(patch.weights.ravel(), weights[2][1][1 + 2 * 8 + 5, 1:], atol=1e-6)


def plant(run):
    """Make the class token look at red patches only: the first unit of an embedding is how red a patch is."""
    body, form = run.model.body, run.input.form
    with torch.no_grad():
        for parameter in body.parameters():
            parameter.zero_()
        ground = form.tensor([np.full((32, 32, 3), 128, dtype=np.uint8)])[0, :, 0, 0]
        scale = torch.tensor(form.normalisation.deviation)
        body.embedding.weight[0] = torch.cat([torch.full((16,), s) for s in (float(scale[0]), 0.0, -float(scale[2]))])
        body.embedding.bias[0] = -16 * (ground[0] * scale[0] - ground[2] * scale[2])
        for block in body.blocks:
            block.around_attention.norm.weight.fill_(1)
            for head in range(2):
                block.attention.w_query.bias[head * 4] = 10.0
                block.attention.w_key.weight[head * 4, 0] = 1.0


@pytest.fixture(scope="module")
def planted(photos):
    run = trained(photos, {**VIT, "model.positions": "none"}, "planted")
    plant(run)
    return run


TURNS = {
    1: None, 2: Image.Transpose.FLIP_LEFT_RIGHT, 3: Image.Transpose.ROTATE_180, 4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE, 6: Image.Transpose.ROTATE_90, 7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_270,
}  # fmt: skip
"""How a picture of each orientation of EXIF is stored."""


@pytest.mark.parametrize("orientation", TURNS)
def test_a_planted_bright_patch_of_a_rotated_photo_is_where_the_drawn_map_has_it(planted, orientation, tmp_path):
    run = planted
    shown_as = picture(RED, top=8, left=60)  # grey and red are of one luma: the ground does not show the patch
    turn = TURNS[orientation]
    stored = Image.fromarray(shown_as) if turn is None else Image.fromarray(shown_as).transpose(turn)
    exif = Image.Exif()
    exif[0x0112] = orientation
    stored.save(tmp_path / "photo.jpg", quality=95, subsampling=0, exif=exif)
    shown = run.look(str(tmp_path / "photo.jpg"), map="attention")
    (one,) = shown.maps
    assert float(one.weights.max()) > 10 * float(one.weights.median())
    shown.look = replace(shown.look, maps=(replace(one, effect=None),))  # in colours, whatever the label does
    drawn = np.asarray(Image.open(io.BytesIO(shown.png(0))).convert("RGB")).astype(float)
    # The map is the second panel, 200 x 120 units at two pixels each; above it stand lines of text on white.
    left = 2 * (16 + 240 + 16)
    inked = (drawn[:, left + 2] < 250).all(1) & (drawn[:, left + 390] < 250).all(1)
    top = next(row for row in range(len(inked)) if inked[row : row + 200].all())  # a line of text has fewer rows
    brightest = 0.56 * ramp()[0, -1].astype(float) + 0.44 * 128
    y, x = np.nonzero(np.abs(drawn - brightest).sum(2) < 15)
    assert abs((y.mean() - top) / 4 - 14) < 5 and abs((x.mean() - left) / 4 - 66) < 5
    assert (y >= top).all() and (y < top + 240).all() and (x >= left).all() and (x < left + 400).all()


def test_gradients_and_receptive_fields_of_a_convolutional_network(cnn, photos):
    shown = cnn.look(photos / "red" / "1.png", patch=(2, 3))
    grad_cam, saliency, field = shown.maps
    assert grad_cam.grid == (8, 8) and saliency.grid == (32, 32)
    receptive = cnn.model.body.receptive
    top, left, bottom, right = receptive.box(2, 3)
    inside = torch.zeros(32, 32, dtype=torch.bool)
    inside[max(0, top) : bottom, max(0, left) : right] = True
    assert float(field.weights[~inside].abs().max()) == 0 and float(field.weights[inside].max()) > 0
    assert f"Frame: the {receptive.size} x {receptive.size} of 32 x 32 pixels" in field.caption
    assert field.marked.top == pytest.approx(top * 60 / 32) and field.marked.left == pytest.approx(20 + left * 60 / 32)
    with pytest.raises(ConfigError, match="no unit in row 8, column 0: the last feature maps of this model have 8"):
        cnn.look(photos / "red" / "1.png", patch=(8, 0))
    pixels = cnn.input.form.tensor([np.asarray(Image.open(photos / "red" / "1.png"))]).requires_grad_()
    number = cnn.head.labels.index(shown.look.label)
    cnn.model(pixels)[0, number].backward()
    assert_close_in_scale(saliency.weights, pixels.grad[0].abs().amax(0))
    other = cnn.look(photos / "red" / "1.png", map="saliency", label=cnn.head.labels[1 - number]).maps[0]
    assert not torch.allclose(other.weights, saliency.weights)


def test_a_residual_network_has_gradients_but_no_attention(photos):
    run = trained(photos, RESNET)
    shown = run.look(photos / "blue" / "2.png")
    assert [one.unit for one in shown.maps] == ["activation", "gradient", "gradient"]
    with pytest.raises(ConfigError, match="model resnet has no attention and so no map 'rollout'; use gradient"):
        run.look(photos / "blue" / "2.png", map="rollout")
    with pytest.raises(ConfigError, match="model resnet has no attention, so --layer, --head and --mechanism do not"):
        run.look(photos / "blue" / "2.png", layer=0)
    with pytest.raises(ConfigError, match="16 pictures were given; give exactly one"):
        run.look(photos)


def test_the_command_refuses_steps_of_a_picture(vit, photos, capsys):
    code, out, err = call(capsys, "look", vit.folder, photos / "red" / "0.png", "--steps")
    assert (code, out) == (2, "")
    assert err.splitlines()[-1] == "heed: --steps is for texts and series; of a picture, --layer all shows every layer"


def test_a_picture_of_the_data_is_named_by_its_set(vit, photos):
    assert vit.look("valid:1").look.source == vit.examples("valid")[1].origin
    with pytest.raises(ConfigError, match="no picture test:1: the run has no test set, only train and valid"):
        vit.look("test:1")
    with pytest.raises(DataError, match="nowhere#1"):
        vit.look("nowhere#1")
    with pytest.raises(ConfigError, match="no picture valid:9: the valid set has 4 pictures, counted from 0"):
        vit.look("valid:9")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--patch", "8,0"], "no patch in row 8, column 0: this model reads 8 rows and 8 columns of patches"),
        (["--patch", "left"], "--patch is 'left'; give row and column of a patch, counted from 0, as in --patch 3,5"),
        (["--map", "fields"], "unknown map 'fields'; did you mean 'field'?"),
        (["--label", "rad"], "this run has no label 'rad'; did you mean 'red'?"),
        (["--layer", "3"], "no layer 3: this model has 3 layers of encoder attention, counted from 0"),
        (["--head", "2"], "no head 2: there are 2 heads, counted from 0"),
        (["--mechanism", "cross"], "no 'cross' attention: this model has encoder attention"),
    ],
)
def test_what_there_is_not_is_named(vit, photos, arguments, said, capsys):
    assert said in failing(capsys, "look", str(vit.folder), str(photos / "red" / "0.png"), *arguments)


# --- Maps over pictures: on the right place of the picture that a person sees, in every form; attention rollout


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
