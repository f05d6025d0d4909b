"""Tokenizer folders of Hugging Face: read into a `TextTokenizer` and its numbering, and written."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from heed.data.tokens.special import BERT_TOKENS
from heed.data.tokens.tokenizer import END, PADDING, START, UNKNOWN, TextTokenizer
from heed.errors import ConfigError
from heed.exchange.huggingface.numbering import Numbering
from heed.exchange.huggingface.renumber import numbered_back, renumbered, unwrapped
from heed.exchange.huggingface.tokenizer_folder import (
    AS_IT_IS,
    BERT,
    CONFIG,
    GPT2,
    ROBERTA,
    WHOLE,
    XLM_ROBERTA,
    TokenizerFolder,
    write_json,
)
from heed.exchange.huggingface.tokenizer_forms import library_of

_KEPT = ("model_max_length", "clean_up_tokenization_spaces")
"""Fields of tokenizer_config.json that change no cut and are written again."""
_DOUBLE = ("roberta", "xlm-roberta", "camembert")
"""Families with two end tokens between two texts."""
_SEGMENTS = ("bert", "electra")
"""Families that are told which of two texts a token is of."""
_NO_FRAME = ("gpt2",)
"""Families that put no tokens around a text."""


def read_tokenizer(folder: Path, config: Mapping[str, Any]) -> tuple[TextTokenizer, Numbering]:
    """Read the tokenizer of a checkpoint, renumbered.

    Args:
        folder: The checkpoint's folder: `tokenizer.json`, or `vocab.txt`, or `vocab.json` and `merges.txt`, or
            `sentencepiece.bpe.model`; with `tokenizer_config.json`, which wins, `special_tokens_map.json` and
            `added_tokens.json` where it has them.
        config: Its `config.json`: `model_type` and `vocab_size`.

    Returns:
        The tokenizer, and where each of its tokens stands in the checkpoint's vocabulary: one for every row of its
        embedding, also for rows that its tokenizer has no token for.

    Raises:
        RunError: There is no tokenizer, or a file is damaged.
        ConfigError: It is of a kind that heed lacks, or has more tokens than the embedding has rows.
    """
    files = TokenizerFolder.open(folder, config)
    library, roles = library_of(files), files.roles()
    size = config.get("vocab_size")
    try:
        tokenizer, numbering = renumbered(library, roles, size if isinstance(size, int) else None)
    except ConfigError as error:
        raise ConfigError(f"{folder}: {error}") from None
    settings = {
        **numbering.settings,
        "form": files.form,
        "name": files.name,
        "roles": roles,
        "kept": {name: files.settings[name] for name in _KEPT if name in files.settings},
    }
    if further := [*dict.fromkeys(files.further())]:
        settings["kept"]["additional_special_tokens"] = further
    if files.form == AS_IT_IS and files.whole is not None:
        settings["post_processor"] = files.whole.get("post_processor")
    return tokenizer, Numbering(numbering.theirs, numbering.size, settings)


def write_tokenizer(
    tokenizer: TextTokenizer,
    numbering: Numbering | None,
    folder: Path,
    family: str,
    *,
    max_length: int | None = None,
) -> None:
    """Write what `AutoTokenizer.from_pretrained` reads, so that it cuts texts the same.

    Args:
        tokenizer: A tokenizer that was imported or trained here.
        numbering: What `read_tokenizer` gave, while the vocabulary is the same; None for our own order.
        folder: The folder of the checkpoint.
        family: Its `model_type`, such as "bert" or "roberta".
        max_length: The longest text in tokens, for those who cut to it.
    """
    if numbering is None or "form" not in numbering.settings:
        state, settings = _own(tokenizer, family)
    else:
        state, settings = numbered_back(tokenizer, numbering), dict(numbering.settings)
    state = unwrapped(state)
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
    """The JSON of a tokenizer in our order, and how it is to be read."""
    state: dict[str, Any] = json.loads(tokenizer.text)
    names = [tokenizer.token(i) for i in (PADDING, UNKNOWN, START, END)]
    roles = dict(zip(("pad_token", "unk_token", "cls_token", "sep_token"), names, strict=True))
    roles |= {"bos_token": names[START], "eos_token": names[END]}
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
    if family in _NO_FRAME:
        return None
    start = roles.get("cls_token", roles.get("bos_token"))
    end = roles.get("sep_token", roles.get("eos_token"))
    if start is None or end is None:
        return None
    ids = {token["content"]: token["id"] for token in state["added_tokens"]}

    def special(name: str, segment: int = 0) -> dict[str, Any]:
        return {"SpecialToken": {"id": name, "type_id": segment}}

    def text(name: str, segment: int = 0) -> dict[str, Any]:
        return {"Sequence": {"id": name, "type_id": segment}}

    second = 1 if family in _SEGMENTS else 0
    between = [special(end), special(end)] if family in _DOUBLE else [special(end)]
    return {
        "type": "TemplateProcessing",
        "single": [special(start), text("A"), special(end)],
        "pair": [special(start), text("A"), *between, text("B", second), special(end, second)],
        "special_tokens": {
            name: {"id": name, "ids": [ids.get(name, _place(state, name))], "tokens": [name]} for name in {start, end}
        },
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
