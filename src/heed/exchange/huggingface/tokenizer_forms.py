"""Normalisation and splitting of texts by each class of tokenizer, as objects of the `tokenizers` library.

| class | tokens | cut |
|---|---|---|
| `BertTokenizer` | WordPiece | BERT's normalisation; blanks, marks and Chinese characters |
| `GPT2Tokenizer`, `RobertaTokenizer` | BPE over bytes | GPT-2's pattern |
| `XLMRobertaTokenizer` | Unigram | blanks; SentencePiece's compiled normalisation |
| any other, with tokenizer.json | what the file says | what the file says |
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

from heed.data.tokens.special import BLANK, CONTINUED
from heed.errors import ConfigError, RunError
from heed.exchange.huggingface.sentencepiece_file import SentencePieceFile
from heed.exchange.huggingface.tokenizer_folder import (
    BERT,
    CONFIG,
    GPT2,
    ROBERTA,
    WHOLE,
    XLM_ROBERTA,
    TokenizerFolder,
    missing,
    read_lines,
)

_PIECES = "sentencepiece.bpe.model"
_KINDS = {BERT: "WordPiece", ROBERTA: "BPE", GPT2: "BPE", XLM_ROBERTA: "Unigram"}


def library_of(files: TokenizerFolder) -> Tokenizer:
    """The tokenizer of a folder as the `tokenizers` library has it, in the folder's numbering.

    Raises:
        RunError: A file is missing or damaged.
        ConfigError: Its kind is not supported.
    """
    folder, whole = files.folder, files.whole
    if files.form in _KINDS and (whole is None or _kind(whole) == _KINDS[files.form]):
        try:
            library = {BERT: _bert, ROBERTA: _bytes, GPT2: _bytes, XLM_ROBERTA: _unigram}[files.form](files)
        except (RunError, ConfigError):
            raise
        except Exception as error:  # the library has no narrower one
            raise RunError(f"the tokenizer in {folder} is damaged: {error}") from None
    else:
        assert whole is not None
        library = _as_it_is(files, whole)
    files.add_tokens(library)
    return library


def flag(files: TokenizerFolder, name: str, default: bool | None) -> bool | None:
    """A field of tokenizer_config.json that is true, false or null.

    Raises:
        ConfigError: It is something else.
    """
    value = files.settings.get(name, default)
    if value is not None and not isinstance(value, bool):
        raise ConfigError(f"{files.folder / CONFIG}: {name} is {json.dumps(value)}, expected true or false")
    return value


def _kind(whole: Mapping[str, Any]) -> str:
    """The kind of tokens of a tokenizer.json; old files do not name it."""
    model = whole["model"]
    if "type" in model:
        return str(model["type"])
    if isinstance(model.get("vocab"), list):
        return "Unigram"
    return "BPE" if "merges" in model else "WordPiece" if "continuing_subword_prefix" in model else "WordLevel"


def _bert(files: TokenizerFolder) -> Tokenizer:
    if files.whole is not None:
        vocabulary = dict(files.whole["model"]["vocab"])
    else:
        path = files.folder / "vocab.txt"
        if not path.is_file():
            raise missing(files.folder)
        vocabulary = {token: i for i, token in enumerate(read_lines(path))}
    library = Tokenizer(
        models.WordPiece(vocabulary, unk_token=files.roles()["unk_token"], max_input_chars_per_word=100)
    )
    library.normalizer = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=flag(files, "tokenize_chinese_chars", True) is not False,
        strip_accents=flag(files, "strip_accents", None),
        lowercase=flag(files, "do_lower_case", True) is not False,
    )
    library.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    library.decoder = decoders.WordPiece(prefix=CONTINUED)
    return library


def _bytes(files: TokenizerFolder) -> Tokenizer:
    if files.whole is not None:
        model = files.whole["model"]
        vocabulary = dict(model["vocab"])
        pairs = (merge.split(" ") if isinstance(merge, str) else merge for merge in model["merges"])
        merges = [(str(left), str(right)) for left, right in pairs]
    else:
        names = [files.folder / name for name in ("vocab.json", "merges.txt")]
        if not all(path.is_file() for path in names):
            raise missing(files.folder)
        vocabulary, merges = models.BPE.read_file(*map(str, names))
    library = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    prefix = flag(files, "add_prefix_space", False) is True
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
    library.decoder = decoders.ByteLevel()
    return library


def _unigram(files: TokenizerFolder) -> Tokenizer:
    if files.whole is not None:
        model = files.whole["model"]
        pieces = [(str(piece), float(score)) for piece, score in model["vocab"]]
        compiled = _compiled(files.whole.get("normalizer"))
        unknown = model.get("unk_id")
    else:
        path = files.folder / _PIECES
        if not path.is_file():
            raise missing(files.folder)
        read = SentencePieceFile.read(path)
        if read.kind != "unigram":
            raise ConfigError(f"{path} is a model of kind {read.kind}; {XLM_ROBERTA} needs one of kind unigram")
        roles = files.roles()
        first = [(roles[f"{name}_token"], 0.0) for name in ("bos", "pad", "eos", "unk")]
        # Its first three are the unknown token, start and end; fairseq put padding among them and the mask at the end.
        pieces = [*first, *((piece.text, piece.score) for piece in read.pieces[3:]), (roles["mask_token"], 0.0)]
        compiled, unknown = read.normalisation, 3
    library = Tokenizer(models.Unigram(pieces, unk_id=unknown, byte_fallback=False))
    if compiled:
        library.normalizer = normalizers.Precompiled(compiled)
    scheme = "always" if flag(files, "add_prefix_space", True) is not False else "never"
    cut = pre_tokenizers.Metaspace(replacement=BLANK, prepend_scheme=scheme)
    library.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), cut])
    library.decoder = decoders.Metaspace(replacement=BLANK, prepend_scheme=scheme)
    return library


def _compiled(normalizer: Any) -> bytes:
    """The compiled character map of SentencePiece, anywhere among the normalisations."""
    if not isinstance(normalizer, dict):
        return b""
    for step in (normalizer, *normalizer.get("normalizers", ())):
        if step.get("type") == "Precompiled":
            return base64.b64decode(step["precompiled_charsmap"] or "")
    return b""


def _as_it_is(files: TokenizerFolder, whole: Mapping[str, Any]) -> Tokenizer:
    path = files.folder / WHOLE
    try:
        library = Tokenizer.from_str(json.dumps({**whole, "post_processor": None}))
    except Exception as error:  # the library has no narrower one
        raise RunError(f"{path} is damaged: {error}") from None
    model, decoder = library.model, library.decoder
    supported = "WordPiece, Unigram, words, and BPE over bytes or characters"
    lacks = f"{path}: its {{}}, which heed does not support; supported: {supported}"
    if isinstance(model, models.WordPiece):
        if (prefix := model.continuing_subword_prefix) != CONTINUED:
            raise ConfigError(lacks.format(f"pieces within words begin with '{prefix}' and not '{CONTINUED}'"))
    elif decoder is not None and not isinstance(decoder, decoders.ByteLevel | decoders.Metaspace | decoders.Fuse):
        raise ConfigError(lacks.format(f"decoder is {type(decoder).__name__}"))
    elif isinstance(model, models.BPE) and decoder is None:
        raise ConfigError(lacks.format("BPE has no decoder"))
    if getattr(model, "byte_fallback", False):
        raise ConfigError(lacks.format("unknown characters become bytes (byte_fallback)"))
    return library
