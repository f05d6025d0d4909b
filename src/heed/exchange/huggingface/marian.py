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

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from heed.data.tokens.special import OWN, Special, library_of
from heed.data.tokens.tokenizer import UNUSED, MappedTokenizer, TextTokenizer
from heed.errors import ConfigError, RunError
from heed.exchange.huggingface.family import ACTIVATIONS, Family, HeadNames, Vocabularies, Wanted
from heed.exchange.huggingface.files import (
    CONFIG,
    Entry,
    Settings,
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
from heed.exchange.huggingface.tokenizers import WHOLE as _WHOLE
from heed.exchange.huggingface.tokenizers import write_json, write_tokenizer
from heed.models.transformer import TransformerConfig

_CUTTERS = {"source": "source.spm", "target": "target.spm"}
_IDS, _TARGET_IDS = "vocab.json", "target_vocab.json"
TARGET_FOLDER = "target_tokenizer"
"""Subfolder of the target's tokenizer, if it differs from the source's and is no SentencePiece model."""
_LONGEST = 512


def read_tokenizers(folder: Path, settings: Settings) -> dict[str, TextTokenizer]:
    """The tokenizers of both sides.

    Raises:
        RunError: A file is missing or damaged.
        ConfigError: An id of config.json is in no vocabulary.
    """
    if os.path.lexists(folder / _WHOLE) and not os.path.lexists(folder / _IDS):
        return _read_whole(folder, settings)
    if missing := [name for name in (_IDS, *_CUTTERS.values()) if not os.path.lexists(folder / name)]:
        raise RunError(
            f"{folder} lacks {', '.join(missing)}: Marian's tokenizer is {_IDS} and two SentencePiece models"
        )
    options = optional_json(folder / _SETTINGS) or {}
    names = {kind: _name(options, f"{kind}_token", default) for kind, default in _NAMES.items()}
    separate = os.path.lexists(folder / _TARGET_IDS) and bool(options.get("separate_vocabs", True))
    sizes = [settings.count("vocab_size")]
    sizes += [settings.count("decoder_vocab_size", 0, least=0) or sizes[0]]
    tokenizers: dict[str, TextTokenizer] = {}
    for (side, cutter), size in zip(_CUTTERS.items(), sizes, strict=True):
        apart = separate and side == "target"
        path = folder / (_TARGET_IDS if apart else _IDS)
        tokens = _tokens(path, size)
        special = _special(path, tokens, names, settings if apart or not separate else None)
        if (most := max(special)) >= size:
            raise ConfigError(f"config.json names the token {most}, but it has {size:,} tokens")
        named = {i: token for token, i in reversed(tokens.items())}  # the first token of an id
        vocabulary = [named.get(i, UNUSED.format(i)) for i in range(size)]
        pieces = cutter_of(read_pieces(folder / cutter))
        tokenizers[side] = MappedTokenizer(pieces, vocabulary, (folder / cutter).read_bytes(), special=special)
    return tokenizers


_NAMES = {"pad": "<pad>", "unk": "<unk>", "eos": "</s>"}


def _name(options: Mapping[str, Any], field: str, default: str) -> str:
    """The name of a special token, which a file may give as text or as an object."""
    value = options.get(field, default)
    value = value.get("content", default) if isinstance(value, dict) else value
    return value if isinstance(value, str) else default


def _tokens(path: Path, size: int) -> dict[str, int]:
    """The ids of a table."""
    tokens = read_json(path)
    for token, i in tokens.items():
        if type(i) is not int or not 0 <= i < size:
            raise RunError(f"{path}: token '{token}' has the id {json.dumps(i)}, but config.json has {size:,} tokens")
    return tokens


def _special(path: Path, tokens: Mapping[str, int], names: Mapping[str, str], settings: Settings | None) -> Special:
    """The ids of padding, the unknown token, start and end; by name, and by config.json what it names."""
    settings = settings or Settings(path, {})
    if (unknown := tokens.get(names["unk"])) is None:
        raise RunError(f"{path} lacks the unknown token '{names['unk']}'")
    padding = settings.count("pad_token_id", tokens.get(names["pad"]), least=0)
    end = settings.count("eos_token_id", tokens.get(names["eos"]), least=0)
    start = settings.count("decoder_start_token_id", padding, least=0)
    if end is None:
        raise RunError(f"{path} lacks the end token '{names['eos']}'")
    padding = end if padding is None else padding
    return Special(padding, unknown, padding if start is None else start, end)


def write_tokenizers(source: TextTokenizer, target: TextTokenizer, folder: Path) -> None:
    """Write tokenizer files that `AutoTokenizer.from_pretrained` reads, so that it cuts texts the same."""
    frame = read_json(folder / CONFIG).get("source_frame", "end")
    if isinstance(source, MappedTokenizer) and isinstance(target, MappedTokenizer):
        if frame != "end":
            raise ConfigError(f"marian cannot express model.source_frame={frame}: its tokenizer ends each source")
        _write_pair(source, target, folder)
        return
    _write_whole(source, folder, frame)
    if source.text != target.text:
        (folder / TARGET_FOLDER).mkdir()
        _write_whole(target, folder / TARGET_FOLDER, "end")


def _write_pair(source: MappedTokenizer, target: MappedTokenizer, folder: Path) -> None:
    separate = source.tokens != target.tokens
    for tokenizer, cutter, ids in zip((source, target), _CUTTERS.values(), (_IDS, _TARGET_IDS), strict=True):
        (folder / cutter).write_bytes(tokenizer.origin)
        if tokenizer is source or separate:
            write_json(folder / ids, {token: i for i, token in enumerate(tokenizer.tokens)})
    padding, unknown, _, end = map(target.token, target.special)
    options = {
        "tokenizer_class": "MarianTokenizer",
        "separate_vocabs": separate,
        "eos_token": end,
        "unk_token": unknown,
        "pad_token": padding,
        "source_lang": None,
        "target_lang": None,
        "sp_model_kwargs": {},
        "model_max_length": _LONGEST,
    }
    write_json(folder / _SETTINGS, options)


def _write_whole(tokenizer: TextTokenizer, folder: Path, frame: str) -> None:
    """Write the files of one side, with the start and end tokens that `frame` adds to each text."""
    if isinstance(tokenizer, MappedTokenizer):
        raise ConfigError("one side has SentencePiece models and the other has none; Marian needs both or neither")
    write_tokenizer(tokenizer, {}, folder, "marian", (frame == "both", 0, frame != "none"))


def _read_whole(folder: Path, settings: Settings) -> dict[str, TextTokenizer]:
    """What `_write_whole` wrote."""
    target = folder / TARGET_FOLDER if (folder / TARGET_FOLDER).is_dir() else folder
    tokenizers: dict[Path, TextTokenizer] = {}
    for place in (folder, target):
        state = {**read_json(place / _WHOLE), "post_processor": None}
        try:
            tokenizers[place] = TextTokenizer(library_of(state))
        except Exception as error:  # the library has no narrower one
            raise RunError(f"{place / _WHOLE} is not a tokenizer: {error}") from None
    ids = [settings.get(name, None) for name in ("pad_token_id", "decoder_start_token_id", "eos_token_id")]
    if ids != (ours := [OWN.padding, OWN.start, OWN.end]):
        raise ConfigError(
            f"{settings.path}: padding, start and end are the tokens {ids}; heed reads a Marian checkpoint with "
            f"{_WHOLE} only if heed wrote it, where they are {ours}"
        )
    return {"source": tokenizers[folder], "target": tokenizers[target]}


_FRAMES = ("none", "end", "both")
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
"""For a layer that reads vectors of width d_model, and for one that writes them."""


def _blocks(side: str, **attentions: str) -> dict[str, tuple[str, Transform]]:
    """The layers of the blocks of a side, whose attentions, norms and feed-forward networks are as in Marian."""
    lines: dict[str, tuple[str, Transform]] = {}
    for ours, theirs in attentions.items():
        lines |= {f"{ours}.w_{name}": (f"{theirs}.{name[0]}_proj", _READS) for name in ("query", "key", "value")}
        lines |= {f"{ours}.w_out": (f"{theirs}.out_proj", _WRITES)}
        lines |= {f"around_{ours}.norm": (f"{theirs}_layer_norm", _WRITES)}
    lines |= {"feed_forward.inner": ("fc1", _READS), "feed_forward.outer": ("fc2", _WRITES)}
    lines |= {"around_feed_forward.norm": ("final_layer_norm", _WRITES)}
    return {f"body.{side}.*.{ours}": (f"model.{side}.layers.*.{name}", form) for ours, (name, form) in lines.items()}


class Marian(Family):
    """Marian."""

    model_type = "marian"
    model = "transformer"
    prefix = "model."
    names: ClassVar = {
        "d_model": ("d_model", 1024),
        "num_layers": ("encoder_layers", 12),
        "num_heads": ("encoder_attention_heads", 16),
        "d_ff": ("encoder_ffn_dim", 4096),
        "decoder_layers": ("decoder_layers", 12),
        "decoder_heads": ("decoder_attention_heads", 16),
        "decoder_d_ff": ("decoder_ffn_dim", 4096),
        "scaled_embeddings": ("scale_embedding", False),
        "dropout": ("dropout", 0.1),
        "attention_dropout": ("attention_dropout", 0.0),
    }
    architectures: ClassVar = {
        frozenset({"output"}): "MarianMTModel",
        frozenset({"output", "bias"}): "MarianMTModel",
        frozenset(): "MarianModel",
    }
    layers: ClassVar = {
        **_blocks("encoder", attention="self_attn"),
        **_blocks("decoder", attention="self_attn", cross="encoder_attn"),
    }
    constants: ClassVar = {
        "is_encoder_decoder": True,
        "static_position_embeddings": True,
        "bos_token_id": None,
        "forced_eos_token_id": None,
    }
    accepts: ClassVar = {"is_decoder": False, "is_encoder_decoder": True}
    activation = ("activation_function", "gelu")
    activations: ClassVar = {"swish": "silu", **ACTIVATIONS}
    expresses: ClassVar = {
        "norm": ("post", "Marian normalises after each sublayer"),
        "positions": ("sinusoidal", "Marian has fixed sinusoids"),
        "norm_eps": (1e-5, "its value is 1e-05"),
        "normalized_embeddings": (False, "Marian does not normalise embeddings"),
    }
    otherwise = frozenset({"output"})
    head_names = (_OUTPUT, _BIAS)
    ignored = (r"embed_positions\.weight$",)

    def further(self, wanted: Wanted) -> Sequence[Entry]:
        body, tied = wanted.body, _OUTPUT if wanted.tied else ""
        assert isinstance(body, TransformerConfig)
        source, target = "body.source_embedding.weight", "body.target_embedding.weight"
        table = [entry(_TABLE, target, _READS, also=f"{_TARGET} {_SOURCE} {tied}")]
        if not body.shared_embeddings:
            table = [entry(_SOURCE, source, _READS), entry(_TARGET, target, _READS, also=tied), entry(_TABLE)]
        output = [] if wanted.tied else [entry(_OUTPUT, "body.output.weight", _READS)]
        bias, form = (_BIAS, leading(1)) if "bias" in wanted.heads else ("", zeros((body.target_vocab_size,)))
        return [*table, *output, entry(bias, "body.output.bias", form)]

    def derived(self, settings: Settings, files: TensorFiles, heads: HeadNames) -> Mapping[str, Any]:
        tied = self.tied(settings, files)
        # Where nothing is tied, a checkpoint that has tables of both sides uses them.
        shares = tied or (_TABLE in files and not (_SOURCE in files and _TARGET in files))
        return {
            "source_frame": settings.one_of("source_frame", dict(zip(_FRAMES, _FRAMES, strict=True)), "end"),
            "shared_embeddings": settings.flag("share_encoder_decoder_embeddings", True) and shares,
            "tied_output": tied,
        }

    def written(self, body: TransformerConfig, heads: HeadNames, vocabularies: Vocabularies) -> Mapping[str, Any]:
        source, target = (vocabularies[side][0] for side in ("source", "target"))
        return {
            "vocab_size": source.vocab_size,
            "decoder_vocab_size": target.vocab_size,
            "share_encoder_decoder_embeddings": body.shared_embeddings,
            "activation_dropout": body.dropout,
            "source_frame": body.source_frame,  # ours: what stands around a source; the tokenizer adds it
            "pad_token_id": target.special.padding,
            "eos_token_id": target.special.end,
            "decoder_start_token_id": target.special.start,
        }

    def tokenizers(self, folder: Path, settings: Settings) -> Vocabularies:
        return {side: (tokenizer, {}) for side, tokenizer in read_tokenizers(folder, settings).items()}

    def write_tokenizers(self, vocabularies: Vocabularies, folder: Path) -> None:
        write_tokenizers(vocabularies["source"][0], vocabularies["target"][0], folder)
