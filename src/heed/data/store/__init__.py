"""Splits: what a configuration names, in memory, on disk or as a stream."""
