"""Runs: training into a run folder, opening and resuming runs."""
