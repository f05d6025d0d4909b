"""Subwords: tokenizers of each kind, trained with the `tokenizers` library.

`wordpiece` normalises and cuts a text like BERT: control characters are left out, each Chinese character and
punctuation mark is a word, and lower-casing also removes accents. Its output has spaces between words and none before a
full stop or comma. For files, `auto` is bpe, which gave fewer tokens a line than unigram with a vocabulary of the same
size.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from itertools import chain
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from heed.config import TokenizerConfig
from heed.data.tokens import (
    BERT_TOKENS,
    BLANK,
    CONTINUED,
    LETTERS,
    MASK,
    SIGNS,
    SPECIAL_TOKENS,
    UNKNOWN,
    WORD,
)
from heed.errors import ConfigError

NUM_BYTES = len(SPECIAL_TOKENS) + len(LETTERS)
"""Tokens of a tokenizer of bytes without merges."""
_ALONE = rf"[\p{{P}}{SIGNS}]|\s"
"""Punctuation, and whitespace other than the space: never part of a word's tokens."""
_LONGEST = 100
"""Most characters of a word in WordPiece; a longer word is one unknown token, as in BERT."""


def learn(texts: Iterable[str], config: TokenizerConfig, exact: bool, mask: bool) -> Tokenizer:
    """Train the library's tokenizer of the configured kind (not "auto"); see `TextTokenizer.train`.

    Raises:
        ConfigError: `tokenizer.vocab_size` is too small for the required tokens.
    """
    if config.kind == "char":
        return learn_characters(texts, config, mask)
    if config.kind == "byte":
        return _bytes(config, mask)
    if config.kind == "wordpiece":
        return _word_pieces(texts, config, mask)
    unknown, common = SPECIAL_TOKENS[UNKNOWN], _common(config, mask)
    size, special = common["vocab_size"], common["special_tokens"]
    trainer: Any
    if config.kind == "word":
        tokenizer, trainer = word_level(), trainers.WordLevelTrainer(min_frequency=config.min_count, **common)
    elif config.kind == "bpe":
        tokenizer = Tokenizer(models.BPE(unk_token=unknown))
        trainer = trainers.BpeTrainer(limit_alphabet=size - len(special), **common)
    elif config.kind == "byte_bpe":
        minimum = len(LETTERS) + len(special)
        if size < minimum:
            hint = f"byte_bpe needs {minimum} (256 bytes and {len(special)} special tokens) plus one for each merge"
            raise ConfigError(f"tokenizer.vocab_size is {size}, but {hint}")
        tokenizer = Tokenizer(models.BPE(unk_token=unknown))
        trainer = trainers.BpeTrainer(initial_alphabet=list(LETTERS), **common)
    else:
        tokenizer, trainer = Tokenizer(models.Unigram()), trainers.UnigramTrainer(unk_token=unknown, **common)
    if config.kind == "byte_bpe":
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
        tokenizer.decoder = decoders.ByteLevel()
    else:
        scheme = "never" if exact else "always"
        tokenizer.pre_tokenizer = _at_blanks(scheme)
        tokenizer.decoder = decoders.Metaspace(replacement=BLANK, prepend_scheme=scheme)
    _normalize(tokenizer, config)
    try:
        tokenizer.train_from_iterator(texts, trainer)
    except Exception as error:  # the library raises no narrower class
        if "not large enough" not in str(error):
            raise
        problem = f"tokenizer.vocab_size {size} is less than the number of different characters"
        hint = "which unigram needs; increase it, or use tokenizer.kind=bpe, which leaves rare characters out"
        raise ConfigError(f"{problem}, {hint}") from None
    return tokenizer


def _at_blanks(scheme: str) -> pre_tokenizers.PreTokenizer:
    blanks = pre_tokenizers.Metaspace(replacement=BLANK, prepend_scheme=scheme)
    return pre_tokenizers.Sequence([blanks, pre_tokenizers.Split(Regex(_ALONE), behavior="isolated")])


def _into_words() -> pre_tokenizers.PreTokenizer:
    return pre_tokenizers.Split(Regex(WORD), behavior="removed", invert=True)


def ends_at_spaces(tokenizer: Tokenizer) -> bool:
    """True if the tokens of a text with single spaces are those of its parts between them, encoded one by one."""
    state = json.loads(tokenizer.to_str())
    cutters = [json.loads(cutter.__getstate__()) for cutter in (_at_blanks("always"), _into_words())]
    normalizer = state["normalizer"] or {"normalizers": []}
    steps = {step["type"] for step in normalizer.get("normalizers", [normalizer])}
    return state["pre_tokenizer"] in cutters and steps <= {"NFC", "Lowercase"}  # NFKC makes spaces of other characters


def learn_characters(texts: Iterable[str], config: TokenizerConfig | None = None, mask: bool = False) -> Tokenizer:
    """One token per Unicode character that occurs in the texts."""
    tokenizer = word_level()
    if config is not None:
        _normalize(tokenizer, config)
    normal = tokenizer.normalizer
    texts = texts if normal is None else (normal.normalize_str(text) for text in texts)
    characters = sorted(set(chain.from_iterable(texts)))
    vocabulary = {token: i for i, token in enumerate([*_special(SPECIAL_TOKENS, mask), *characters])}
    tokenizer.model = models.WordLevel(vocabulary, unk_token=SPECIAL_TOKENS[UNKNOWN])
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), behavior="isolated")
    tokenizer.decoder = decoders.Fuse()
    if mask:
        tokenizer.add_special_tokens([AddedToken(MASK, special=True, normalized=False)])
    return tokenizer


def learn_words(texts: Iterable[str], config: TokenizerConfig, cut: bool, mask: bool = False) -> Tokenizer:
    """One token per word: the texts themselves, or with `cut` their words as `split_words` finds them."""
    tokenizer = word_level()
    if cut:
        tokenizer.pre_tokenizer = _into_words()
    _normalize(tokenizer, config)
    tokenizer.train_from_iterator(
        texts, trainers.WordLevelTrainer(min_frequency=config.min_count, **_common(config, mask))
    )
    return tokenizer


def word_level() -> Tokenizer:
    """A tokenizer of whole words or characters, with an empty vocabulary."""
    return Tokenizer(models.WordLevel(unk_token=SPECIAL_TOKENS[UNKNOWN]))


def _bytes(config: TokenizerConfig, mask: bool) -> Tokenizer:
    """One token for each byte, in order; nothing is learned."""
    special = _special(SPECIAL_TOKENS, mask)
    vocabulary = {token: i for i, token in enumerate([*special, *LETTERS])}
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=[], unk_token=SPECIAL_TOKENS[UNKNOWN]))
    tokenizer.add_special_tokens(special)
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    _normalize(tokenizer, config)
    return tokenizer


def _word_pieces(texts: Iterable[str], config: TokenizerConfig, mask: bool) -> Tokenizer:
    """WordPiece with BERT's normalisation and cut into words (Devlin et al. 2019; Wu et al. 2016, arXiv:1609.08144).

    The library learns merges as for bpe, and numbers characters within words differently from run to run; it is given
    words and pieces of one character in a fixed order, so that the same texts give the same tokens.
    """
    special, size = _special(BERT_TOKENS, mask), _size(config)
    tokenizer = Tokenizer(models.WordPiece(unk_token=BERT_TOKENS[UNKNOWN], max_input_chars_per_word=_LONGEST))
    _normalize(tokenizer, config)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    normal, cutter = tokenizer.normalizer, tokenizer.pre_tokenizer
    words = Counter(word for text in texts for word, _ in cutter.pre_tokenize_str(normal.normalize_str(text)))
    counts: Counter[str] = Counter()
    for word, count in words.items():
        for character in word:
            counts[character] += count
    alphabet, room = [], size - len(special)
    for character, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        pieces = [character]
        if len(cutter.pre_tokenize_str(normal.normalize_str(f"a{character}"))) == 1:  # not a word by itself
            pieces.append(CONTINUED + character)
        if room < len(pieces):
            break
        room -= len(pieces)
        alphabet += pieces
    alphabet.sort(key=lambda piece: (piece.startswith(CONTINUED) and len(piece) > 1, piece))
    learner = Tokenizer(models.WordPiece(unk_token=special[UNKNOWN]))
    learner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.WordPieceTrainer(
        vocab_size=size, min_frequency=2, special_tokens=[*special, *alphabet], limit_alphabet=0, show_progress=False
    )
    repeated = (" ".join([word] * count) for word, count in sorted(words.items()) if len(word) <= _LONGEST)
    learner.train_from_iterator(repeated, trainer)
    vocabulary = learner.get_vocab()
    tokenizer.model = models.WordPiece(vocabulary, unk_token=special[UNKNOWN], max_input_chars_per_word=_LONGEST)
    tokenizer.decoder = decoders.WordPiece(prefix=CONTINUED)
    tokenizer.add_special_tokens([AddedToken(name, special=True, normalized=False) for name in special])
    return tokenizer


def _special(names: Iterable[str], mask: bool) -> list[str]:
    return [*names, MASK] if mask else [*names]


def _size(config: TokenizerConfig) -> int:
    return config.vocab_size or 8_000


def _common(config: TokenizerConfig, mask: bool) -> dict[str, Any]:
    """Arguments of all trainers."""
    return {"vocab_size": _size(config), "special_tokens": _special(SPECIAL_TOKENS, mask), "show_progress": False}


def _normalize(tokenizer: Tokenizer, config: TokenizerConfig) -> None:
    steps: list[Any] = []
    if config.normalization != "none":
        steps.append({"nfc": normalizers.NFC, "nfkc": normalizers.NFKC}[config.normalization]())
    if config.kind == "wordpiece":
        steps.append(
            normalizers.BertNormalizer(
                clean_text=config.clean_text,
                handle_chinese_chars=config.chinese_characters,
                strip_accents=config.strip_accents,
                lowercase=bool(config.lowercase),
            )
        )
    elif config.lowercase:
        steps.append(normalizers.Lowercase())
    if steps:
        tokenizer.normalizer = normalizers.Sequence(steps)
