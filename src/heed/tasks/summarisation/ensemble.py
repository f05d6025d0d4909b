"""Runs of summarisation that write together."""

from __future__ import annotations

from heed.tasks.summarisation.run import Summariser
from heed.tasks.translation.ensemble import TranslationEnsemble


class SummarisationEnsemble(Summariser, TranslationEnsemble):
    """Several runs that write together: the mean of their probabilities decides."""
