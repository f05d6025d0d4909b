"""Subwords: tokenizers of each kind, trained with the `tokenizers` library, and seeded sampling, which it lacks.

`wordpiece` normalises and cuts a text like BERT: control characters are left out, each Chinese character and
punctuation mark is a word, and lower-casing also removes accents. Its output has spaces between words and none before a
full stop or comma. For files, `auto` is bpe, which gave fewer tokens a line than unigram with a vocabulary of the same
size.

Sampling makes texts longer. A text of n tokens has about `mean * n` when it is cut at random, with a variance of
`variance * n`, since words are cut independently. `Growth.bound` is two standard deviations above that, so that batches
can be planned; the few texts that exceed it have some of their words cut without sampling. Growth is measured on 200
texts. `training.batch_tokens` and `data.max_length` apply to the sampled tokens.
"""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import accumulate, chain, pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from heed.config import TokenizerConfig
from heed.data.tokens.special import (
    BERT_TOKENS,
    BLANK,
    CONTINUED,
    LETTERS,
    MASK,
    SIGNS,
    SPECIAL_TOKENS,
    UNKNOWN,
    WORD,
    refused_texts,
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
        least = len(LETTERS) + len(special)
        if size < least:
            hint = f"byte_bpe needs {least} (256 bytes and {len(special)} special tokens) plus one for each merge"
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
    cutters = [json.loads(one.__getstate__()) for one in (_at_blanks("always"), _into_words())]
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
    kept, room = [], size - len(special)
    for character, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        pieces = [character]
        if len(cutter.pre_tokenize_str(normal.normalize_str(f"a{character}"))) == 1:  # not a word by itself
            pieces.append(CONTINUED + character)
        if room < len(pieces):
            break
        room -= len(pieces)
        kept += pieces
    kept.sort(key=lambda piece: (piece.startswith(CONTINUED) and len(piece) > 1, piece))
    learner = Tokenizer(models.WordPiece(unk_token=special[UNKNOWN]))
    learner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    trainer = trainers.WordPieceTrainer(
        vocab_size=size, min_frequency=2, special_tokens=[*special, *kept], limit_alphabet=0, show_progress=False
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


_UNKNOWN_PENALTY = 10.0
"""Score of an unknown character below that of the least probable token, in nats (as in SentencePiece)."""


Cut = tuple[int, int, int]
"""A token of a piece of text: its id, start and end in the piece."""


class SubwordSampler:
    """Tokenization at random for bpe, byte_bpe and unigram, and without sampling for other kinds.

    For both kinds of bpe, the amount is the share of merges dropped (Provilkov et al. 2020, arXiv:1910.13267); for
    unigram, the exponent of the probabilities of tokenizations (Kudo 2018, arXiv:1804.10959): smaller is more even.
    """

    def __init__(self, library: Tokenizer, amount: float) -> None:
        self._plain = library
        self._normalizer, self._splitter = library.normalizer, library.pre_tokenizer
        self._cutter = _cutter(library, amount)
        self._bytes = isinstance(library.decoder, decoders.ByteLevel)

    @property
    def samples(self) -> bool:
        """True if texts are tokenized at random."""
        return self._cutter is not None

    def count(self, text: str) -> int:
        """Number of tokens of a text without sampling."""
        with refused_texts(text):
            return len(self._plain.encode(text, add_special_tokens=False).ids)

    def encode(self, text: str, seed: int, most: int | None = None) -> list[int]:
        """One text to ids, without start and end; a function of text and seed.

        If there are more than `most`, randomly chosen words are tokenized without sampling until there are not, or
        all are.
        """
        if self._cutter is None:
            ids: list[int] = self._plain.encode(text, add_special_tokens=False).ids
            return ids
        return [token for _, _, cut in self._cut(self._normalized(text), seed, most) for token, _, _ in cut]

    def encode_spans(self, text: str, seed: int, most: int | None = None) -> tuple[list[int], list[tuple[int, int]]]:
        """As `encode`, and the character span `(start, end)` of each token in the normalised text."""
        text = self._normalized(text)
        if self._cutter is None:
            encoding = self._plain.encode(text, add_special_tokens=False)
            return encoding.ids, encoding.offsets
        ids, spans = [], []
        for piece, (start, end), cut in self._cut(text, seed, most):
            places = self._places(piece, text, start, end)
            ids += [token for token, _, _ in cut]
            spans += [(places[first], places[last - 1] + 1) for _, first, last in cut]
        return ids, spans

    def _normalized(self, text: str) -> str:
        return text if self._normalizer is None else str(self._normalizer.normalize_str(text))

    def _cut(self, text: str, seed: int, most: int | None) -> list[tuple[str, tuple[int, int], list[Cut]]]:
        """The pieces of a normalised text, each with its span and tokens."""
        assert self._cutter is not None
        draw = random.Random(seed)
        cuts = [(piece, span, self._cutter.cut(piece, draw)) for piece, span in self._splitter.pre_tokenize_str(text)]
        excess = 0 if most is None else sum(len(cut) for _, _, cut in cuts) - most
        for place in draw.sample(range(len(cuts)), len(cuts)) if excess > 0 else ():
            piece, span, cut = cuts[place]
            plain = self._cut_as_always(piece)
            if len(plain) < len(cut):
                cuts[place] = piece, span, plain
                excess -= len(cut) - len(plain)
            if excess <= 0:
                break
        return cuts

    def _cut_as_always(self, piece: str) -> list[Cut]:
        character = [n for n, c in enumerate(piece) for _ in c.encode()] + [len(piece)]  # index for each byte
        tokens = self._plain.model.tokenize(piece)
        return [(token.id, *(character[offset] for offset in token.offsets)) for token in tokens]

    def _places(self, piece: str, text: str, start: int, end: int) -> list[int]:
        """The index in the text of each character of a piece.

        A piece may begin with the mark of a space that is not in the text; it has the index of the next character, as
        in the library.
        """
        units = [n for n, c in enumerate(text[start:end], start) for _ in (c.encode() if self._bytes else c)]
        return [start] * (len(piece) - len(units)) + units


def _cutter(library: Tokenizer, amount: float) -> _Merges | _Lattice | None:
    model = json.loads(library.to_str())["model"]
    if isinstance(library.model, models.BPE):
        return _Merges(model, amount) if model["merges"] else None
    return _Lattice(model, amount) if isinstance(library.model, models.Unigram) else None


class _Merges:
    """BPE-dropout: at each step every possible merge is dropped with a probability, and the best of the rest done."""

    def __init__(self, model: dict[str, object], dropped: float) -> None:
        self._ids: dict[str, int] = model["vocab"]  # type: ignore[assignment]
        self._unknown = self._ids.get(str(model["unk_token"]))  # without one unknown characters are left out
        merges: list[list[str]] = model["merges"]  # type: ignore[assignment]
        self._ranks = {(left, right): rank for rank, (left, right) in enumerate(merges)}
        self._dropped = dropped

    def cut(self, piece: str, draw: random.Random) -> list[Cut]:
        parts = list(piece)
        ranks, dropped = self._ranks, self._dropped
        while True:
            pairs = ((pair, place) for place, pair in enumerate(pairwise(parts)) if pair in ranks)
            best = min(((ranks[pair], place) for pair, place in pairs if draw.random() >= dropped), default=None)
            if best is None:
                ends = list(accumulate(map(len, parts)))
                ids = (self._ids.get(part, self._unknown) for part in parts)
                cuts = zip(ids, parts, ends, strict=True)
                return [(i, end - len(part), end) for i, part, end in cuts if i is not None]
            place = best[1]
            parts[place : place + 2] = [parts[place] + parts[place + 1]]


class _Lattice:
    """Unigram: a tokenization is drawn in proportion to the product of its tokens' probabilities to the `exponent`.

    Forward sums over the lattice of all tokens, then sampling from its end to its start.
    """

    def __init__(self, model: dict[str, object], exponent: float) -> None:
        vocab: list[tuple[str, float]] = model["vocab"]  # type: ignore[assignment]
        self._unknown = int(model["unk_id"])  # type: ignore[call-overload]
        self._tokens = {
            text: (i, exponent * score) for i, (text, score) in enumerate(vocab) if text and i != self._unknown
        }
        self._longest = max(map(len, self._tokens), default=1)
        self._penalty = exponent * (min(score for _, score in vocab) - _UNKNOWN_PENALTY)

    def cut(self, piece: str, draw: random.Random) -> list[Cut]:
        known, unknown = self._tokens, (self._unknown, self._penalty)
        total = [0.0]  # log of the sum over all tokenizations up to each position
        ways: list[list[tuple[int, int, float]]] = [[]]  # start, token and log-weight of each token that ends here
        for end in range(1, len(piece) + 1):
            here = [
                (start, token, total[start] + score)
                for start in range(max(0, end - self._longest), end)
                for token, score in (known.get(piece[start:end], unknown if start == end - 1 else (-1, 0.0)),)
                if token >= 0
            ]
            largest = max(weight for _, _, weight in here)
            total.append(largest + math.log(sum(math.exp(weight - largest) for _, _, weight in here)))
            ways.append(here)
        cuts: list[Cut] = []
        end = len(piece)
        while end > 0:
            start, token, _ = draw.choices(ways[end], [math.exp(weight - total[end]) for _, _, weight in ways[end]])[0]
            if token == self._unknown and cuts and cuts[-1][0] == self._unknown:  # the library joins them, too
                cuts[-1] = (token, start, cuts[-1][2])
            else:
                cuts.append((token, start, end))
            end = start
        return cuts[::-1]


MEASURED = 200
"""Number of texts on which growth is measured."""


class Growth(NamedTuple):
    """Mean and variance of the number of tokens with sampling, for each token without."""

    mean: float = 1.0
    variance: float = 0.0

    @classmethod
    def measured(cls, sampler: SubwordSampler, texts: Sequence[str]) -> Growth:
        """The growth measured on texts."""
        known = [(text, length) for text in texts if (length := sampler.count(text)) > 0]
        if not known or not sampler.samples:
            return cls()
        drawn = np.array([len(sampler.encode(text, seed)) for seed, (text, _) in enumerate(known)])
        plain = np.array([length for _, length in known])
        mean = drawn.sum() / plain.sum()
        return cls(float(mean), float(np.mean((drawn - mean * plain) ** 2 / plain)))

    def bound(self, lengths: NDArray[np.int32]) -> NDArray[np.int32]:
        """Most tokens of texts of these lengths: two standard deviations above the mean, at least the lengths."""
        grown = np.ceil(self.mean * lengths + 2 * np.sqrt(self.variance * lengths))
        most: NDArray[np.int32] = np.maximum(grown, lengths).astype(np.int32)
        return most
