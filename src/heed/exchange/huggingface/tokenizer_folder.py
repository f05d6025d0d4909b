"""The tokenizer files of a checkpoint: what they say together, where several say something.

| what | the first of |
|---|---|
| class | `tokenizer_class` of tokenizer_config.json, of config.json, the usual one of the `model_type` |
| cut | tokenizer_config.json with the defaults of the class; for a class of no cut of its own tokenizer.json |
| tokens | tokenizer.json, vocab.txt, vocab.json and merges.txt, sentencepiece.bpe.model |
| added tokens | `added_tokens_decoder` of tokenizer_config.json, added_tokens.json and tokenizer.json |
| special tokens | special_tokens_map.json (without `added_tokens_decoder`), tokenizer_config.json, the class |
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Tokenizer

from heed.errors import ConfigError, RunError
from heed.exchange.huggingface.config_file import read_json

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
    """What the tokenizer files of a folder say.

    Attributes:
        folder: The folder.
        form: The class that cuts: one of `BERT`, `ROBERTA`, `GPT2`, `XLM_ROBERTA`, `AS_IT_IS`.
        name: The class as the files name it, without "Fast".
        settings: tokenizer_config.json.
        whole: tokenizer.json, where there is one.
    """

    folder: Path
    form: str
    name: str
    settings: Mapping[str, Any]
    whole: Mapping[str, Any] | None

    @classmethod
    def open(cls, folder: Path, config: Mapping[str, Any]) -> TokenizerFolder:
        """Read the files that say which class cuts.

        Raises:
            RunError: A file is damaged.
            ConfigError: It is of a class that heed lacks.
        """
        settings = _optional(folder / CONFIG) or {}
        whole = _optional(folder / WHOLE)
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
        """The special tokens by role ("pad_token", "cls_token" and so on), those that there are."""
        values = {f"{name}_token": token for name, token in _DEFAULTS[self.form].items()}
        values |= {name: self.settings[name] for name in ROLES if name in self.settings}
        if not self._decoder:
            values |= {name: token for name, token in self._special_map().items() if name in ROLES}
        return {name: _content(token) for name, token in values.items() if token is not None}

    def add_tokens(self, library: Tokenizer) -> None:
        """Give the library's tokenizer its added tokens, in their order."""
        named = {*self.roles().values()}
        tokens = {str(token.content): token for token in self._added()}
        for content in [*named, *self.further()]:
            tokens.setdefault(content, AddedToken(content, special=True, normalized=False))
        known = {token.content: token for token in library.get_added_tokens_decoder().values()}
        for content, token in tokens.items():
            token.special = token.special or content in named
            if known.get(content) != token:
                library.add_tokens([token])

    @property
    def _decoder(self) -> Mapping[str, Any]:
        value = self.settings.get("added_tokens_decoder") or {}
        if not isinstance(value, dict) or not all(i.isdecimal() and isinstance(t, dict) for i, t in value.items()):
            raise RunError(f"{self.folder / CONFIG} is damaged: added_tokens_decoder has no tokens by number")
        return value

    def _special_map(self) -> dict[str, Any]:
        return _optional(self.folder / "special_tokens_map.json") or {}

    def further(self) -> Iterator[str]:
        """Special tokens without a role."""
        places: list[Mapping[str, Any]] = [self.settings]
        if not self._decoder:
            places.append(self._special_map())
        for place in places:
            for name in ("additional_special_tokens", "extra_special_tokens"):
                value = place.get(name) or []
                yield from map(_content, value.values() if isinstance(value, dict) else value)

    def _added(self) -> Iterable[AddedToken]:
        if self._decoder:
            return [_added(token) for _, token in sorted(self._decoder.items(), key=lambda item: int(item[0]))]
        legacy = _optional(self.folder / "added_tokens.json") or {}
        special = {*self.roles().values(), *self.further()}
        tokens = {
            int(i): AddedToken(content, special=content in special, normalized=content not in special)
            for content, i in legacy.items()
        }
        if self.whole is not None:
            tokens |= {int(token["id"]): _added(token) for token in self.whole.get("added_tokens") or []}
        return [token for _, token in sorted(tokens.items())]


def _by_files(folder: Path) -> str:
    """The class of a folder that names none and has no tokenizer.json."""
    for names, form in (
        (("vocab.txt",), BERT),
        (("vocab.json", "merges.txt"), GPT2),
        (("sentencepiece.bpe.model",), XLM_ROBERTA),
    ):
        if all((folder / name).is_file() for name in names):
            return form
    raise missing(folder)


def missing(folder: Path) -> RunError:
    """The error for a folder without the files of a tokenizer."""
    return RunError(
        f"{folder} has no tokenizer: neither {WHOLE}, nor vocab.txt, nor vocab.json with merges.txt, nor "
        "sentencepiece.bpe.model"
    )


def _optional(path: Path) -> dict[str, Any] | None:
    return read_json(path) if path.is_file() else None


def _content(token: Any) -> str:
    """The text of a token that a file gives as text or with its properties."""
    return str(token["content"] if isinstance(token, dict) else token)


def _added(token: Mapping[str, Any]) -> AddedToken:
    return AddedToken(_content(token), **{name: bool(token[name]) for name in _FLAGS if name in token})


def read_lines(path: Path) -> list[str]:
    """The lines of a vocabulary file, without their ends and nothing else.

    Raises:
        RunError: It cannot be read, or is not UTF-8.
    """
    try:
        text = path.read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise RunError(f"{path} is damaged: {error}") from None
    return [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]


def write_json(path: Path, values: Mapping[str, Any]) -> None:
    """Write a file of one JSON object."""
    path.write_text(json.dumps(values, ensure_ascii=False, indent=2) + "\n", encoding="utf-8")
