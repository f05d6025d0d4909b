"""GPT-2: our model `gpt` with a table of positions, layer normalisation and biases.

Its matrices are (in, out), and queries, keys and values are one matrix (`c_attn`). The vocabulary's only special token
ends texts and stands in for the others. A classifier reads the last token's state by a matrix without a
bias.

Source: Radford et al. 2019 (docs/systems.md, C7); the names of its published tensors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from pydantic import Field

from heed.exchange.huggingface.family import ACTIVATIONS, Family, HeadNames, Vocabularies, Wanted, classes
from heed.exchange.huggingface.files import TRANSPOSED, Count, Depth, Entry, Share, entry, joined
from heed.models.gpt import BlocksConfig, GPTConfig

_OURS = {"gelu": "gelu_exact", "gelu_tanh": "gelu"}
"""Activations whose names in `gpt` differ from those in `bert`."""


class Gpt2(Family):
    """GPT-2."""

    model_type: ClassVar = "gpt2"
    model: ClassVar = "gpt"
    config_class: ClassVar = GPTConfig
    prefix: ClassVar = "transformer."
    architectures: ClassVar = {**classes("GPT2", "words", "order"), frozenset({"output"}): "GPT2LMHeadModel"}
    layers: ClassVar = {
        "body.embedding": "wte",
        "body.inputs.embedding": "wte",  # of an encoder
        "body.positions.table": "wpe",
        "body.blocks.*.around_attention.norm": "h.*.ln_1",
        "body.blocks.*.around_feed_forward.norm": "h.*.ln_2",
        "body.blocks.*.attention.w_out": ("h.*.attn.c_proj", TRANSPOSED),
        "body.blocks.*.feed_forward.inner": ("h.*.mlp.c_fc", TRANSPOSED),
        "body.blocks.*.feed_forward.outer": ("h.*.mlp.c_proj", TRANSPOSED),
        "body.norm": "ln_f",
        "labels": "score",
        "tags": "classifier",
    }
    tied_names: ClassVar = ("transformer.wte.weight", "lm_head.weight")
    activations: ClassVar = {theirs: _OURS.get(ours, ours) for theirs, ours in ACTIVATIONS.items()}
    expresses: ClassVar = {
        "positions": ("learned", "it has a table of positions"),
        "norm": ("layer", "it has layer normalisation"),
        "bias": (True, "its layers have biases"),
    }
    head_names: ClassVar = ("lm_head.", "score.", "classifier.")
    label_bias: ClassVar = False
    ignored: ClassVar = (r"\.attn\.(masked_)?bias$",)

    d_model: Count = Field(768, alias="n_embd")
    num_heads: Count = Field(12, alias="n_head")
    num_layers: Depth = Field(12, alias="n_layer")
    d_ff: Count | None = Field(None, alias="n_inner")
    max_length: Count = Field(1024, alias="n_positions")
    norm_eps: Share = Field(1e-5, alias="layer_norm_epsilon")
    dropout: Share = Field(0.1, alias="resid_pdrop")
    attention_dropout: Share = Field(0.1, alias="attn_pdrop")
    activation: str = Field("gelu_new", alias="activation_function", validate_default=True)
    scale_attn_weights: Literal[True] = True
    scale_attn_by_inverse_layer_idx: Literal[False] = False
    reorder_and_upcast_attn: Literal[False] = False
    is_encoder_decoder: Literal[False] = False

    def further(self, wanted: Wanted) -> Sequence[Entry]:
        lines = self.output(wanted, "output.weight")
        for part in ("weight", "bias"):
            ours = " ".join(f"body.blocks.*.attention.w_{name}.{part}" for name in ("query", "key", "value"))
            lines.append(entry(f"transformer.h.*.attn.c_attn.{part}", ours, joined(3)))
        return lines

    @classmethod
    def written(cls, body: BlocksConfig, heads: HeadNames, vocabularies: Vocabularies) -> Mapping[str, Any]:
        padding, _, start, end = vocabularies["tokens"][0].special
        # GPT-2 classifiers find a text's last token by the padding after it.
        padded = padding != end or heads & {"labels", "tags"}
        return {
            "n_inner": None if body.inner_width == 4 * body.d_model else body.inner_width,
            "embd_pdrop": body.dropout,
            "bos_token_id": start,
            "eos_token_id": end,
            "pad_token_id": padding if padded else None,
        }
