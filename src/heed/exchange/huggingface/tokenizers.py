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
| `XLMRobertaTokenizer` | Unigram | blanks; SentencePiece's compiled normalisation |
| any other, with tokenizer.json | as in the file | as in the file |
"""

from __future__ import annotations

import base64
import json
import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers

from heed.data.tokens.special import BERT_TOKENS, BLANK, CONTINUED, MASKS, Special, check_ids, library_of
from heed.data.tokens.tokenizer import UNUSED, TextTokenizer
from heed.errors import ConfigError, RunError
from heed.exchange.huggingface.files import Settings, optional_json
from heed.storage.files import read_bytes, read_text

WHOLE, CONFIG = "tokenizer.json", "tokenizer_config.json"
ROLES = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
_FURTHER = ("additional_special_tokens", "extra_special_tokens")
"""Fields with special tokens that have no role."""
BERT, ROBERTA, GPT2, XLM_ROBERTA = "BertTokenizer", "RobertaTokenizer", "GPT2Tokenizer", "XLMRobertaTokenizer"
AS_IT_IS = "PreTrainedTokenizerFast"
"""The class whose tokenizer.json says everything."""
_OF_BERT = {f"{name.lower()}_token": f"[{name}]" for name in ("PAD", "UNK", "CLS", "SEP", "MASK")}
_OF_ROBERTA = dict(zip(ROLES, ("<s>", "</s>", "<unk>", "</s>", "<pad>", "<s>", "<mask>"), strict=True))
_OF_GPT2 = dict.fromkeys(ROLES[:3], "<|endoftext|>")
_DEFAULTS = {BERT: _OF_BERT, ROBERTA: _OF_ROBERTA, XLM_ROBERTA: _OF_ROBERTA, GPT2: _OF_GPT2, AS_IT_IS: {}}
_SAME_AS = {
    "DistilBertTokenizer": BERT,
    "ElectraTokenizer": BERT,
    "PreTrainedTokenizer": AS_IT_IS,
    "TokenizersBackend": AS_IT_IS,
}
_BY_FAMILY = {"bert": BERT, "distilbert": BERT, "roberta": ROBERTA, "xlm-roberta": XLM_ROBERTA, "gpt2": GPT2}
_FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")


class TokenizerFolder:
    """What the tokenizer files of a folder say.

    Attributes:
        folder: The folder.
        settings: The fields of tokenizer_config.json.
        whole: Those of tokenizer.json; None if the folder lacks it.
        name: The class as the files name it, without "Fast".
        form: The class that cuts: one of `BERT`, `ROBERTA`, `GPT2`, `XLM_ROBERTA`, `AS_IT_IS`.
        roles: The special tokens by role ("pad_token", "cls_token" and so on).
        further: Those without a role.
    """

    def __init__(self, folder: Path, config: Mapping[str, Any]) -> None:
        """Read the files that say which class cuts, and its special tokens.

        Raises:
            RunError: A file is damaged.
            ConfigError: It is of a class that heed lacks.
        """
        self.folder = folder
        self.settings = Settings(folder / CONFIG, optional_json(folder / CONFIG) or {})
        self.whole = optional_json(folder / WHOLE)
        if self.whole is not None and not isinstance(self.whole.get("model"), dict):
            raise RunError(f"{folder / WHOLE} is damaged: it has no 'model'")
        values = self.settings.values
        usual = _BY_FAMILY.get(str(config.get("model_type")), AS_IT_IS)
        name = str(values.get("tokenizer_class") or config.get("tokenizer_class") or usual)
        self.name = name if name == AS_IT_IS else name.removesuffix("Fast")
        self.form = self._form(usual)
        self._decoder = values.get("added_tokens_decoder") or {}
        if not isinstance(self._decoder, dict) or not all(re.fullmatch("[0-9]{1,18}", i) for i in self._decoder):
            raise RunError(f"{folder / CONFIG} is damaged: added_tokens_decoder has no tokens by number")
        roles: dict[str, str | None] = {**_DEFAULTS[self.form]}
        self.further: list[str] = []
        self._described: dict[str | None, AddedToken] = {}
        # Of the files that name special tokens, later ones have precedence.
        places = [(folder / CONFIG, values)]
        if not self._decoder:
            path = folder / "special_tokens_map.json"
            places.append((path, optional_json(path) or {}))
        for path, fields in places:
            for role in ROLES:
                if role in fields:
                    token = fields[role]
                    roles[role] = None if token is None else _content(token, path, role)
                    if isinstance(token, dict):
                        self._described[roles[role]] = _added(token, path, role)
            for name in _FURTHER:
                value = fields.get(name) or []
                tokens = value.values() if isinstance(value, dict) else value if isinstance(value, list) else [value]
                self.further += [_content(token, path, name) for token in tokens]
        self.roles = {role: token for role, token in roles.items() if token is not None}

    def _form(self, usual: str) -> str:
        form = _SAME_AS.get(self.name, self.name)
        if form not in _DEFAULTS:
            if self.whole is None:
                raise ConfigError(
                    f"{self.folder}: tokenizer_class is '{self.name}', which heed does not support without a {WHOLE}; "
                    f"supported: {', '.join(sorted({*_DEFAULTS, *_SAME_AS}))}"
                )
            form = AS_IT_IS
        return usual if form == AS_IT_IS and self.whole is None else form

    def add_tokens(self, library: Tokenizer) -> None:
        """Give the library's tokenizer its added tokens, in their order."""
        named = {*self.roles.values()}
        tokens = {str(token.content): token for token in self._added()}
        for content in [*named, *self.further]:
            tokens.setdefault(
                content, self._described.get(content, AddedToken(content, special=True, normalized=False))
            )
        known = {token.content: token for token in library.get_added_tokens_decoder().values()}
        for content, token in tokens.items():
            token.special = token.special or content in named
            if known.get(content) != token:
                library.add_tokens([token])

    def _added(self) -> list[AddedToken]:
        if self._decoder:
            place = self.folder / CONFIG, "added_tokens_decoder"
            ordered = sorted(self._decoder.items(), key=lambda item: int(item[0]))
            return [_added(token, *place) for _, token in ordered]
        path, special = self.folder / "added_tokens.json", {*self.roles.values(), *self.further}
        tokens = {}
        for content, i in (optional_json(path) or {}).items():
            if type(i) is not int:
                raise RunError(f"{path} is damaged: the id of {content!r:.50} is {json.dumps(i):.50}")
            tokens[i] = AddedToken(content, special=content in special, normalized=content not in special)
        added = (self.whole or {}).get("added_tokens") or []
        if not isinstance(added, list) or not all(
            isinstance(token, dict) and type(token.get("id")) is int for token in added
        ):
            raise RunError(f"{self.folder / WHOLE} is damaged: added_tokens has no list of tokens with ids")
        tokens |= {token["id"]: _added(token, self.folder / WHOLE, "added_tokens") for token in added}
        return [token for _, token in sorted(tokens.items())]


def missing(folder: Path) -> RunError:
    """The error for a folder without the files of a tokenizer."""
    return RunError(
        f"{folder} has no tokenizer: neither {WHOLE}, nor vocab.txt, nor vocab.json with merges.txt; where BASE is the "
        f"checkpoint that it was trained from, {_SAVED.format('BASE', repr(str(folder)))}"
    )


_SAVED = "the library transformers makes it: AutoTokenizer.from_pretrained({}).save_pretrained({})"


def _content(token: Any, path: Path, field: str) -> str:
    """The text of a token that a field of a file gives as text or with its properties."""
    content = token.get("content") if isinstance(token, dict) else token
    if not isinstance(content, str):
        raise RunError(f"{path} is damaged: {field} is {json.dumps(token):.100}, expected a token")
    return content


def _added(token: Any, path: Path, field: str) -> AddedToken:
    content = _content(token, path, field)
    return AddedToken(content, **{name: bool(token[name]) for name in _FLAGS if name in token})


def as_json(values: Mapping[str, Any]) -> str:
    """The text of a file of one JSON object."""
    return json.dumps(values, ensure_ascii=False, indent=2) + "\n"


def write_json(path: Path, values: Mapping[str, Any]) -> None:
    """Write a file of one JSON object."""
    path.write_text(as_json(values), encoding="utf-8")


_MOST_LOST = 0.1
"""Largest share of tokens that no merge makes: a few are added or spare."""
_KINDS = {BERT: "WordPiece", ROBERTA: "BPE", GPT2: "BPE", XLM_ROBERTA: "Unigram"}


def _library(files: TokenizerFolder) -> Tokenizer:
    """The tokenizer of a folder as the `tokenizers` library has it.

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
    elif whole is None:
        raise missing(folder)
    else:
        library = _as_it_is(files, whole)
    files.add_tokens(library)
    return library


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
        if not os.path.lexists(path):
            raise missing(files.folder)
        lines = read_text(path, links=True).removesuffix("\n").split("\n")
        vocabulary = {line.removesuffix("\r"): i for i, line in enumerate(lines)}
    check_ids(vocabulary)
    library = Tokenizer(models.WordPiece(vocabulary, unk_token=files.roles["unk_token"], max_input_chars_per_word=100))
    library.normalizer = normalizers.BertNormalizer(
        clean_text=True,
        handle_chinese_chars=files.settings.flag("tokenize_chinese_chars", True),
        strip_accents=files.settings.flag("strip_accents", None),
        lowercase=files.settings.flag("do_lower_case", True),
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
        if not all(map(os.path.lexists, names)):
            raise missing(files.folder)
        for path in names:
            read_bytes(path, links=True)  # the library ends the process where memory ends
        vocabulary, merges = models.BPE.read_file(*map(str, names))
        made = {left + right for left, right in merges} | {*files.roles.values()}
        if (lost := sum(len(token) > 1 and token not in made for token in vocabulary)) > _MOST_LOST * len(vocabulary):
            raise RunError(f"{names[1]}: no merge makes {lost:,} of {len(vocabulary):,} tokens; it was cut short")
    check_ids(vocabulary)
    library = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    library.pre_tokenizer = pre_tokenizers.ByteLevel(files.settings.flag("add_prefix_space", False))
    library.decoder = decoders.ByteLevel()
    return library


def _unigram(files: TokenizerFolder) -> Tokenizer:
    if files.whole is None:
        folder = repr(str(files.folder))
        raise RunError(
            f"{files.folder} lacks {WHOLE}, from which heed reads {XLM_ROBERTA}; {_SAVED.format(folder, folder)}"
        )
    model = files.whole["model"]
    pieces = [(str(piece), float(score)) for piece, score in model["vocab"]]
    check_scores(pieces, files.folder / WHOLE)
    library = Tokenizer(models.Unigram(pieces, unk_id=model.get("unk_id"), byte_fallback=False))
    if compiled := _compiled(files.whole.get("normalizer")):
        library.normalizer = normalizers.Precompiled(compiled)
    scheme = "always" if files.settings.flag("add_prefix_space", True) else "never"
    cut = pre_tokenizers.Metaspace(replacement=BLANK, prepend_scheme=scheme)
    library.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), cut])
    library.decoder = decoders.Metaspace(replacement=BLANK, prepend_scheme=scheme)
    return library


def check_scores(pieces: Iterable[tuple[str, float]], path: Path) -> None:
    """Refuse pieces whose scores are not finite, of a file."""
    if odd := [piece for piece, score in pieces if not math.isfinite(score)]:
        raise RunError(f"{path} is damaged: the score of {odd[0]!r:.50} is not a finite number")


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
        library = library_of({**whole, "post_processor": None})
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


_KEPT = ("model_max_length", "clean_up_tokenization_spaces")
"""Fields of tokenizer_config.json that change no cut and are written again."""
_DOUBLE = ("roberta", "xlm-roberta")
"""Families with two end tokens between two texts."""
_SEGMENTS = ("bert",)
"""Families that are told which of two texts a token is of."""
_NO_FRAME = ("gpt2",)
"""Families that put no tokens around a text."""


_ENDS, _STARTS, _PADDING, _UNKNOWN = (
    ("sep_token", "eos_token"),
    ("cls_token", "bos_token"),
    ("pad_token",),
    ("unk_token",),
)
"""Their roles for our special tokens; the first existing one is used."""


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


def imported(library: Tokenizer, roles: Mapping[str, str], size: int | None) -> TextTokenizer:
    """A tokenizer with the ids of a checkpoint.

    Args:
        library: The tokenizer.
        roles: Its special tokens, as `{"cls_token": "[CLS]"}`.
        size: Rows of the checkpoint's embedding; None: as many as the tokenizer has.

    Raises:
        ConfigError: The vocabulary has more tokens than rows, or no special token.
    """
    state = json.loads(library.to_str())
    model, in_list = state["model"], isinstance(state["model"]["vocab"], list)
    inside = range(len(model["vocab"])) if in_list else {*model["vocab"].values()}
    many, added = max(inside, default=-1) + 1, library.get_added_tokens_decoder()
    size = max([many - 1, *added]) + 1 if size is None else size
    if many > size:
        raise ConfigError(f"the tokenizer has {many:,} tokens, but vocab_size of config.json is {size:,}")
    special = special_of(library, roles, size)
    hidden = {library.id_to_token(i) for i in special if i >= 0} | {roles.get("mask_token")} & {*MASKS}
    if not in_list:
        model["vocab"] |= {UNUSED.format(i): i for i in range(many) if i not in inside}  # new tokens get the next ids
    if model.get("type") == "BPE" and special.unknown < 0:
        model["unk_token"] = None  # it has another role
    if not in_list and model.get("unk_token") not in {None, *model["vocab"]}:
        raise ConfigError(f"the vocabulary lacks the unknown token '{model['unk_token']}'")
    state["added_tokens"] = [
        token | {"special": token["content"] in hidden} for token in state["added_tokens"] if token["id"] < size
    ]
    if in_list:  # Unigram would find the names of special tokens in a text: they are cut in two
        names = sorted(name for name in hidden if name and len(name) > 1)
        whole = "|".join(f"{re.escape(name[0])}(?={re.escape(name[1:])})" for name in names)
        step = {"type": "Split", "pattern": {"Regex": whole}, "behavior": "MergedWithPrevious", "invert": False}
        state["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [*_steps(state["pre_tokenizer"]), step]}
    if isinstance(library.decoder, decoders.ByteLevel):  # as `TextTokenizer.spaces_words` wants it
        state["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": _steps(state["pre_tokenizer"])}
    state |= {"truncation": None, "padding": None, "post_processor": None}
    return TextTokenizer(Tokenizer.from_str(json.dumps(state)), special, size)


def _steps(part: Any) -> list[Any]:
    """The steps of a normaliser or pre-tokenizer."""
    if part is None:
        return []
    return list(part.get("pretokenizers") or part.get("normalizers") or ()) if part["type"] == "Sequence" else [part]


def read_tokenizer(folder: Path, config: Mapping[str, Any]) -> tuple[TextTokenizer, dict[str, Any]]:
    """Read the tokenizer of a checkpoint, with its ids.

    Args:
        folder: The checkpoint's folder: `tokenizer.json`, or `vocab.txt`, or `vocab.json` and `merges.txt`;
            `tokenizer_config.json`, `special_tokens_map.json` and `added_tokens.json` are optional, and the first of
            these has precedence.
        config: Its `config.json`: `model_type` and `vocab_size`.

    Returns:
        The tokenizer, and what `write_tokenizer` needs to write the same files again.

    Raises:
        RunError: There is no tokenizer, or a file is damaged.
        ConfigError: It is of a kind that heed lacks, or has more tokens than the embedding has rows.
    """
    files = TokenizerFolder(folder, config)
    library, size = _library(files), config.get("vocab_size")
    try:
        tokenizer = imported(library, files.roles, size if isinstance(size, int) else None)
    except ConfigError as error:
        raise ConfigError(f"{folder}: {error}") from None
    kept = {name: value for name, value in files.settings.values.items() if name in _KEPT}
    if files.further:
        kept["additional_special_tokens"] = [*dict.fromkeys(files.further)]
    settings: dict[str, Any] = {"state": library.to_str(), "form": files.form, "name": files.name}
    settings |= {"roles": files.roles, "kept": kept}
    if files.form == AS_IT_IS and files.whole is not None:
        settings["post_processor"] = files.whole.get("post_processor")
    return tokenizer, settings


def write_tokenizer(tokenizer: TextTokenizer, files: Mapping[str, Any], folder: Path, family: str) -> None:
    """Write what `AutoTokenizer.from_pretrained` reads, so that it cuts texts the same.

    Args:
        tokenizer: A tokenizer that was imported or trained here.
        files: What `read_tokenizer` gave, while the vocabulary is the same; else empty.
        folder: The folder of the checkpoint.
        family: Its `model_type`, such as "bert" or "roberta".
    """
    state, settings = (json.loads(files["state"]), dict(files)) if files else _trained(tokenizer, family)
    form, roles = settings["form"], settings["roles"]
    state["post_processor"] = settings.get("post_processor") or _frame(tokenizer, roles, family)
    segments = ["token_type_ids"] if family in _SEGMENTS else []
    cut, vocabulary = _of_class(state, form)
    fields = {
        "tokenizer_class": settings.get("name", form),
        **roles,
        **settings.get("kept", {}),
        "model_input_names": ["input_ids", *segments, "attention_mask"],
        **cut,
    }
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / WHOLE, state)
    write_json(folder / CONFIG, fields)
    for name, text in vocabulary.items():
        (folder / name).write_text(text, encoding="utf-8")


def _trained(tokenizer: TextTokenizer, family: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The JSON of a tokenizer that is not as it was imported, and how it is to be read."""
    state = json.loads(tokenizer.library.to_str())
    steps = _steps(state["pre_tokenizer"])
    state["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": steps} if len(steps) > 1 else next(iter(steps), None)
    places = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token"), tokenizer.special, strict=True))
    roles = {role: tokenizer.token(i) for role, i in places.items() if i >= 0}
    is_berts = tokenizer.is_of_pieces and (*roles.values(),) == BERT_TOKENS and tokenizer.mask is not None
    normal = [(step["type"], step.get("clean_text")) for step in _steps(state["normalizer"])]
    # The classes of families that frame texts another way are not BERT's.
    if is_berts and family not in (*_NO_FRAME, *_DOUBLE) and normal == [("BertNormalizer", True)]:
        form = BERT
    else:
        form = AS_IT_IS
        roles |= {"bos_token": roles["cls_token"], "eos_token": roles["sep_token"]}
    if tokenizer.mask is not None:
        roles["mask_token"] = tokenizer.token(tokenizer.mask)
    return state, {"form": form, "roles": roles}


def _frame(tokenizer: TextTokenizer, roles: Mapping[str, str], family: str) -> dict[str, Any] | None:
    """The tokens around a text, and around two."""
    start = roles.get("cls_token", roles.get("bos_token"))
    end = roles.get("sep_token", roles.get("eos_token"))
    if family in _NO_FRAME or start is None or end is None:
        return None
    ids = {name: i for name in sorted({start, end}) if (i := tokenizer.library.token_to_id(name)) is not None}
    return template([start], [end] * (1 + (family in _DOUBLE)), [end], ids, int(family in _SEGMENTS))


def template(
    before: Sequence[str], between: Sequence[str], after: Sequence[str], ids: Mapping[str, int], second: int = 0
) -> dict[str, Any]:
    """The special tokens around a text and around two, whose second has segment `second`, as JSON of the library."""

    def special(names: Sequence[str], segment: int = 0) -> list[dict[str, Any]]:
        return [{"SpecialToken": {"id": name, "type_id": segment}} for name in names]

    first, other = ({"Sequence": {"id": name, "type_id": i}} for name, i in (("A", 0), ("B", second)))
    return {
        "type": "TemplateProcessing",
        "single": [*special(before), first, *special(after)],
        "pair": [*special(before), first, *special(between), other, *special(after, second)],
        "special_tokens": {name: {"id": name, "ids": [i], "tokens": [name]} for name, i in ids.items()},
    }


def _of_class(state: Mapping[str, Any], form: str) -> tuple[dict[str, Any], dict[str, str]]:
    """How a class cuts, as fields of tokenizer_config.json, and the files that it reads without tokenizer.json."""
    model, cut = state["model"], state["pre_tokenizer"]
    if form == BERT:
        (normal,) = _steps(state["normalizer"])
        names = {"do_lower_case": "lowercase", "strip_accents": "strip_accents"}
        names |= {"tokenize_chinese_chars": "handle_chinese_chars"}
        fields = {theirs: normal[name] for theirs, name in names.items()}
        return fields, {"vocab.txt": "".join(f"{token}\n" for token in model["vocab"])}
    if form in (GPT2, ROBERTA):
        merges = "".join(f"{left} {right}\n" for left, right in model["merges"])
        files = {"vocab.json": as_json(model["vocab"]), "merges.txt": f"#version: 0.2\n{merges}"}
        return {"add_prefix_space": cut["add_prefix_space"]}, files
    if form == XLM_ROBERTA:
        return {"add_prefix_space": cut["pretokenizers"][1]["prepend_scheme"] != "never"}, {}
    return {}, {}
