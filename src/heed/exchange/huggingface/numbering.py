"""Mapping between our token ids and those of an imported checkpoint.

Ids 0 to 3 are padding, unknown, start and end in heed; a checkpoint has them anywhere, or lacks some. Its vocabulary is
renumbered when it is read: those four first, then the others in order. The numbering records the original ids.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from tokenizers import AddedToken, Tokenizer, decoders
from torch import Tensor

from heed.data.tokens.special import BERT_TOKENS, MASKS, SPECIAL_TOKENS, UNKNOWN
from heed.data.tokens.tokenizer import END, PADDING, START, TextTokenizer
from heed.errors import ConfigError, RunError


@dataclass(frozen=True, slots=True)
class Numbering:
    """The checkpoint's ids of our tokens.

    Attributes:
        theirs: The checkpoint's id of each of our tokens; None if its vocabulary lacks the token. If one of its tokens
            stands for two of ours (Marian's padding is also its start token), the first is written back.
        size: Rows of the checkpoint's embedding.
        settings: Its tokenizer ("state", as JSON) and further settings of its files, to be written back.
    """

    theirs: list[int | None]
    size: int
    settings: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def same(cls, size: int) -> Numbering:
        """The identity, for a vocabulary that was trained here or has changed since the import."""
        return cls(list(range(size)), size)

    @classmethod
    def from_json(cls, state: Mapping[str, Any]) -> Numbering:
        """The numbering from values written by `as_json`.

        Raises:
            RunError: The values are damaged.
        """
        theirs, size, settings = state.get("theirs"), state.get("size"), dict(state.get("settings", {}))
        if not isinstance(theirs, list) or not isinstance(size, int):
            raise RunError("the numbering of the imported vocabulary is damaged: it needs 'theirs' and 'size'")
        if not all(i is None or (isinstance(i, int) and 0 <= i < size) for i in theirs):
            raise RunError(f"the numbering of the imported vocabulary has ids outside its {size:,} rows")
        if "form" in settings and "state" not in settings:
            raise RunError("the numbering of the imported vocabulary is damaged: with 'form', it needs 'state'")
        return cls(list(theirs), size, settings)

    def as_json(self) -> dict[str, Any]:
        """The numbering as plain values for JSON."""
        return {"theirs": self.theirs, "size": self.size, "settings": dict(self.settings)}

    def __len__(self) -> int:
        return len(self.theirs)

    @property
    def absent(self) -> list[int]:
        """Our ids of tokens that the checkpoint's vocabulary lacks."""
        return [ours for ours, theirs in enumerate(self.theirs) if theirs is None]

    @property
    def not_restored(self) -> list[int]:
        """Our ids whose rows a checkpoint cannot restore: absent ones, and those that share a row with another."""
        counts = Counter(self.theirs)
        return [ours for ours, theirs in enumerate(self.theirs) if theirs is None or counts[theirs] > 1]

    @property
    def ours(self) -> dict[int, int]:
        """Our id of each of the checkpoint's tokens, the first if there are two."""
        return {theirs: ours for ours, theirs in reversed([*enumerate(self.theirs)]) if theirs is not None}

    def to_ours(self, rows: Tensor, absent: float = 0.0) -> Tensor:
        """Reorder a tensor `(their size, ...)` to `(our size, ...)`, with a constant for tokens that they lack."""
        if rows.is_meta:
            return rows.new_empty((len(self), *rows.shape[1:]))
        index = torch.tensor([0 if i is None else i for i in self.theirs], dtype=torch.long)
        result = rows.index_select(0, index)
        if self.absent:
            result[torch.tensor(self.absent, dtype=torch.long)] = absent
        return result

    def to_theirs(self, rows: Tensor) -> Tensor:
        """Reorder a tensor `(our size, ...)` to `(their size, ...)`, the inverse of `to_ours`.

        Their rows without a token of ours are zeros.
        """
        places = self.ours
        result = rows.new_zeros((self.size, *rows.shape[1:]))
        if rows.is_meta:
            return result
        result[torch.tensor([*places], dtype=torch.long)] = rows[torch.tensor([*places.values()], dtype=torch.long)]
        return result


_ROLES = {
    END: ("sep_token", "eos_token"),
    START: ("cls_token", "bos_token"),
    PADDING: ("pad_token",),
    UNKNOWN: ("unk_token",),
}
"""Their special tokens for each of ours; the first existing one is used. A token has one role, the first here: of
GPT-2, whose only special token ends texts, the others are absent."""
_FLAGS = ("single_word", "lstrip", "rstrip", "normalized")
_UNUSED = "<unused row {}>"
"""Names a row of their embedding for which they have no token. A text is never cut into a name with blanks in it."""


def renumbered(library: Tokenizer, roles: Mapping[str, str], size: int | None) -> tuple[TextTokenizer, Numbering]:
    """Renumber a tokenizer.

    Args:
        library: The tokenizer in their numbering.
        roles: Their special tokens, as `{"cls_token": "[CLS]"}`.
        size: Rows of their embedding; None: as many as the tokenizer has.

    Raises:
        ConfigError: The vocabulary has more tokens than rows.
    """
    state = json.loads(library.to_str())
    model = state["model"]
    in_list = isinstance(model["vocab"], list)
    pieces = [piece for piece, _ in model["vocab"]] if in_list else []
    inside: dict[int, str] = dict(enumerate(pieces)) if in_list else {i: t for t, i in model["vocab"].items()}
    added: dict[int, AddedToken] = dict(library.get_added_tokens_decoder())
    outside = {i: token for i, token in added.items() if i not in inside}
    size = max([*inside, *outside], default=-1) + 1 if size is None else size
    if (many := max(inside, default=-1) + 1) > size:
        raise ConfigError(f"the tokenizer has {many:,} tokens, but vocab_size of config.json is {size:,}")
    first = _first(library, roles, size)
    places = [first[role] for role in range(len(SPECIAL_TOKENS))]
    taken = {*places}
    rest = [i for i in range(size) if i not in taken and i not in outside]
    last = [i for i in sorted(outside) if i < size and i not in taken]
    theirs = [*places, *rest, *last]
    texts = {**{i: token.content for i, token in outside.items()}, **inside}
    names = _absent_names(first, {*texts.values()}, model.get("type") == "WordPiece")
    new = [names[role] if i is None else texts[i] for role, i in enumerate(places)]
    new += [texts.get(i, _UNUSED.format(i)) for i in rest]
    if in_list:
        scores = [score for _, score in model["vocab"]]
        least = min(scores, default=0.0)
        kept = [scores[i] if i is not None and i < len(scores) else least for i in [*places, *rest]]
        model["vocab"] = [[name, score] for name, score in zip(new, kept, strict=True)]
        model["unk_id"] = UNKNOWN
    else:
        model["vocab"] = {name: i for i, name in enumerate(new)}
        if model.get("type") != "BPE" or first[UNKNOWN] is not None:
            model["unk_token"] = new[UNKNOWN] if model.get("unk_token") is not None else None
        elif model.get("unk_token") not in (None, new[UNKNOWN]):
            model["unk_token"] = None  # it has another role
    hidden = {*new[: len(SPECIAL_TOKENS)]} | {roles.get("mask_token")}
    state["added_tokens"] = [
        {
            "id": i,
            "content": name,
            **{flag: bool(getattr(added.get(-1 if place is None else place), flag, False)) for flag in _FLAGS},
            "special": i < len(SPECIAL_TOKENS) or (name in hidden and name in MASKS),
        }
        for i, (name, place) in enumerate(zip([*new, *(texts[i] for i in last)], theirs, strict=True))
        if i < len(SPECIAL_TOKENS) or place in added
    ]
    if in_list:
        _keep_apart(state, sorted(name for name in hidden if name))
    if isinstance(library.decoder, decoders.ByteLevel):  # as `TextTokenizer.spaces_words` wants it
        state["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": _steps(state["pre_tokenizer"])}
    state |= {"truncation": None, "padding": None, "post_processor": None}
    return TextTokenizer(Tokenizer.from_str(json.dumps(state))), Numbering(theirs, size, {"state": library.to_str()})


def _first(library: Tokenizer, roles: Mapping[str, str], size: int) -> dict[int, int | None]:
    """The checkpoint's id of each of our special tokens."""
    result: dict[int, int | None] = {}
    for role, names in _ROLES.items():
        name = next((roles[name] for name in names if name in roles), None)
        place = None if name is None else library.token_to_id(name)
        result[role] = None if place is None or place >= size or place in result.values() else place
    return result


def _absent_names(first: Mapping[int, int | None], known: set[str], pieces: bool) -> dict[int, str]:
    """Unused names for the special tokens that the checkpoint lacks."""
    result = {}
    for role, name in enumerate(BERT_TOKENS if pieces else SPECIAL_TOKENS):
        if first[role] is None:
            while name in known:
                name = f"<{name}>"
            result[role] = name
    return result


def _keep_apart(state: dict[str, Any], names: Sequence[str]) -> None:
    """Split the names of special tokens in two, since Unigram would find them in a text."""
    whole = "|".join(f"{re.escape(name[0])}(?={re.escape(name[1:])})" for name in names if len(name) > 1)
    step = {"type": "Split", "pattern": {"Regex": whole}, "behavior": "MergedWithPrevious", "invert": False}
    steps = _steps(state["pre_tokenizer"])
    state["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [*steps, step]}


def _steps(cut: Any) -> list[Any]:
    if cut is None:
        return []
    return list(cut["pretokenizers"]) if cut["type"] == "Sequence" else [cut]


def unwrapped(state: dict[str, Any]) -> dict[str, Any]:
    """The JSON of a tokenizer whose cut is no sequence where it has one step."""
    if state["pre_tokenizer"] is not None:
        state["pre_tokenizer"] = _joined(_steps(state["pre_tokenizer"]))
    return state


def _joined(steps: list[Any]) -> Any:
    return {"type": "Sequence", "pretokenizers": steps} if len(steps) > 1 else next(iter(steps), None)
