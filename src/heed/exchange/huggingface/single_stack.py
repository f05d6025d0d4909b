"""Families of one stack of blocks and one tokenizer: BERT, RoBERTa and XLM-R, DistilBERT; GPT-2.

All but GPT-2 are our model `bert` with other fields:

| | segments | positions begin | between two texts | layer before a text's label |
|---|---|---|---|---|
| BERT | 2 | at 0 | [SEP] | `bert.pooler`, tanh |
| RoBERTa, XLM-R | 1 | after the padding token's id | `</s></s>` | `classifier.dense`, tanh |
| DistilBERT | none | at 0 | [SEP] | `pre_classifier`, relu |

GPT-2 is our model `gpt` with a table of positions, layer normalisation and biases. Its matrices are (in, out), and
queries, keys and values are one matrix (`c_attn`). The vocabulary's only special token ends texts and stands in for the
others. A classifier reads the last token's state by a matrix without a bias.

Source: Devlin et al. 2019 (arXiv:1810.04805), Liu et al. 2019 (arXiv:1907.11692), Conneau et al. 2020
(arXiv:1911.02116), Sanh et al. 2019 (arXiv:1910.01108), Radford et al. 2019 (docs/systems.md, C7); the names of their
published tensors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal

from pydantic import Field

from heed.exchange.huggingface.family import ACTIVATIONS, Family, HeadNames, Layout, Vocabularies, classes
from heed.exchange.huggingface.files import (
    TRANSPOSED,
    Count,
    Depth,
    Entry,
    Id,
    Share,
    TensorFiles,
    after,
    entry,
    first_of,
    joined,
    layer,
)
from heed.models.bert import BertConfig
from heed.models.gpt import BlocksConfig, GPTConfig

_BERT = {
    "body.inputs.embedding": "embeddings.word_embeddings",
    "body.positions.table": "embeddings.position_embeddings",
    "body.embedding_norm": "embeddings.LayerNorm",
    "body.segments": "embeddings.token_type_embeddings",
    "body.blocks.*.attention.w_query": "encoder.layer.*.attention.self.query",
    "body.blocks.*.attention.w_key": "encoder.layer.*.attention.self.key",
    "body.blocks.*.attention.w_value": "encoder.layer.*.attention.self.value",
    "body.blocks.*.attention.w_out": "encoder.layer.*.attention.output.dense",
    "body.blocks.*.around_attention.norm": "encoder.layer.*.attention.output.LayerNorm",
    "body.blocks.*.feed_forward.inner": "encoder.layer.*.intermediate.dense",
    "body.blocks.*.feed_forward.outer": "encoder.layer.*.output.dense",
    "body.blocks.*.around_feed_forward.norm": "encoder.layer.*.output.LayerNorm",
}


class _Encoder(Family):
    """What the families of this file share."""

    model: ClassVar = "bert"
    config_class: ClassVar = BertConfig
    activations: ClassVar = ACTIVATIONS
    head_of_words: ClassVar[str]  # the prefix of the head for masked words
    pooler: ClassVar[str]  # the layer that a text's label is read through, and its activation
    pooling: ClassVar = "tanh"
    ignored: ClassVar = (r"\.position_ids$", r"\.token_type_ids$")

    is_decoder: Literal[False] = False
    is_encoder_decoder: Literal[False] = False

    def pooler_of(self, heads: HeadNames) -> str:
        """The layer that a text's label is read through."""
        return self.pooler

    def further(self, layout: Layout) -> Sequence[Entry]:
        # With a tied matrix, the bias is a parameter of the head, otherwise of the head's output layer (`decoder`).
        names = (f"{self.head_of_words}.bias", f"{self.head_of_words}.decoder.bias")
        name, other = names if layout.tied else reversed(names)
        bias = entry(name, "words.output.bias", also=other, copied=not layout.tied)
        return [bias, *self.output(layout, "words.output.weight"), *layer(self.pooler_of(layout.heads), "body.pooler")]

    def derived(self, files: TensorFiles, heads: HeadNames) -> Mapping[str, Any]:
        return {"pooler": self.pooling if f"{self.pooler_of(heads)}.weight" in files else "none"}

    @classmethod
    def written(cls, body: BertConfig, heads: HeadNames, vocabularies: Vocabularies) -> Mapping[str, Any]:
        return {"pad_token_id": vocabularies["tokens"][0].special.padding}

    @classmethod
    def refuse(cls, body: BertConfig, heads: HeadNames) -> None:
        if body.pooler not in (cls.pooling, *(() if heads & {"labels", "order"} else ("none",))):
            why = f"a text's label is read off the state of the start token through a layer with {cls.pooling}"
            raise cls.lacks("pooler", body.pooler, f"{why}; use model.pooler={cls.pooling}")


class Bert(_Encoder):
    """BERT."""

    model_type: ClassVar = "bert"
    prefix: ClassVar = "bert."
    architectures: ClassVar = classes("Bert")
    layers: ClassVar = {
        **_BERT,
        "words.dense": "cls.predictions.transform.dense",
        "words.norm": "cls.predictions.transform.LayerNorm",
        "order": "cls.seq_relationship",
        "labels": "classifier",
        "tags": "classifier",
    }
    tied_names: ClassVar = ("bert.embeddings.word_embeddings.weight", "cls.predictions.decoder.weight")
    expresses: ClassVar = {"double_separator": (False, "it puts one [SEP] between two texts")}
    excludes: ClassVar = {"num_segments": (0, "it has at least one segment")}
    known_by: ClassVar = {"cls.predictions.bias": "words", "cls.seq_relationship.weight": "order"}
    head_names: ClassVar = ("cls.", "classifier.")
    head_of_words: ClassVar = "cls.predictions"
    pooler: ClassVar = "bert.pooler.dense"

    d_model: Count = Field(768, alias="hidden_size")
    num_heads: Count = Field(12, alias="num_attention_heads")
    num_layers: Depth = Field(12, alias="num_hidden_layers")
    d_ff: Count = Field(3072, alias="intermediate_size")
    norm_eps: Share = Field(1e-12, alias="layer_norm_eps")
    max_length: Count = Field(512, alias="max_position_embeddings")
    num_segments: Count = Field(2, alias="type_vocab_size")
    dropout: Share = Field(0.1, alias="hidden_dropout_prob")
    attention_dropout: Share = Field(0.1, alias="attention_probs_dropout_prob")
    activation: str = Field("gelu", alias="hidden_act", validate_default=True)
    position_embedding_type: Literal["absolute"] = "absolute"


class DistilBert(_Encoder):
    """DistilBERT."""

    model_type: ClassVar = "distilbert"
    prefix: ClassVar = "distilbert."
    architectures: ClassVar = classes("DistilBert", "order")
    layers: ClassVar = {
        "body.inputs.embedding": "embeddings.word_embeddings",
        "body.positions.table": "embeddings.position_embeddings",
        "body.embedding_norm": "embeddings.LayerNorm",
        "body.blocks.*.attention.w_query": "transformer.layer.*.attention.q_lin",
        "body.blocks.*.attention.w_key": "transformer.layer.*.attention.k_lin",
        "body.blocks.*.attention.w_value": "transformer.layer.*.attention.v_lin",
        "body.blocks.*.attention.w_out": "transformer.layer.*.attention.out_lin",
        "body.blocks.*.around_attention.norm": "transformer.layer.*.sa_layer_norm",
        "body.blocks.*.feed_forward.inner": "transformer.layer.*.ffn.lin1",
        "body.blocks.*.feed_forward.outer": "transformer.layer.*.ffn.lin2",
        "body.blocks.*.around_feed_forward.norm": "transformer.layer.*.output_layer_norm",
        "words.dense": "vocab_transform",
        "words.norm": "vocab_layer_norm",
        "labels": "classifier",
        "tags": "classifier",
    }
    tied_names: ClassVar = ("distilbert.embeddings.word_embeddings.weight", "vocab_projector.weight")
    expresses: ClassVar = {
        **Bert.expresses,
        "num_segments": (0, "it has no segments"),
        "norm_eps": (1e-12, "its value is 1e-12"),
    }
    known_by: ClassVar = {"vocab_projector.bias": "words"}
    head_names: ClassVar = ("vocab_", "pre_classifier.", "classifier.")
    pooler: ClassVar = "pre_classifier"
    pooling: ClassVar = "relu"

    d_model: Count = Field(768, alias="dim")
    num_heads: Count = Field(12, alias="n_heads")
    num_layers: Depth = Field(6, alias="n_layers")
    d_ff: Count = Field(3072, alias="hidden_dim")
    max_length: Count = Field(512, alias="max_position_embeddings")
    dropout: Share = 0.1
    attention_dropout: Share = 0.1
    activation: str = Field("gelu", validate_default=True)

    def further(self, layout: Layout) -> Sequence[Entry]:
        bias, pooler = entry("vocab_projector.bias", "words.output.bias"), layer(self.pooler, "body.pooler")
        return [bias, *self.output(layout, "words.output.weight"), *pooler]


class Roberta(Bert):
    """RoBERTa."""

    model_type: ClassVar = "roberta"
    prefix: ClassVar = "roberta."
    architectures: ClassVar = classes("Roberta", "order")
    layers: ClassVar = {
        **_BERT,
        "words.dense": "lm_head.dense",
        "words.norm": "lm_head.layer_norm",
        "labels": "classifier.out_proj",
        "tags": "classifier",
    }
    tied_names: ClassVar = ("roberta.embeddings.word_embeddings.weight", "lm_head.decoder.weight")
    expresses: ClassVar = {
        "num_segments": (1, "it has one segment"),
        "double_separator": (True, "it puts two </s> between two texts"),
    }
    known_by: ClassVar = {"lm_head.bias": "words"}
    head_names: ClassVar = ("lm_head.", "classifier.")
    head_of_words: ClassVar = "lm_head"

    pad_token_id: Id = 1

    def pooler_of(self, heads: HeadNames) -> str:
        return "classifier.dense" if "labels" in heads else "roberta.pooler.dense"

    def further(self, layout: Layout) -> Sequence[Entry]:
        positions, segments = (f"roberta.embeddings.{name}_embeddings.weight" for name in ("position", "token_type"))
        return [
            entry(positions, "body.positions.table.weight", after(self.pad_token_id + 1)),
            entry(segments, "body.segments.weight", first_of(self.num_segments)),
            *super().further(layout),
        ]

    def derived(self, files: TensorFiles, heads: HeadNames) -> Mapping[str, Any]:
        before = self.pad_token_id + 1
        if self.max_length <= before:
            raise self.wrong("max_position_embeddings", f"more than {before}: positions begin at {before}")
        if "words" in heads and self.activation != "gelu":
            what = "gelu, which its head for masked words has (heed's has that of the body), or a model without it"
            raise self.wrong("hidden_act", what)
        return {**super().derived(files, heads), "max_length": self.max_length - before}

    @classmethod
    def written(cls, body: BertConfig, heads: HeadNames, vocabularies: Vocabularies) -> Mapping[str, Any]:
        padding, _, start, end = vocabularies["tokens"][0].special
        more = {"pad_token_id": padding, "max_position_embeddings": body.max_length + padding + 1}
        return {**more, "bos_token_id": start, "eos_token_id": end}

    @classmethod
    def refuse(cls, body: BertConfig, heads: HeadNames) -> None:
        super().refuse(body, heads)
        if "words" in heads and body.activation != "gelu":
            raise cls.lacks("activation", body.activation, "its head for masked words uses gelu")


class XlmRoberta(Roberta):
    """RoBERTa with another tokenizer."""

    model_type: ClassVar = "xlm-roberta"
    architectures: ClassVar = classes("XLMRoberta", "order")


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

    def further(self, layout: Layout) -> Sequence[Entry]:
        lines = self.output(layout, "output.weight")
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
