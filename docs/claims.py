"""Write docs/claims.md and its figures from the records in docs/claims: `python docs/claims.py`.

A record is made by `python examples/claims/NAME.py --out docs/claims/NAME.json`.
"""

from __future__ import annotations

import importlib
import sys
from pathlib import Path

PAGE = Path(__file__).with_suffix(".md")
RECORDS = PAGE.with_suffix("")
SCRIPTS = PAGE.parents[1] / "examples" / "claims"
sys.path.insert(0, str(SCRIPTS))

from harness import Claim, Measured, shown  # noqa: E402

_HEAD = """# Claims

Lecture notes and textbooks say things about attention. Here each sentence is an experiment that anyone can run again:

```sh
python examples/claims/leak.py                   # measure, or continue an interrupted measurement
python examples/claims/leak.py --quick           # a tenth of the updates, two seeds: not the recorded verdict
python examples/claims/leak.py --out leak.svg    # its figure; .json for the record
python examples/claims/leak.py --from-file docs/claims/leak.json   # judge and draw a record, without training
```

Finished cells are kept in `claims/NAME` in the working folder. A verdict is *holds*, *holds only* under a condition,
*does not hold here* (on these small networks and generated data), or *undecided*. It follows from a rule and from
checks that were fixed before the recorded runs. In a rule, "above" and "below" a number mean that the whole 95 %
interval over seeds is, by Student's distribution; if the number lies inside, the claim is *undecided (interval)*.
Before that, checks can stop a claim:

- *headroom*: the weaker of two networks is above chance by 0.05 and below 0.95;
- *solved task*: the better of the two can do the task;
- *control*: what must come out as known does;
- *power*: a difference of the size that the literature found would be seen in 4 of 5 such experiments.

`--from-file` prints rule, checks, controls, literature and all numbers of a claim. Sentences with a closed form, which
need no experiment, are in [Models and equations](systems.md#f-closed-forms).
"""


def claims() -> list[Claim]:
    """The claims of all scripts."""
    names = (path.stem for path in sorted(SCRIPTS.glob("*.py")) if path.stem != "harness")
    return [importlib.import_module(name).CLAIM for name in names]


def record(claim: Claim) -> Measured:
    """The recorded measurement of a claim."""
    return claim.read(RECORDS / f"{claim.name}.json")


def page() -> str:
    """The page that the records give."""
    lines, sections = [_HEAD, "| claim | verdict | cost |", "|---|---|---|"], []
    for claim in claims():
        measured = record(claim)
        kind, effect, what, when = measured.verdict
        said, seconds = " ".join(filter(None, (kind, when))), measured.seconds
        cost = f"{seconds / 60:.0f} min" if seconds >= 90 else f"{max(1, round(seconds))} s"
        lines.append(f"| [{claim.name}](#{claim.name}) | {said} | {cost} |")
        sections += [
            f"## {claim.name}\n",
            f"> {claim.sentence}\n",
            f"**{said[0].upper()}{said[1:]}**: {what} {shown(effect)} ({measured.seeds} seeds).\n",
            f"{claim.finding}\n",
            *[f"![{claim.name}](claims/{claim.name}.svg)\n"] * claim.figure,
        ]
    note = "Cost is that of the recorded runs on one core, with other work on the machine.\n"
    return "\n".join([*lines, "", note, *sections]).rstrip() + "\n"


def main() -> None:
    """Write the page, the figures, and the verdicts of the records."""
    for claim in claims():
        measured = record(claim)
        (RECORDS / f"{claim.name}.json").write_text(measured.json(), encoding="utf-8")
        if claim.figure:
            (RECORDS / f"{claim.name}.svg").write_text(measured.svg(), encoding="utf-8")
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
