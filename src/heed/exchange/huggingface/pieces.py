"""SentencePiece models as tokenizers of the library `tokenizers`, whose ids are the places of the pieces.

In checkpoints of Marian and M2M-100 such a model only cuts, and a table (vocab.json) has the ids: `MappedTokenizer`.

Source: Kudo and Richardson 2018 (arXiv:1808.06226); the fields are those of `sentencepiece_model.proto`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

from heed.data.tokens import BLANK, Special
from heed.data.tokens.tokenizer import NAMELESS, UNUSED, MappedTokenizer
from heed.errors import ConfigError, RunError
from heed.exchange.huggingface.tokenizers import check_scores
from heed.storage.files import read_bytes, shown

_UNIGRAM, _BPE = 1, 2
"""Kinds of models that are read."""
NORMAL, _UNKNOWN, _USER_DEFINED, _BYTE = 1, 2, 4, 6
"""Types of pieces."""


def read_pieces(path: Path) -> Any:
    """The contents of a file, a `ModelProto` of the package sentencepiece.

    Raises:
        RunError: The file is missing, damaged, or of an unsupported kind.
        ConfigError: The package is not installed.
    """
    try:
        model, problem = parsed(b""), ""
    except ImportError:
        raise ConfigError(
            f"{path} can be read only with the package sentencepiece; install it: pip install -e '.[hf]'"
        ) from None
    try:
        model = parsed(read_bytes(path, links=True))
    except RunError:
        raise
    except Exception as error:  # of protobuf
        problem = str(error)
    trainer = model.trainer_spec
    problems = (
        (not model.pieces, "it has no pieces"),
        (not all(isinstance(piece.piece, str) for piece in model.pieces), "a piece is not UTF-8"),
        (trainer.model_type not in (_UNIGRAM, _BPE), "it is of whole words or characters; unigram and bpe are read"),
        (not model.normalizer_spec.escape_whitespaces, "its spaces are not escaped"),
        (trainer.treat_whitespace_as_suffix, "its pieces end with the space instead of starting with it"),
    )
    if problem := problem or next((text for is_so, text in problems if is_so), ""):
        raise RunError(f"{path} is not a SentencePiece model, or is damaged: {problem}")
    check_scores(((piece.piece, piece.score) for piece in model.pieces), path)
    return model


def parsed(data: bytes) -> Any:
    """A `ModelProto` from its bytes; an error of protobuf, which heed does not import itself, if they are damaged."""
    from sentencepiece import sentencepiece_model_pb2 as messages

    model: Any = messages.ModelProto()  # type: ignore[attr-defined]
    model.ParseFromString(data)
    return model


def cutter_of(model: Any) -> Tokenizer:
    """The tokenizer that splits texts like a model; its ids are the places of the pieces."""
    names = [
        piece.piece if piece.type in (NORMAL, _USER_DEFINED, _BYTE) else f"{NAMELESS}{i}"
        for i, piece in enumerate(model.pieces)
    ]
    unknown = next((i for i, piece in enumerate(model.pieces) if piece.type == _UNKNOWN), 0)
    spec, falls_back = model.normalizer_spec, model.trainer_spec.byte_fallback
    make = _unigram if model.trainer_spec.model_type == _UNIGRAM else _bpe
    tokenizer = Tokenizer(make(model, names, unknown, falls_back))
    charsmap = spec.precompiled_charsmap
    steps: list[Any] = [normalizers.Precompiled(charsmap)] if charsmap else []
    if spec.remove_extra_whitespaces:
        steps += [normalizers.Replace(Regex("^ +| +$"), ""), normalizers.Replace(Regex(" {2,}"), " ")]
    elif spec.add_dummy_prefix:  # before a blank too, where `Metaspace` puts none
        steps.append(normalizers.Prepend(" "))
    if steps:
        tokenizer.normalizer = normalizers.Sequence(steps)
    apart = not any(BLANK in piece.piece[1:] for piece in model.pieces if piece.piece.strip(BLANK))
    prepends = spec.add_dummy_prefix and spec.remove_extra_whitespaces
    scheme: Literal["always", "never"] = "always" if prepends else "never"
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(replacement=BLANK, prepend_scheme=scheme, split=apart)
    joined = decoders.Metaspace(replacement=BLANK, prepend_scheme=scheme, split=apart)
    tokenizer.decoder = decoders.Sequence([decoders.ByteFallback(), joined]) if falls_back else joined
    return tokenizer


def _unigram(model: Any, names: Sequence[str], unknown: int, falls_back: bool) -> models.Unigram:
    best = max((piece.score for piece in model.pieces if piece.type == NORMAL), default=0.0)
    scores = [
        len(piece.piece.encode()) * best - 0.1 if piece.type == _USER_DEFINED else piece.score for piece in model.pieces
    ]
    return models.Unigram([*zip(names, scores, strict=True)], unknown, falls_back)


def _bpe(model: Any, names: Sequence[str], unknown: int, falls_back: bool) -> models.BPE:
    """Merges, in order of the scores of the pieces that they give, since SentencePiece stores no merges."""
    ids = {name: i for i, name in enumerate(names)}
    merges = [
        (-piece.score, ids[left], ids[right], left, right)
        for piece in model.pieces
        if piece.type == NORMAL
        for left, right in ((piece.piece[:n], piece.piece[n:]) for n in range(1, len(piece.piece)))
        if left in ids and right in ids
    ]
    pairs = [(left, right) for *_, left, right in sorted(merges)]
    return models.BPE(vocab=ids, merges=pairs, unk_token=names[unknown], fuse_unk=True, byte_fallback=falls_back)


def check_ids(ids: Mapping[str, Any], path: Path, size: int, required: Iterable[str]) -> None:
    """Refuse a table of ids that lacks a token, or has an id that is no row of the embedding.

    Raises:
        RunError: The message names the token.
    """
    for token, i in ids.items():
        if type(i) is not int or not 0 <= i < size:
            raise RunError(f"{path}: token '{token}' has the id {shown(i)}, but config.json has {size:,} tokens")
    if absent := [name for name in required if name not in ids]:
        raise RunError(f"{path} lacks the token '{absent[0]}'")


def mapped_tokenizer(
    path: Path, ids: dict[str, int], size: int, special: Special, tags: Sequence[str] = (), codes: bool = True
) -> MappedTokenizer:
    """The tokenizer that cuts with the SentencePiece model of a file and has the ids of a table.

    Of several tokens of one id the first is its name; rows without a token are `UNUSED`.
    """
    names = {i: token for token, i in reversed(ids.items())}
    vocabulary = [names.get(i, UNUSED.format(i)) for i in range(size)]
    return MappedTokenizer(cutter_of(read_pieces(path)), vocabulary, path.read_bytes(), tags, special, codes)
