"""Families with an encoder and a decoder, all our `transformer`: Marian, BART, M2M-100.

Marian are the models of OPUS-MT, BART those like bart-base, bart-large-cnn and distilbart; M2M-100 includes NLLB-200.

| theirs | ours |
|---|---|
| Marian: sinusoids: all sines, then all cosines | they alternate: every axis of width d_model is permuted |
| Marian: `final_logits_bias` | bias of the output layer |
| Marian: an end token after each source | `source_frame: end` |
| BART: a table of positions for each side, the first in row 2 | `positions: learned`, `shared_positions: false` |
| BART: `layernorm_embedding` | `normalized_embeddings` |
| BART: texts are `<s> X </s>` | `source_frame: both`, `target_frame: start` |
| M2M: sines, then cosines, the first position is 2 | `positions: fairseq` |
| M2M: pre-norm, no bias in the output layer | `norm: pre`, `output_bias: false` |
| M2M: texts are `lang X </s>` | both frames are `language`; `data.source_language`, `data.target_language` |
| the decoder's first token, `</s>` | start token of the target's tokenizer |
| `forced_bos_token_id` | the first token of each target, as in training; heed always forces it |
| language tokens; `<s>`, where `</s>` starts the decoder | tags: no text is cut into them, no output shows them |

| tokenizer | files |
|---|---|
| Marian | source.spm and target.spm, which cut; vocab.json with the ids of both sides, or of the source |
| Marian with `separate_vocabs` | also target_vocab.json with the ids of the target |
| Marian, of a run trained here | tokenizer.json, and another one in `target_tokenizer/` if the target's differs |
| BART | tokenizer.json, or vocab.json and merges.txt |
| NLLB | tokenizer.json |
| M2M-100 | vocab.json with ids, sentencepiece.bpe.model, which cuts; language tokens follow those of vocab.json |

Source: Junczys-Dowmunt et al. 2018 (arXiv:1804.00344); Lewis et al. 2019 (arXiv:1910.13461); Fan et al. 2020
(arXiv:2010.11125); NLLB Team 2022 (arXiv:2207.04672); Kudo and Richardson 2018 (SentencePiece, arXiv:1808.06226); the
names of published tensors, as in `modeling_marian.py`, `modeling_bart.py` and `modeling_m2m_100.py`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from heed.data.tokens import OWN, Special, library_of
from heed.data.tokens.tokenizer import MappedTokenizer, TextTokenizer
from heed.errors import ConfigError, RunError
from heed.exchange.huggingface.family import ACTIVATIONS, Family, HeadNames, Layout, Line, Vocabularies
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
    after,
    each,
    entry,
    leading,
    optional_json,
    read_json,
    zeros,
)
from heed.exchange.huggingface.pieces import check_ids, mapped_tokenizer
from heed.exchange.huggingface.tokenizers import (
    TOKENIZER_CONFIG,
    TOKENIZER_JSON,
    read_tokenizer,
    write_json,
    write_tokenizer,
)
from heed.models.transformer import TransformerConfig
from heed.storage.files import shown

_IDS = "vocab.json"
_NAMES = {"pad_token": "<pad>", "unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}
"""The special tokens by their names in tokenizer_config.json."""
_NORM_EPS = {"norm_eps": (1e-5, "its value is 1e-05")}
_TABLE, _SOURCE, _TARGET = (
    f"model.{name}.weight" for name in ("shared", "encoder.embed_tokens", "decoder.embed_tokens")
)
_OUTPUT, _BIAS = "lm_head.weight", "final_logits_bias"


def _permuted(axis: int) -> Transform:
    """Reorder an axis of width d_model: theirs has sines before cosines, ours alternates; a bias has no axis 1."""

    def reordered(tensor: Tensor, inverse: bool) -> Tensor:
        if tensor.is_meta or tensor.dim() <= axis:
            return tensor
        order = alternating(tensor.shape[axis])
        return tensor.index_select(axis, order.argsort() if inverse else order)

    return each(lambda theirs: reordered(theirs, inverse=False), lambda ours: reordered(ours, inverse=True))


def alternating(d: int) -> Tensor:
    """The index in their order of each dimension of ours, where sine i is at 2i and cosine i at 2i + 1."""
    place = torch.arange(d)
    return torch.where(place % 2 == 0, place // 2, (d + 1) // 2 + place // 2)


_READS, _WRITES = _permuted(1), _permuted(0)


_ATTENTIONS = {"encoder": {"attention": "self_attn"}, "decoder": {"attention": "self_attn", "cross": "encoder_attn"}}
"""By side, our attentions of a block, each with theirs."""


def _blocks(reads: Transform = SAME, writes: Transform = SAME) -> dict[str, Line]:
    """The layers of the blocks of both sides: attentions, norms, feed-forward.

    Args:
        reads: For a layer that reads vectors of width d_model.
        writes: For one that writes them.
    """
    lines: dict[str, Line] = {}
    for side, attentions in _ATTENTIONS.items():
        layers: dict[str, tuple[str, Transform]] = {}
        for ours, theirs in attentions.items():
            layers |= {f"{ours}.w_{name}": (f"{theirs}.{name[0]}_proj", reads) for name in ("query", "key", "value")}
            layers |= {f"{ours}.w_out": (f"{theirs}.out_proj", writes)}
            layers |= {f"around_{ours}.norm": (f"{theirs}_layer_norm", writes)}
        layers |= {"feed_forward.inner": ("fc1", reads), "feed_forward.outer": ("fc2", writes)}
        layers |= {"around_feed_forward.norm": ("final_layer_norm", writes)}
        for ours, (theirs, transform) in layers.items():
            lines[f"body.{side}.*.{ours}"] = f"{side}.layers.*.{theirs}", transform
    return lines


def _classes(with_output: str, body: str) -> dict[HeadNames, str]:
    """The classes of a family by their heads."""
    return {frozenset({"output"}): with_output, frozenset({"output", "bias"}): with_output, frozenset(): body}


class EncoderDecoder(Family):
    """What Marian, BART and M2M-100 share: fields, embeddings of both sides and the output layer."""

    model: ClassVar = "transformer"
    config_class: ClassVar = TransformerConfig
    prefix: ClassVar = "model."
    layers: ClassVar[Mapping[str, Line]] = _blocks()
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

    def further(self, layout: Layout) -> Sequence[Entry]:
        body, tied = layout.body, _OUTPUT if layout.tied else ""
        source, target = "body.source_embedding.weight", "body.target_embedding.weight"
        table = [entry(_TABLE, target, self.reads, also=f"{_TARGET} {_SOURCE} {tied}")]
        if not body.shared_embeddings:
            table = [entry(_SOURCE, source, self.reads), entry(_TARGET, target, self.reads, also=tied), entry(_TABLE)]
        output = [] if layout.tied else [entry(_OUTPUT, "body.output.weight", self.reads)]
        bias, form = (_BIAS, leading(1)) if "bias" in layout.heads else ("", zeros((body.target_vocab_size,)))
        return [*table, *output, entry(bias, "body.output.bias", form)]

    def derived(self, files: TensorFiles, heads: HeadNames) -> Mapping[str, Any]:
        tied = self.tied(files)
        # Without tying, a checkpoint that has a table for each side uses these.
        has_one_table = tied or (_TABLE in files and not (_SOURCE in files and _TARGET in files))
        return {"shared_embeddings": self.shared_embeddings and has_one_table, "tied_output": tied}

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


_CUTTERS = {"source": "source.spm", "target": "target.spm"}
_TARGET_IDS = "target_vocab.json"
TARGET_FOLDER = "target_tokenizer"
"""Subfolder of the target's tokenizer, if it differs from the source's and is no SentencePiece model."""
_LONGEST = 512


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
    options = optional_json(folder / TOKENIZER_CONFIG) or {}
    tokens = {role: options.get(role) or _NAMES[role] for role in ("pad_token", "unk_token", "eos_token")}
    names = {role: token["content"] if isinstance(token, dict) else token for role, token in tokens.items()}
    separate = os.path.lexists(folder / _TARGET_IDS) and bool(options.get("separate_vocabs", True))
    sizes = config.vocab_size, config.decoder_vocab_size or config.vocab_size
    tokenizers: dict[str, TextTokenizer] = {}
    for (side, cutter), size in zip(_CUTTERS.items(), sizes, strict=True):
        has_own_ids = separate and side == "target"
        path = folder / (_TARGET_IDS if has_own_ids else _IDS)
        ids = read_json(path)
        check_ids(ids, path, size, (names["unk_token"], names["eos_token"]))
        # Ids by name; those of config.json have precedence, and with two tables are of the target only.
        padding, end, start = ids.get(names["pad_token"]), ids[names["eos_token"]], None
        if has_own_ids or not separate:
            padding = padding if config.pad_token_id is None else config.pad_token_id
            end = end if config.eos_token_id is None else config.eos_token_id
            start = config.decoder_start_token_id
        padding = end if padding is None else padding
        special = Special(padding, ids[names["unk_token"]], padding if start is None else start, end)
        if (largest := max(special)) >= size:
            raise ConfigError(f"config.json names the token {largest}, but it has {size:,} tokens")
        tokenizers[side] = mapped_tokenizer(folder / cutter, ids, size, special)
    return tokenizers


def _read_tokenizer_json(folder: Path, config: Marian) -> dict[str, TextTokenizer]:
    """What `_write_tokenizer_json` wrote."""
    target = folder / TARGET_FOLDER if (folder / TARGET_FOLDER).is_dir() else folder
    tokenizers: dict[str, TextTokenizer] = {}
    for side, place in (("source", folder), ("target", target)):
        state = {**read_json(place / TOKENIZER_JSON), "post_processor": None}
        try:
            tokenizers[side] = TextTokenizer(library_of(state))
        except Exception as error:  # the library has no narrower one
            raise RunError(f"{place / TOKENIZER_JSON} is not a tokenizer: {error}") from None
    if (config.pad_token_id, config.decoder_start_token_id, config.eos_token_id) != (OWN.padding, OWN.start, OWN.end):
        raise config.wrong(
            "decoder_start_token_id",
            f"{OWN.start}, with pad_token_id {OWN.padding} and eos_token_id {OWN.end}: heed reads a Marian checkpoint "
            f"with {TOKENIZER_JSON} only if heed wrote it",
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
    write_json(folder / TOKENIZER_CONFIG, options | named)


def _write_tokenizer_json(tokenizer: TextTokenizer, folder: Path, frame: str) -> None:
    """Write the files of one side, with the start and end tokens that `frame` adds to each text."""
    if isinstance(tokenizer, MappedTokenizer):
        raise ConfigError("one side has SentencePiece models and the other has none; Marian needs both or neither")
    write_tokenizer(tokenizer, {}, folder, "marian", (frame == "both", 0, frame != "none"))


class Marian(EncoderDecoder):
    """Marian."""

    model_type: ClassVar = "marian"
    architectures: ClassVar = _classes("MarianMTModel", "MarianModel")
    layers: ClassVar = _blocks(_READS, _WRITES)
    activations: ClassVar = {"swish": "silu", **ACTIVATIONS}
    expresses: ClassVar = {
        "norm": ("post", "Marian normalises after each sublayer"),
        "positions": ("sinusoidal", "Marian has fixed sinusoids"),
        **_NORM_EPS,
        "normalized_embeddings": (False, "Marian does not normalise embeddings"),
        "target_frame": ("none", "Marian begins no target with a token"),
        "output_bias": (True, "its output layer has a bias"),
    }
    excludes: ClassVar = {"source_frame": ("language", "Marian has no language tokens before its sources")}
    ignored: ClassVar = (r"embed_positions\.weight$",)
    reads: ClassVar = _READS

    source_frame: Literal["none", "end", "both"] = "end"  # our field, not theirs: the tokenizer adds these tokens

    def tokenizers(self, folder: Path) -> Vocabularies:
        is_library = os.path.lexists(folder / TOKENIZER_JSON) and not os.path.lexists(folder / _IDS)
        read = (_read_tokenizer_json if is_library else _read_pair)(folder, self)
        return {side: (tokenizer, {}) for side, tokenizer in read.items()}

    @classmethod
    def write_tokenizers(cls, vocabularies: Vocabularies, folder: Path) -> None:
        source, target = vocabularies["source"][0], vocabularies["target"][0]
        frame = read_json(folder / CONFIG).get("source_frame", "end")
        if isinstance(source, MappedTokenizer) and isinstance(target, MappedTokenizer):
            if frame != "end":
                raise ConfigError(f"marian cannot express model.source_frame={frame}: its tokenizer ends each source")
            return _write_pair(source, target, folder)
        _write_tokenizer_json(source, folder, frame)
        if source.text != target.text:
            (folder / TARGET_FOLDER).mkdir()
            _write_tokenizer_json(target, folder / TARGET_FOLDER, "end")


class _OneVocabulary(EncoderDecoder):
    """Families whose sides share a vocabulary, and whose decoder may start with the end token."""

    @classmethod
    def written(cls, body: TransformerConfig, heads: HeadNames, vocabularies: Vocabularies) -> Mapping[str, Any]:
        source, target = (vocabularies[side][0] for side in ("source", "target"))
        if source.tokens != target.tokens:
            raise ConfigError(
                f"{cls.model_type} has one vocabulary for both sides, but this run has two; train with "
                "tokenizer.shared=true"
            )
        values = {**super().written(body, heads, vocabularies), "bos_token_id": source.special.start}
        return {name: value for name, value in values.items() if name != "decoder_vocab_size"}

    def _start(self, end: int) -> int:
        """The first token that the decoder reads."""
        return end if self.decoder_start_token_id is None else self.decoder_start_token_id

    def _started(self, tokenizer: TextTokenizer) -> TextTokenizer:
        """A tokenizer whose start token is the first that the decoder reads."""
        special = tokenizer.special
        return TextTokenizer(tokenizer.library, special._replace(start=self._start(special.end)), tokenizer.rows)


class Bart(_OneVocabulary):
    """BART."""

    model_type: ClassVar = "bart"
    architectures: ClassVar = _classes("BartForConditionalGeneration", "BartModel")
    layers: ClassVar = {
        **EncoderDecoder.layers,
        "body.positions.table": ("encoder.embed_positions", after(2)),
        "body.target_positions.table": ("decoder.embed_positions", after(2)),
        "body.source_embedding_norm": "encoder.layernorm_embedding",
        "body.target_embedding_norm": "decoder.layernorm_embedding",
    }
    expresses: ClassVar = {
        "norm": ("post", "BART normalises after each sublayer"),
        "positions": ("learned", "BART has tables of positions"),
        "shared_positions": (False, "each side of BART has a table of its own"),
        "normalized_embeddings": (True, "BART normalises embeddings"),
        "source_frame": ("both", "BART reads sources between a start and an end token"),
        "output_bias": (True, "its output layer has a bias"),
        **_NORM_EPS,
    }
    excludes: ClassVar = {"target_frame": ("language", "BART has no language tokens")}

    max_length: Count = Field(1024, alias="max_position_embeddings")
    target_frame: Literal["none", "start"] = "start"  # ours: its own runs may begin targets with no token

    def tokenizers(self, folder: Path) -> Vocabularies:
        tokenizer, files = read_tokenizer(folder, self._values)
        return {"source": (tokenizer, files), "target": (self._started(tokenizer), files)}

    @classmethod
    def write_tokenizers(cls, vocabularies: Vocabularies, folder: Path) -> None:
        tokenizer, files = vocabularies["source"]
        write_tokenizer(tokenizer, files, folder, cls.model_type, None if files else (1, 2, 1))


_CUTTER = "sentencepiece.bpe.model"
_LANGUAGES = {
    "m2m100": "af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl gu ha he hi hr "
    "ht hu hy id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn mr ms my ne nl no ns oc or pa pl ps "
    "pt ro ru sd si sk sl so sq sr ss su sv sw ta th tl tn tr uk ur uz vi wo xh yi yo zh zu",
    "wmt21": "en ha is ja cs ru zh de",
}
"""By `language_codes`, the languages whose tokens follow those of vocab.json, in this order."""


class M2M100(_OneVocabulary):
    """M2M-100 and the dense models of NLLB-200."""

    model_type: ClassVar = "m2m_100"
    architectures: ClassVar = _classes("M2M100ForConditionalGeneration", "M2M100Model")
    layers: ClassVar = {
        **EncoderDecoder.layers,
        "body.encoder_norm": "encoder.layer_norm",
        "body.decoder_norm": "decoder.layer_norm",
    }
    expresses: ClassVar = {
        "norm": ("pre", "M2M-100 normalises before each sublayer"),
        "positions": ("fairseq", "M2M-100 has fairseq's sinusoids"),
        "normalized_embeddings": (False, "M2M-100 does not normalise embeddings"),
        "source_frame": ("language", "M2M-100 reads a language token before and an end token after each source"),
        "target_frame": ("language", "M2M-100 begins targets with a language token"),
        "output_bias": (False, "its output layer has no bias"),
        **_NORM_EPS,
    }
    ignored: ClassVar = (r"embed_positions\.weights$", "^final_logits_bias$")

    scaled_embeddings: bool = Field(True, alias="scale_embedding")
    attention_dropout: Share = 0.1
    activation: str = Field("relu", alias="activation_function", validate_default=True)
    pad_token_id: Literal[1] = 1  # the first position is one more than this

    @classmethod
    def written(cls, body: TransformerConfig, heads: HeadNames, vocabularies: Vocabularies) -> Mapping[str, Any]:
        if (padding := vocabularies["target"][0].special.padding) != 1:
            raise ConfigError(
                f"m2m_100 needs the padding token 1, which its positions begin after; here it is {padding}"
            )
        return super().written(body, heads, vocabularies)

    def tokenizers(self, folder: Path) -> Vocabularies:
        options = optional_json(folder / TOKENIZER_CONFIG) or {}
        if options.get("legacy_behaviour"):
            raise ConfigError(
                f"{folder / TOKENIZER_CONFIG}: legacy_behaviour is true, so that texts are read as X </s> lang; heed "
                "reads them as lang X </s>, as the model was trained"
            )
        if not os.path.lexists(folder / TOKENIZER_JSON) and os.path.lexists(folder / _IDS):
            return dict.fromkeys(("source", "target"), (self._read_mapped(folder, options), {}))
        tokenizer, files = read_tokenizer(folder, self._values, tags=True)
        return dict.fromkeys(("source", "target"), (self._started(tokenizer), files))

    def _read_mapped(self, folder: Path, options: Mapping[str, Any]) -> MappedTokenizer:
        """The tokenizer of vocab.json and a SentencePiece model.

        Raises:
            RunError: A file is missing or damaged.
        """
        path, codes = folder / _IDS, options.get("language_codes", "m2m100")
        ids = read_json(path)
        if codes not in _LANGUAGES:
            raise RunError(
                f"{folder / TOKENIZER_CONFIG}: language_codes is {shown(codes)}, expected {' or '.join(_LANGUAGES)}"
            )
        languages = [f"__{code}__" for code in _LANGUAGES[codes].split()]
        ids |= {name: len(ids) + n for n, name in enumerate(languages)}
        check_ids(ids, path, self.vocab_size, _NAMES.values())
        padding, unknown, _, end = map(ids.__getitem__, _NAMES.values())
        special = Special(padding, unknown, self._start(end), end)
        tags = [token for token in ("<s>", *languages) if ids[token] not in special]
        last_first = dict(reversed(ids.items()))  # a language is the name of its id
        return mapped_tokenizer(folder / _CUTTER, last_first, self.vocab_size, special, tags, codes=False)

    @classmethod
    def write_tokenizers(cls, vocabularies: Vocabularies, folder: Path) -> None:
        tokenizer, files = vocabularies["source"]
        if not isinstance(tokenizer, MappedTokenizer):
            return write_tokenizer(tokenizer, files, folder, cls.model_type)
        languages = [tag for tag in tokenizer.tags if not tag.startswith("<")]
        by_tags = {" ".join(f"__{code}__" for code in codes.split()): name for name, codes in _LANGUAGES.items()}
        if (name := by_tags.get(" ".join(languages))) is None:
            raise ConfigError("m2m_100 with a SentencePiece model has the languages of M2M-100 or WMT21, not others")
        tokens = tokenizer.tokens[: tokenizer.tags[languages[0]]]
        (folder / _CUTTER).write_bytes(tokenizer.origin)
        write_json(folder / _IDS, {token: i for i, token in enumerate(tokens)})
        options = {"tokenizer_class": "M2M100Tokenizer", "language_codes": name, "additional_special_tokens": languages}
        write_json(folder / TOKENIZER_CONFIG, {**options, **_NAMES})
