"""Write docs/claims.md and its figures from the records in docs/claims: `python docs/claims.py`.

A record is made by `heed claim NAME --out docs/claims/NAME.json`.
"""

from __future__ import annotations

from pathlib import Path

import yaml

import heed
from heed.claims.experiment import shown
from heed.claims.harness import has_experiment, read_texts

PAGE = Path(__file__).with_suffix(".md")
RECORDS = PAGE.with_suffix("")
_HEAD = """# Claims

Lecture notes and textbooks say things about attention. Here each sentence is an experiment that anyone can run again:

```sh
heed claim                          # all claims, and how far each is on this machine
heed claim parameters               # measure one, or go on where it was interrupted; verdict, numbers and rule
heed claim both-sides --quick       # a tenth of the updates, two seeds: a first look, not the recorded verdict
heed claim cost --out cost.svg      # its figure; .json has the numbers of every run
heed claim cost --from-file docs/claims/cost.json   # judge and draw a record again, without training
```

In Python `heed.claim("both-sides").verdict`. Finished cells are kept in `claims/NAME` in the working folder. A verdict
is *holds*, *holds only* under a condition, or *does not hold here*: on these small networks and generated data. It
follows from a rule that was fixed before the recorded runs. Intervals are 95 %, by Student's distribution over seeds;
if all seeds agree exactly, the interval is a point.
"""


def page() -> str:
    """The page that the records give."""
    findings = yaml.safe_load((RECORDS / "findings.yaml").read_text(encoding="utf-8"))
    lines = [_HEAD, "| claim | sentence | verdict | cost |", "|---|---|---|---|"]
    sections = []
    for name, text in read_texts().items():
        path = RECORDS / f"{name}.json"
        if path.exists():
            result = heed.claim(name, from_file=path)
            kind, effect, what, when = result.verdict
            said = f"**{' '.join(filter(None, (kind, when)))}**: {what} {shown(effect)}"
            seconds = result.seconds
            cost = f"{seconds / 60:.0f} min" if seconds >= 90 else f"{max(1, round(seconds))} s"
            measured = [f"Verdict: {said}.\n", f"{findings[name]}\n", f"![{text.sentence}](claims/{name}.svg)\n"]
        else:
            said, cost, measured = "not run", "", []
        code = f"../src/heed/claims/{name.replace('-', '_')}.py"
        command = f"`heed claim {name}`" if has_experiment(name) else "Rule only; there is no experiment yet."
        lines.append(f"| [{name}](#{name}) | {text.sentence} | {said} | {cost} |")
        sections += [
            f"## {name}\n",
            f"{text.sentence} {command}\n",
            *measured,
            f"- Varied: {text.varied} ([`{code[3:]}`]({code})).",
            f"- Measured: {text.measured}.",
            f"- Rule: {text.rule.strip()}",
            f"- Controls: {text.controls}.",
            f"- Literature: {text.literature}.\n",
        ]
    note = "Cost is that of the recorded runs on one core, with other work on the machine.\n"
    return "\n".join([*lines, "", note, *sections]).rstrip() + "\n"


def main() -> None:
    """Write the page and the figure of each record."""
    for path in sorted(RECORDS.glob("*.json")):
        heed.claim(path.stem, from_file=path).save(path.with_suffix(".svg"))
    PAGE.write_text(page(), encoding="utf-8")


if __name__ == "__main__":
    main()
