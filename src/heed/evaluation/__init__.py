"""Scores, intervals, reports: pure functions on outputs and references."""
