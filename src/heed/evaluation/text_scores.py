"""Scores of texts against references: BLEU, chrF and TER by sacrebleu, ROUGE by rouge-score; diversity of outputs.

The only module that imports these libraries. Resampling a corpus score needs the statistics of its examples, which no
public function of sacrebleu returns: two private methods are used, after a check that they exist.

The tokenizer of rouge-score drops every letter except a-z and so gives a Greek or Hindi summary a score of 0;
`rouge_words` replaces it and gives the same words for English. Diversity counts n-grams of the same words.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from types import SimpleNamespace
from typing import Any

import numpy as np

from heed.errors import ConfigError
from heed.evaluation.measures import Array, Measure, columns, first_by_second, share

_LABELS = {"bleu": "BLEU", "chrf": "chrF", "ter": "TER"}
_NEEDED = ("_extract_corpus_statistics", "_compute_score_from_stats")


def text_measure(
    name: str, outputs: Sequence[str], references: Sequence[str], ignore_case: bool = False, tokenize: str = "13a"
) -> Measure:
    """A corpus score that can be resampled: sacrebleu's statistics of each example, and its formula.

    The score is sacrebleu's `corpus_score`; the note is sacrebleu's signature.

    Args:
        name: "bleu", "chrf" (higher is better) or "ter" (lower is better).
        outputs: Raw text, one per example.
        references: Raw text, one per example.
        ignore_case: Lower-case both for BLEU and chrF, as `sacrebleu -lc` does (TER always does).
        tokenize: sacrebleu's tokenizer for BLEU.

    Raises:
        ConfigError: The installed sacrebleu lacks a needed private method, or the tokenizer needs a package.

    Source: Post 2018 (arXiv:1804.08771).
    """
    import sacrebleu
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.metrics.ter import TER

    options: dict[str, Any] = {"lowercase": True} if ignore_case and name != "ter" else {}
    options |= {"tokenize": tokenize} if name == "bleu" else {}
    try:
        metric: Any = {"bleu": BLEU, "chrf": CHRF, "ter": TER}[name](**options)
    except (ImportError, RuntimeError):
        extra = tokenize.partition("-")[0]
        raise ConfigError(
            f"evaluation.bleu_tokenize is {tokenize}, which needs a package: pip install 'sacrebleu[{extra}]'; or "
            "score without it: evaluation.bleu_tokenize=char"
        ) from None
    if missing := [method for method in _NEEDED if not hasattr(metric, method)]:
        raise ConfigError(
            f"sacrebleu {sacrebleu.__version__} lacks {type(metric).__name__}.{missing[0]}, which heed needs to score; "
            "install a version that heed supports: pip install 'sacrebleu>=2.4,<3'"
        )
    statistics = metric._extract_corpus_statistics(list(outputs), [list(references)])

    def formula(sums: Array) -> Array:
        # Python numbers, not NumPy's: sacrebleu itself gives a score of 0 as a Python number, and must not mix both.
        return np.array([metric._compute_score_from_stats(row).score for row in sums.tolist()], dtype=np.float64)

    return Measure(
        name,
        _LABELS[name],
        np.array(statistics, dtype=np.float64),
        formula,
        higher_is_better=name != "ter",
        note=str(metric.get_signature()),
    )


def bleu_tokenizer(references: Sequence[str]) -> str:
    """Sacrebleu's tokenizer for the script of some references: at least 30 % of their letters are of it.

    "zh" for Chinese; for Japanese (kana are 5 % or more of these letters) "ja-mecab" if it is installed, else "char";
    "char" for Thai, Lao, Khmer, Burmese; "13a" for scripts that separate words.
    """
    letters = Counter(letter for text in references for letter in text if letter.isalpha())
    scripts: Counter[str] = Counter()
    for letter, count in letters.items():
        scripts[unicodedata.name(letter, "").partition(" ")[0]] += count
    han, kana = scripts["CJK"], scripts["HIRAGANA"] + scripts["KATAKANA"]
    others = sum(scripts[name] for name in ("THAI", "LAO", "KHMER", "MYANMAR"))
    if han + kana + others < 0.3 * letters.total() or not letters:
        return "13a"
    if others > han + kana or kana >= 0.05 * (han + kana):
        has_mecab = others <= han + kana and all(find_spec(name) is not None for name in ("MeCab", "ipadic"))
        return "ja-mecab" if has_mecab else "char"
    return "zh"


ROUGE = {"rouge1": "ROUGE-1", "rouge2": "ROUGE-2", "rougeL": "ROUGE-L"}
"""Names in reports, each with its name for readers."""

_WITHOUT_BLANKS = ("CJK ", "HIRAGANA", "KATAKANA", "THAI ", "LAO ", "KHMER ", "MYANMAR ")
"""Prefixes of the Unicode names of characters in scripts that do not separate words."""


def rouge_words(text: str) -> list[str]:
    """The words of a text that ROUGE counts, lower-cased: runs of letters and digits, with their combining marks.

    Everything else separates words. In scripts that do not separate words (Chinese, Japanese, Thai, Lao, Khmer,
    Burmese), each character with its marks is a word. Text is composed first (NFC), so that an accent counts the same
    however it is encoded.
    """
    words: list[str] = []
    inside = False
    for character in unicodedata.normalize("NFC", text).lower():
        kind = _kind(character)
        if kind == "alone":
            words.append(character)
        elif kind == "mark" and words:
            # A mark belongs to the character before it, even if that character is a word by itself.
            words[-1] += character
            continue
        elif kind == "part":
            if inside:
                words[-1] += character
            else:
                words.append(character)
        inside = kind == "part"
    return words


@cache
def _kind(character: str) -> str:
    category = unicodedata.category(character)[0]
    if category == "M":
        return "mark"
    if category not in "LN":
        return "apart"
    return "alone" if unicodedata.name(character, "").startswith(_WITHOUT_BLANKS) else "part"


def rouge_measures(
    outputs: Sequence[str], references: Sequence[str], names: Sequence[str] = tuple(ROUGE), *, stem: bool = False
) -> list[Measure]:
    """ROUGE-1, ROUGE-2 and ROUGE-L: the F1 of each output against its reference, averaged over outputs, times 100.

    ROUGE-N counts common n-grams, ROUGE-L the longest common subsequence of words.

    Args:
        outputs: Raw text, one per example.
        references: Raw text, one per example.
        names: Which of the three to compute.
        stem: Compare the stems of English words (Porter 1980), as some published numbers do.

    Source: Lin 2004 (W04-1013); computed by rouge-score.
    """
    if not names:
        return []
    from rouge_score.rouge_scorer import RougeScorer  # brings nltk, which is slow to import
    from rouge_score.tokenizers import DefaultTokenizer

    def stems(text: str) -> list[str]:  # as rouge-score computes them: only of English words of more than three letters
        return [english.tokenize(word)[0] if word.isascii() else word for word in rouge_words(text)]

    english: Any = DefaultTokenizer(use_stemmer=True)
    scorer = RougeScorer(list(names), tokenizer=SimpleNamespace(tokenize=stems if stem else rouge_words))
    scores = [scorer.score(reference, output) for output, reference in zip(outputs, references, strict=True)]
    note = f"rouge-score:{version('rouge-score')}|F1|mean|{'Porter stems' if stem else 'no stems'}|words:heed"
    return [
        Measure(name, ROUGE[name], columns(points, np.ones(len(points))), first_by_second, note=note)
        for name in names
        for points in [[100.0 * score[name].fmeasure for score in scores]]
    ]


COMMONEST = 10
"""Number of outputs that count as most common."""


def distinct(outputs: Sequence[str], n: int) -> Measure:
    """distinct-n: the number of different n-grams in all outputs, divided by the number of n-grams.

    Words are those of ROUGE. Each occurrence of an n-gram counts 1 / (its occurrences in all outputs), so that the
    numerators of the examples add up to the number of different n-grams, and resampling gives an interval. The interval
    takes these counts as given. More outputs have a lower distinct-n, so only sets of the same size are comparable.

    Source: Li et al. 2016 (arXiv:1510.03055), section 5.2 (there divided by words, whatever n).
    """
    grams = [list(zip(*(words[i:] for i in range(n)), strict=False)) for words in map(rouge_words, outputs)]
    counts = Counter(gram for output_grams in grams for gram in output_grams)
    new = [sum(1 / counts[gram] for gram in output_grams) for output_grams in grams]
    measure = share(f"distinct_{n}", f"distinct-{n}", new, [len(output_grams) for output_grams in grams])
    return replace(measure, formula=lambda sums: np.nan_to_num(measure.formula(sums)))  # 0 if there are no n-grams


def commonest_outputs(outputs: Sequence[str]) -> list[tuple[str, int]]:
    """The ten most common outputs with their counts, most frequent first, ties in order of first occurrence."""
    return Counter(outputs).most_common(COMMONEST)


def commonest_share(outputs: Sequence[str]) -> Measure:
    """The share of outputs that are among the ten most common ones: near 1 if a model always says the same."""
    common = {text for text, _ in commonest_outputs(outputs)}
    inside = [float(text in common) for text in outputs]
    return share("commonest", f"{COMMONEST} commonest outputs", inside, higher_is_better=False)
