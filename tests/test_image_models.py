"""Models that read pictures: their equations, sizes, initial weights, and what they refuse."""

import math

import numpy as np
import pytest
import torch
from torch import nn
from torch.testing import assert_close

import reference
from heed.errors import ConfigError, ShapeError
from heed.layers.grid import interpolated
from heed.models.cnn import ImageCNN
from heed.models.resnet import ResNet, ResNetConfig
from heed.models.vit import Vit, VitConfig
from heed.watch.trace import trace

PICTURE = {"num_channels": 3, "height": 12, "width": 8}
NARROW = {"d_model": 24, "num_heads": 3, "num_layers": 2, "d_ff": 40, "dropout": 0.0}


def make(body, seed=0, **fields):
    """A model whose weights and statistics are all far from their first values, so that none hides a slip."""
    torch.manual_seed(seed)
    model = body(body.config_class(**{**PICTURE, **fields})).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.add_(
                (0.3 if parameter.dim() < 2 or isinstance(model, Vit) else 0.02) * torch.randn_like(parameter)
            )
            assert parameter.any(), name
        for module in model.modules():
            if isinstance(module, nn.BatchNorm2d):
                module.running_mean.normal_()
                module.running_var.uniform_(0.5, 2.0)
    return model


def pictures(count=2, seed=0, **sides):
    sides = {**PICTURE, **sides}
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(count, sides["num_channels"], sides["height"], sides["width"], generator=generator)


def weights_of(model):
    return {name: tensor.double().numpy() for name, tensor in model.state_dict().items()}


def count(model):
    return sum(parameter.numel() for parameter in model.parameters())


def assert_near(found, expected):
    expected = torch.as_tensor(np.stack(expected), dtype=torch.float32)
    assert_close(found.detach(), expected, rtol=1e-4, atol=1e-5)


# --- vit


def vit(model, picture):
    """The states of one picture's tokens after each block, and the normalised last ones, in plain NumPy."""
    c, w = model.config, weights_of(model)

    def norm(name):
        return lambda x: reference.layer_norm(x, w[f"{name}.weight"], w[f"{name}.bias"], c.norm_eps)

    def attend(name):
        kinds = [(part, kind) for part in ("query", "key", "value", "out") for kind in ("weight", "bias")]
        parts = [w[f"{name}.w_{part}.{kind}"] for part, kind in kinds]
        return lambda xs: reference.multi_head(xs, xs, *parts, c.num_heads, None)[0]

    def feed(name):
        inner, outer = ((w[f"{name}.{part}.weight"], w[f"{name}.{part}.bias"]) for part in ("inner", "outer"))
        return lambda xs: np.stack([reference.feed_forward(x, *inner, *outer, activation=reference.gelu) for x in xs])

    patches = reference.patches(picture, c.patch_size, c.stride or c.patch_size)
    x = np.stack([w["embedding.weight"] @ patch + w["embedding.bias"] for patch in patches])
    first = {"class": ["class_vector"], "distilled": ["class_vector", "distillation_vector"], "mean": []}[c.pooling]
    x = np.concatenate([*([w[name]] for name in first), x])
    if c.positions == "learned":
        x = x + w["positions.table.weight"]
    elif c.positions == "sinusoidal":
        x[len(first) :] += reference.sinusoidal_grid(*model.grid, c.d_model)
    states = []
    for n in range(c.num_layers):
        name = f"blocks.{n}"
        sublayers = [
            (attend(f"{name}.attention"), norm(f"{name}.around_attention.norm")),
            (feed(f"{name}.feed_forward"), norm(f"{name}.around_feed_forward.norm")),
        ]
        x = reference.transformer_block(x, sublayers, pre=True)
        states.append(x)
    return states, np.stack([norm("norm")(row) for row in x])


@pytest.mark.parametrize(
    ("patch_size", "stride", "pooling", "positions"),
    [
        (4, None, "class", "learned"),
        (4, 2, "mean", "sinusoidal"),
        (3, 1, "class", "none"),
        (8, 4, "mean", "learned"),
        (4, None, "class", "sinusoidal"),
        (4, None, "distilled", "sinusoidal"),
        (4, None, "distilled", "learned"),
        (1, None, "mean", "none"),
    ],
)
def test_vit_is_the_paper_in_numpy(patch_size, stride, pooling, positions):
    model = make(Vit, patch_size=patch_size, stride=stride, pooling=pooling, positions=positions, **NARROW)
    pixels = pictures()
    expected = [vit(model, picture) for picture in pixels.numpy()]
    with trace(model) as seen:
        result = model(pixels)
    first = {"class": 1, "distilled": 2, "mean": 0}[pooling]
    assert_near(result, [last[:first].reshape(-1) if first else last.mean(0) for _, last in expected])
    rows, columns = model.grid
    maps = [last[first:].reshape(rows, columns, -1).transpose(2, 0, 1) for _, last in expected]
    assert_near(model.features(pixels), maps)
    assert model.leading == first
    records = [record for record in seen.attention_records if record.mechanism == "encoder"]
    assert [record.layer for record in records] == [0, 1]
    assert {record.projected.shape[2] for record in records} == {rows * columns + first}


def test_a_convolutional_stem_is_convolutions_that_halve():
    model = make(Vit, patch_size=4, stem="conv", **NARROW)
    w, stem = weights_of(model), model.stem
    assert model.grid == (3, 2)
    maps = []
    for picture in pictures().numpy():
        x = picture
        for n in (0, 3):
            x = reference.convolution(x, w[f"stem.{n}.weight"], stride=2, padding=1)
            given = (w[f"stem.{n + 1}.{part}"] for part in ("running_mean", "running_var", "weight", "bias"))
            x = reference.relu(reference.batch_norm(x, *given))
        maps.append(reference.convolution(x, w["stem.6.weight"], w["stem.6.bias"]))
    assert_near(stem(pictures()), maps)
    assert [layer.out_channels for layer in stem if isinstance(layer, nn.Conv2d)] == [12, 24, 24]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"patch_size": 5}, r"patches of 5 x 5 pixels .*, one every 5 pixels, do not cover .* 12 x 8 .*patch_size to"),
        ({"patch_size": 16}, r"patches of 16 x 16 pixels .*, one every 16 pixels, do not cover a picture of 12 x 8"),
        ({"patch_size": 4, "stride": 3}, r"patches of 4 x 4 pixels .*, one every 3 pixels, do not cover .*height 12"),
        ({"patch_size": 4, "stride": 8}, r"model.stride is 8, but model.patch_size is 4: .*; set model.stride to at"),
        ({"patch_size": 6, "stem": "conv"}, r"needs model.patch_size 1, 2, 4, 8, .* got patch_size 6"),
        ({"patch_size": 4, "stride": 2, "stem": "conv"}, r"and no stride; got patch_size 4, stride 2"),
        ({"patch_size": 4, "height": 13, "width": 7}, r"no patch size from 2 to 32 does; set data.size to a multiple"),
    ],
)
def test_patches_that_do_not_fit_a_picture_are_refused(fields, message):
    with pytest.raises(ConfigError, match=message):
        make(Vit, **{**NARROW, **fields})


def test_pictures_of_another_size_are_refused():
    with pytest.raises(ShapeError, match=r"pixels have shape \(1, 12, 8\) .*expected \(3, 12, 8\)"):
        make(Vit, patch_size=4, **NARROW)(pictures(num_channels=1))


def test_vit_has_the_parameters_of_the_paper():
    """Table 1 of Dosovitskiy et al. 2021: Base 86 million, Large 307 million."""
    picture = {"num_channels": 3, "height": 224, "width": 224}
    with torch.device("meta"):
        base, large = (Vit(VitConfig(**picture, **VitConfig.sizes[size])) for size in ("base", "large"))
    assert round(count(base) / 1e6) == 86 and base.grid == (14, 14)
    assert round(count(large) / 1e6, -1) == 300


def test_vit_begins_with_the_weights_of_the_authors_code():
    torch.manual_seed(0)
    model = Vit(VitConfig(**PICTURE, patch_size=4, d_model=192, num_heads=3, num_layers=1, d_ff=768))
    block = model.blocks[0]
    limit = math.sqrt(6 / (192 + 768))
    assert block.feed_forward.inner.weight.abs().max().item() == pytest.approx(limit, rel=0.01)
    assert block.feed_forward.inner.weight.std().item() == pytest.approx(limit / math.sqrt(3), rel=0.02)
    assert model.embedding.weight.std().item() == pytest.approx(1 / math.sqrt(48), rel=0.05)
    assert model.positions.table.weight.std().item() == pytest.approx(0.02, rel=0.1)
    assert not model.class_vector.any()
    for positions in ("sinusoidal", "none"):  # a zero vector would be all that the first layer normalisation reads
        other = Vit(VitConfig(**PICTURE, patch_size=4, d_model=192, num_heads=3, num_layers=1, positions=positions))
        assert other.class_vector.std().item() == pytest.approx(0.02, rel=0.2)
    biases = [p for name, p in model.named_parameters() if name.endswith("bias")]
    assert biases and not any(bias.any() for bias in biases)


@pytest.mark.parametrize("leading", [0, 1])
@pytest.mark.parametrize("new", [(4, 4), (7, 3), (2, 6)])
def test_interpolated_positions_are_those_of_bicubic_resizing(leading, new):
    table = torch.randn(leading + 12, 5)
    found = interpolated(table, (3, 4), new)
    picture = table[leading:].reshape(3, 4, 5).permute(2, 0, 1).unsqueeze(0)
    expected = nn.functional.interpolate(picture, size=new, mode="bicubic", align_corners=False)
    assert torch.equal(found[:leading], table[:leading])
    assert_close(found[leading:].reshape(*new, 5).permute(2, 0, 1), expected[0])


@pytest.mark.parametrize(
    ("old", "new", "taken"),
    [
        ({"pooling": "class"}, {"pooling": "class", "height": 24}, True),
        ({"pooling": "mean"}, {"pooling": "mean", "stride": 2}, True),
        ({"pooling": "class"}, {"pooling": "mean", "width": 24}, True),
        ({"pooling": "distilled"}, {"pooling": "class", "width": 24}, True),
        ({"pooling": "mean"}, {"pooling": "class"}, False),  # no position of a class token is known
        ({"positions": "sinusoidal"}, {"height": 24}, False),
    ],
)
def test_positions_fit_a_model_of_pictures_of_another_size(old, new, taken):
    theirs, own = (make(Vit, **{**NARROW, "patch_size": 4, **fields}) for fields in (old, new))
    tensors = theirs.state_dict()
    found = Vit.adapted(tensors, theirs.config, own.config)
    fitting = {name for name, tensor in own.state_dict().items() if name in found and found[name].shape == tensor.shape}
    assert ("positions.table.weight" in fitting) == taken
    assert all(found[name] is tensor for name, tensor in tensors.items() if name != "positions.table.weight")
    if taken:
        own.load_state_dict(found, strict=False)
        leading = own.leading
        places = tensors["positions.table.weight"][theirs.leading :]
        assert_close(own.positions.table.weight[leading:], interpolated(places, theirs.grid, own.grid))


# --- resnet


def unit(w, name, x, stride=1):
    kernel = w[f"{name}.convolution.weight"].shape[2]
    x = reference.convolution(x, w[f"{name}.convolution.weight"], stride=stride, padding=kernel // 2)
    return reference.batch_norm(x, *(w[f"{name}.norm.{p}"] for p in ("running_mean", "running_var", "weight", "bias")))


def resnet(model, picture, large, strided):
    """The last map of one picture; `strided` is the unit of a block that has its stride."""
    w, x = weights_of(model), reference.relu(unit(weights_of(model), "stem", picture, 2 if large else 1))
    if large:
        x = reference.max_pool(x, 3, 2, 1)
    for i, stage in enumerate(model.stages):
        for j, block in enumerate(stage):
            name, stride, y = f"stages.{i}.{j}", 2 if i > 0 and j == 0 else 1, x
            for k in range(len(block.units)):
                y = unit(w, f"{name}.units.{k}", y if k == 0 else reference.relu(y), stride if k == strided else 1)
            if f"{name}.shortcut.convolution.weight" in w:
                x = unit(w, f"{name}.shortcut", x, stride)
            elif y.shape != x.shape:
                x = np.concatenate([x[:, ::2, ::2], np.zeros((len(y) - len(x), *y.shape[1:]))])
            x = reference.relu(x + y)
    return x


@pytest.mark.parametrize(
    ("fields", "large", "strided"),
    [
        ({"form": "cifar", "depth": 14, "num_filters": 4}, False, 0),
        ({"form": "cifar", "depth": 8, "num_filters": 4, "shortcut": "projection"}, False, 0),
        ({"depth": 18, "num_filters": 4}, True, 0),
        ({"depth": 18, "num_filters": 4, "stem": "small", "shortcut": "padding"}, False, 0),
        ({"depth": 50, "num_filters": 2}, True, 1),
    ],
    ids=str,
)
def test_resnet_is_the_paper_in_numpy(fields, large, strided):
    model = make(ResNet, **fields)
    pixels = pictures()
    maps = [resnet(model, picture, large, strided) for picture in pixels.numpy()]
    assert_near(model.features(pixels), maps)
    assert_near(model(pixels), [x.mean((1, 2)) for x in maps])


@pytest.mark.parametrize(
    ("form", "depth", "millions"),
    [
        ("cifar", 20, 0.27),
        ("cifar", 110, 1.73),
        ("imagenet", 18, 11.69),
        ("imagenet", 50, 25.56),
        ("imagenet", 152, 60.19),
    ],
)
def test_resnet_has_the_parameters_of_the_paper(form, depth, millions):
    """Table 6 of He et al. 2016, a rounding apart (1.7 million for 110); of the large form those of torchvision."""
    labels, side = (10, 32) if form == "cifar" else (1000, 224)
    with torch.device("meta"):
        model = ResNet(ResNetConfig(num_channels=3, height=side, width=side, form=form, depth=depth))
    assert round((count(model) + (model.d_output + 1) * labels) / 1e6, 2) == millions


def test_resnet_begins_with_the_weights_of_the_paper():
    torch.manual_seed(0)
    model = ResNet(ResNetConfig(**PICTURE, depth=18))
    for module in model.modules():
        if isinstance(module, nn.Conv2d):
            weight = module.weight
            assert weight.std().item() == pytest.approx(math.sqrt(2 / (len(weight) * weight[0, 0].numel())), rel=0.05)
        elif isinstance(module, nn.BatchNorm2d):
            assert (module.weight == 1).all() and not module.bias.any()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"depth": 20}, r"depth is 20, but must be one of 18, 34, 50, 101, 152 for model.form=imagenet"),
        ({"form": "cifar", "depth": 18}, r"depth is 18, but must be 6n \+ 2 for model.form=cifar: 8, 14, 20"),
    ],
)
def test_a_depth_that_the_form_lacks_is_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        ResNetConfig(**PICTURE, **fields)


# --- cnn


@pytest.mark.parametrize(
    ("pooling", "fields"),
    [
        ("flat", {}),
        ("mean", {"norm": "none"}),
        ("max", {"kernel_size": 5}),
        ("flat", {"pool_size": 1}),
        ("mean", {"pool_size": 3, "num_filters": (4,)}),
    ],
    ids=str,
)
def test_cnn_is_its_equations_in_numpy(pooling, fields):
    model = make(ImageCNN, **{"num_filters": (3, 4), "convolutions": 2, "pooling": pooling, **fields})
    c, w, pixels = model.config, weights_of(model), pictures()
    maps = []
    for picture in pixels.numpy():
        x = picture
        for n in range(2 * len(c.num_filters)):
            name = f"convolutions.{n}" + ("" if c.norm == "none" else ".0")
            x = reference.convolution(x, w[f"{name}.weight"], w.get(f"{name}.bias"), padding=c.kernel_size // 2)
            if c.norm == "batch":
                given = ("running_mean", "running_var", "weight", "bias")
                x = reference.batch_norm(x, *(w[f"convolutions.{n}.1.{part}"] for part in given))
            x = reference.relu(x)
            if n % 2:
                x = reference.max_pool(x, c.pool_size, c.pool_size)
        maps.append(x)
    assert_near(model.features(pixels), maps)
    vectors = {"flat": lambda x: x.reshape(-1), "mean": lambda x: x.mean((1, 2)), "max": lambda x: x.max((1, 2))}
    assert_near(model(pixels), [vectors[pooling](x) for x in maps])
    assert model(pixels).shape == (2, model.d_output)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"num_filters": (4, 4, 4, 4)}, r"a picture of 12 x 8 pixels is too small for the 4 stages .*; use fewer"),
        ({"kernel_size": 4}, r"model.kernel_size is 4, but must be odd, so that a filter has a centre"),
        ({"num_filters": (4, 0)}, r"model.num_filters is \[4, 0\], but must be integers of at least 1"),
    ],
)
def test_a_cnn_that_cannot_be_is_refused(fields, message):
    with pytest.raises((ConfigError, ValueError), match=message):
        make(ImageCNN, **fields)


# --- receptive fields


@pytest.mark.parametrize(
    ("body", "fields"),
    [
        (ImageCNN, {"num_filters": (3, 4), "convolutions": 2}),
        (ImageCNN, {"num_filters": (3,), "kernel_size": 5, "pool_size": 1}),
        (ResNet, {"form": "cifar", "depth": 8, "num_filters": 3}),
        (ResNet, {"depth": 18, "num_filters": 2, "stem": "small"}),
        (ResNet, {"depth": 50, "num_filters": 2}),
    ],
    ids=str,
)
def test_the_receptive_field_is_where_the_gradient_is(body, fields):
    """Any place of the last map: no pixel outside its box changes it, and the pixels at its edges do."""
    torch.manual_seed(0)
    model = body(body.config_class(num_channels=1, height=64, width=96, **fields)).eval()
    pixels = pictures(1, num_channels=1, height=64, width=96).requires_grad_()
    features = model.features(pixels)
    row, column = features.shape[2] // 2, features.shape[3] // 2
    features[0, :, row, column].sum().backward()
    seen = (pixels.grad[0, 0] != 0).nonzero()
    top, left, bottom, right = model.receptive.box(row, column)
    assert bottom - top == right - left == model.receptive_field()
    assert seen.amin(0).tolist() == [max(0, top), max(0, left)]
    assert seen.amax(0).tolist() == [min(64, bottom) - 1, min(96, right) - 1]
