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
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers

from heed.data.tokens.special import BERT_TOKENS, BLANK, CONTINUED, MASKS, Special, check_ids, library_of
from heed.data.tokens.tokenizer import UNUSED, TextTokenizer
from heed.errors import ConfigError, RunError
from heed.exchange.huggingface.files import optional_json
from heed.storage.files import read_bytes, read_text

WHOLE, CONFIG = "tokenizer.json", "tokenizer_config.json"
ROLES = ("bos_token", "eos_token", "unk_token", "sep_token", "pad_token", "cls_token", "mask_token")
_OF_BERT = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
_OF_ROBERTA = {
    "bos": "<s>",
    "eos": "</s>",
    "unk": "<unk>",
    "sep": "</s>",
    "pad": "<pad>",
    "cls": "<s>",
    "mask": "<mask>",
}
_OF_GPT2 = dict.fromkeys(("bos", "eos", "unk"), "<|endoftext|>")
BERT, ROBERTA, GPT2, XLM_ROBERTA = "BertTokenizer", "RobertaTokenizer", "GPT2Tokenizer", "XLMRobertaTokenizer"
AS_IT_IS = "PreTrainedTokenizerFast"
"""The class whose tokenizer.json says everything."""
_DEFAULTS = {BERT: _OF_BERT, ROBERTA: _OF_ROBERTA, XLM_ROBERTA: _OF_ROBERTA, GPT2: _OF_GPT2, AS_IT_IS: {}}
_SAME_AS = {
    "DistilBertTokenizer": BERT,
    "ElectraTokenizer": BERT,
    "PreTrainedTokenizer": AS_IT_IS,
    "TokenizersBackend": AS_IT_IS,
}
_BY_FAMILY = {"bert": BERT, "distilbert": BERT, "roberta": ROBERTA, "xlm-roberta": XLM_ROBERTA, "gpt2": GPT2}
_FLAGS = ("single_word", "lstrip", "rstrip", "normalized", "special")


@dataclass(frozen=True)
class TokenizerFolder:
    """What the tokenizer files of a folder say."""

    folder: Path
    form: str  # the class that cuts: one of `BERT`, `ROBERTA`, `GPT2`, `XLM_ROBERTA`, `AS_IT_IS`
    name: str  # the class as the files name it, without "Fast"
    settings: Mapping[str, Any]  # tokenizer_config.json
    whole: Mapping[str, Any] | None  # tokenizer.json; None if the folder lacks it

    @classmethod
    def open(cls, folder: Path, config: Mapping[str, Any]) -> TokenizerFolder:
        """Read the files that say which class cuts.

        Raises:
            RunError: A file is damaged.
            ConfigError: It is of a class that heed lacks.
        """
        settings = optional_json(folder / CONFIG) or {}
        whole = optional_json(folder / WHOLE)
        if whole is not None and not isinstance(whole.get("model"), dict):
            raise RunError(f"{folder / WHOLE} is damaged: it has no 'model'")
        said = settings.get("tokenizer_class") or config.get("tokenizer_class")
        name = str(said or _BY_FAMILY.get(str(config.get("model_type")), AS_IT_IS))
        name = name if name == AS_IT_IS else name.removesuffix("Fast")
        form = _SAME_AS.get(name, name)
        if form not in _DEFAULTS:
            if whole is None:
                raise ConfigError(
                    f"{folder}: tokenizer_class is '{name}', which heed does not support without a {WHOLE}; "
                    f"supported: {', '.join(sorted({*_DEFAULTS, *_SAME_AS}))}"
                )
            form = AS_IT_IS
        if form == AS_IT_IS and whole is None:
            form = _by_files(folder)
        return cls(folder, form, name, settings, whole)

    def roles(self) -> dict[str, str]:
        """The special tokens of the folder by role ("pad_token", "cls_token" and so on)."""
        values: dict[str, Any] = {f"{name}_token": token for name, token in _DEFAULTS[self.form].items()}
        for path, fields in self._places():
            own = {name: fields[name] for name in ROLES if name in fields}
            values |= {name: one if one is None else _content(one, path, name) for name, one in own.items()}
        return {name: token for name, token in values.items() if token is not None}

    def add_tokens(self, library: Tokenizer) -> None:
        """Give the library's tokenizer its added tokens, in their order."""
        named = {*self.roles().values()}
        tokens = {str(token.content): token for token in self._added()}
        given = ((path, name, fields.get(name)) for path, fields in self._places() for name in ROLES)
        described = [_added(one, path, name) for path, name, one in given if isinstance(one, dict)]
        own = {str(token.content): token for token in described}
        for content in [*named, *self.further()]:
            tokens.setdefault(content, own.get(content, AddedToken(content, special=True, normalized=False)))
        known = {token.content: token for token in library.get_added_tokens_decoder().values()}
        for content, token in tokens.items():
            token.special = token.special or content in named
            if known.get(content) != token:
                library.add_tokens([token])

    @property
    def _decoder(self) -> Mapping[str, Any]:
        value = self.settings.get("added_tokens_decoder") or {}
        if not isinstance(value, dict) or not all(re.fullmatch("[0-9]{1,18}", i) for i in value):
            raise RunError(f"{self.folder / CONFIG} is damaged: added_tokens_decoder has no tokens by number")
        return value

    def _places(self) -> Iterator[tuple[Path, Mapping[str, Any]]]:
        """The files that name special tokens, and their fields; later ones have precedence."""
        yield self.folder / CONFIG, self.settings
        if not self._decoder:
            path = self.folder / "special_tokens_map.json"
            yield path, optional_json(path) or {}

    def further(self) -> Iterator[str]:
        """Special tokens without a role."""
        for path, fields in self._places():
            for name in ("additional_special_tokens", "extra_special_tokens"):
                value = fields.get(name) or []
                tokens = value.values() if isinstance(value, dict) else value if isinstance(value, list) else [value]
                yield from (_content(token, path, name) for token in tokens)

    def _added(self) -> Iterable[AddedToken]:
        if self._decoder:
            place = self.folder / CONFIG, "added_tokens_decoder"
            ordered = sorted(self._decoder.items(), key=lambda item: int(item[0]))
            return [_added(token, *place) for _, token in ordered]
        path, special = self.folder / "added_tokens.json", {*self.roles().values(), *self.further()}
        tokens = {}
        for content, i in (optional_json(path) or {}).items():
            if type(i) is not int:
                raise RunError(f"{path} is damaged: the id of {content!r:.50} is {json.dumps(i):.50}")
            tokens[i] = AddedToken(content, special=content in special, normalized=content not in special)
        added = [] if self.whole is None else self.whole.get("added_tokens") or []
        if not isinstance(added, list) or not all(
            isinstance(one, dict) and type(one.get("id")) is int for one in added
        ):
            raise RunError(f"{self.folder / WHOLE} is damaged: added_tokens has no list of tokens with ids")
        tokens |= {token["id"]: _added(token, self.folder / WHOLE, "added_tokens") for token in added}
        return [token for _, token in sorted(tokens.items())]


def _by_files(folder: Path) -> str:
    """The class of a folder that names none and has no tokenizer.json."""
    for names, form in ((("vocab.txt",), BERT), (("vocab.json", "merges.txt"), GPT2)):
        if all(os.path.lexists(folder / name) for name in names):
            return form
    raise missing(folder)


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


def read_lines(path: Path) -> list[str]:
    """The lines of a vocabulary file, without their ends and nothing else.

    Raises:
        RunError: It cannot be read, or is not UTF-8.
    """
    text = read_text(path, links=True)
    return [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]


def write_json(path: Path, values: Mapping[str, Any]) -> None:
    """Write a file of one JSON object."""
    path.write_text(json.dumps(values, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")


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
        if not os.path.lexists(path):
            raise missing(files.folder)
        vocabulary = {token: i for i, token in enumerate(read_lines(path))}
    check_ids(vocabulary)
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
        if not all(map(os.path.lexists, names)):
            raise missing(files.folder)
        for path in names:
            read_bytes(path, links=True)  # the library ends the process where memory ends
        vocabulary, merges = models.BPE.read_file(*map(str, names))
        made = {left + right for left, right in merges} | {*files.roles().values()}
        if (lost := sum(len(token) > 1 and token not in made for token in vocabulary)) > _MOST_LOST * len(vocabulary):
            raise RunError(f"{names[1]}: no merge makes {lost:,} of {len(vocabulary):,} tokens; it was cut short")
    check_ids(vocabulary)
    library = Tokenizer(models.BPE(vocab=vocabulary, merges=merges))
    prefix = flag(files, "add_prefix_space", False) is True
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=prefix)
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
    _check_scores(pieces, files.folder / WHOLE)
    library = Tokenizer(models.Unigram(pieces, unk_id=model.get("unk_id"), byte_fallback=False))
    if compiled := _compiled(files.whole.get("normalizer")):
        library.normalizer = normalizers.Precompiled(compiled)
    scheme = "always" if flag(files, "add_prefix_space", True) is not False else "never"
    cut = pre_tokenizers.Metaspace(replacement=BLANK, prepend_scheme=scheme)
    library.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), cut])
    library.decoder = decoders.Metaspace(replacement=BLANK, prepend_scheme=scheme)
    return library


def _check_scores(pieces: Iterable[tuple[str, float]], path: Path) -> None:
    if odd := [piece for piece, score in pieces if not math.isfinite(score)]:
        raise RunError(f"{path} is damaged: the score of {odd[0]!r:.50} is not a finite number")


_SPM_KINDS = {1: "unigram", 2: "bpe"}


def read_pieces(path: Path) -> Any:
    """The contents of a file, a `ModelProto` of the package sentencepiece.

    Raises:
        RunError: The file is missing, damaged, or of an unsupported kind.
        ConfigError: The package is not installed.
    """
    try:
        from sentencepiece import sentencepiece_model_pb2 as messages
    except ImportError:
        raise ConfigError(
            f"{path} can be read only with the package sentencepiece; install it: pip install -e '.[hf]'"
        ) from None
    data = read_bytes(path, links=True)
    model: Any = messages.ModelProto()  # type: ignore[attr-defined]
    problem = ""
    try:
        model.ParseFromString(data)
    except Exception as error:  # of protobuf, which heed does not import itself
        problem = str(error)
    if not problem and not model.pieces:
        problem = "it has no pieces"
    elif not problem and not all(isinstance(piece.piece, str) for piece in model.pieces):
        problem = "a piece is not UTF-8"
    elif not problem and model.trainer_spec.model_type not in _SPM_KINDS:
        problem = "it is of whole words or characters; unigram and bpe are read"
    elif not problem and not model.normalizer_spec.escape_whitespaces:
        problem = "its spaces are not escaped"
    elif not problem and model.trainer_spec.treat_whitespace_as_suffix:
        problem = "its pieces end with the space instead of starting with it"
    if problem:
        raise RunError(f"{path} is not a SentencePiece model, or is damaged: {problem}")
    _check_scores(((piece.piece, piece.score) for piece in model.pieces), path)
    return model


def kind_of(model: Any) -> str:
    """The kind of a model: "unigram" or "bpe"."""
    return _SPM_KINDS[model.trainer_spec.model_type]


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
_DOUBLE = ("roberta", "xlm-roberta", "camembert")
"""Families with two end tokens between two texts."""
_SEGMENTS = ("bert", "electra")
"""Families that are told which of two texts a token is of."""
_NO_FRAME = ("gpt2",)
"""Families that put no tokens around a text."""


_ENDS, _STARTS = ("sep_token", "eos_token"), ("cls_token", "bos_token")
"""Their roles for our end and start token; the first existing one is used."""


def special_of(library: Tokenizer, roles: Mapping[str, str], size: int) -> Special:
    """The ids of our special tokens; the end token stands in for others that the vocabulary lacks.

    Raises:
        ConfigError: It has no special token.
    """
    ids = {role: i for role, name in roles.items() if (i := library.token_to_id(name)) is not None and i < size}

    def first(*names: str) -> int | None:
        return next((ids[name] for name in names if name in ids), None)

    if (end := first(*_ENDS, *_STARTS, "pad_token", "unk_token")) is None:
        raise ConfigError(f"the tokenizer has none of the special tokens {', '.join(ROLES)}; add an eos_token")
    start, padding, unknown = (first(*_STARTS), first("pad_token"), first("unk_token"))
    unknown = -1 if unknown is None or unknown == end else unknown
    return Special(end if padding is None else padding, unknown, end if start is None else start, end)


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
    if in_list:
        _keep_apart(state, sorted(name for name in hidden if name))
    if isinstance(library.decoder, decoders.ByteLevel):  # as `TextTokenizer.spaces_words` wants it
        state["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": _steps(state["pre_tokenizer"])}
    state |= {"truncation": None, "padding": None, "post_processor": None}
    return TextTokenizer(Tokenizer.from_str(json.dumps(state)), special, size)


def _keep_apart(state: dict[str, Any], names: Sequence[str]) -> None:
    """Split the names of special tokens in two, since Unigram would find them in a text."""
    whole = "|".join(f"{re.escape(name[0])}(?={re.escape(name[1:])})" for name in names if len(name) > 1)
    step = {"type": "Split", "pattern": {"Regex": whole}, "behavior": "MergedWithPrevious", "invert": False}
    state["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [*_steps(state["pre_tokenizer"]), step]}


def _steps(cut: Any) -> list[Any]:
    if cut is None:
        return []
    return list(cut["pretokenizers"]) if cut["type"] == "Sequence" else [cut]


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
    files = TokenizerFolder.open(folder, config)
    library, roles = _library(files), files.roles()
    size = config.get("vocab_size")
    try:
        tokenizer = imported(library, roles, size if isinstance(size, int) else None)
    except ConfigError as error:
        raise ConfigError(f"{folder}: {error}") from None
    settings: dict[str, Any] = {
        "state": library.to_str(),
        "form": files.form,
        "name": files.name,
        "roles": roles,
        "kept": {name: files.settings[name] for name in _KEPT if name in files.settings},
    }
    if further := [*dict.fromkeys(files.further())]:
        settings["kept"]["additional_special_tokens"] = further
    if files.form == AS_IT_IS and files.whole is not None:
        settings["post_processor"] = files.whole.get("post_processor")
    return tokenizer, settings


def write_tokenizer(
    tokenizer: TextTokenizer,
    files: Mapping[str, Any],
    folder: Path,
    family: str,
    *,
    max_length: int | None = None,
) -> None:
    """Write what `AutoTokenizer.from_pretrained` reads, so that it cuts texts the same.

    Args:
        tokenizer: A tokenizer that was imported or trained here.
        files: What `read_tokenizer` gave, while the vocabulary is the same; else empty.
        folder: The folder of the checkpoint.
        family: Its `model_type`, such as "bert" or "roberta".
        max_length: The longest text in tokens, for those who cut to it.
    """
    state, settings = (json.loads(files["state"]), dict(files)) if files else _own(tokenizer, family)
    roles: dict[str, str] = settings["roles"]
    state["post_processor"] = settings.get("post_processor") or _frame(state, roles, family)
    fields: dict[str, Any] = {"tokenizer_class": settings.get("name", settings["form"]), **roles}
    if max_length is not None:
        fields["model_max_length"] = max_length
    fields |= settings.get("kept", {})
    segments = ["token_type_ids"] if family in _SEGMENTS else []
    fields["model_input_names"] = ["input_ids", *segments, "attention_mask"]
    fields |= _cut_fields(state, settings["form"])
    folder.mkdir(parents=True, exist_ok=True)
    write_json(folder / WHOLE, state)
    write_json(folder / CONFIG, fields)
    _write_vocabulary(state, settings["form"], folder)


def _own(tokenizer: TextTokenizer, family: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The JSON of a tokenizer that is not as it was imported, and how it is to be read."""
    state = json.loads(tokenizer.library.to_str())
    steps = _steps(state["pre_tokenizer"])
    state["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": steps} if len(steps) > 1 else next(iter(steps), None)
    places = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token"), tokenizer.special, strict=True))
    roles = {role: tokenizer.token(i) for role, i in places.items() if i >= 0}
    names = [*roles.values()]
    roles |= {"bos_token": roles["cls_token"], "eos_token": roles["sep_token"]}
    if tokenizer.mask is not None:
        roles["mask_token"] = tokenizer.token(tokenizer.mask)
    form = AS_IT_IS
    is_berts = tokenizer.is_of_pieces and names == [*BERT_TOKENS] and tokenizer.mask is not None
    if is_berts and family not in (*_NO_FRAME, *_DOUBLE):  # its class frames texts its own way
        normal = _only(state["normalizer"], "normalizers")
        if normal is not None and normal["type"] == "BertNormalizer" and normal["clean_text"]:
            form = BERT
            del roles["bos_token"], roles["eos_token"]
    return state, {"form": form, "roles": roles}


def _only(steps: Any, name: str) -> Any:
    """The one step of a sequence of steps; None for several."""
    if steps is None or steps["type"] != "Sequence":
        return steps
    return steps[name][0] if len(steps[name]) == 1 else None


def _frame(state: Mapping[str, Any], roles: Mapping[str, str], family: str) -> dict[str, Any] | None:
    """The tokens around a text, and around two."""
    start = roles.get("cls_token", roles.get("bos_token"))
    end = roles.get("sep_token", roles.get("eos_token"))
    if family in _NO_FRAME or start is None or end is None:
        return None
    added = {token["content"]: token["id"] for token in state["added_tokens"]}
    ids = {name: added.get(name, _place(state, name)) for name in sorted({start, end})}
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


def _place(state: Mapping[str, Any], name: str) -> int:
    vocabulary = state["model"]["vocab"]
    return vocabulary[name] if isinstance(vocabulary, dict) else [piece for piece, _ in vocabulary].index(name)


def _cut_fields(state: Mapping[str, Any], form: str) -> dict[str, Any]:
    """How the class of the tokenizer is to cut, as fields of tokenizer_config.json."""
    if form == BERT:
        normal = _only(state["normalizer"], "normalizers")
        return {
            "do_lower_case": normal["lowercase"],
            "strip_accents": normal["strip_accents"],
            "tokenize_chinese_chars": normal["handle_chinese_chars"],
        }
    if form in (GPT2, ROBERTA):
        return {"add_prefix_space": state["pre_tokenizer"]["add_prefix_space"]}
    if form == XLM_ROBERTA:
        return {"add_prefix_space": state["pre_tokenizer"]["pretokenizers"][1]["prepend_scheme"] != "never"}
    return {}


def _write_vocabulary(state: Mapping[str, Any], form: str, folder: Path) -> None:
    """The files that a class reads without tokenizer.json."""
    model = state["model"]
    if form == BERT:
        (folder / "vocab.txt").write_text("".join(f"{token}\n" for token in model["vocab"]), encoding="utf-8")
    elif form in (GPT2, ROBERTA):
        write_json(folder / "vocab.json", model["vocab"])
        merges = "".join(f"{left} {right}\n" for left, right in model["merges"])
        (folder / "merges.txt").write_text(f"#version: 0.2\n{merges}", encoding="utf-8")
