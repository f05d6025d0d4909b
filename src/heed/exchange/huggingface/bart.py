"""BART (bart-base, bart-large-cnn, distilbart) and M2M-100 with NLLB-200: `transformer` with tokens before the target.

| theirs | ours |
|---|---|
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
| BART | tokenizer.json, or vocab.json and merges.txt |
| NLLB | tokenizer.json |
| M2M-100 | vocab.json with ids, sentencepiece.bpe.model, which cuts; language tokens follow those of vocab.json |

Source: Lewis et al. 2019 (arXiv:1910.13461); Fan et al. 2020 (arXiv:2010.11125); NLLB Team 2022 (arXiv:2207.04672); the
names of published tensors, as in `modeling_bart.py` and `modeling_m2m_100.py`.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field

from heed.data.tokens import Special
from heed.data.tokens.tokenizer import UNUSED, MappedTokenizer, TextTokenizer
from heed.errors import ConfigError, RunError
from heed.exchange.huggingface.family import HeadNames, Vocabularies
from heed.exchange.huggingface.files import Count, Share, after, optional_json, read_json
from heed.exchange.huggingface.marian import EncoderDecoder, blocks
from heed.exchange.huggingface.pieces import cutter_of, read_pieces
from heed.exchange.huggingface.tokenizers import CONFIG, WHOLE, read_tokenizer, write_json, write_tokenizer
from heed.models.transformer import TransformerConfig
from heed.storage.files import shown

_NORM_EPS = {"norm_eps": (1e-5, "its value is 1e-05")}


class _OneVocabulary(EncoderDecoder):
    """Families whose sides share a vocabulary, and whose decoder may start with the end token."""

    layers: ClassVar = {
        **blocks("encoder", attention="self_attn"),
        **blocks("decoder", attention="self_attn", cross="encoder_attn"),
    }

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

    def _started(self, tokenizer: TextTokenizer) -> TextTokenizer:
        """A tokenizer whose start token is the first that the decoder reads."""
        start = tokenizer.special.end if self.decoder_start_token_id is None else self.decoder_start_token_id
        return TextTokenizer(tokenizer.library, tokenizer.special._replace(start=start), tokenizer.rows)


class Bart(_OneVocabulary):
    """BART."""

    model_type: ClassVar = "bart"
    architectures: ClassVar = {
        frozenset({"output"}): "BartForConditionalGeneration",
        frozenset({"output", "bias"}): "BartForConditionalGeneration",
        frozenset(): "BartModel",
    }
    layers: ClassVar = {
        **_OneVocabulary.layers,
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

    max_length: Count = Field(1024, alias="max_position_embeddings")
    target_frame: Literal["none", "start"] = "start"  # ours: its own runs may begin targets with no token

    @classmethod
    def refuse(cls, body: TransformerConfig, heads: HeadNames) -> None:
        if body.target_frame == "language":
            raise cls.lacks("target_frame", body.target_frame, "BART has no language tokens")

    def tokenizers(self, folder: Path) -> Vocabularies:
        tokenizer, files = read_tokenizer(folder, self._values)
        return {"source": (tokenizer, files), "target": (self._started(tokenizer), files)}

    @classmethod
    def write_tokenizers(cls, vocabularies: Vocabularies, folder: Path) -> None:
        tokenizer, files = vocabularies["source"]
        write_tokenizer(tokenizer, files, folder, cls.model_type, None if files else (1, 2, 1))


_IDS, _CUTTER = "vocab.json", "sentencepiece.bpe.model"
_LANGUAGES = {
    "m2m100": "af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl gu ha he hi hr "
    "ht hu hy id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn mr ms my ne nl no ns oc or pa pl ps "
    "pt ro ru sd si sk sl so sq sr ss su sv sw ta th tl tn tr uk ur uz vi wo xh yi yo zh zu",
    "wmt21": "en ha is ja cs ru zh de",
}
"""By `language_codes`, the languages whose tokens follow those of vocab.json, in this order."""
_NAMED = {"pad_token": "<pad>", "unk_token": "<unk>", "bos_token": "<s>", "eos_token": "</s>"}


class M2M100(_OneVocabulary):
    """M2M-100 and the dense models of NLLB-200."""

    model_type: ClassVar = "m2m_100"
    architectures: ClassVar = {
        frozenset({"output"}): "M2M100ForConditionalGeneration",
        frozenset({"output", "bias"}): "M2M100ForConditionalGeneration",
        frozenset(): "M2M100Model",
    }
    layers: ClassVar = {
        **_OneVocabulary.layers,
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
        options = optional_json(folder / CONFIG) or {}
        if options.get("legacy_behaviour"):
            raise ConfigError(
                f"{folder / CONFIG}: legacy_behaviour is true, so that texts are read as X </s> lang; heed reads them "
                "as lang X </s>, as the model was trained"
            )
        if not os.path.lexists(folder / WHOLE) and os.path.lexists(folder / _IDS):
            return dict.fromkeys(("source", "target"), (self._read_mapped(folder, options), {}))
        tokenizer, files = read_tokenizer(folder, self._values, tags=True)
        return dict.fromkeys(("source", "target"), (self._started(tokenizer), files))

    def _read_mapped(self, folder: Path, options: Mapping[str, Any]) -> MappedTokenizer:
        """The tokenizer of vocab.json and a SentencePiece model.

        Raises:
            RunError: A file is missing or damaged.
        """
        path, codes = folder / _IDS, options.get("language_codes", "m2m100")
        tokens, size = read_json(path), self.vocab_size
        if codes not in _LANGUAGES:
            raise RunError(f"{folder / CONFIG}: language_codes is {shown(codes)}, expected {' or '.join(_LANGUAGES)}")
        languages = [f"__{code}__" for code in _LANGUAGES[codes].split()]
        tokens |= {name: len(tokens) + n for n, name in enumerate(languages)}
        for token, i in tokens.items():
            if type(i) is not int or not 0 <= i < size:
                raise RunError(f"{path}: token '{token}' has the id {shown(i)}, but config.json has {size:,} tokens")
        if absent := [name for name in _NAMED.values() if name not in tokens]:
            raise RunError(f"{path} lacks the token '{absent[0]}'")
        padding, unknown, _, end = map(tokens.__getitem__, _NAMED.values())
        start = end if self.decoder_start_token_id is None else self.decoder_start_token_id
        names = {i: token for token, i in tokens.items()}
        vocabulary = [names.get(i, UNUSED.format(i)) for i in range(size)]
        pieces, special = cutter_of(read_pieces(folder / _CUTTER)), Special(padding, unknown, start, end)
        tags = [token for token in ("<s>", *languages) if tokens[token] not in special]
        return MappedTokenizer(pieces, vocabulary, (folder / _CUTTER).read_bytes(), tags, special, codes=False)

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
        write_json(folder / CONFIG, {**options, **_NAMED})
