"""Learning-rate schedules, as factors of the largest rate."""

from __future__ import annotations

import math


def course_at(step: int, warmup: int, total: int | None, since: int = 0, behind: float = 0.0) -> float:
    """The share of the schedule after the warm-up that is completed at an update, from 0 to 1.

    A plan that changes during a run changes the speed of the schedule, not the position in it: the share `behind` was
    reached at update `since`, and the rest is spread evenly over the updates up to `total`. While `total` is not yet
    known (the speed is being measured), the share stays constant.
    """
    begun = max(since, warmup)
    if total is None or step <= begun:
        return behind
    return behind + (1.0 - behind) * min(1.0, (step - begun) / max(1, total - begun))


def rate_factor(schedule: str, step: int, warmup: int, total: int | None, since: int = 0, behind: float = 0.0) -> float:
    """The factor for one update.

    - all: rises linearly from 0 over `warmup` updates;
    - constant: then 1;
    - inverse_sqrt: then sqrt(warmup / step) (Vaswani et al. 2017, section 5.3, up to the largest rate);
    - cosine: then half a cosine from 1 to 0 at `total` (Loshchilov and Hutter 2017, arXiv:1608.03983, no restarts).

    `step` counts from 1; `since` and `behind` are those of `course_at`.
    """
    if step <= warmup:
        return step / warmup
    if schedule == "inverse_sqrt":
        return math.sqrt(max(1, warmup) / step)
    if schedule == "cosine" and total is not None:
        return 0.5 * (1.0 + math.cos(math.pi * course_at(step, warmup, total, since, behind)))
    return 1.0
