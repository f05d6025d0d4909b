"""The families of checkpoints that heed has."""

from __future__ import annotations

from heed.errors import ConfigError
from heed.exchange.huggingface.config_file import Settings
from heed.exchange.huggingface.family import Family

FAMILIES: tuple[Family, ...] = ()
"""One object for each `model_type`."""


def family_of(settings: Settings) -> Family:
    """The family of a checkpoint.

    Raises:
        ConfigError: heed lacks it; the message names it and lists those that there are.
    """
    name = settings.model_type
    for family in FAMILIES:
        if family.model_type == name:
            return family
    known = ", ".join(family.model_type for family in FAMILIES)
    raise ConfigError(f"{settings.path}: model_type is '{name}', which heed lacks; it reads {known}")
