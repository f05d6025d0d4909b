"""Tokenizer folders of Hugging Face: read as a `TextTokenizer`, and written.

If several files of a folder state the same fact, the first in this table counts.

| fact | files |
|---|---|
| class | `tokenizer_class` of tokenizer_config.json, of config.json, the usual one of the `model_type` |
| cut | tokenizer_config.json with the defaults of the class; for a class without a cut of its own tokenizer.json |
| tokens | tokenizer.json, vocab.txt, vocab.json and merges.txt |
| added tokens | `added_tokens_decoder` of tokenizer_config.json, added_tokens.json and tokenizer.json |
| special tokens | special_tokens_map.json (without `added_tokens_decoder`), tokenizer_config.json, the class |

The classes cut texts with the `tokenizers` library:

| class | tokens | cut |
|---|---|---|
| `BertTokenizer` | WordPiece | BERT's normalisation; blanks, marks and Chinese characters |
| `GPT2Tokenizer`, `RobertaTokenizer` | BPE over bytes | GPT-2's pattern |
| any other, with tokenizer.json (XLM-R) | as in the file | as in the file |
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, processors

from heed.data.tokens import CONTINUED, MASKS, Special, library_of
from heed.data.tokens.tokenizer import UNUSED, TextTokenizer
from heed.errors import ConfigError, RunError
from heed.exchange.huggingface.files import Fields, optional_json
from heed.storage.files import read_bytes, read_text

TOKENIZER_JSON, TOKENIZER_CONFIG = "tokenizer.json", "tokenizer_config.json"
ROLES = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
_FURTHER = ("additional_special_tokens", "extra_special_tokens")
"""Fields with special tokens that have no role."""
BERT, ROBERTA, GPT2, XLM_ROBERTA = "BertTokenizer", "RobertaTokenizer", "GPT2Tokenizer", "XLMRobertaTokenizer"
GENERIC = "PreTrainedTokenizerFast"
"""The class whose tokenizer.json says everything."""
_OF_BERT = {f"{name.lower()}_token": f"[{name}]" for name in ("PAD", "UNK", "CLS", "SEP", "MASK")}
_OF_ROBERTA = dict(zip(ROLES, ("<s>", "</s>", "<unk>", "</s>", "<pad>", "<s>", "<mask>"), strict=True))
_OF_GPT2 = dict.fromkeys(ROLES[:3], "<|endoftext|>")
_DEFAULTS = {BERT: _OF_BERT, ROBERTA: _OF_ROBERTA, XLM_ROBERTA: _OF_ROBERTA, GPT2: _OF_GPT2, GENERIC: {}}
_SAME_AS = {"DistilBertTokenizer": BERT, "ElectraTokenizer": BERT}
_SAME_AS |= {"BartTokenizer": ROBERTA}
_SAME_AS |= {"PreTrainedTokenizer": GENERIC, "TokenizersBackend": GENERIC}
_BY_FAMILY = {"bert": BERT, "distilbert": BERT, "roberta": ROBERTA, "xlm-roberta": XLM_ROBERTA, "gpt2": GPT2}
_BY_FAMILY |= {"bart": ROBERTA}
_FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")


class _Options(Fields):
    """The fields of tokenizer_config.json that say how a class cuts, with the defaults of the classes."""

    tokenize_chinese_chars: bool = True
    strip_accents: bool | None = None
    do_lower_case: bool = True
    add_prefix_space: bool = False


class TokenizerFolder:
    """What the tokenizer files of a folder say.

    Attributes:
        folder: The folder.
        values: The fields of tokenizer_config.json.
        options: Those of them that say how a class cuts.
        library_json: Those of tokenizer.json; None if the folder lacks it.
        name: The class as the files name it, without "Fast".
        algorithm: The class that cuts: one of `BERT`, `ROBERTA`, `GPT2`, `XLM_ROBERTA`, `GENERIC`.
        roles: The special tokens by role ("pad_token", "cls_token" and so on).
        further: Those without a role.
        added: The added tokens in their order.
    """

    def __init__(self, folder: Path, config: Mapping[str, Any]) -> None:
        """Read the files that say which class cuts, and its special and added tokens.

        Raises:
            RunError: A file is damaged.
            ConfigError: It is of a class that heed lacks.
        """
        self.folder = folder
        values = optional_json(folder / TOKENIZER_CONFIG) or {}
        self.values, self.options = values, _Options.read(folder / TOKENIZER_CONFIG, values)
        self.library_json = optional_json(folder / TOKENIZER_JSON)
        if self.library_json is not None and not isinstance(self.library_json.get("model"), dict):
            raise RunError(f"{folder / TOKENIZER_JSON} is damaged: it has no 'model'")
        usual = _BY_FAMILY.get(str(config.get("model_type")), GENERIC)
        name = str(values.get("tokenizer_class") or config.get("tokenizer_class") or usual)
        self.name = name if name == GENERIC else name.removesuffix("Fast")
        self.algorithm = _SAME_AS.get(
            self.name, self.name if self.name in _DEFAULTS or self.library_json is None else GENERIC
        )
        if self.algorithm not in _DEFAULTS:
            raise ConfigError(
                f"{folder}: tokenizer_class is '{self.name}', which heed does not support without a {TOKENIZER_JSON}; "
                f"supported: {', '.join(sorted({*_DEFAULTS, *_SAME_AS}))}"
            )
        if self.algorithm == GENERIC and self.library_json is None:
            self.algorithm = usual
        decoder = values.get("added_tokens_decoder") or {}
        if not isinstance(decoder, dict) or not all(re.fullmatch("[0-9]{1,18}", i) for i in decoder):
            raise RunError(f"{folder / TOKENIZER_CONFIG} is damaged: added_tokens_decoder has no tokens by number")
        roles: dict[str, str | None] = {**_DEFAULTS[self.algorithm]}
        self.further: list[str] = []
        special: dict[str | None, AddedToken] = {}
        # Of the files that name special tokens, later ones have precedence.
        places = {folder / TOKENIZER_CONFIG: values}
        if not decoder:
            places |= {folder / _MAP: optional_json(folder / _MAP) or {}}
        for path, fields in places.items():
            for role in filter(fields.__contains__, ROLES):
                token = None if fields[role] is None else _added(fields[role], path, role)
                roles[role] = token and token.content
                special |= {token.content: token} if token else {}
            for name in _FURTHER:
                value = fields.get(name) or []
                tokens = value.values() if isinstance(value, dict) else value if isinstance(value, list) else [value]
                self.further += [_added(token, path, name).content for token in tokens]
        self.roles = {role: token for role, token in roles.items() if token is not None}
        with_role = {*self.roles.values()}
        self.added = {token.content: token for _, token in sorted(self._listed(decoder), key=lambda pair: pair[0])}
        for content in (*with_role, *self.further):
            self.added.setdefault(content, special.get(content) or _added(content, folder, content))
        for token in self.added.values():
            token.special = token.special or token.content in with_role

    def _listed(self, decoder: Mapping[str, Any]) -> Iterator[tuple[int, AddedToken]]:
        """The added tokens with their ids: those of `added_tokens_decoder`, or else of the other files."""
        if decoder:
            yield from (
                (int(i), _added(token, self.folder / TOKENIZER_CONFIG, "added_tokens_decoder"))
                for i, token in decoder.items()
            )
            return
        path, special = self.folder / "added_tokens.json", {*self.roles.values(), *self.further}
        for content, i in (optional_json(path) or {}).items():
            if type(i) is not int:
                raise RunError(f"{path} is damaged: the id of {content!r:.50} is {json.dumps(i):.50}")
            yield i, AddedToken(content, special=content in special, normalized=content not in special)
        path, added = self.folder / TOKENIZER_JSON, (self.library_json or {}).get("added_tokens") or []
        if not isinstance(added, list) or not all(isinstance(x, dict) and type(x.get("id")) is int for x in added):
            raise RunError(f"{path} is damaged: added_tokens has no list of tokens with ids")
        yield from ((token["id"], _added(token, path, "added_tokens")) for token in added)


_MAP = "special_tokens_map.json"


def missing(folder: Path) -> RunError:
    """The error for a folder without the files of a tokenizer."""
    return RunError(
        f"{folder} has no tokenizer that heed reads: neither {TOKENIZER_JSON}, nor vocab.txt, nor vocab.json with "
        "merges.txt; the library transformers makes it from this folder or from the checkpoint that it was trained "
        "from: "
        f"AutoTokenizer.from_pretrained(FOLDER).save_pretrained({str(folder)!r})"
    )


def _added(token: Any, path: Path, field: str) -> AddedToken:
    """A token that a field of a file gives as text, for a special token, or with its properties."""
    content = token.get("content") if isinstance(token, dict) else token
    if not isinstance(content, str):
        raise RunError(f"{path} is damaged: {field} is {json.dumps(token):.100}, expected a token")
    if isinstance(token, dict):
        return AddedToken(content, **{name: bool(token[name]) for name in _FLAGS if name in token})
    return AddedToken(content, special=True, normalized=False)


def write_json(path: Path, values: Mapping[str, Any]) -> None:
    """Write a file of one JSON object."""
    path.write_text(json.dumps(values, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")


_MAX_SHARE_LOST = 0.1
"""Largest share of tokens that no merge makes: a few are added or spare."""
_KINDS = {BERT: "WordPiece", ROBERTA: "BPE", GPT2: "BPE"}


def _library(files: TokenizerFolder) -> Tokenizer:
    """The tokenizer of a folder as the `tokenizers` library has it.

    Raises:
        RunError: A file is missing or damaged.
        ConfigError: Its kind is not supported.
    """
    library_json, kind = files.library_json, _KINDS.get(files.algorithm)
    if library_json is None and kind is None:
        raise missing(files.folder)
    as_class = library_json is None or (kind is not None and library_json["model"].get("type", kind) == kind)
    path = files.folder if library_json is None else files.folder / TOKENIZER_JSON
    if library_json is not None and library_json["model"].get("type") == "Unigram":
        check_scores(library_json["model"].get("vocab") or (), path)
    try:
        library = library_of(_of_class(files) if as_class else {**(library_json or {}), "post_processor": None})
    except (RunError, ConfigError):
        raise
    except Exception as error:  # the library has no narrower one
        raise RunError(f"{path} is damaged: {error}") from None
    if not as_class:
        _check_kind(library, path)
    present = {token.content: token for token in library.get_added_tokens_decoder().values()}
    library.add_tokens([token for content, token in files.added.items() if present.get(content) != token])
    return library


def _of_class(files: TokenizerFolder) -> dict[str, Any]:
    """The JSON of a class that cuts: its tokens are those of the files, the rest follows from the class's fields."""
    folder, options = files.folder, files.options
    model: Any = None if files.library_json is None else files.library_json["model"]
    if files.algorithm == BERT:
        if model is None:
            lines = read_text(_required(folder, "vocab.txt"), links=True).removesuffix("\n").split("\n")
            model = {"vocab": {line.removesuffix("\r"): i for i, line in enumerate(lines)}}
        pieces = {"unk_token": files.roles["unk_token"], "continuing_subword_prefix": CONTINUED}
        flags = {ours: getattr(options, theirs) for ours, theirs in _OF_NORMALIZER.items()}
        return {
            "model": {"type": "WordPiece", "vocab": model["vocab"], "max_input_chars_per_word": 100, **pieces},
            "normalizer": {"type": "BertNormalizer", "clean_text": True, **flags},
            "pre_tokenizer": {"type": "BertPreTokenizer"},
            "decoder": {"type": "WordPiece", "prefix": CONTINUED, "cleanup": True},
        }
    cut = {"type": "ByteLevel", "add_prefix_space": options.add_prefix_space, "trim_offsets": True}
    model = _merges(files) if model is None else model
    pairs = {"type": "BPE", "vocab": model["vocab"], "merges": model["merges"]}
    return {"model": pairs, "pre_tokenizer": cut, "decoder": {**cut, "add_prefix_space": True}}


_OF_NORMALIZER = {
    "handle_chinese_chars": "tokenize_chinese_chars",
    "strip_accents": "strip_accents",
    "lowercase": "do_lower_case",
}
"""Fields of BERT's normalisation with their names in tokenizer_config.json."""


def _required(folder: Path, name: str) -> Path:
    if not os.path.lexists(folder / name):
        raise missing(folder)
    return folder / name


def _merges(files: TokenizerFolder) -> dict[str, Any]:
    """The tokens and merges of vocab.json and merges.txt."""
    names = [_required(files.folder, name) for name in ("vocab.json", "merges.txt")]
    for path in names:
        read_bytes(path, links=True)  # the library ends the process where memory ends
    vocabulary, merges = models.BPE.read_file(*map(str, names))
    merged = {left + right for left, right in merges} | {*files.roles.values()}
    if (unmerged := sum(len(token) > 1 and token not in merged for token in vocabulary)) > _MAX_SHARE_LOST * len(
        vocabulary
    ):
        raise RunError(f"{names[1]}: no merge makes {unmerged:,} of {len(vocabulary):,} tokens; it was cut short")
    return {"vocab": vocabulary, "merges": merges}


def check_scores(pieces: Iterable[tuple[str, float]], path: Path) -> None:
    """Refuse pieces whose scores are not finite, of a file."""
    if invalid := [piece for piece, score in pieces if not math.isfinite(score)]:
        raise RunError(f"{path} is damaged: the score of {invalid[0]!r:.50} is not a finite number")


def _check_kind(library: Tokenizer, path: Path) -> None:
    """Refuse a tokenizer.json whose tokens or decoder heed lacks."""
    model, decoder = library.model, library.decoder
    lacks = ""
    if isinstance(model, models.WordPiece):
        if (prefix := model.continuing_subword_prefix) != CONTINUED:
            lacks = f"pieces within words begin with '{prefix}' and not '{CONTINUED}'"
    elif not isinstance(decoder, decoders.ByteLevel | decoders.Metaspace | decoders.Fuse) and (
        decoder is not None or isinstance(model, models.BPE)
    ):
        lacks = f"decoder is {type(decoder).__name__}"
    if getattr(model, "byte_fallback", False):
        lacks = "unknown characters become bytes (byte_fallback)"
    if lacks:
        supported = "WordPiece, Unigram, words, and BPE over bytes or characters"
        raise ConfigError(f"{path}: its {lacks}, which heed does not support; supported: {supported}")


_WRITTEN_AGAIN = ("model_max_length", "clean_up_tokenization_spaces", "add_prefix_space", "src_lang", "tgt_lang")
"""Fields of tokenizer_config.json that are written again."""
_FRAMES = {"roberta": (1, 2, 1), "xlm-roberta": (1, 2, 1), "gpt2": (0, 0, 0)}
"""Numbers of start tokens before a text, end tokens between two, and after the last, where they are not BERT's."""
_OF_PAIRS = {"split_special_tokens": True, "clean_up_tokenization_spaces": False}
"""Fields of a translator's tokenizers: "</s>" in a text is not the end token, and outputs keep their spaces."""
_SEGMENTS = ("bert",)
"""Families that read `token_type_ids`: the segment, 0 or 1, of each token of a pair of texts."""


_ENDS, _STARTS, _PADDING, _UNKNOWN = (
    ("sep_token", "eos_token"),
    ("cls_token", "bos_token"),
    ("pad_token",),
    ("unk_token",),
)
"""Their roles for each of our special tokens; the first role that has a token is used."""


def special_of(library: Tokenizer, roles: Mapping[str, str], size: int) -> Special:
    """The ids of our special tokens; the end token stands in for others that the vocabulary lacks.

    Raises:
        ConfigError: It has no special token.
    """
    ids = {role: i for role, name in roles.items() if (i := library.token_to_id(name)) is not None and i < size}

    def first(names: Sequence[str]) -> int | None:
        return next((ids[name] for name in names if name in ids), None)

    if (end := first((*_ENDS, *_STARTS, *_PADDING, *_UNKNOWN))) is None:
        raise ConfigError(f"the tokenizer has none of the special tokens {', '.join(ROLES)}; add an eos_token")
    start, padding, unknown = (end if i is None else i for i in map(first, (_STARTS, _PADDING, _UNKNOWN)))
    return Special(padding, -1 if unknown == end else unknown, start, end)


def imported(library: Tokenizer, roles: Mapping[str, str], size: int | None, tags: Sequence[str] = ()) -> TextTokenizer:
    """A tokenizer with the ids of a checkpoint.

    Args:
        library: The tokenizer.
        roles: Its special tokens, as `{"cls_token": "[CLS]"}`.
        size: Rows of the checkpoint's embedding; None: as many as the tokenizer has.
        tags: Further special tokens that no text is cut into.

    Raises:
        ConfigError: The vocabulary has more tokens than rows, or no special token.
    """
    state = json.loads(library.to_str())
    model, in_list = state["model"], isinstance(state["model"]["vocab"], list)
    ids = range(len(model["vocab"])) if in_list else {*model["vocab"].values()}
    num_tokens, added = max(ids, default=-1) + 1, library.get_added_tokens_decoder()
    size = max([num_tokens - 1, *added]) + 1 if size is None else size
    if num_tokens > size:
        raise ConfigError(f"the tokenizer has {num_tokens:,} tokens, but vocab_size of config.json is {size:,}")
    special = special_of(library, roles, size)
    hidden = {library.id_to_token(i) for i in special if i >= 0} | {roles.get("mask_token")} & {*MASKS} | {*tags}
    if not in_list:
        model["vocab"] |= {
            UNUSED.format(i): i for i in range(num_tokens) if i not in ids
        }  # new tokens get the next ids
    if model.get("type") == "BPE" and special.unknown < 0:
        model["unk_token"] = None  # it has another role
    if not in_list and model.get("unk_token") not in {None, *model["vocab"]}:
        raise ConfigError(f"the vocabulary lacks the unknown token '{model['unk_token']}'")
    state["added_tokens"] = [
        token | {"special": token["content"] in hidden} for token in state["added_tokens"] if token["id"] < size
    ]
    if in_list:  # Unigram would find the names of special tokens in a text: they are cut in two
        names = sorted(name for name in hidden if name and len(name) > 1)
        names_regex = "|".join(f"{re.escape(name[0])}(?={re.escape(name[1:])})" for name in names)
        step = {"type": "Split", "pattern": {"Regex": names_regex}, "behavior": "MergedWithPrevious", "invert": False}
        state["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [*_steps(state["pre_tokenizer"]), step]}
    if isinstance(library.decoder, decoders.ByteLevel):  # `TextTokenizer.spaces_words` expects a sequence
        state["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": _steps(state["pre_tokenizer"])}
    state |= {"truncation": None, "padding": None, "post_processor": None}
    return TextTokenizer(Tokenizer.from_str(json.dumps(state)), special, size)


def _steps(part: Any) -> list[Any]:
    """The steps of a normaliser or pre-tokenizer."""
    if part is None:
        return []
    return list(part.get("pretokenizers") or part.get("normalizers") or ()) if part["type"] == "Sequence" else [part]


def read_tokenizer(folder: Path, config: Mapping[str, Any], tags: bool = False) -> tuple[TextTokenizer, dict[str, Any]]:
    """Read the tokenizer of a checkpoint, with its ids.

    Args:
        folder: The checkpoint's folder: `tokenizer.json`, or `vocab.txt`, or `vocab.json` and `merges.txt`;
            `tokenizer_config.json`, `special_tokens_map.json` and `added_tokens.json` are optional, and the first of
            these has precedence.
        config: Its `config.json`: `model_type` and `vocab_size`.
        tags: Whether its special tokens without a role, such as languages, are tags, which no text is cut into.

    Returns:
        The tokenizer, and what `write_tokenizer` needs to write the same files again.

    Raises:
        RunError: There is no tokenizer, or a file is damaged.
        ConfigError: It is of a kind that heed lacks, or has more tokens than the embedding has rows.
    """
    files = TokenizerFolder(folder, config)
    library, size = _library(files), config.get("vocab_size")
    try:
        rows = size if isinstance(size, int) else None
        special = [token.content for token in files.added.values() if token.special or token.content in files.further]
        tokenizer = imported(library, files.roles, rows, special if tags else ())
    except ConfigError as error:
        raise ConfigError(f"{folder}: {error}") from None
    fields = {name: value for name, value in files.values.items() if name in _WRITTEN_AGAIN}
    if files.further:
        fields["additional_special_tokens"] = [*dict.fromkeys(files.further)]
    settings: dict[str, Any] = {"state": library.to_str(), "name": files.name, "roles": files.roles, "kept": fields}
    if files.algorithm == GENERIC and files.library_json is not None:
        settings["post_processor"] = files.library_json.get("post_processor")
    return tokenizer, settings


def write_tokenizer(
    tokenizer: TextTokenizer,
    files: Mapping[str, Any],
    folder: Path,
    family: str,
    frame: tuple[int, int, int] | None = None,
) -> None:
    """Write what `AutoTokenizer.from_pretrained` reads, so that it cuts texts the same.

    Args:
        tokenizer: A tokenizer that was imported or trained here.
        files: What `read_tokenizer` gave, while the vocabulary is the same; else empty.
        folder: The folder of the checkpoint.
        family: Its `model_type`, such as "bert" or "roberta".
        frame: Numbers of start tokens before a text, end tokens between two and after the last; the family's.
    """
    settings = files or _trained(tokenizer)
    state, roles = json.loads(settings["state"]), settings["roles"]
    state["post_processor"] = settings.get("post_processor")
    library = Tokenizer.from_str(json.dumps(state))
    if not state["post_processor"]:
        library.post_processor = _frame(library, roles, family, frame)
    segments = ["token_type_ids"] if family in _SEGMENTS else []
    fields = {
        "tokenizer_class": settings["name"],
        **roles,
        **settings["kept"],
        "model_input_names": ["input_ids", *segments, "attention_mask"],
        **({} if frame is None else _OF_PAIRS),
    }
    for normal in _steps(state["normalizer"]):
        if normal["type"] == "BertNormalizer":
            fields |= {theirs: normal[ours] for ours, theirs in _OF_NORMALIZER.items()}
    folder.mkdir(parents=True, exist_ok=True)
    library.save(str(folder / TOKENIZER_JSON))
    write_json(folder / TOKENIZER_CONFIG, fields)
    if _SAME_AS.get(settings["name"], settings["name"]) in (BERT, GPT2, ROBERTA):
        library.model.save(str(folder))  # the files that are read without tokenizer.json


def _trained(tokenizer: TextTokenizer) -> dict[str, Any]:
    """What `read_tokenizer` would give for a tokenizer that is not as it was imported."""
    state = json.loads(tokenizer.library.to_str())
    steps = _steps(state["pre_tokenizer"])
    state["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": steps} if len(steps) > 1 else next(iter(steps), None)
    padding, unknown, start, end = tokenizer.special
    ids = {"pad_token": padding, "unk_token": unknown, "cls_token": start, "sep_token": end}
    ids |= {"bos_token": start, "eos_token": end, "mask_token": -1 if tokenizer.mask is None else tokenizer.mask}
    roles = {role: tokenizer.token(i) for role, i in ids.items() if i >= 0}
    fields = {"additional_special_tokens": [*tokenizer.tags]} if tokenizer.tags else {}
    return {"state": json.dumps(state), "name": GENERIC, "roles": roles, "kept": fields}


def _frame(
    library: Tokenizer, roles: Mapping[str, str], family: str, frame: tuple[int, int, int] | None
) -> processors.TemplateProcessing | None:
    """The tokens around a text, and around two, whose second has another segment."""
    starts, between, ends = frame or _FRAMES.get(family, (1, 1, 1))
    start = roles.get("cls_token", roles.get("bos_token"))
    end = roles.get("sep_token", roles.get("eos_token"))
    if start is None or end is None or not starts + between + ends:
        return None
    special = [(name, i) for name in sorted({start, end}) if (i := library.token_to_id(name)) is not None]
    first, second = [*[start] * starts, "$A"], int(family in _SEGMENTS)
    pair = [*first, *[end] * between, f"$B:{second}", *[f"{end}:{second}"] * ends]
    return processors.TemplateProcessing(single=[*first, *[end] * ends], pair=pair, special_tokens=special)
