"""Models that read pictures against those of transformers with the same weights."""

import random

import pytest
import torch
from torch.testing import assert_close

from heed.models.resnet import ResNet
from heed.models.vit import Vit
from test_image_models import make, pictures

transformers = pytest.importorskip("transformers")


def loaded(theirs, model, named):
    """`theirs` with the tensors of `model`, each of which it must have, and it no other."""
    tensors = {named(name): tensor for name, tensor in model.state_dict().items()}
    own = theirs.state_dict()
    assert own.keys() == tensors.keys()
    theirs.load_state_dict({name: tensor.reshape(own[name].shape) for name, tensor in tensors.items()})
    return theirs.eval()


VIT = {
    "class_vector": "embeddings.cls_token",
    "positions.table.weight": "embeddings.position_embeddings",
    "embedding.": "embeddings.patch_embeddings.projection.",
    "norm.": "layernorm.",
    "blocks.": "layers.",
    ".w_query": ".q_proj",
    ".w_key": ".k_proj",
    ".w_value": ".v_proj",
    ".w_out": ".o_proj",
    "around_attention.norm": "layernorm_before",
    "around_feed_forward.norm": "layernorm_after",
    "feed_forward.inner": "mlp.fc1",
    "feed_forward.outer": "mlp.fc2",
}


def in_vit(name):
    for ours, theirs in VIT.items():
        if ours[0] == "." or ours.startswith(("around", "feed")):
            name = name.replace(ours, theirs)
        elif name.startswith(ours):
            name = theirs + name.removeprefix(ours)
    return name


def in_resnet(name):
    name = name.replace(".norm.", ".normalization.")
    if name.startswith("stem."):
        return f"embedder.embedder.{name.removeprefix('stem.')}"
    _, stage, block, *rest = name.split(".")
    return ".".join(["encoder.stages", stage, "layers", block, *("layer" if n == "units" else n for n in rest)])


@pytest.mark.parametrize("seed", range(20))
def test_vit_is_that_of_transformers_with_the_same_weights(seed):
    draw = random.Random(seed)
    patch_size, heads = draw.choice([1, 2, 3, 4, 8]), draw.choice([1, 2, 3, 4])
    rows, columns = draw.randint(1, 5), draw.randint(1, 5)
    shape = {
        "num_channels": draw.choice([1, 3]),
        "height": rows * patch_size,
        "width": columns * patch_size,
        "patch_size": patch_size,
        "d_model": heads * draw.choice([4, 6, 8]),
        "num_heads": heads,
        "num_layers": draw.randint(1, 3),
        "d_ff": draw.choice([16, 40]),
        "norm_eps": draw.choice([1e-6, 1e-12, 1e-3]),
    }
    model = make(Vit, seed, **shape)
    config = transformers.ViTConfig(
        image_size=(shape["height"], shape["width"]),
        num_channels=shape["num_channels"],
        patch_size=patch_size,
        hidden_size=shape["d_model"],
        num_attention_heads=heads,
        num_hidden_layers=shape["num_layers"],
        intermediate_size=shape["d_ff"],
        layer_norm_eps=shape["norm_eps"],
    )
    theirs = transformers.ViTModel(config, add_pooling_layer=False)
    pixels = pictures(2, seed, **shape)
    with torch.no_grad():
        expected = loaded(theirs, model, in_vit)(pixels).last_hidden_state
        assert_close(model.states(pixels), expected, rtol=0, atol=1e-5)
        assert_close(model(pixels), expected[:, 0], rtol=0, atol=1e-5)


@pytest.mark.parametrize(("depth", "kind"), [(18, "basic"), (34, "basic"), (50, "bottleneck")])
@pytest.mark.parametrize("num_filters", [4, 6])
def test_resnet_is_that_of_transformers_with_the_same_weights(depth, kind, num_filters):
    sides = {"height": 40, "width": 56}
    model = make(ResNet, depth=depth, num_filters=num_filters, **sides)
    expansion = 1 if kind == "basic" else 4
    config = transformers.ResNetConfig(
        num_channels=3,
        embedding_size=num_filters,
        hidden_sizes=[(num_filters << i) * expansion for i in range(4)],
        depths=list(model.config.blocks),
        layer_type=kind,
    )
    theirs = transformers.ResNetModel(config)
    pixels = pictures(**sides)
    with torch.no_grad():
        expected = loaded(theirs, model, in_resnet)(pixels)
        scale = max(1.0, float(expected.last_hidden_state.abs().max()))
        assert_close(model.features(pixels) / scale, expected.last_hidden_state / scale, rtol=0, atol=1e-5)
        assert_close(model(pixels) / scale, expected.pooler_output.flatten(1) / scale, rtol=0, atol=1e-5)
