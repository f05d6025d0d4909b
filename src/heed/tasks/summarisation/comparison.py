"""Comparison of summarisers: as of translators, with names of their own."""

from __future__ import annotations

from heed.tasks.translation.comparison import TranslationExaminer


class SummarisationExaminer(TranslationExaminer):
    """Summaries of documents."""

    names = ("document", "reference")
    targets = "summary tokens"
