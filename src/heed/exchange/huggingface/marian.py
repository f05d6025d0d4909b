"""Marian (OPUS-MT): our post-norm `transformer`.

| theirs | ours |
|---|---|
| sinusoids: all sines, then all cosines | they alternate: every axis of width d_model is permuted |
| `final_logits_bias` | bias of the output layer |
| an end token after each source | `source_frame: end` |
| two SentencePiece models cut, `vocab.json` numbers | `MappedTokenizer` |

| file | contents |
|---|---|
| `source.spm`, `target.spm` | SentencePiece models that cut the texts of each side; their own ids are not used |
| `vocab.json` | id of each token of both sides, or of the source |
| `target_vocab.json` | id of each token of the target, with `separate_vocabs` |

A checkpoint of a run that was trained here has `tokenizer.json` instead, and another one in `target_tokenizer/` if the
target's differs.

Source: Junczys-Dowmunt et al. 2018 (arXiv:1804.00344); Kudo and Richardson 2018 (SentencePiece, arXiv:1808.06226);
the names of published tensors, as in `modeling_marian.py`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from heed.data.tokens.special import OWN, Special, library_of
from heed.data.tokens.tokenizer import UNUSED, MappedTokenizer, TextTokenizer
from heed.errors import ConfigError, RunError
from heed.exchange.huggingface.family import ACTIVATIONS, Family, HeadNames, Line, Vocabularies, Wanted
from heed.exchange.huggingface.files import (
    CONFIG,
    SAME,
    Count,
    Depth,
    Entry,
    Id,
    Share,
    TensorFiles,
    Transform,
    each,
    entry,
    leading,
    optional_json,
    read_json,
    zeros,
)
from heed.exchange.huggingface.pieces import cutter_of, read_pieces
from heed.exchange.huggingface.tokenizers import CONFIG as _SETTINGS
from heed.exchange.huggingface.tokenizers import WHOLE, write_json, write_tokenizer
from heed.models.transformer import TransformerConfig
from heed.storage.files import shown

_CUTTERS = {"source": "source.spm", "target": "target.spm"}
_IDS, _TARGET_IDS = "vocab.json", "target_vocab.json"
TARGET_FOLDER = "target_tokenizer"
"""Subfolder of the target's tokenizer, if it differs from the source's and is no SentencePiece model."""
_LONGEST = 512


_NAMES = {"pad": "<pad>", "unk": "<unk>", "eos": "</s>"}


def _read_pair(folder: Path, config: Marian) -> dict[str, TextTokenizer]:
    """The tokenizers of both sides, from SentencePiece models and tables of ids.

    Raises:
        RunError: A file is missing or damaged.
        ConfigError: An id of config.json is in no vocabulary.
    """
    if missing := [name for name in (_IDS, *_CUTTERS.values()) if not os.path.lexists(folder / name)]:
        raise RunError(
            f"{folder} lacks {', '.join(missing)}: Marian's tokenizer is {_IDS} and two SentencePiece models"
        )
    options = optional_json(folder / _SETTINGS) or {}
    named = {kind: options.get(f"{kind}_token") or default for kind, default in _NAMES.items()}
    names = {kind: name["content"] if isinstance(name, dict) else name for kind, name in named.items()}
    separate = os.path.lexists(folder / _TARGET_IDS) and bool(options.get("separate_vocabs", True))
    sizes = config.vocab_size, config.decoder_vocab_size or config.vocab_size
    tokenizers: dict[str, TextTokenizer] = {}
    for (side, cutter), size in zip(_CUTTERS.items(), sizes, strict=True):
        apart = separate and side == "target"
        path = folder / (_TARGET_IDS if apart else _IDS)
        tokens = read_json(path)
        for token, i in tokens.items():
            if type(i) is not int or not 0 <= i < size:
                raise RunError(f"{path}: token '{token}' has the id {shown(i)}, but config.json has {size:,} tokens")
        if absent := [names[kind] for kind in ("unk", "eos") if names[kind] not in tokens]:
            raise RunError(f"{path} lacks the token '{absent[0]}'")
        # Ids by name, and by config.json what it names, which is of the target where each side has a vocabulary.
        padding, end, start = tokens.get(names["pad"]), tokens[names["eos"]], None
        if apart or not separate:
            padding = padding if config.pad_token_id is None else config.pad_token_id
            end = end if config.eos_token_id is None else config.eos_token_id
            start = config.decoder_start_token_id
        padding = end if padding is None else padding
        special = Special(padding, tokens[names["unk"]], padding if start is None else start, end)
        if (most := max(special)) >= size:
            raise ConfigError(f"config.json names the token {most}, but it has {size:,} tokens")
        first = {i: token for token, i in reversed(tokens.items())}  # the first token of an id
        vocabulary = [first.get(i, UNUSED.format(i)) for i in range(size)]
        pieces = cutter_of(read_pieces(folder / cutter))
        tokenizers[side] = MappedTokenizer(pieces, vocabulary, (folder / cutter).read_bytes(), special=special)
    return tokenizers


def _read_whole(folder: Path, config: Marian) -> dict[str, TextTokenizer]:
    """What `_write_whole` wrote."""
    target = folder / TARGET_FOLDER if (folder / TARGET_FOLDER).is_dir() else folder
    tokenizers: dict[str, TextTokenizer] = {}
    for side, place in (("source", folder), ("target", target)):
        state = {**read_json(place / WHOLE), "post_processor": None}
        try:
            tokenizers[side] = TextTokenizer(library_of(state))
        except Exception as error:  # the library has no narrower one
            raise RunError(f"{place / WHOLE} is not a tokenizer: {error}") from None
    if (config.pad_token_id, config.decoder_start_token_id, config.eos_token_id) != (OWN.padding, OWN.start, OWN.end):
        raise config.wrong(
            "decoder_start_token_id",
            f"{OWN.start}, with pad_token_id {OWN.padding} and eos_token_id {OWN.end}: heed reads a Marian checkpoint "
            f"with {WHOLE} only if heed wrote it",
        )
    return tokenizers


def _write_pair(source: MappedTokenizer, target: MappedTokenizer, folder: Path) -> None:
    separate = source.tokens != target.tokens
    for tokenizer, cutter, ids in zip((source, target), _CUTTERS.values(), (_IDS, _TARGET_IDS), strict=True):
        (folder / cutter).write_bytes(tokenizer.origin)
        if tokenizer is source or separate:
            write_json(folder / ids, {token: i for i, token in enumerate(tokenizer.tokens)})
    padding, unknown, _, end = map(target.token, target.special)
    named = {"eos_token": end, "unk_token": unknown, "pad_token": padding}
    options = {"tokenizer_class": "MarianTokenizer", "separate_vocabs": separate, "model_max_length": _LONGEST}
    write_json(folder / _SETTINGS, options | named)


def _write_whole(tokenizer: TextTokenizer, folder: Path, frame: str) -> None:
    """Write the files of one side, with the start and end tokens that `frame` adds to each text."""
    if isinstance(tokenizer, MappedTokenizer):
        raise ConfigError("one side has SentencePiece models and the other has none; Marian needs both or neither")
    write_tokenizer(tokenizer, {}, folder, "marian", (frame == "both", 0, frame != "none"))


_TABLE, _SOURCE, _TARGET = (
    f"model.{name}.weight" for name in ("shared", "encoder.embed_tokens", "decoder.embed_tokens")
)
_OUTPUT, _BIAS = "lm_head.weight", "final_logits_bias"


def _permuted(axis: int) -> Transform:
    """An axis of width d_model: all sines before all cosines there, both in turn here; a bias has no axis 1."""

    def moved(tensor: Tensor, back: bool) -> Tensor:
        if tensor.is_meta or tensor.dim() <= axis:
            return tensor
        places = alternating(tensor.shape[axis])
        return tensor.index_select(axis, places.argsort() if back else places)

    return each(lambda theirs: moved(theirs, back=False), lambda ours: moved(ours, back=True))


def alternating(d: int) -> Tensor:
    """Their place of each of ours: sine i is at 2i, cosine i at 2i + 1."""
    place = torch.arange(d)
    return torch.where(place % 2 == 0, place // 2, (d + 1) // 2 + place // 2)


_READS, _WRITES = _permuted(1), _permuted(0)


def blocks(side: str, reads: Transform = SAME, writes: Transform = SAME, **attentions: str) -> dict[str, Line]:
    """The layers of the blocks of a side, named as in Marian, BART and M2M-100: attentions, norms, feed-forward.

    Args:
        side: "encoder" or "decoder".
        reads: For a layer that reads vectors of width d_model.
        writes: For one that writes them.
        attentions: Our attentions, each with theirs.
    """
    lines: dict[str, tuple[str, Transform]] = {}
    for ours, theirs in attentions.items():
        lines |= {f"{ours}.w_{name}": (f"{theirs}.{name[0]}_proj", reads) for name in ("query", "key", "value")}
        lines |= {f"{ours}.w_out": (f"{theirs}.out_proj", writes)}
        lines |= {f"around_{ours}.norm": (f"{theirs}_layer_norm", writes)}
    lines |= {"feed_forward.inner": ("fc1", reads), "feed_forward.outer": ("fc2", writes)}
    lines |= {"around_feed_forward.norm": ("final_layer_norm", writes)}
    return {f"body.{side}.*.{ours}": (f"{side}.layers.*.{name}", form) for ours, (name, form) in lines.items()}


class EncoderDecoder(Family):
    """What Marian, BART and M2M-100 share: fields, embeddings of both sides and the output layer."""

    model: ClassVar = "transformer"
    config_class: ClassVar = TransformerConfig
    prefix: ClassVar = "model."
    activations: ClassVar = ACTIVATIONS
    head_names: ClassVar = (_OUTPUT, _BIAS)
    reads: ClassVar[Transform] = SAME  # of a layer that reads vectors of width d_model

    d_model: Count = 1024
    num_layers: Depth = Field(12, alias="encoder_layers")
    num_heads: Count = Field(16, alias="encoder_attention_heads")
    d_ff: Count = Field(4096, alias="encoder_ffn_dim")
    decoder_layers: Depth = 12
    decoder_heads: Count = Field(16, alias="decoder_attention_heads")
    decoder_d_ff: Count = Field(4096, alias="decoder_ffn_dim")
    scaled_embeddings: bool = Field(False, alias="scale_embedding")
    dropout: Share = 0.1
    attention_dropout: Share = 0.0
    activation: str = Field("gelu", alias="activation_function", validate_default=True)
    shared_embeddings: bool = Field(True, alias="share_encoder_decoder_embeddings")
    is_decoder: Literal[False] = False
    is_encoder_decoder: Literal[True] = True
    vocab_size: Count
    decoder_vocab_size: Count | None = None
    pad_token_id: Id | None = None
    eos_token_id: Id | None = None
    decoder_start_token_id: Id | None = None

    def further(self, wanted: Wanted) -> Sequence[Entry]:
        body, tied = wanted.body, _OUTPUT if wanted.tied else ""
        source, target = "body.source_embedding.weight", "body.target_embedding.weight"
        table = [entry(_TABLE, target, self.reads, also=f"{_TARGET} {_SOURCE} {tied}")]
        if not body.shared_embeddings:
            table = [entry(_SOURCE, source, self.reads), entry(_TARGET, target, self.reads, also=tied), entry(_TABLE)]
        output = [] if wanted.tied else [entry(_OUTPUT, "body.output.weight", self.reads)]
        bias, form = (_BIAS, leading(1)) if "bias" in wanted.heads else ("", zeros((body.target_vocab_size,)))
        return [*table, *output, entry(bias, "body.output.bias", form)]

    def derived(self, files: TensorFiles, heads: HeadNames) -> Mapping[str, Any]:
        tied = self.tied(files)
        # Where nothing is tied, a checkpoint that has tables of both sides uses them.
        shares = tied or (_TABLE in files and not (_SOURCE in files and _TARGET in files))
        return {"shared_embeddings": self.shared_embeddings and shares, "tied_output": tied}

    @classmethod
    def written(cls, body: TransformerConfig, heads: HeadNames, vocabularies: Vocabularies) -> Mapping[str, Any]:
        source, target = (vocabularies[side][0] for side in ("source", "target"))
        return {
            "vocab_size": source.vocab_size,
            "decoder_vocab_size": target.vocab_size,
            "activation_dropout": body.dropout,
            "pad_token_id": target.special.padding,
            "bos_token_id": None,
            "eos_token_id": target.special.end,
            "forced_eos_token_id": None,
            "decoder_start_token_id": target.special.start,
        }


class Marian(EncoderDecoder):
    """Marian."""

    model_type: ClassVar = "marian"
    architectures: ClassVar = {
        frozenset({"output"}): "MarianMTModel",
        frozenset({"output", "bias"}): "MarianMTModel",
        frozenset(): "MarianModel",
    }
    layers: ClassVar = {
        **blocks("encoder", _READS, _WRITES, attention="self_attn"),
        **blocks("decoder", _READS, _WRITES, attention="self_attn", cross="encoder_attn"),
    }
    activations: ClassVar = {"swish": "silu", **ACTIVATIONS}
    expresses: ClassVar = {
        "norm": ("post", "Marian normalises after each sublayer"),
        "positions": ("sinusoidal", "Marian has fixed sinusoids"),
        "norm_eps": (1e-5, "its value is 1e-05"),
        "normalized_embeddings": (False, "Marian does not normalise embeddings"),
        "target_frame": ("none", "Marian begins no target with a token"),
        "output_bias": (True, "its output layer has a bias"),
    }
    ignored: ClassVar = (r"embed_positions\.weight$",)
    reads: ClassVar = _READS

    source_frame: Literal["none", "end", "both"] = "end"  # ours: what stands around a source; the tokenizer adds it

    @classmethod
    def refuse(cls, body: TransformerConfig, heads: HeadNames) -> None:
        if body.source_frame == "language":
            raise cls.lacks("source_frame", body.source_frame, "Marian has no language tokens before its sources")

    def tokenizers(self, folder: Path) -> Vocabularies:
        whole = os.path.lexists(folder / WHOLE) and not os.path.lexists(folder / _IDS)
        read = (_read_whole if whole else _read_pair)(folder, self)
        return {side: (tokenizer, {}) for side, tokenizer in read.items()}

    @classmethod
    def write_tokenizers(cls, vocabularies: Vocabularies, folder: Path) -> None:
        source, target = vocabularies["source"][0], vocabularies["target"][0]
        frame = read_json(folder / CONFIG).get("source_frame", "end")
        if isinstance(source, MappedTokenizer) and isinstance(target, MappedTokenizer):
            if frame != "end":
                raise ConfigError(f"marian cannot express model.source_frame={frame}: its tokenizer ends each source")
            return _write_pair(source, target, folder)
        _write_whole(source, folder, frame)
        if source.text != target.text:
            (folder / TARGET_FOLDER).mkdir()
            _write_whole(target, folder / TARGET_FOLDER, "end")
