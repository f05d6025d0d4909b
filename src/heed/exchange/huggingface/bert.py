"""BERT, RoBERTa and XLM-R, DistilBERT: all are our model `bert` with other fields.

| | segments | positions begin | between two texts | layer before a text's label |
|---|---|---|---|---|
| BERT | 2 | at 0 | [SEP] | `bert.pooler`, tanh |
| RoBERTa, XLM-R | 1 | after the padding token's id | `</s></s>` | `classifier.dense`, tanh |
| DistilBERT | none | at 0 | [SEP] | `pre_classifier`, relu |

Source: Devlin et al. 2019 (arXiv:1810.04805), Liu et al. 2019 (arXiv:1907.11692), Conneau et al. 2020
(arXiv:1911.02116), Sanh et al. 2019 (arXiv:1910.01108); the names of their published tensors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from heed.errors import ConfigError
from heed.exchange.huggingface.family import ACTIVATIONS, Family, HeadNames, Vocabularies, Wanted, classes
from heed.exchange.huggingface.files import Entry, Settings, TensorFiles, after, entry, first_of, layer
from heed.models.bert import BertConfig


def _encoder(prefix: str, blocks: str, *theirs: str) -> dict[str, str]:
    """The layers of a body, ours and theirs; `theirs` are those of a block, in the order of `_BLOCK`."""
    return {
        "body.inputs.embedding": f"{prefix}embeddings.word_embeddings",
        "body.positions.table": f"{prefix}embeddings.position_embeddings",
        "body.embedding_norm": f"{prefix}embeddings.LayerNorm",
        "body.segments": f"{prefix}embeddings.token_type_embeddings",
        **{f"body.blocks.*.{ours}": f"{prefix}{blocks}.*.{name}" for ours, name in zip(_BLOCK, theirs, strict=True)},
    }


_BLOCK = (
    "attention.w_query",
    "attention.w_key",
    "attention.w_value",
    "attention.w_out",
    "around_attention.norm",
    "feed_forward.inner",
    "feed_forward.outer",
    "around_feed_forward.norm",
)
_THEIRS = (
    "attention.self.query",
    "attention.self.key",
    "attention.self.value",
    "attention.output.dense",
    "attention.output.LayerNorm",
    "intermediate.dense",
    "output.dense",
    "output.LayerNorm",
)


class Bert(Family):
    """BERT."""

    model_type = "bert"
    model = "bert"
    prefix = "bert."
    names: ClassVar = {
        "d_model": ("hidden_size", 768),
        "num_heads": ("num_attention_heads", 12),
        "num_layers": ("num_hidden_layers", 12),
        "d_ff": ("intermediate_size", 3072),
        "norm_eps": ("layer_norm_eps", 1e-12),
        "max_length": ("max_position_embeddings", 512),
        "num_segments": ("type_vocab_size", 2),
        "dropout": ("hidden_dropout_prob", 0.1),
        "attention_dropout": ("attention_probs_dropout_prob", 0.1),
    }
    architectures: ClassVar = classes("Bert")
    layers: ClassVar = {
        **_encoder("bert.", "encoder.layer", *_THEIRS),
        "body.pooler": "bert.pooler.dense",
        "words.dense": "cls.predictions.transform.dense",
        "words.norm": "cls.predictions.transform.LayerNorm",
        "order": "cls.seq_relationship",
        "labels": "classifier",
        "tags": "classifier",
    }
    tied_names = ("bert.embeddings.word_embeddings.weight", "cls.predictions.decoder.weight")
    constants: ClassVar = {"initializer_range": 0.02, "position_embedding_type": "absolute"}
    accepts: ClassVar = {"position_embedding_type": "absolute", "is_decoder": False, "is_encoder_decoder": False}
    activation = ("hidden_act", "gelu")
    expresses: ClassVar = {"double_separator": (False, "it puts one [SEP] between two texts")}
    known_by: ClassVar = {"cls.predictions.bias": "words", "cls.seq_relationship.weight": "order"}
    head_names: tuple[str, ...] = ("cls.", "classifier.")
    unguessed = ("classifier.", "pre_classifier.")
    ignored = (r"\.position_ids$", r"\.token_type_ids$")
    words = "cls.predictions"  # the head for masked words
    pooling = "tanh"  # activation of the layer that a text's label is read through

    def pooler(self, heads: HeadNames) -> str:
        """The layer that a text's label is read through."""
        return str(self.layers["body.pooler"])

    def further(self, wanted: Wanted) -> Sequence[Entry]:
        # Where the matrix is the table's, the bias is stored as the head's own; else as that of the output layer.
        names = (f"{self.words}.bias", f"{self.words}.decoder.bias")
        name, other = names if wanted.tied else reversed(names)
        bias = entry(name, "words.output.bias", also=other, copied=not wanted.tied)
        return [bias, *self.output(wanted, "words.output.weight")]

    def derived(self, settings: Settings, files: TensorFiles, heads: HeadNames) -> Mapping[str, Any]:
        return {"pooler": self.pooling if f"{self.pooler(heads)}.weight" in files else "none"}

    def written(self, body: BertConfig, heads: HeadNames, vocabularies: Vocabularies) -> Mapping[str, Any]:
        tokenizer, _ = vocabularies["tokens"]
        return {"vocab_size": tokenizer.vocab_size, "pad_token_id": tokenizer.special.padding}

    def refuse(self, body: BertConfig, heads: HeadNames) -> None:
        if heads & {"labels", "order"} and body.pooler != self.pooling:
            layer = "a text's label is read off the state of the start token through a layer"
            raise self.lacks("pooler", body.pooler, f"{layer}; use model.pooler={self.pooling}")
        if body.pooler not in (self.pooling, "none"):
            raise self.lacks("pooler", body.pooler, f"its pooler is {self.pooling}")
        if not body.num_segments and "num_segments" not in self.expresses:
            raise self.lacks("num_segments", 0, "it has at least one segment")


class DistilBert(Bert):
    """DistilBERT."""

    model_type = "distilbert"
    prefix = "distilbert."
    names: ClassVar = {
        "d_model": ("dim", 768),
        "num_heads": ("n_heads", 12),
        "num_layers": ("n_layers", 6),
        "d_ff": ("hidden_dim", 3072),
        "max_length": ("max_position_embeddings", 512),
        "dropout": ("dropout", 0.1),
        "attention_dropout": ("attention_dropout", 0.1),
    }
    architectures: ClassVar = classes("DistilBert", "order")
    layers: ClassVar = {
        **_encoder(
            "distilbert.",
            "transformer.layer",
            *(f"attention.{name}_lin" for name in ("q", "k", "v", "out")),
            "sa_layer_norm",
            "ffn.lin1",
            "ffn.lin2",
            "output_layer_norm",
        ),
        "body.pooler": "pre_classifier",
        "words.dense": "vocab_transform",
        "words.norm": "vocab_layer_norm",
        "labels": "classifier",
        "tags": "classifier",
    }
    tied_names = ("distilbert.embeddings.word_embeddings.weight", "vocab_projector.weight")
    constants: ClassVar = {"initializer_range": 0.02, "sinusoidal_pos_embds": False}
    activation = ("activation", "gelu")
    expresses: ClassVar = {
        **Bert.expresses,
        "num_segments": (0, "it has no segments"),
        "norm_eps": (1e-12, "its value is 1e-12"),
    }
    known_by: ClassVar = {"vocab_projector.bias": "words"}
    head_names = ("vocab_", "pre_classifier.", "classifier.")
    pooling = "relu"

    def further(self, wanted: Wanted) -> Sequence[Entry]:
        bias = entry("vocab_projector.bias", "words.output.bias")
        return [bias, *self.output(wanted, "words.output.weight")]


class Roberta(Bert):
    """RoBERTa."""

    model_type = "roberta"
    prefix = "roberta."
    architectures: ClassVar = classes("Roberta", "order")
    layers: ClassVar = {
        **_encoder("roberta.", "encoder.layer", *_THEIRS),
        "words.dense": "lm_head.dense",
        "words.norm": "lm_head.layer_norm",
        "labels": "classifier.out_proj",
        "tags": "classifier",
    }
    tied_names = ("roberta.embeddings.word_embeddings.weight", "lm_head.decoder.weight")
    expresses: ClassVar = {
        "num_segments": (1, "it has one segment"),
        "double_separator": (True, "it puts two </s> between two texts"),
    }
    known_by: ClassVar = {"lm_head.bias": "words"}
    head_names = ("lm_head.", "classifier.")
    words = "lm_head"

    def pooler(self, heads: HeadNames) -> str:
        return "classifier.dense" if "labels" in heads else "roberta.pooler.dense"

    def _before(self, settings: Settings) -> int:
        """The position of the first token."""
        return settings.count("pad_token_id", 1, least=0) + 1

    def further(self, wanted: Wanted) -> Sequence[Entry]:
        positions, segments = (f"roberta.embeddings.{name}_embeddings.weight" for name in ("position", "token_type"))
        return [
            entry(positions, "body.positions.table.weight", after(self._before(wanted.settings))),
            entry(segments, "body.segments.weight", first_of(wanted.settings.count("type_vocab_size", 2))),
            *layer(self.pooler(wanted.heads), "body.pooler"),
            *super().further(wanted),
        ]

    def derived(self, settings: Settings, files: TensorFiles, heads: HeadNames) -> Mapping[str, Any]:
        before, rows = self._before(settings), settings.count("max_position_embeddings", 512)
        if rows <= before:
            raise settings.wrong("max_position_embeddings", f"more than {before}: positions begin at {before}")
        if "words" in heads and (act := settings.one_of("hidden_act", ACTIVATIONS, "gelu")) != "gelu":
            raise ConfigError(
                f"{settings.path}: hidden_act is {act}, but its head for masked words uses gelu, and heed's uses that "
                "of the body; import the model without this head"
            )
        return {**super().derived(settings, files, heads), "max_length": rows - before}

    def written(self, body: BertConfig, heads: HeadNames, vocabularies: Vocabularies) -> Mapping[str, Any]:
        special = vocabularies["tokens"][0].special
        return {
            **super().written(body, heads, vocabularies),
            "max_position_embeddings": body.max_length + special.padding + 1,
            "bos_token_id": special.start,
            "eos_token_id": special.end,
        }

    def refuse(self, body: BertConfig, heads: HeadNames) -> None:
        super().refuse(body, heads)
        if "words" in heads and body.activation != "gelu":
            raise self.lacks("activation", body.activation, "its head for masked words uses gelu")


class XlmRoberta(Roberta):
    """RoBERTa with another tokenizer."""

    model_type = "xlm-roberta"
    architectures: ClassVar = classes("XLMRoberta", "order")
