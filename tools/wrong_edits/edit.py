"""The class of edits, and test names that several edits share."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Edit:
    """One wrong edit.

    Attributes:
        what: The resulting bug.
        old: Text that occurs exactly once in src/heed.
        new: Its replacement.
        tests: The tests closest to it, as pytest arguments.
    """

    what: str
    old: str
    new: str
    tests: tuple[str, ...]


VALIDATION = ("tests/test_validation.py",)
FIELDS = "tests/test_fields.py::test_changing_a_field_changes_what_is_seen[{}]".format
DROPS = "tests/test_models.py::test_every_dropout_of_a_model_drops"
BLOCKS = "tests/test_models.py::test_every_block_drops_after_each_sublayer_and_in_each_attention"
SEARCH = ("tests/test_generation.py",)
LANGUAGE = ("tests/test_language_modelling.py",)
