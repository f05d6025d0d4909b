"""GPT-2: our model `gpt` with a table of positions, layer normalisation and biases.

Its matrices are (in, out), and queries, keys and values are one matrix (`c_attn`). The vocabulary's only special token
ends texts and stands in for the others. A classifier reads the last token's state by a matrix without a
bias.

Source: Radford et al. 2019 (docs/systems.md, C7); the names of its published tensors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from heed.exchange.huggingface.family import ACTIVATIONS, Family, HeadNames, Vocabularies, Wanted, classes
from heed.exchange.huggingface.files import TRANSPOSED, Entry, entry, joined
from heed.models.gpt import BlocksConfig

_OURS = {"gelu": "gelu_exact", "gelu_tanh": "gelu"}
"""Activations whose names in `gpt` differ from those in `bert`."""
_COMPUTED = {
    "scale_attn_weights": True,
    "scale_attn_by_inverse_layer_idx": False,
    "reorder_and_upcast_attn": False,
}
"""Fields about computation, with the values that heed's has."""


class Gpt2(Family):
    """GPT-2."""

    model_type = "gpt2"
    model = "gpt"
    prefix = "transformer."
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
    architectures: ClassVar = {**classes("GPT2", "words", "order"), frozenset({"output"}): "GPT2LMHeadModel"}
    layers: ClassVar = {
        "body.embedding": "transformer.wte",
        "body.inputs.embedding": "transformer.wte",  # of an encoder
        "body.positions.table": "transformer.wpe",
        "body.blocks.*.around_attention.norm": "transformer.h.*.ln_1",
        "body.blocks.*.around_feed_forward.norm": "transformer.h.*.ln_2",
        "body.blocks.*.attention.w_out": ("transformer.h.*.attn.c_proj", TRANSPOSED),
        "body.blocks.*.feed_forward.inner": ("transformer.h.*.mlp.c_fc", TRANSPOSED),
        "body.blocks.*.feed_forward.outer": ("transformer.h.*.mlp.c_proj", TRANSPOSED),
        "body.norm": "transformer.ln_f",
        "labels": "score",
        "tags": "classifier",
    }
    tied_names = ("transformer.wte.weight", "lm_head.weight")
    constants: ClassVar = _COMPUTED
    accepts: ClassVar = {**_COMPUTED, "is_encoder_decoder": False}
    activation = ("activation_function", "gelu_new")
    activations: ClassVar = {theirs: _OURS.get(ours, ours) for theirs, ours in ACTIVATIONS.items()}
    expresses: ClassVar = {
        "positions": ("learned", "it has a table of positions"),
        "norm": ("layer", "it has layer normalisation"),
        "bias": (True, "its layers have biases"),
    }
    known_by: ClassVar = {"score.weight": "labels", "classifier.weight": "tags"}
    otherwise = frozenset({"output"})
    head_names = ("lm_head.", "score.", "classifier.")
    label_bias = False
    ignored = (r"\.attn\.(masked_)?bias$",)

    def further(self, wanted: Wanted) -> Sequence[Entry]:
        ours = [f"body.blocks.*.attention.w_{name}" for name in ("query", "key", "value")]
        return [
            *(
                entry(f"transformer.h.*.attn.c_attn.{part}", " ".join(f"{name}.{part}" for name in ours), joined(3))
                for part in ("weight", "bias")
            ),
            *self.output(wanted, "output.weight"),
        ]

    def written(self, body: BlocksConfig, heads: HeadNames, vocabularies: Vocabularies) -> Mapping[str, Any]:
        tokenizer, _ = vocabularies["tokens"]
        padding, _, start, end = tokenizer.special
        # GPT-2 classifiers find a text's last token by the padding after it.
        padded = padding != end or heads & {"labels", "tags"}
        return {
            "vocab_size": tokenizer.vocab_size,
            "n_inner": None if body.inner_width == 4 * body.d_model else body.inner_width,
            "embd_pdrop": body.dropout,
            "bos_token_id": start,
            "eos_token_id": end,
            "pad_token_id": padding if padded else None,
        }
