"""GPT-2: our model `gpt` with a table of positions, layer normalisation and biases.

Its matrices are (in, out), and queries, keys and values are one matrix (`c_attn`). The vocabulary's only special token
ends texts and stands in for the others. A classifier reads the last token's state by a matrix without a
bias.

Source: Radford et al. 2019 (docs/systems.md, C7); the names of its published tensors.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from heed.exchange.huggingface.bert import ACTIVATIONS
from heed.exchange.huggingface.family import Family, Vocabularies, Wanted
from heed.exchange.huggingface.files import TRANSPOSED, Entry, Settings, TensorFiles, entry, joined, layer
from heed.models.base import ModelConfig
from heed.models.gpt import BlocksConfig, GPTConfig

_OURS = {"gelu": "gelu_exact", "gelu_tanh": "gelu"}
"""Activations whose names in `gpt` differ from those in `bert`."""
_ACTIVATIONS = {theirs: _OURS.get(ours, ours) for theirs, ours in ACTIVATIONS.items()}
_THEIR_ACTIVATION = {"gelu": "gelu_new", "gelu_exact": "gelu", "relu": "relu", "silu": "silu"}


class Gpt2Family(Family):
    """GPT-2."""

    model_type = "gpt2"
    model = "gpt"
    names: ClassVar = {
        "d_model": ("n_embd", 768),
        "num_heads": ("n_head", 12),
        "num_layers": ("n_layer", 12),
        "d_ff": ("n_inner", None),
        "max_length": ("n_positions", 1024),
        "norm_eps": ("layer_norm_epsilon", 1e-5),
        "dropout": ("resid_pdrop", 0.1),
        "attention_dropout": ("attn_pdrop", 0.1),
    }
    prefix = "transformer."
    head_names: ClassVar = ("lm_head.", "score.", "classifier.")
    architectures: ClassVar = {
        frozenset(): "GPT2Model",
        frozenset({"output"}): "GPT2LMHeadModel",
        frozenset({"labels"}): "GPT2ForSequenceClassification",
        frozenset({"tags"}): "GPT2ForTokenClassification",
    }
    accepts: ClassVar = {
        "scale_attn_weights": (True,),
        "scale_attn_by_inverse_layer_idx": (False,),
        "reorder_and_upcast_attn": (False,),
        "add_cross_attention": (False,),
        "is_encoder_decoder": (False,),
        "pruned_heads": ({},),
    }
    label_bias = False
    ignored = (r"\.attn\.(masked_)?bias$",)
    expresses: ClassVar = {
        "positions": ("learned", "it has a table of positions"),
        "norm": ("layer", "it has layer normalisation"),
        "bias": (True, "its layers have biases"),
    }

    def fields(self, settings: Settings, files: TensorFiles, heads: frozenset[str]) -> dict[str, Any]:
        return {
            **self.named_fields(settings),
            "positions": "learned",
            "norm": "layer",
            "activation": settings.one_of("activation_function", _ACTIVATIONS, "gelu_new"),
            "bias": True,
        }

    def guess(self, files: TensorFiles) -> str:
        heads = {"score.weight": "labels", "classifier.weight": "tags"}
        found = [head for name, head in heads.items() if name in files]
        return self.architectures[frozenset(found or ["output"])]

    def table(self, wanted: Wanted) -> Sequence[Entry]:
        _, body, heads, _, tied = wanted
        assert isinstance(body, BlocksConfig)
        embedding = "body.embedding.weight" if isinstance(body, GPTConfig) else "body.inputs.embedding.weight"
        table = [
            entry(f"{self.prefix}wte.weight", embedding),
            entry(f"{self.prefix}wpe.weight", "body.positions.table.weight"),
        ]
        for i in range(body.num_layers):
            table += self._block(f"{self.prefix}h.{i}", f"body.blocks.{i}")
        table += layer(f"{self.prefix}ln_f", "body.norm")
        if "labels" in heads:
            table.append(entry("score.weight", "labels.weight"))
        if "tags" in heads:
            table += layer("classifier", "tags")
        if "output" in heads:
            matrix = "lm_head.weight"
            table.append(Entry((matrix,), ()) if tied else entry(matrix, "output.weight"))
        return table

    @staticmethod
    def _block(theirs: str, ours: str) -> list[Entry]:
        attention = [f"{ours}.attention.w_{name}" for name in ("query", "key", "value")]
        lines = [
            *layer(f"{theirs}.ln_1", f"{ours}.around_attention.norm"),
            entry(f"{theirs}.attn.c_attn.weight", [f"{name}.weight" for name in attention], joined(3, 1, True)),
            entry(f"{theirs}.attn.c_attn.bias", [f"{name}.bias" for name in attention], joined(3, 0)),
            *layer(f"{theirs}.ln_2", f"{ours}.around_feed_forward.norm"),
        ]
        for name, own in {
            "attn.c_proj": "attention.w_out",
            "mlp.c_fc": "feed_forward.inner",
            "mlp.c_proj": "feed_forward.outer",
        }.items():
            lines += [
                entry(f"{theirs}.{name}.{part}", f"{ours}.{own}.{part}", TRANSPOSED) for part in ("weight", "bias")
            ]
        return lines

    def settings(self, body: ModelConfig, heads: frozenset[str], vocabularies: Vocabularies) -> dict[str, Any]:
        assert isinstance(body, BlocksConfig)
        tokenizer = vocabularies["tokens"][0]
        padding, _, start, end = tokenizer.special
        # GPT-2 classifiers find a text's last token by the padding after it.
        padded = padding != end or heads & {"labels", "tags"}
        return {
            "vocab_size": tokenizer.vocab_size,
            **self.named_settings(body),
            "n_inner": None if body.inner_width == 4 * body.d_model else body.inner_width,
            "activation_function": _THEIR_ACTIVATION[body.activation],
            "embd_pdrop": body.dropout,
            "scale_attn_weights": True,
            "scale_attn_by_inverse_layer_idx": False,
            "reorder_and_upcast_attn": False,
            "bos_token_id": start,
            "eos_token_id": end,
            "pad_token_id": padding if padded else None,
        }

    def check(self, body: ModelConfig, heads: frozenset[str]) -> None:
        super().check(body, heads)
        assert isinstance(body, BlocksConfig)
        if body.activation not in _THEIR_ACTIVATION:
            known = " or ".join(_THEIR_ACTIVATION)
            raise self.lacks("activation", body.activation, f"its feed-forward networks have no gate; use {known}")
