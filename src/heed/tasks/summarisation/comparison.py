"""Comparison of summarisers: as for translation, with other names."""

from __future__ import annotations

from heed.tasks.translation.comparison import TranslationExaminer


class SummarisationExaminer(TranslationExaminer):
    """Comparison of runs that write summaries of documents."""

    names = ("document", "reference")
    targets = "summary tokens"
