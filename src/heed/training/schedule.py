"""Courses of the learning rate, as a factor on the largest one."""

from __future__ import annotations

import math


def rate_factor(schedule: str, step: int, warmup: int, total: int | None) -> float:
    """The factor for one update.

    - all: rises linearly from 0 over `warmup` updates;
    - constant: then 1;
    - inverse_sqrt: then sqrt(warmup / step) (Vaswani et al. 2017, section 5.3, up to the largest rate);
    - cosine: then half a cosine from 1 to 0 at `total` (Loshchilov and Hutter 2017, arXiv:1608.03983, no restarts).

    `step` counts from 1. While `total` is not yet known (the speed is being measured), cosine is constant.
    """
    if step <= warmup:
        return step / warmup
    if schedule == "inverse_sqrt":
        return math.sqrt(max(1, warmup) / step)
    if schedule == "cosine" and total is not None:
        progress = (step - warmup) / max(1, total - warmup)
        return 0.5 * (1.0 + math.cos(math.pi * min(1.0, progress)))
    return 1.0
