"""The stages that judge the page: stated values against computed ones, and what does not compute."""

from __future__ import annotations

import torch

from heed.lessons.arithmetic import Numbers
from heed.lessons.bench import Bench
from heed.lessons.checks import check_all, check_remark, from_printed
from heed.lessons.parts import Check, Stage, number
from heed.lessons.places import find, name_of
from heed.lessons.schema import Remark

_TITLES = {
    "does_not_compute": (
        "What does not compute",
        "These numbers or formulas are on the page, and the arithmetic gives others.",
    ),
    "does_not_do_what_it_says": (
        "What does not do what it says",
        "These words are on the page, and the numbers do something else.",
    ),
}


def verdict_stages(bench: Bench) -> list[Stage]:
    """Every comparison with what the file states.

    Raises:
        ConfigError: The file names a token or a cell that there is not.
    """
    printed = from_printed(bench)
    stages = [_checks(check_all(bench, printed)), *(_remarks(bench, printed, field) for field in _TITLES)]
    return [stage for stage in stages if stage is not None]


def _checks(checks: tuple[Check, ...]) -> Stage | None:
    if not checks:
        return None
    prose = (
        "Every value that the file states is compared with the one computed here.",
        "Equal means equal to three decimals; a tolerance is allowed where a page rounded its inputs.",
    )
    return Stage("checks", "Stated values, checked", prose, "|stated - computed| <= tolerance", checks=checks)


def _remarks(bench: Bench, printed: Numbers | None, field: str) -> Stage | None:
    """The remarks of a field, with what the arithmetic gives instead."""
    remarks: list[Remark] = getattr(bench.file, field)
    if not remarks:
        return None
    lines: list[str] = []
    checks: list[Check] = []
    for i, remark in enumerate(remarks):
        name = f"{field}[{i}]"
        lines += [f"[{i}] {remark.text}", *(f"   {line}" for line in _remark_lines(remark, bench, name))]
        checks += check_remark(remark, bench, printed, name)
    title, first = _TITLES[field]
    prose = (first, "What can be computed again is shown below each of them.")
    return Stage(field.replace("_", "-"), title, prose, "", lines=tuple(lines), checks=tuple(checks))


def _remark_lines(remark: Remark, bench: Bench, name: str) -> list[str]:
    """Where the rows of a remark really look, and what its printed context really is."""
    where = f"{bench.where}: {name}"
    tokens, numbers = bench.tokens, bench.learned
    lines = []
    for i in (find(place, tokens, f"{where} rows") for place in remark.rows):
        best = int(numbers.weights[i].argmax())
        lines.append(
            f"{name_of(i, tokens)}: query ({_numbers(numbers.query[i].tolist())}), looks most at "
            f"{name_of(best, tokens)}, {float(numbers.weights[i, best]):.3f}"
        )
    for place, row in remark.printed.context.items():
        i = find(place, tokens, f"{where} printed.context")
        values = list(row.values())
        own = bench.unlearned.query[i]  # unlearned, the query is the embedding itself
        if len(values) == len(own) and None not in values:
            printed = torch.tensor(values, dtype=own.dtype)
            times = float(printed @ own / (own @ own))
            cosine = float(torch.cosine_similarity(printed, own, dim=0))
            lines.append(
                f"printed ({_numbers(printed.tolist())}) is {times:.4f} times the embedding of "
                f"{name_of(i, tokens)} (cosine {cosine:.5f})"
            )
    return lines


def _numbers(values: list[float]) -> str:
    return ", ".join(map(number, values))
