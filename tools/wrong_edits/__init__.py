"""The deliberate wrong edits that tools/mutants.py makes: single slips that a suite must notice.

Each is keyed by a text that occurs once in src/heed, wherever its file may lie. A module for each subject; new edits
come last, so that the numbers of the others (`--only`) stay.
"""

from __future__ import annotations

from wrong_edits import answers, data, files, tasks_numbers, tasks_texts, tasks_written, training
from wrong_edits.edit import Edit

EDITS: list[Edit] = [
    *answers.EDITS,
    *training.EDITS,
    *data.EDITS,
    *files.EDITS,
    *tasks_texts.EDITS,
    *tasks_numbers.EDITS,
    *tasks_written.EDITS,
]

__all__ = ["EDITS", "Edit"]
