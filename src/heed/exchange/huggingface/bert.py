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

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from heed.errors import ConfigError
from heed.exchange.huggingface.family import ACTIVATIONS, Family, HeadNames, Vocabularies, Wanted
from heed.exchange.huggingface.files import Entry, Settings, TensorFiles, after, entry, first_of, known, layer
from heed.models.bert import BertConfig

_BLOCK = {
    "attention.w_query": "attention.self.query",
    "attention.w_key": "attention.self.key",
    "attention.w_value": "attention.self.value",
    "attention.w_out": "attention.output.dense",
    "around_attention.norm": "attention.output.LayerNorm",
    "feed_forward.inner": "intermediate.dense",
    "feed_forward.outer": "output.dense",
    "around_feed_forward.norm": "output.LayerNorm",
}
_DISTIL_BLOCK = {
    "attention.w_query": "attention.q_lin",
    "attention.w_key": "attention.k_lin",
    "attention.w_value": "attention.v_lin",
    "attention.w_out": "attention.out_lin",
    "around_attention.norm": "sa_layer_norm",
    "feed_forward.inner": "ffn.lin1",
    "feed_forward.outer": "ffn.lin2",
    "around_feed_forward.norm": "output_layer_norm",
}


def _encoder(prefix: str, blocks: str, block: Mapping[str, str]) -> dict[str, str]:
    """The layers of a body: ours and theirs."""
    return {
        "body.inputs.embedding": f"{prefix}embeddings.word_embeddings",
        "body.positions.table": f"{prefix}embeddings.position_embeddings",
        "body.embedding_norm": f"{prefix}embeddings.LayerNorm",
        "body.segments": f"{prefix}embeddings.token_type_embeddings",
        **{f"body.blocks.*.{ours}": f"{prefix}{blocks}.*.{theirs}" for ours, theirs in block.items()},
    }


def _pooled(pooler: str, name: str, settings: Settings, files: TensorFiles, heads: HeadNames) -> dict[str, Any]:
    return {"pooler": pooler if f"{name}.weight" in files else "none"}


def _refuse(pooler: str, family: Family, body: BertConfig, heads: HeadNames) -> None:
    if heads & {"labels", "order"} and body.pooler != pooler:
        read = f"a text's label is read off the state of the start token through a layer; use model.pooler={pooler}"
        raise family.lacks("pooler", body.pooler, read)
    if body.pooler not in (pooler, "none"):
        raise family.lacks("pooler", body.pooler, f"its pooler is {pooler}")
    if not body.num_segments and "num_segments" not in family.expresses:
        raise family.lacks("num_segments", 0, "it has at least one segment")


def _written(body: BertConfig, heads: HeadNames, vocabularies: Vocabularies) -> dict[str, Any]:
    tokenizer = vocabularies["tokens"][0]
    return {"vocab_size": tokenizer.vocab_size, "pad_token_id": tokenizer.special.padding}


def _words(output: str, wanted: Wanted) -> list[Entry]:
    """The output layer of masked words, without `output` before the names of its tensors."""
    # Where the matrix is the table's, the bias is stored as the head's own; else as that of the output layer.
    own, other, matrix = f"{output}.bias", f"{output}.decoder.bias", f"{output}.decoder.weight"
    if "words" not in wanted.heads:
        return []
    if wanted.tied:
        return [entry(own, "words.output.bias", also=(other,)), known(matrix)]
    bias = entry(other, "words.output.bias", also=(own,), copied=True)
    return [bias, entry(matrix, "words.output.weight")]


BERT = Family(
    model_type="bert",
    model="bert",
    prefix="bert.",
    names={
        "d_model": ("hidden_size", 768),
        "num_heads": ("num_attention_heads", 12),
        "num_layers": ("num_hidden_layers", 12),
        "d_ff": ("intermediate_size", 3072),
        "norm_eps": ("layer_norm_eps", 1e-12),
        "max_length": ("max_position_embeddings", 512),
        "num_segments": ("type_vocab_size", 2),
        "dropout": ("hidden_dropout_prob", 0.1),
        "attention_dropout": ("attention_probs_dropout_prob", 0.1),
    },
    architectures={
        frozenset(): "BertModel",
        frozenset({"words"}): "BertForMaskedLM",
        frozenset({"order"}): "BertForNextSentencePrediction",
        frozenset({"words", "order"}): "BertForPreTraining",
        frozenset({"labels"}): "BertForSequenceClassification",
        frozenset({"tags"}): "BertForTokenClassification",
    },
    layers={
        **_encoder("bert.", "encoder.layer", _BLOCK),
        "body.pooler": "bert.pooler.dense",
        "words.dense": "cls.predictions.transform.dense",
        "words.norm": "cls.predictions.transform.LayerNorm",
        "order": "cls.seq_relationship",
        "labels": "classifier",
        "tags": "classifier",
    },
    further=partial(_words, "cls.predictions"),
    derived=partial(_pooled, "tanh", "bert.pooler.dense"),
    written=_written,
    constants={"initializer_range": 0.02, "position_embedding_type": "absolute"},
    activation=("hidden_act", "gelu"),
    expresses={"double_separator": (False, "it puts one [SEP] between two texts")},
    refuse=partial(_refuse, "tanh"),
    accepts={
        "position_embedding_type": ("absolute",),
        "is_decoder": (False,),
        "add_cross_attention": (False,),
        "is_encoder_decoder": (False,),
        "pruned_heads": ({},),
    },
    known_by={"cls.predictions.bias": "words", "cls.seq_relationship.weight": "order"},
    head_names=("cls.", "classifier."),
    unguessed=("classifier.", "pre_classifier."),
    tied_names=("bert.embeddings.word_embeddings.weight", "cls.predictions.decoder.weight"),
    ignored=(r"\.position_ids$", r"\.token_type_ids$"),
)


def _distil_words(wanted: Wanted) -> list[Entry]:
    lines = layer("vocab_projector", "words.output") if "words" in wanted.heads else []
    return [*lines[1:], known("vocab_projector.weight")] if lines and wanted.tied else lines


DISTILBERT = replace(
    BERT,
    model_type="distilbert",
    prefix="distilbert.",
    names={
        "d_model": ("dim", 768),
        "num_heads": ("n_heads", 12),
        "num_layers": ("n_layers", 6),
        "d_ff": ("hidden_dim", 3072),
        "max_length": ("max_position_embeddings", 512),
        "dropout": ("dropout", 0.1),
        "attention_dropout": ("attention_dropout", 0.1),
    },
    architectures={
        frozenset(): "DistilBertModel",
        frozenset({"words"}): "DistilBertForMaskedLM",
        frozenset({"labels"}): "DistilBertForSequenceClassification",
        frozenset({"tags"}): "DistilBertForTokenClassification",
    },
    layers={
        **_encoder("distilbert.", "transformer.layer", _DISTIL_BLOCK),
        "body.pooler": "pre_classifier",
        "words.dense": "vocab_transform",
        "words.norm": "vocab_layer_norm",
        "labels": "classifier",
        "tags": "classifier",
    },
    further=_distil_words,
    derived=partial(_pooled, "relu", "pre_classifier"),
    constants={"initializer_range": 0.02, "sinusoidal_pos_embds": False},
    activation=("activation", "gelu"),
    expresses={
        **BERT.expresses,
        "num_segments": (0, "it has no segments"),
        "norm_eps": (1e-12, "its value is 1e-12"),
    },
    refuse=partial(_refuse, "relu"),
    known_by={"vocab_projector.bias": "words"},
    head_names=("vocab_", "pre_classifier.", "classifier."),
    tied_names=("distilbert.embeddings.word_embeddings.weight", "vocab_projector.weight"),
)


def _before(settings: Settings) -> int:
    """The position of the first token."""
    return settings.count("pad_token_id", 1, least=0) + 1


def _roberta_pooler(heads: HeadNames) -> str:
    return "classifier.dense" if "labels" in heads else "roberta.pooler.dense"


def _roberta_further(wanted: Wanted) -> list[Entry]:
    settings, embeddings = wanted.settings, "roberta.embeddings"
    positions, segments = f"{embeddings}.position_embeddings.weight", f"{embeddings}.token_type_embeddings.weight"
    return [
        entry(positions, "body.positions.table.weight", after(_before(settings))),
        entry(segments, "body.segments.weight", first_of(settings.count("type_vocab_size", 2))),
        *layer(_roberta_pooler(wanted.heads), "body.pooler"),
        *_words("lm_head", wanted),
    ]


def _roberta_derived(settings: Settings, files: TensorFiles, heads: HeadNames) -> dict[str, Any]:
    before = _before(settings)
    rows = settings.count("max_position_embeddings", 512)
    if rows <= before:
        raise settings.wrong("max_position_embeddings", f"more than {before}: positions begin at {before}")
    if "words" in heads and (act := settings.one_of("hidden_act", ACTIVATIONS, "gelu")) != "gelu":
        raise ConfigError(
            f"{settings.path}: hidden_act is {act}, but its head for masked words uses gelu, and heed's uses that "
            "of the body; import the model without this head"
        )
    return {**_pooled("tanh", _roberta_pooler(heads), settings, files, heads), "max_length": rows - before}


def _roberta_written(body: BertConfig, heads: HeadNames, vocabularies: Vocabularies) -> dict[str, Any]:
    special = vocabularies["tokens"][0].special
    return {
        **_written(body, heads, vocabularies),
        "max_position_embeddings": body.max_length + special.padding + 1,
        "bos_token_id": special.start,
        "eos_token_id": special.end,
    }


def _roberta_refuse(family: Family, body: BertConfig, heads: HeadNames) -> None:
    _refuse("tanh", family, body, heads)
    if "words" in heads and body.activation != "gelu":
        raise family.lacks("activation", body.activation, "its head for masked words uses gelu")


ROBERTA = replace(
    BERT,
    model_type="roberta",
    prefix="roberta.",
    architectures={
        frozenset(): "RobertaModel",
        frozenset({"words"}): "RobertaForMaskedLM",
        frozenset({"labels"}): "RobertaForSequenceClassification",
        frozenset({"tags"}): "RobertaForTokenClassification",
    },
    layers={
        **_encoder("roberta.", "encoder.layer", _BLOCK),
        "words.dense": "lm_head.dense",
        "words.norm": "lm_head.layer_norm",
        "labels": "classifier.out_proj",
        "tags": "classifier",
    },
    further=_roberta_further,
    derived=_roberta_derived,
    written=_roberta_written,
    expresses={
        "num_segments": (1, "it has one segment"),
        "double_separator": (True, "it puts two </s> between two texts"),
    },
    refuse=_roberta_refuse,
    known_by={"lm_head.bias": "words"},
    head_names=("lm_head.", "classifier."),
    tied_names=("roberta.embeddings.word_embeddings.weight", "lm_head.decoder.weight"),
)
XLM_ROBERTA = replace(
    ROBERTA,
    model_type="xlm-roberta",
    architectures={heads: f"XLM{name}" for heads, name in ROBERTA.architectures.items()},
)
"""RoBERTa with another tokenizer."""
