"""RoBERTa and XLM-R: our model `bert` with other fields (the table in `bert.py`).

Source: Liu et al. 2019 (arXiv:1907.11692), Conneau et al. 2020 (arXiv:1911.02116); the names of their tensors.
"""

from __future__ import annotations

from typing import Any, ClassVar

from heed.data.tokens.tokenizer import END, PADDING, START
from heed.errors import ConfigError
from heed.exchange.huggingface.bert import ACTIVATIONS, BertFamily
from heed.exchange.huggingface.config_file import Settings
from heed.exchange.huggingface.family import Vocabularies
from heed.exchange.huggingface.table import Entry, layer
from heed.exchange.huggingface.tensors import TensorFiles
from heed.exchange.huggingface.transforms import After, First, Transform
from heed.models.base import ModelConfig
from heed.models.bert import BertConfig


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

    def fields(self, settings: Settings, files: TensorFiles, heads: frozenset[str]) -> dict[str, Any]:
        """Fields of `bert`: positions begin after the padding token's id, and one segment is used."""
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
        return After(_before(settings))

    def _segments(self, settings: Settings) -> Transform:
        return First(settings.count("type_vocab_size", 2))

    def _head(self, head: str, vocabularies: Vocabularies, tied: bool) -> list[Entry]:
        if head == "labels":
            return layer("classifier.out_proj", head)
        if head == "tags":
            return layer("classifier", head)
        return self._words(("lm_head.dense", "lm_head.layer_norm", "lm_head"), vocabularies, tied)

    def settings(self, body: ModelConfig, heads: frozenset[str], vocabularies: Vocabularies) -> dict[str, Any]:
        """Fields of config.json."""
        assert isinstance(body, BertConfig)
        values = super().settings(body, heads, vocabularies)
        theirs = vocabularies["tokens"][1].theirs
        before = (theirs[PADDING] or 0) + 1
        return {
            **values,
            "max_position_embeddings": body.max_length + before,
            "type_vocab_size": 1,
            "bos_token_id": theirs[START],
            "eos_token_id": theirs[END],
        }

    def _check(self, body: BertConfig, heads: frozenset[str]) -> None:
        if body.num_segments != 1:
            raise self.lacks("num_segments", body.num_segments, "it has one segment")
        if not body.double_separator:
            raise self.lacks("double_separator", False, "it puts two </s> between two texts")
        if "words" in heads and body.activation != "gelu":
            raise self.lacks("activation", body.activation, "its head for masked words uses gelu")
        super()._check(body.model_copy(update={"double_separator": False}), heads)


class XlmRobertaFamily(RobertaFamily):
    """XLM-R: RoBERTa with another tokenizer."""

    model_type = "xlm-roberta"
    architectures: ClassVar = {heads: f"XLM{name}" for heads, name in RobertaFamily.architectures.items()}


def _before(settings: Settings) -> int:
    """The position of the first token."""
    return settings.count("pad_token_id", 1, least=0) + 1
