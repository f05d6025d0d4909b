"""Learned positions: a model with a table of positions reads and writes no more tokens than the table has.

Training texts that do not fit `model.max_length` are left out; training begins only if all held-out texts fit.
"""

from __future__ import annotations

from collections.abc import Mapping

from heed.errors import ConfigError


def check_positions(positions: int | None, needed: Mapping[str, int], written: int | None) -> None:
    """Refuse a table of positions that is too short, before anything is trained.

    Args:
        positions: Positions in the table; None for a model without one.
        needed: Positions that the longest text of each split needs.
        written: `generation.max_length`, if the user gave it.

    Raises:
        ConfigError: The message names the split and the number that it needs.
    """
    if positions is None or not needed:
        return
    table = f"model.max_length is {positions}, the number of learned positions, but"
    most, split = max((most, split) for split, most in needed.items())
    if most > positions:
        raise ConfigError(
            f"{table} a text of {split} needs {most}; set model.max_length={most}, or model.positions=sinusoidal"
        )
    if written is not None and written > positions:
        raise ConfigError(
            f"generation.max_length is {written}, but the model has {positions} learned positions (model.max_length); "
            f"set generation.max_length={positions} or less, or a larger model.max_length"
        )
