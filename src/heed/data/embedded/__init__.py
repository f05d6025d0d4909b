"""Embedded data: generated examples that need no download."""
