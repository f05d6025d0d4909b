"""Readers of files: bytes to lines, lines to examples, everything bad with file and line."""
