"""Vocabularies of imported models: without the tokens that some texts do not use, or with those of a new language.

**Trimmed.** Embeddings and output layer become smaller. The texts are cut as before: the tokens that they use, single
characters and bytes, special tokens, tags and language codes stay, in their order. Of a model of merges (BPE) every
merge stays from which a token that stays can be built, since the steps of a merge need its parts. Of a unigram model
the least probable token stays too, which sets the price of unknown characters. Other texts are cut into more tokens.

**A new language.** Its own token comes last. Characters that the vocabulary lacks, and pieces with such a character,
are put before added tokens, so that texts of other languages are cut as before. The new row of a piece starts as the
mean of the rows of the tokens into which the old tokenizer cuts it, or of all rows if there are none; the row of the
language's token starts as that of another language.

Source: Abdaoui et al. 2020 (arXiv:2010.05609), which keep the tokens of a language; the rule for merges is ours.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any

from tokenizers import Tokenizer, models, trainers

from heed.data.tokens import BLANK, CONTINUED, Special, library_of
from heed.data.tokens.tokenizer import BYTE, CODE, UNUSED, MappedTokenizer, TextTokenizer
from heed.exchange.huggingface.pieces import NORMAL, cutter_of, parsed

Trimmed = tuple[dict[str, TextTokenizer], dict[str, list[int]]]


def trimmed(tokenizers: Mapping[str, TextTokenizer], texts: Mapping[str, Sequence[str]]) -> Trimmed:
    """Tokenizers with only the tokens that texts use, and the ids that stay, in the order of their new ids.

    Args:
        tokenizers: By role; those with the same tokens keep the same tokens, as a shared embedding needs.
        texts: By role, what they are to cut as before.
    """
    groups: defaultdict[tuple[str, ...], list[str]] = defaultdict(list)
    for role, tokenizer in tokenizers.items():
        groups[tuple(tokenizer.tokens)].append(role)
    smaller, retained = dict[str, TextTokenizer](), dict[str, list[int]]()
    for tokens, roles in groups.items():
        pieces = {role: _used_pieces(tokenizers[role], texts[role]) for role in roles}
        ids = sorted(set().union(*(_used_ids(tokenizers[role], texts[role], pieces[role]) for role in roles)))
        for role in roles:
            retained[role] = ids
            tokenizer = tokenizers[role]
            special = Special(*(-1 if i < 0 else ids.index(i) for i in tokenizer.special))
            if isinstance(tokenizer, MappedTokenizer):
                vocabulary = [tokens[i] for i in ids]
                cutter, origin = _without_pieces(tokenizer, pieces[role])
                tags, codes = [*tokenizer.tags], tokenizer.codes
                smaller[role] = MappedTokenizer(cutter, vocabulary, origin, tags, special, codes)
            else:
                smaller[role] = TextTokenizer(library_of(_state(tokenizer, ids)), special, len(ids))
    return smaller, retained


def _used_pieces(tokenizer: TextTokenizer, texts: Sequence[str]) -> set[str]:
    """The names of the library's tokens that stay."""
    library = tokenizer.library
    if isinstance(tokenizer, MappedTokenizer):
        texts = [tokenizer.split_code(text)[1] for text in texts]
    encodings = library.encode_batch_fast(list(texts), add_special_tokens=False)
    names = [str(library.id_to_token(i)) for i in set(chain.from_iterable(e.ids for e in encodings))]
    model = json.loads(library.to_str())["model"]
    vocabulary = model["vocab"]
    if isinstance(vocabulary, list):  # unigram
        scores = dict(vocabulary)
        names += [min(scores, key=scores.__getitem__), vocabulary[model["unk_id"] or 0][0]]
    else:
        names += [model["unk_token"]] if model.get("unk_token") else []
        scores = vocabulary
    names += [name for name in scores if _is_elementary(name)]
    return _with_parts(names, model.get("merges") or [], model.get("continuing_subword_prefix") or "")


def _is_elementary(name: str) -> bool:
    """True for a character, alone or within a word, and for a byte."""
    return len(name.removeprefix(CONTINUED)) == 1 or BYTE.fullmatch(name) is not None


def _with_parts(names: Iterable[str], merges: Iterable[Any], prefix: str) -> set[str]:
    """Tokens, and those from which they can be merged."""
    parts: defaultdict[str, list[str]] = defaultdict(list)
    for merge in merges:
        left, right = merge.split(" ") if isinstance(merge, str) else merge
        parts[left + right.removeprefix(prefix)] += [left, right]
    closed, waiting = set[str](), [*names]
    while waiting:
        if (name := waiting.pop()) not in closed:
            closed.add(name)
            waiting += parts[name]
    return closed


def _used_ids(tokenizer: TextTokenizer, texts: Sequence[str], pieces: Collection[str]) -> set[int]:
    """The ids that stay: those of pieces, of texts, of special and added tokens, of tags and language codes."""
    tokens = enumerate(tokenizer.tokens)
    used = {*tokenizer.special, *tokenizer.tags.values(), *tokenizer.added, *chain(*tokenizer.encode_all(texts))}
    if isinstance(tokenizer, MappedTokenizer):
        used |= {i for i, token in tokens if token in pieces or CODE.fullmatch(token) or _is_elementary(token)}
    else:
        used |= {i for i, token in tokens if token in pieces}
    return used - {-1}


def _state(tokenizer: TextTokenizer, ids: Sequence[int]) -> dict[str, Any]:
    """The library's JSON with only some tokens, numbered in their order."""
    state: dict[str, Any] = json.loads(tokenizer.library.to_str())
    model, new = state["model"], {old: i for i, old in enumerate(ids)}
    if isinstance(model["vocab"], list):
        model["vocab"] = [pair for i, pair in enumerate(model["vocab"]) if i in new]
        model["unk_id"] = new.get(model["unk_id"])
    else:
        model["vocab"] = {name: new[i] for name, i in model["vocab"].items() if i in new}
    if model.get("merges"):
        prefix, vocabulary = model.get("continuing_subword_prefix") or "", model["vocab"]
        pairs = [merge.split(" ") if isinstance(merge, str) else merge for merge in model["merges"]]
        model["merges"] = [[a, b] for a, b in pairs if {a, b, a + b.removeprefix(prefix)} <= vocabulary.keys()]
    state["added_tokens"] = [{**token, "id": new[token["id"]]} for token in state["added_tokens"]]
    return state | {"post_processor": None}


def _without_pieces(tokenizer: MappedTokenizer, names: Collection[str]) -> tuple[Any, bytes]:
    """The cutting tokenizer with only some pieces, and its SentencePiece model."""
    model = parsed(tokenizer.origin)
    retained = [piece for piece in model.pieces if piece.type != NORMAL or piece.piece in names]
    del model.pieces[:]
    model.pieces.extend(retained)
    return cutter_of(model), model.SerializeToString()


_OFTEN = 5
"""Occurrences of a pair of pieces of a new language from which it is merged."""
_PIECES = 1_000
"""Maximum number of pieces of a new language that are learned, characters among them."""


def with_language(tokenizer: TextTokenizer, tags: Sequence[str], texts: Sequence[str]) -> TextTokenizer:
    """A tokenizer with further tags, and with the pieces of texts that have characters which it lacks."""
    library = tokenizer.library
    merges = _new_merges(library, texts)
    pieces = [*dict.fromkeys(chain.from_iterable((*parts, piece) for piece, parts in merges))]
    present = library.get_vocab()
    pieces = [piece for piece in pieces if piece not in present]
    if isinstance(tokenizer, MappedTokenizer):
        vocabulary, old = [*tokenizer.tokens], tokenizer.tags
        place = 1 + max(i for i, token in enumerate(vocabulary) if token not in old and token != UNUSED.format(i))
        cutter, origin = _with_pieces(tokenizer, pieces)
        known = {*vocabulary}
        vocabulary[place:place] = inserted = [piece for piece in pieces if piece not in known]
        special = Special(*(i if i < place else i + len(inserted) for i in tokenizer.special))
        return MappedTokenizer(cutter, [*vocabulary, *tags], origin, [*old, *tags], special, tokenizer.codes)
    state: dict[str, Any] = json.loads(library.to_str())
    model, size = state["model"], library.get_vocab_size(with_added_tokens=False)
    if isinstance(model["vocab"], list):  # unigram
        minimum = min(score for _, score in model["vocab"])
        model["vocab"] += [[piece, minimum] for piece in pieces]
    else:
        model["vocab"] |= {piece: size + n for n, piece in enumerate(pieces)}
    if "merges" in model:
        model["merges"] += [[*parts] for _, parts in merges if parts]
    shifted = [{**token, "id": token["id"] + len(pieces) * (token["id"] >= size)} for token in state["added_tokens"]]
    special = Special(*(i + len(pieces) * (i >= size) for i in tokenizer.special))
    rows = library.get_vocab_size() + len(pieces) + len(tags)
    extended = TextTokenizer(library_of(state | {"added_tokens": shifted}), special, rows)
    extended.add_tags(tags)
    return extended


def _new_merges(library: Tokenizer, texts: Sequence[str]) -> list[tuple[str, tuple[str, ...]]]:
    """Pieces of texts with a character that the library's tokenizer lacks, and the two parts of each but characters."""
    learned = Tokenizer(models.BPE())
    if library.normalizer is not None:
        learned.normalizer = library.normalizer
    if library.pre_tokenizer is not None:
        learned.pre_tokenizer = library.pre_tokenizer
    learned.train_from_iterator(
        texts, trainers.BpeTrainer(vocab_size=_PIECES, min_frequency=_OFTEN, show_progress=False)
    )
    model, vocabulary = json.loads(learned.to_str())["model"], {*library.get_vocab()}
    new = {piece for piece in model["vocab"] if len(piece) == 1} - vocabulary
    pieces: list[tuple[str, tuple[str, ...]]] = [(character, ()) for character in sorted(new)]
    vocabulary |= new
    if isinstance(library.model, models.BPE):
        for left, right in model["merges"]:
            if {left, right} <= vocabulary and not new.isdisjoint(left + right):
                pieces.append((left + right, (left, right)))
                vocabulary.add(left + right)
    return pieces


def _with_pieces(tokenizer: MappedTokenizer, pieces: Sequence[str]) -> tuple[Any, bytes]:
    """The cutting tokenizer with further pieces, less probable than all others, and its SentencePiece model."""
    model = parsed(tokenizer.origin)
    minimum = min(piece.score for piece in model.pieces)
    for n, piece in enumerate(pieces, start=1):
        model.pieces.add(piece=piece, score=minimum - n, type=NORMAL)
    return cutter_of(model), model.SerializeToString()


def starting_rows(tokenizer: TextTokenizer, parent: TextTokenizer, like: int | None) -> dict[int, list[int]]:
    """For each token that a parent lacks, the parent's rows whose mean it starts as; none for all rows.

    Args:
        tokenizer: With further tokens.
        parent: Without them.
        like: The row that new tags start as; None for the mean of all tags.
    """
    parent_tokens, tags = {*parent.tokens}, {*tokenizer.tags.values()}
    rows = dict[int, list[int]]()
    for i, token in enumerate(tokenizer.tokens):
        if token not in parent_tokens:
            parts = [part for part in parent.encode(token.replace(BLANK, " ")).ids if part != parent.special.unknown]
            if parts and parent.token(parts[0]) == BLANK != token[:1]:  # a space that the tokenizer puts before texts
                del parts[0]
            of_tag = [*parent.tags.values()] if like is None else [like]
            rows[i] = of_tag if i in tags else parts
    return rows
