"""Marian (OPUS-MT): our post-norm `transformer`.

| theirs | ours |
|---|---|
| sinusoids: all sines, then all cosines | they alternate: every axis of width d_model is permuted |
| `final_logits_bias` | bias of the output layer |
| generation starts with the padding token, or another | the start token has a copy of its row, and is never predicted |
| an end token after each source | `source_frame: end` |
| two SentencePiece models cut, `vocab.json` numbers | `MappedTokenizer` |

Source: Junczys-Dowmunt et al. 2018 (arXiv:1804.00344); the names of published tensors, as in `modeling_marian.py`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from heed.data.tokens.tokenizer import END, PADDING, START, TextTokenizer
from heed.errors import ConfigError
from heed.exchange.huggingface.bert import ACTIVATIONS
from heed.exchange.huggingface.config_file import Settings
from heed.exchange.huggingface.family import Family, Vocabularies
from heed.exchange.huggingface.marian_tokenizers import read_tokenizers, write_tokenizers
from heed.exchange.huggingface.numbering import Numbering
from heed.exchange.huggingface.table import Entry, entry
from heed.exchange.huggingface.tensors import TensorFiles
from heed.exchange.huggingface.transforms import NEVER, Transform
from heed.models.base import ModelConfig
from heed.models.transformer import TransformerConfig

THEIR_ACTIVATION = {"gelu": "gelu", "gelu_tanh": "gelu_new", "relu": "relu", "silu": "swish"}
_EPS = 1e-5
_FRAMES = ("none", "end", "both")
_TABLE, _SOURCE, _TARGET = (
    "model.shared.weight",
    "model.encoder.embed_tokens.weight",
    "model.decoder.embed_tokens.weight",
)
_OUTPUT, _BIAS = "lm_head.weight", "final_logits_bias"


@dataclass(frozen=True)
class Permuted(Transform):
    """Some axes of width d_model, from all sines before all cosines to both in turn."""

    axes: tuple[int, ...]

    def to_ours(self, theirs: Sequence[Tensor]) -> list[Tensor]:
        """Alternating."""
        return [self._moved(one, _alternating) for one in theirs]

    def to_theirs(self, ours: Sequence[Tensor]) -> list[Tensor]:
        """In halves."""
        return [self._moved(one, lambda d: _alternating(d).argsort()) for one in ours]

    def _moved(self, tensor: Tensor, places: Any) -> Tensor:
        if not tensor.is_meta:
            for axis in self.axes:
                tensor = tensor.index_select(axis, places(tensor.shape[axis]))
        return tensor


def _alternating(d: int) -> Tensor:
    """Their place of each of ours: sine i is at 2i, cosine i at 2i + 1."""
    sines = (d + 1) // 2
    place = torch.arange(d)
    return torch.where(place % 2 == 0, place // 2, sines + place // 2)


@dataclass(frozen=True)
class Vectors(Transform):
    """A table of tokens: rows renumbered, columns permuted.

    A row of theirs that stands for two of ours, the padding's and the start's, is written as the start's is: nothing
    else reads the padding's.
    """

    numbering: Numbering

    def to_ours(self, theirs: Sequence[Tensor]) -> list[Tensor]:
        """A row for each token of ours; of zeros where they lack it."""
        if theirs[0].is_meta:
            return [_rows(theirs[0], len(self.numbering))]
        return [self.numbering.to_ours(one) for one in _COLUMNS.to_ours(theirs)]

    def to_theirs(self, ours: Sequence[Tensor]) -> list[Tensor]:
        """A row for each token of theirs."""
        if ours[0].is_meta:
            return [_rows(ours[0], self.numbering.size)]
        (table,) = _COLUMNS.to_theirs(ours)
        if starts_with_padding(self.numbering):
            table = table.clone()
            table[PADDING] = table[START]
        return [self.numbering.to_theirs(table)]


@dataclass(frozen=True)
class Bias(Transform):
    """The bias of the output layer, `(1, tokens)` there: the start token's is such that it is never predicted."""

    numbering: Numbering

    def to_ours(self, theirs: Sequence[Tensor]) -> list[Tensor]:
        """One number for each token of ours; zeros but for tokens that they lack where they have no bias."""
        given = theirs[0].flatten() if theirs else torch.zeros(self.numbering.size)
        if given.is_meta:
            return [_rows(given, len(self.numbering))]
        bias = self.numbering.to_ours(given, NEVER)
        if starts_with_padding(self.numbering):
            bias[START] = NEVER
        return [bias]

    def to_theirs(self, ours: Sequence[Tensor]) -> list[Tensor]:
        """A row of numbers."""
        (bias,) = ours
        own = _rows(bias, self.numbering.size) if bias.is_meta else self.numbering.to_theirs(bias)
        return [own.unsqueeze(0)]


@dataclass(frozen=True)
class NoBias(Bias):
    """The bias of a checkpoint without one."""

    def to_theirs(self, ours: Sequence[Tensor]) -> list[Tensor]:
        """Nothing."""
        return []


_COLUMNS, _ROWS = Permuted((1,)), Permuted((0,))


def _rows(tensor: Tensor, count: int) -> Tensor:
    return tensor.new_empty((count, *tensor.shape[1:]))


def starts_with_padding(numbering: Numbering) -> bool:
    """Whether the padding token is what generation starts with."""
    return numbering.theirs[PADDING] is not None and numbering.theirs[PADDING] == numbering.theirs[START]


class MarianFamily(Family):
    """Marian."""

    model_type = "marian"
    model = "transformer"
    prefix = "model."
    head_names = (_OUTPUT, _BIAS)
    architectures: ClassVar = {
        frozenset({"output"}): "MarianMTModel",
        frozenset({"output", "bias"}): "MarianMTModel",
        frozenset(): "MarianModel",
    }
    accepts: ClassVar = {"is_decoder": (False,), "is_encoder_decoder": (True,)}
    ignored = (r"embed_positions\.weight$",)

    def fields(self, settings: Settings, files: TensorFiles, heads: frozenset[str]) -> dict[str, Any]:
        """Fields of `transformer`."""
        return {
            "d_model": settings.count("d_model", 1024),
            "num_layers": settings.count("encoder_layers", 12),
            "num_heads": settings.count("encoder_attention_heads", 16),
            "d_ff": settings.count("encoder_ffn_dim", 4096),
            "decoder_layers": settings.count("decoder_layers", 12),
            "decoder_heads": settings.count("decoder_attention_heads", 16),
            "decoder_d_ff": settings.count("decoder_ffn_dim", 4096),
            "activation": settings.one_of("activation_function", ACTIVATIONS, "gelu"),
            "norm": "post",
            "norm_eps": _EPS,
            "positions": "sinusoidal",
            "scaled_embeddings": settings.flag("scale_embedding", False),
            "normalized_embeddings": False,
            "source_frame": settings.one_of("source_frame", dict(zip(_FRAMES, _FRAMES, strict=True)), "end"),
            "shared_embeddings": self._shares(settings, files),
            "tied_output": self.tied(settings, files),
            "dropout": settings.number("dropout", 0.1),
            "attention_dropout": settings.number("attention_dropout", 0.0),
        }

    def _shares(self, settings: Settings, files: TensorFiles) -> bool:
        """Whether one table is that of both sides; where nothing is tied, one that has tables of its own uses them."""
        if not settings.flag("share_encoder_decoder_embeddings", True):
            return False
        return self.tied(settings, files) or (_TABLE in files and not (_SOURCE in files and _TARGET in files))

    def guess(self, files: TensorFiles) -> str:
        """The model that translates."""
        return "MarianMTModel"

    def table(
        self,
        settings: Settings,
        body: ModelConfig,
        heads: frozenset[str],
        vocabularies: Vocabularies,
        tied: bool = True,
    ) -> Sequence[Entry]:
        """The tensors of the body, which has the output layer."""
        assert isinstance(body, TransformerConfig)
        source, target = (Vectors(vocabularies[side][1]) for side in ("source", "target"))
        outputs = () if not tied else (_OUTPUT,)
        if body.shared_embeddings:
            table = [entry(_TABLE, "body.target_embedding.weight", target, also=(_TARGET, _SOURCE, *outputs))]
        else:
            table = [
                entry(_SOURCE, "body.source_embedding.weight", source),
                entry(_TARGET, "body.target_embedding.weight", target, also=outputs),
                Entry((_TABLE,), ()),
            ]
        if not tied:
            table.append(entry(_OUTPUT, "body.output.weight", target))
        bias = vocabularies["target"][1]
        with_bias = entry(_BIAS, "body.output.bias", Bias(bias))
        table.append(with_bias if "bias" in heads else Entry((), with_bias.ours, NoBias(bias)))
        decoder = body.num_layers if body.decoder_layers is None else body.decoder_layers
        for i in range(body.num_layers):
            table += _block(f"model.encoder.layers.{i}", f"body.encoder.{i}", cross=False)
        for i in range(decoder):
            table += _block(f"model.decoder.layers.{i}", f"body.decoder.{i}", cross=True)
        return table

    def settings(self, body: ModelConfig, heads: frozenset[str], vocabularies: Vocabularies) -> dict[str, Any]:
        """Fields of config.json."""
        assert isinstance(body, TransformerConfig)
        _check(body)
        source, target = (vocabularies[side][1] for side in ("source", "target"))
        end = target.theirs[END]
        return {
            "vocab_size": source.size,
            "decoder_vocab_size": target.size,
            "d_model": body.d_model,
            "encoder_layers": body.num_layers,
            "encoder_attention_heads": body.num_heads,
            "encoder_ffn_dim": body.d_ff,
            "decoder_layers": body.decoder_layers or body.num_layers,
            "decoder_attention_heads": body.decoder_heads or body.num_heads,
            "decoder_ffn_dim": body.decoder_d_ff or body.d_ff,
            "activation_function": THEIR_ACTIVATION[body.activation],
            "scale_embedding": body.scaled_embeddings,
            "share_encoder_decoder_embeddings": body.shared_embeddings,
            "dropout": body.dropout,
            "attention_dropout": body.dropout if body.attention_dropout is None else body.attention_dropout,
            "activation_dropout": body.dropout,
            "is_encoder_decoder": True,
            "static_position_embeddings": True,
            "source_frame": body.source_frame,  # ours: what stands around a source; the tokenizer adds it
            "pad_token_id": target.theirs[PADDING],
            "bos_token_id": None,
            "eos_token_id": end,
            "decoder_start_token_id": target.theirs[START],
            "forced_eos_token_id": None,
        }

    def tokenizers(self, folder: Path, settings: Settings) -> Mapping[str, tuple[TextTokenizer, Numbering]]:
        """Those of the source and of the target."""
        return read_tokenizers(folder, settings)

    def write_tokenizers(self, vocabularies: Vocabularies, folder: Path) -> None:
        """Write those of the source and of the target."""
        write_tokenizers(vocabularies, folder)


def _block(theirs: str, ours: str, cross: bool) -> list[Entry]:
    """A block of the encoder, or of the decoder, whose axes of width d_model are permuted."""
    lines = _attention(f"{theirs}.self_attn", f"{ours}.attention")
    lines += _norm(f"{theirs}.self_attn_layer_norm", f"{ours}.around_attention.norm")
    if cross:
        lines += _attention(f"{theirs}.encoder_attn", f"{ours}.cross")
        lines += _norm(f"{theirs}.encoder_attn_layer_norm", f"{ours}.around_cross.norm")
    lines += [
        *_linear(f"{theirs}.fc1", f"{ours}.feed_forward.inner", reads=True),
        *_linear(f"{theirs}.fc2", f"{ours}.feed_forward.outer", reads=False),
        *_norm(f"{theirs}.final_layer_norm", f"{ours}.around_feed_forward.norm"),
    ]
    return lines


def _attention(theirs: str, ours: str) -> list[Entry]:
    sides = {"q_proj": "w_query", "k_proj": "w_key", "v_proj": "w_value"}
    lines = [line for a, b in sides.items() for line in _linear(f"{theirs}.{a}", f"{ours}.{b}", reads=True)]
    return [*lines, *_linear(f"{theirs}.out_proj", f"{ours}.w_out", reads=False)]


def _linear(theirs: str, ours: str, reads: bool) -> list[Entry]:
    """A layer that reads vectors of width d_model, or writes them."""
    if reads:
        return [entry(f"{theirs}.weight", f"{ours}.weight", _COLUMNS), entry(f"{theirs}.bias", f"{ours}.bias")]
    return [entry(f"{theirs}.{part}", f"{ours}.{part}", _ROWS) for part in ("weight", "bias")]


def _norm(theirs: str, ours: str) -> list[Entry]:
    return [entry(f"{theirs}.{part}", f"{ours}.{part}", _ROWS) for part in ("weight", "bias")]


def _check(body: TransformerConfig) -> None:
    """Refuse what Marian cannot express, by field."""
    wanted = {
        "norm": ("post", "Marian normalises after each sublayer"),
        "positions": ("sinusoidal", "Marian has fixed sinusoids"),
        "norm_eps": (_EPS, "its value is 1e-05"),
        "normalized_embeddings": (False, "Marian does not normalise embeddings"),
    }
    for name, (value, why) in wanted.items():
        if (own := getattr(body, name)) != value:
            hint = f"train with model.{name}={str(value).lower()}"
            raise ConfigError(f"marian cannot express model.{name}={own}: {why}; {hint}")
