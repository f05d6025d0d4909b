"""Scores, intervals and reports: pure functions of outputs and references."""
