"""Shortens lessons that train to two updates and little data, for tests that do not depend on learning."""

from heed.lessons import cat, mess, order, pizza, politics, teddy

NOUNS = 8


def shrink(patch):
    """Shorten every lesson that trains; `patch` is pytest's."""
    for lesson in (cat, mess, order, pizza, politics, teddy):
        steps = lesson._STEPS
        patch.setattr(lesson, "_STEPS", dict.fromkeys(steps, 2) if isinstance(steps, dict) else 2)
    nouns = [*cat._WORDS, *(noun for noun in cat._NOUNS if noun not in cat._WORDS)][:NOUNS]
    patch.setattr(cat, "_NOUNS", {noun: cat._NOUNS[noun] for noun in nouns})
    patch.setattr(mess, "_EACH", 6)
    for lesson in (mess, politics):
        patch.setattr(lesson, "_SIZES", {"train": 60, "valid": 6, "test": 12})
