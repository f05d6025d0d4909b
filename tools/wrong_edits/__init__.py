"""Deliberate bugs for tools/mutants.py: single edits that the tests must catch.

Each is found by a text that occurs exactly once in src/heed, in whatever file. There is a module for each subject; add
new edits at its end.
"""

from __future__ import annotations

from wrong_edits import answers, contracts, data, files, tasks_numbers, tasks_texts, tasks_written, training
from wrong_edits.edit import Edit

EDITS: list[Edit] = [
    *answers.EDITS,
    *contracts.EDITS,
    *training.EDITS,
    *data.EDITS,
    *files.EDITS,
    *tasks_texts.EDITS,
    *tasks_numbers.EDITS,
    *tasks_written.EDITS,
]

__all__ = ["EDITS", "Edit"]
