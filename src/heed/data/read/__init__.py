"""Readers of files: bytes to lines, lines to examples; every error names file and line."""
