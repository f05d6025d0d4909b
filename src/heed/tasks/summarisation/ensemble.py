"""Ensembles of summarisation runs."""

from __future__ import annotations

from heed.tasks.summarisation.run import Summariser
from heed.tasks.translation.ensemble import TranslationEnsemble


class SummarisationEnsemble(Summariser, TranslationEnsemble):
    """Several runs that write together, by the mean of their probabilities."""
