"""The tokenizers of Marian: two SentencePiece models that cut, and a table of ids; read and written.

| file | what |
|---|---|
| `source.spm`, `target.spm` | what cuts the texts of a side; its own ids count for nothing |
| `vocab.json` | id of each token of both sides, or of the source's |
| `target_vocab.json` | id of each token of the target, where `separate_vocabs` |

A checkpoint of a run that was trained here has the library's `tokenizer.json` instead, which is the source's, and
another one in `target_tokenizer/` for the target, where that is another.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from heed.data.tokens.mapped import MappedTokenizer
from heed.data.tokens.tokenizer import END, PADDING, SPECIAL_TOKENS, START, UNKNOWN, TextTokenizer
from heed.errors import ConfigError, RunError
from heed.exchange.huggingface.config_file import CONFIG, Settings, read_json
from heed.exchange.huggingface.family import Vocabularies
from heed.exchange.huggingface.numbering import Numbering
from heed.exchange.huggingface.sentencepiece_file import SentencePieceFile

_CUTTERS = {"source": "source.spm", "target": "target.spm"}
_IDS, _TARGET_IDS = "vocab.json", "target_vocab.json"
_SETTINGS, _WHOLE = "tokenizer_config.json", "tokenizer.json"
TARGET_FOLDER = "target_tokenizer"
"""Holds the target's tokenizer, where it is another than the source's and no SentencePiece model."""
_LONGEST = 512


def read_tokenizers(folder: Path, settings: Settings) -> dict[str, tuple[TextTokenizer, Numbering]]:
    """The tokenizers of both sides, renumbered.

    Raises:
        RunError: A file is missing or damaged.
        ConfigError: An id of config.json is in no vocabulary.
    """
    if (folder / _WHOLE).is_file() and not (folder / _IDS).is_file():
        return _read_whole(folder, settings)
    missing = [name for name in (_IDS, *_CUTTERS.values()) if not (folder / name).is_file()]
    if missing:
        raise RunError(
            f"{folder} lacks {', '.join(missing)}: Marian's tokenizer is {_IDS} and two SentencePiece models"
        )
    options = read_json(folder / _SETTINGS) if (folder / _SETTINGS).is_file() else {}
    names = {kind: _name(options, f"{kind}_token", default) for kind, default in _NAMES.items()}
    separate = (folder / _TARGET_IDS).is_file() and bool(options.get("separate_vocabs", True))
    sizes = {"source": settings.count("vocab_size"), "target": settings.count("decoder_vocab_size", 0, least=0)}
    sizes["target"] = sizes["target"] or sizes["source"]
    found: dict[str, tuple[TextTokenizer, Numbering]] = {}
    for side, cutter in _CUTTERS.items():
        apart = separate and side == "target"
        path = folder / (_TARGET_IDS if apart else _IDS)
        tokens = _tokens(path, sizes[side])
        special = _special(path, tokens, names, settings if apart or not separate else None)
        file = SentencePieceFile.read(folder / cutter)
        vocabulary, theirs = _renumbered(tokens, special, sizes[side])
        tokenizer = MappedTokenizer(file.cutter(), vocabulary, (folder / cutter).read_bytes())
        found[side] = tokenizer, Numbering(theirs, sizes[side])
    return found


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
        if isinstance(i, bool) or not isinstance(i, int) or not 0 <= i < size:
            raise RunError(f"{path}: token '{token}' has the id {json.dumps(i)}, but config.json has {size:,} tokens")
    return tokens


def _special(
    path: Path, tokens: Mapping[str, int], names: Mapping[str, str], settings: Settings | None
) -> list[int | None]:
    """Their ids of padding, the unknown token, start and end; by name, and by config.json what it names."""
    by_name = {kind: tokens.get(name) for kind, name in names.items()}
    if by_name["unk"] is None:
        raise RunError(f"{path} lacks the unknown token '{names['unk']}'")
    padding, end, start = by_name["pad"], by_name["eos"], None
    if settings is not None:
        padding = settings.count("pad_token_id", padding, least=0)
        end = settings.count("eos_token_id", end, least=0)
        start = settings.count("decoder_start_token_id", padding, least=0)
    if end is None:
        raise RunError(f"{path} lacks the end token '{names['eos']}'")
    return [padding, by_name["unk"], start, end]


def _renumbered(tokens: Mapping[str, int], special: list[int | None], size: int) -> tuple[list[str], list[int | None]]:
    """The tokens in our order, one for every row of the embedding, and their ids."""
    named: dict[int, str] = {}
    for token, i in tokens.items():
        named.setdefault(i, token)
    if wrong := [i for i in special if i is not None and i >= size]:
        raise ConfigError(f"config.json names the token {wrong[0]}, but it has {size:,} tokens")
    others = [i for i in range(size) if i not in special]
    vocabulary = [*SPECIAL_TOKENS, *(named.get(i, f"<{i}>") for i in others)]
    return vocabulary, [*special, *others]


def write_tokenizers(sides: Vocabularies, folder: Path) -> None:
    """Write tokenizer files that `AutoTokenizer.from_pretrained` reads, so that it cuts texts the same."""
    source, target = sides["source"], sides["target"]
    frame = read_json(folder / CONFIG).get("source_frame", "end")
    if isinstance(source[0], MappedTokenizer) and isinstance(target[0], MappedTokenizer):
        if frame != "end":
            raise ConfigError(f"marian cannot express model.source_frame={frame}: its tokenizer ends each source")
        _write_pair(sides, folder)
        return
    _write_whole(source[0], folder, frame)
    if source[0].text != target[0].text:
        (folder / TARGET_FOLDER).mkdir()
        _write_whole(target[0], folder / TARGET_FOLDER, "end")


def _write_pair(sides: Vocabularies, folder: Path) -> None:
    one = sides["source"][0].tokens == sides["target"][0].tokens
    for side, name in _CUTTERS.items():
        tokenizer, numbering = sides[side]
        assert isinstance(tokenizer, MappedTokenizer)
        (folder / name).write_bytes(tokenizer.origin)
        ids = {tokenizer.token(ours): theirs for theirs, ours in sorted(numbering.ours.items())}
        if not (one and side == "target"):
            _write_json(folder / (_IDS if side == "source" else _TARGET_IDS), ids)
    options = {
        "tokenizer_class": "MarianTokenizer",
        "separate_vocabs": not one,
        "eos_token": SPECIAL_TOKENS[END],
        "unk_token": SPECIAL_TOKENS[UNKNOWN],
        "pad_token": SPECIAL_TOKENS[PADDING],
        "source_lang": None,
        "target_lang": None,
        "sp_model_kwargs": {},
        "model_max_length": _LONGEST,
    }
    _write_json(folder / _SETTINGS, options)


def _write_whole(tokenizer: TextTokenizer, folder: Path, frame: str) -> None:
    """The library's own file, with the tokens that stand around each text."""
    if isinstance(tokenizer, MappedTokenizer):
        raise ConfigError("one side has SentencePiece models and the other has none; Marian needs both or neither")
    state = json.loads(tokenizer.text)
    start, end = ({"SpecialToken": {"id": tokenizer.token(i), "type_id": 0}} for i in (START, END))
    before, after = [start] if frame == "both" else [], [end] if frame != "none" else []
    text, other = ({"Sequence": {"id": name, "type_id": 0}} for name in "AB")
    special = {tokenizer.token(i): {"id": tokenizer.token(i), "ids": [i], "tokens": [tokenizer.token(i)]}
               for i in (START, END)}  # fmt: skip
    state["post_processor"] = {
        "type": "TemplateProcessing",
        "single": [*before, text, *after],
        "pair": [*before, text, other, *after],
        "special_tokens": special,
    }
    _write_json(folder / _WHOLE, state)
    names = {kind: tokenizer.token(i) for kind, i in zip(_KINDS, (PADDING, UNKNOWN, START, END), strict=True)}
    _write_json(
        folder / _SETTINGS,
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            **names,
            "split_special_tokens": True,  # a text that says "</s>" does not end there
            "clean_up_tokenization_spaces": False,
            "model_input_names": ["input_ids", "attention_mask"],
        },
    )


_KINDS = ("pad_token", "unk_token", "bos_token", "eos_token")


def _read_whole(folder: Path, settings: Settings) -> dict[str, tuple[TextTokenizer, Numbering]]:
    """What `_write_whole` wrote, whose order is ours."""
    target = folder / TARGET_FOLDER if (folder / TARGET_FOLDER).is_dir() else folder
    found: dict[str, tuple[TextTokenizer, Numbering]] = {}
    for side, place in (("source", folder), ("target", target)):
        path = place / _WHOLE
        state = read_json(path)
        state["post_processor"] = None
        try:
            tokenizer = TextTokenizer(Tokenizer.from_str(json.dumps(state)))
        except Exception as error:  # the library has no narrower one
            raise RunError(f"{path} is not a tokenizer: {error}") from None
        ids = [settings.get(name, None) for name in ("pad_token_id", "decoder_start_token_id", "eos_token_id")]
        if side == "target" and ids != [PADDING, START, END]:
            raise ConfigError(
                f"{settings.path}: padding, start and end are the tokens {ids}; heed reads a Marian checkpoint with "
                f"{_WHOLE} only if heed wrote it, where they are {[PADDING, START, END]}"
            )
        found[side] = tokenizer, Numbering.same(tokenizer.vocab_size)
    if target == folder:
        found["target"] = found["source"]
    return found


def _write_json(path: Path, values: Any) -> None:
    path.write_text(json.dumps(values, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
