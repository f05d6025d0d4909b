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
from heed.exchange.huggingface.family import Family, Vocabularies, Wanted
from heed.exchange.huggingface.files import (
    SAME,
    Entry,
    Settings,
    TensorFiles,
    Transform,
    after,
    entry,
    first_of,
    known,
    layer,
)
from heed.models.base import ModelConfig
from heed.models.bert import BertConfig

ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_python": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "gelu_python_tanh": "gelu_tanh",
    "gelu_fast": "gelu_tanh",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
}
"""Their activations and ours; several of their names are the same function."""
THEIR_ACTIVATION = {"gelu": "gelu", "gelu_tanh": "gelu_new", "relu": "relu", "silu": "silu"}
_NO_POOLER = "a text's label is read off the state of the start token through a layer; use model.pooler={pooler}"


class BertFamily(Family):
    """BERT."""

    model_type = "bert"
    model = "bert"
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
    prefix = "bert."
    head_names: ClassVar[tuple[str, ...]] = ("cls.", "classifier.")
    unguessed: ClassVar[tuple[str, ...]] = ("classifier.", "pre_classifier.")
    tied_names = ("bert.embeddings.word_embeddings.weight", "cls.predictions.decoder.weight")
    architectures: ClassVar = {
        frozenset(): "BertModel",
        frozenset({"words"}): "BertForMaskedLM",
        frozenset({"order"}): "BertForNextSentencePrediction",
        frozenset({"words", "order"}): "BertForPreTraining",
        frozenset({"labels"}): "BertForSequenceClassification",
        frozenset({"tags"}): "BertForTokenClassification",
    }
    accepts: ClassVar = {
        "position_embedding_type": ("absolute",),
        "is_decoder": (False,),
        "add_cross_attention": (False,),
        "is_encoder_decoder": (False,),
        "pruned_heads": ({},),
    }
    ignored = (r"\.position_ids$", r"\.token_type_ids$")
    activation: ClassVar[str] = "hidden_act"
    """The name of the field with the activation."""
    further_settings: ClassVar[Mapping[str, Any]] = {"position_embedding_type": "absolute"}
    """Fields of config.json that are the same for every model."""
    pooler: ClassVar[str] = "tanh"
    """The activation of the layer before a text's label."""
    first_of_words: ClassVar[str] = "cls.predictions.bias"
    """The tensor by which the head of masked words is known."""
    expresses: ClassVar = {"double_separator": (False, "it puts one [SEP] between two texts")}

    def fields(self, settings: Settings, files: TensorFiles, heads: frozenset[str]) -> dict[str, Any]:
        return {
            **self.named_fields(settings),
            "activation": settings.one_of(self.activation, ACTIVATIONS, "gelu"),
            "double_separator": False,
            "pooler": self.pooler if f"{self._pooler(heads)}.weight" in files else "none",
        }

    def _pooler(self, heads: frozenset[str]) -> str:
        return f"{self.prefix}pooler.dense"

    def guess(self, files: TensorFiles) -> str:
        words, order = self.first_of_words in files, "cls.seq_relationship.weight" in files
        found = frozenset([*(["words"] if words else []), *(["order"] if order else [])])
        return self.architectures[found]

    def table(self, wanted: Wanted) -> Sequence[Entry]:
        settings, body, heads, _, tied = wanted
        assert isinstance(body, BertConfig)
        table = [
            entry(f"{self.prefix}embeddings.word_embeddings.weight", "body.inputs.embedding.weight"),
            entry(
                f"{self.prefix}embeddings.position_embeddings.weight",
                "body.positions.table.weight",
                self._positions(settings),
            ),
            *layer(f"{self.prefix}embeddings.LayerNorm", "body.embedding_norm"),
        ]
        if body.num_segments:
            segments = self._segments(settings)
            table += [entry(f"{self.prefix}embeddings.token_type_embeddings.weight", "body.segments.weight", segments)]
        for i in range(body.num_layers):
            for theirs, ours in self._block().items():
                table += layer(f"{self.prefix}{self._layers}.{i}.{theirs}", f"body.blocks.{i}.{ours}")
        if body.pooler != "none":
            table += layer(self._pooler(heads), "body.pooler")
        for head in sorted(heads):
            table += self._head(head, tied)
        return table

    _layers: ClassVar[str] = "encoder.layer"

    def _block(self) -> dict[str, str]:
        """Linear layers and normalisations of a block: their name and ours."""
        return {
            "attention.self.query": "attention.w_query",
            "attention.self.key": "attention.w_key",
            "attention.self.value": "attention.w_value",
            "attention.output.dense": "attention.w_out",
            "attention.output.LayerNorm": "around_attention.norm",
            "intermediate.dense": "feed_forward.inner",
            "output.dense": "feed_forward.outer",
            "output.LayerNorm": "around_feed_forward.norm",
        }

    def _positions(self, settings: Settings) -> Transform:
        return SAME

    def _segments(self, settings: Settings) -> Transform:
        return SAME

    def _head(self, head: str, tied: bool) -> list[Entry]:
        if head == "order":
            return layer("cls.seq_relationship", "order")
        if head in ("labels", "tags"):
            return layer("classifier", head)
        inside = "cls.predictions.transform"
        return self._words((f"{inside}.dense", f"{inside}.LayerNorm", "cls.predictions"), tied)

    @staticmethod
    def _words(names: tuple[str, str, str], tied: bool) -> list[Entry]:
        """The head of masked words, from the names of its layer, its normalisation, and what holds its output."""
        dense, norm, output = names
        # Where the matrix is the table's, the bias is stored as the head's own; else as that of the output layer.
        own, other = f"{output}.bias", f"{output}.decoder.bias"
        lines = [*layer(dense, "words.dense"), *layer(norm, "words.norm")]
        if tied:
            also = (other, f"{output}.decoder.weight")
            return [*lines, entry(own, "words.output.bias", also=(other,)), known(also[1])]
        lines.append(entry(other, "words.output.bias", also=(own,), copied=True))
        return [*lines, entry(f"{output}.decoder.weight", "words.output.weight")]

    def settings(self, body: ModelConfig, heads: frozenset[str], vocabularies: Vocabularies) -> dict[str, Any]:
        assert isinstance(body, BertConfig)
        tokenizer = vocabularies["tokens"][0]
        return {
            "vocab_size": tokenizer.vocab_size,
            **self.named_settings(body),
            self.activation: THEIR_ACTIVATION[body.activation],
            "initializer_range": 0.02,
            **self.further_settings,
            "pad_token_id": tokenizer.special.padding,
        }

    def check(self, body: ModelConfig, heads: frozenset[str]) -> None:
        super().check(body, heads)
        assert isinstance(body, BertConfig)
        if heads & {"labels", "order"} and body.pooler != self.pooler:
            raise self.lacks("pooler", body.pooler, _NO_POOLER.format(pooler=self.pooler))
        if body.pooler not in (self.pooler, "none"):
            raise self.lacks("pooler", body.pooler, f"its pooler is {self.pooler}")
        if not body.num_segments and "num_segments" not in self.expresses:
            raise self.lacks("num_segments", 0, "it has at least one segment")


class DistilBertFamily(BertFamily):
    """DistilBERT."""

    model_type = "distilbert"
    names: ClassVar = {
        "d_model": ("dim", 768),
        "num_heads": ("n_heads", 12),
        "num_layers": ("n_layers", 6),
        "d_ff": ("hidden_dim", 3072),
        "max_length": ("max_position_embeddings", 512),
        "dropout": ("dropout", 0.1),
        "attention_dropout": ("attention_dropout", 0.1),
    }
    activation = "activation"
    further_settings: ClassVar = {"sinusoidal_pos_embds": False}
    prefix = "distilbert."
    head_names: ClassVar = ("vocab_", "pre_classifier.", "classifier.")
    tied_names = ("distilbert.embeddings.word_embeddings.weight", "vocab_projector.weight")
    architectures: ClassVar = {
        frozenset(): "DistilBertModel",
        frozenset({"words"}): "DistilBertForMaskedLM",
        frozenset({"labels"}): "DistilBertForSequenceClassification",
        frozenset({"tags"}): "DistilBertForTokenClassification",
    }
    first_of_words = "vocab_projector.bias"
    expresses: ClassVar = {
        **BertFamily.expresses,
        "num_segments": (0, "it has no segments"),
        "norm_eps": (1e-12, "its value is 1e-12"),
    }
    pooler = "relu"
    _layers = "transformer.layer"

    def fields(self, settings: Settings, files: TensorFiles, heads: frozenset[str]) -> dict[str, Any]:
        return {**super().fields(settings, files, heads), "norm_eps": 1e-12, "num_segments": 0}

    def _pooler(self, heads: frozenset[str]) -> str:
        return "pre_classifier"

    def _block(self) -> dict[str, str]:
        return {
            "attention.q_lin": "attention.w_query",
            "attention.k_lin": "attention.w_key",
            "attention.v_lin": "attention.w_value",
            "attention.out_lin": "attention.w_out",
            "sa_layer_norm": "around_attention.norm",
            "ffn.lin1": "feed_forward.inner",
            "ffn.lin2": "feed_forward.outer",
            "output_layer_norm": "around_feed_forward.norm",
        }

    def _head(self, head: str, tied: bool) -> list[Entry]:
        if head in ("labels", "tags"):
            return layer("classifier", head)
        lines = [*layer("vocab_transform", "words.dense"), *layer("vocab_layer_norm", "words.norm")]
        lines.append(entry("vocab_projector.bias", "words.output.bias"))
        matrix = "vocab_projector.weight"
        return [*lines, known(matrix) if tied else entry(matrix, "words.output.weight")]


class RobertaFamily(BertFamily):
    """RoBERTa."""

    model_type = "roberta"
    prefix = "roberta."
    head_names: ClassVar = ("lm_head.", "classifier.")
    tied_names = ("roberta.embeddings.word_embeddings.weight", "lm_head.decoder.weight")
    architectures: ClassVar = {
        frozenset(): "RobertaModel",
        frozenset({"words"}): "RobertaForMaskedLM",
        frozenset({"labels"}): "RobertaForSequenceClassification",
        frozenset({"tags"}): "RobertaForTokenClassification",
    }
    first_of_words = "lm_head.bias"
    expresses: ClassVar = {
        "num_segments": (1, "it has one segment"),
        "double_separator": (True, "it puts two </s> between two texts"),
    }

    def fields(self, settings: Settings, files: TensorFiles, heads: frozenset[str]) -> dict[str, Any]:
        before = _before(settings)
        rows = settings.count("max_position_embeddings", 512)
        if rows <= before:
            raise settings.wrong("max_position_embeddings", f"more than {before}: positions begin at {before}")
        if "words" in heads and (act := settings.one_of("hidden_act", ACTIVATIONS, "gelu")) != "gelu":
            raise ConfigError(
                f"{settings.path}: hidden_act is {act}, but its head for masked words uses gelu, and heed's uses that "
                "of the body; import the model without this head"
            )
        return {
            **super().fields(settings, files, heads),
            "max_length": rows - before,
            "num_segments": 1,
            "double_separator": True,
        }

    def _pooler(self, heads: frozenset[str]) -> str:
        return "classifier.dense" if "labels" in heads else f"{self.prefix}pooler.dense"

    def _positions(self, settings: Settings) -> Transform:
        return after(_before(settings))

    def _segments(self, settings: Settings) -> Transform:
        return first_of(settings.count("type_vocab_size", 2))

    def _head(self, head: str, tied: bool) -> list[Entry]:
        if head == "labels":
            return layer("classifier.out_proj", head)
        if head == "tags":
            return layer("classifier", head)
        return self._words(("lm_head.dense", "lm_head.layer_norm", "lm_head"), tied)

    def settings(self, body: ModelConfig, heads: frozenset[str], vocabularies: Vocabularies) -> dict[str, Any]:
        assert isinstance(body, BertConfig)
        values = super().settings(body, heads, vocabularies)
        special = vocabularies["tokens"][0].special
        return {
            **values,
            "max_position_embeddings": body.max_length + special.padding + 1,
            "type_vocab_size": 1,
            "bos_token_id": special.start,
            "eos_token_id": special.end,
        }

    def check(self, body: ModelConfig, heads: frozenset[str]) -> None:
        super().check(body, heads)
        if "words" in heads and (activation := getattr(body, "activation", "gelu")) != "gelu":
            raise self.lacks("activation", activation, "its head for masked words uses gelu")


class XlmRobertaFamily(RobertaFamily):
    """XLM-R: RoBERTa with another tokenizer."""

    model_type = "xlm-roberta"
    architectures: ClassVar = {heads: f"XLM{name}" for heads, name in RobertaFamily.architectures.items()}


def _before(settings: Settings) -> int:
    """The position of the first token."""
    return settings.count("pad_token_id", 1, least=0) + 1
