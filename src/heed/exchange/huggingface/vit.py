"""ViT: checkpoints of `vit`.

| here | in the checkpoint | |
|---|---|---|
| class_vector | embeddings.cls_token | a vector; theirs has two axes of length 1 before it |
| positions.table.weight | embeddings.position_embeddings | one row for the class token, then the patches row by row |
| embedding | embeddings.patch_embeddings.projection | theirs is a convolution whose stride is its width |
| blocks.0.attention.w_query | encoder.layer.0.attention.attention.query | the names in files; see `_PARTS` |
| around_attention.norm, around_feed_forward.norm | layernorm_before, layernorm_after | |
| norm | layernorm | after the last block |
| - | pooler.dense | a layer with tanh that classifiers do not have: left out |

Without `qkv_bias` the projections of query, key and value have biases of zero here, and are written with biases.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from heed.errors import ConfigError
from heed.exchange.huggingface.config_file import Settings
from heed.exchange.huggingface.family import Family, Vocabularies
from heed.exchange.huggingface.tensors import SAME, Entry, TensorFiles, entry, flattened, layer, leading, zeros
from heed.models.base import ModelConfig
from heed.models.vit import VitConfig

_PARTS = {
    "attention.attention.query": ("attention.q_proj", "attention.w_query"),
    "attention.attention.key": ("attention.k_proj", "attention.w_key"),
    "attention.attention.value": ("attention.v_proj", "attention.w_value"),
    "attention.output.dense": ("attention.o_proj", "attention.w_out"),
    "layernorm_before": ("layernorm_before", "around_attention.norm"),
    "layernorm_after": ("layernorm_after", "around_feed_forward.norm"),
    "intermediate.dense": ("mlp.fc1", "feed_forward.inner"),
    "output.dense": ("mlp.fc2", "feed_forward.outer"),
}
"""Layers of a block: name in files; name in memory since `transformers` 5, which files may also have; and ours."""
_PROJECTIONS = ("attention.w_query", "attention.w_key", "attention.w_value")
_EXPRESSED = {
    "pooling": ("class", "it classifies the state of a class token"),
    "positions": ("learned", "its positions are a learned table"),
    "stem": ("none", "it has one linear layer over patches"),
}


class VitFamily(Family):
    """ViT, DeiT without a distillation token, and the like: `model_type` is "vit"."""

    model_type = "vit"
    model = "vit"
    names: ClassVar = {
        "d_model": ("hidden_size", 768),
        "num_heads": ("num_attention_heads", 12),
        "num_layers": ("num_hidden_layers", 12),
        "d_ff": ("intermediate_size", 3072),
        "norm_eps": ("layer_norm_eps", 1e-12),
        "dropout": ("hidden_dropout_prob", 0.0),
        "attention_dropout": ("attention_probs_dropout_prob", 0.0),
    }
    prefix = "vit."
    head_names: ClassVar = ("classifier.",)
    architectures: ClassVar = {
        frozenset({"labels"}): "ViTForImageClassification",
        frozenset(): "ViTModel",
    }
    accepts: ClassVar = {"hidden_act": ("gelu",)}

    def guess(self, files: TensorFiles) -> str:
        return self.architectures[frozenset({"labels"} if "classifier.weight" in files else ())]

    def tokenizers(self, folder: Path, settings: Settings) -> Vocabularies:
        return {}

    def fields(self, settings: Settings, files: TensorFiles, heads: frozenset[str]) -> dict[str, Any]:
        return {
            "patch_size": _side(settings, "patch_size", 16),
            "stride": None,
            "stem": "none",
            "pooling": "class",
            "positions": "learned",
            **self.named_fields(settings),
        }

    def table(
        self,
        settings: Settings,
        body: ModelConfig,
        heads: frozenset[str],
        vocabularies: Vocabularies,
        tied: bool = True,
    ) -> Sequence[Entry]:
        assert isinstance(body, VitConfig)
        embeddings, projection = f"{self.prefix}embeddings", "patch_embeddings.projection"
        square = (body.num_channels, body.patch_size, body.patch_size)
        table = [
            entry(f"{embeddings}.cls_token", "body.class_vector", leading(2)),
            entry(f"{embeddings}.position_embeddings", "body.positions.table.weight", leading(1)),
            entry(f"{embeddings}.{projection}.weight", "body.embedding.weight", flattened(square)),
            entry(f"{embeddings}.{projection}.bias", "body.embedding.bias"),
        ]
        biased = settings.flag("qkv_bias", True)
        for i in range(body.num_layers):
            for in_files, (in_memory, ours) in _PARTS.items():
                parts = ["weight", "bias"]
                if ours in _PROJECTIONS and not biased:
                    table.append(entry((), f"body.blocks.{i}.{ours}.bias", zeros((body.d_model,))))
                    parts = ["weight"]
                table += [
                    entry(
                        f"{self.prefix}encoder.layer.{i}.{in_files}.{part}",
                        f"body.blocks.{i}.{ours}.{part}",
                        SAME,
                        also=(f"{self.prefix}layers.{i}.{in_memory}.{part}",),
                    )
                    for part in parts
                ]
        table += layer(f"{self.prefix}layernorm", "body.norm")
        return [*table, *(layer("classifier", "labels") if "labels" in heads else [])]

    def settings(self, body: ModelConfig, heads: frozenset[str], vocabularies: Vocabularies) -> dict[str, Any]:
        assert isinstance(body, VitConfig)
        for name, (value, why) in _EXPRESSED.items():
            if (own := getattr(body, name)) != value:
                raise ConfigError(f"vit cannot express model.{name}={own}: {why}")
        if body.stride not in (None, body.patch_size):
            raise ConfigError(f"vit cannot express model.stride={body.stride}: its patches do not overlap")
        same = body.height == body.width
        return {
            **self.named_settings(body),
            "hidden_act": "gelu",
            "image_size": body.height if same else [body.height, body.width],
            "patch_size": body.patch_size,
            "num_channels": body.num_channels,
            "qkv_bias": True,
            "initializer_range": 0.02,
        }


def _side(settings: Settings, name: str, default: int) -> int:
    """A length in pixels, equal in both directions."""
    value = settings.get(name, default)
    if isinstance(value, list) and len(value) == 2 and value[0] == value[1]:
        value = value[0]
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise settings.wrong(name, "a whole number of at least 1 (heed's patches are square)")
    return value
