"""Scores of translations against references, by sacrebleu, on raw text.

The only module that imports sacrebleu. Resampling a corpus score needs the statistics of its examples, which no public
function of sacrebleu returns: two private methods are used, after a check that they exist.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from heed.errors import ConfigError
from heed.evaluation.measures import Array, Measure

_LABELS = {"bleu": "BLEU", "chrf": "chrF", "ter": "TER"}
_NEEDED = ("_extract_corpus_statistics", "_compute_score_from_stats")


def text_measure(name: str, outputs: Sequence[str], references: Sequence[str]) -> Measure:
    """A corpus score that can be resampled: sacrebleu's statistics of each example, and its formula.

    The score is sacrebleu's `corpus_score`; the note is sacrebleu's signature.

    Args:
        name: "bleu", "chrf" (higher is better) or "ter" (lower is better).
        outputs: Raw text, one per example.
        references: Raw text, one per example.

    Raises:
        ConfigError: The installed sacrebleu lacks a needed private method.

    Source: Post 2018 (arXiv:1804.08771).
    """
    metric = _metric(name)
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


def _metric(name: str) -> Any:
    import sacrebleu
    from sacrebleu.metrics.bleu import BLEU
    from sacrebleu.metrics.chrf import CHRF
    from sacrebleu.metrics.ter import TER

    metric = {"bleu": BLEU, "chrf": CHRF, "ter": TER}[name]()
    for method in _NEEDED:
        if not hasattr(metric, method):
            raise ConfigError(
                f"sacrebleu {sacrebleu.__version__} lacks {type(metric).__name__}.{method}, which heed needs to score; "
                "install a version that heed supports: pip install 'sacrebleu>=2.4,<3'"
            )
    return metric
