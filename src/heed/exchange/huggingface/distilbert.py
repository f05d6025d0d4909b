"""DistilBERT: our model `bert` with other fields (the table in `bert.py`).

Source: Sanh et al. 2019 (arXiv:1910.01108); the names of its published tensors.
"""

from __future__ import annotations

from typing import Any, ClassVar

from heed.exchange.huggingface.bert import ACTIVATIONS, BertFamily
from heed.exchange.huggingface.config_file import Settings
from heed.exchange.huggingface.family import Vocabularies
from heed.exchange.huggingface.table import Entry, entry, known, layer
from heed.exchange.huggingface.tensors import TensorFiles
from heed.exchange.huggingface.transforms import NEVER, Rows
from heed.models.base import ModelConfig
from heed.models.bert import BertConfig


class DistilBertFamily(BertFamily):
    """DistilBERT."""

    model_type = "distilbert"
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
    pooler = "relu"
    _layers = "transformer.layer"

    def fields(self, settings: Settings, files: TensorFiles, heads: frozenset[str]) -> dict[str, Any]:
        """Fields of `bert`, which have other names here."""
        return {
            "d_model": settings.count("dim", 768),
            "num_heads": settings.count("n_heads", 12),
            "num_layers": settings.count("n_layers", 6),
            "d_ff": settings.count("hidden_dim", 3072),
            "activation": settings.one_of("activation", ACTIVATIONS, "gelu"),
            "norm_eps": 1e-12,
            "max_length": settings.count("max_position_embeddings", 512),
            "num_segments": 0,
            "double_separator": False,
            "pooler": self.pooler if self._pooler_name(files) else "none",
            "dropout": settings.number("dropout", 0.1),
            "attention_dropout": settings.number("attention_dropout", 0.1),
        }

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

    def _head(self, head: str, vocabularies: Vocabularies, tied: bool) -> list[Entry]:
        if head in ("labels", "tags"):
            return layer("classifier", head)
        numbering = vocabularies["tokens"][1]
        lines = [*layer("vocab_transform", "words.dense"), *layer("vocab_layer_norm", "words.norm")]
        lines.append(entry("vocab_projector.bias", "words.output.bias", Rows(numbering, NEVER)))
        matrix = "vocab_projector.weight"
        return [*lines, known(matrix) if tied else entry(matrix, "words.output.weight", Rows(numbering))]

    def settings(self, body: ModelConfig, heads: frozenset[str], vocabularies: Vocabularies) -> dict[str, Any]:
        """Fields of config.json."""
        assert isinstance(body, BertConfig)
        values = super().settings(body, heads, vocabularies)
        return {
            "vocab_size": values["vocab_size"],
            "dim": body.d_model,
            "n_heads": body.num_heads,
            "n_layers": body.num_layers,
            "hidden_dim": body.d_ff,
            "activation": values["hidden_act"],
            "max_position_embeddings": body.max_length,
            "sinusoidal_pos_embds": False,
            "dropout": body.dropout,
            "attention_dropout": values["attention_probs_dropout_prob"],
            "initializer_range": 0.02,
            "pad_token_id": values["pad_token_id"],
        }

    def _check(self, body: BertConfig, heads: frozenset[str]) -> None:
        if body.num_segments:
            raise self.lacks("num_segments", body.num_segments, "it has no segments")
        if body.norm_eps != 1e-12:
            raise self.lacks("norm_eps", body.norm_eps, "its value is 1e-12")
        super()._check(body.model_copy(update={"num_segments": 1}), heads)
