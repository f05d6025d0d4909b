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

Finished cells are kept in `claims/NAME` in the working folder. A verdict is *holds*, *holds only* under a condition, or
*does not hold here*: on these small networks and generated data. It follows from a rule that was fixed before the
recorded runs. In a rule, "above" and "below" a number mean that the whole interval is. Intervals are 95 %, by Student's
distribution over seeds; if all seeds agree exactly, the interval is a point. Each script says what is varied and which
controls there are. Sentences with a closed form, which need no experiment, are in
[Models and equations](systems.md#f-claims-that-are-measured).
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
    lines, sections = [_HEAD, "| claim | sentence | verdict | cost |", "|---|---|---|---|"], []
    for claim in claims():
        measured = record(claim)
        kind, effect, what, when = measured.verdict
        said, seconds = " ".join(filter(None, (kind, when))), measured.seconds
        cost = f"{seconds / 60:.0f} min" if seconds >= 90 else f"{max(1, round(seconds))} s"
        lines.append(f"| [{claim.name}](#{claim.name}) | {claim.sentence} | {said} | {cost} |")
        script = f"examples/claims/{claim.name.replace('-', '_')}.py"
        sections += [
            f"## {claim.name}\n",
            f"{claim.sentence} `python {script}`\n",
            f"**{said[0].upper()}{said[1:]}**: {what} {shown(effect)}.\n",
            f"{claim.finding}\n",
            f"![{claim.sentence}](claims/{claim.name}.svg)\n",
            f"Rule: {claim.rule}\n",
            f"Literature: {claim.literature}.\n",
        ]
    note = "Cost is that of the recorded runs on one core, with other work on the machine.\n"
    return "\n".join([*lines, "", note, *sections]).rstrip() + "\n"


def main() -> None:
    """Write the page and the figure of each record."""
    for claim in claims():
        (RECORDS / f"{claim.name}.svg").write_text(record(claim).svg(), encoding="utf-8")
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
