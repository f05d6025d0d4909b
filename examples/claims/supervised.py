"""Does it help to train attention towards the true alignment? English to Hindi, where the verb moves to the end.

The embedded grammar knows which words belong together. The loss of the links has no weight or one of 0.3; as a control,
the same number of links is given with their source words exchanged within each sentence.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from pathlib import Path
from random import Random

from harness import Cell, Claim, Pair, Part, Plot, Results, Row, Verdict, cells, headroom, judge, main

from grammar import GrammarSource
from heed.data.examples import Pair as SentencePair
from heed.storage.disk import write_outputs

_PAIRS, _STEPS = (200, 1000, 4000), 250
_SETTINGS = (
    "model.name=bahdanau model.size=tiny model.dropout=0.0 tokenizer.kind=word tokenizer.min_count=1 "
    "training.learning_rate=0.008 training.batch_tokens=600 training.validate_every=10000 evaluation.bootstrap=5"
)
_OF_LINKS = {"none": 0.0, "true": 0.3, "shuffled": 0.3}


def _written(pairs: Sequence[SentencePair], folder: Path, split: str) -> list[str]:
    """Files of both sides of some pairs."""
    paths = folder / f"{split}.en", folder / f"{split}.hi"
    write_outputs({path: "".join(f"{pair.texts[i]}\n" for pair in pairs) for i, path in enumerate(paths)})
    return [*map(str, paths)]


def _links(pairs: Sequence[SentencePair], shuffled: Random | None) -> str:
    """The links between words, counted from 0, a line for each pair."""
    lines = []
    for pair in pairs:
        spans = [(*one.source, pair.target[: one.target[0]].count(" ")) for one in pair.links or ()]
        places = [
            (range(pair.source[:start].count(" "), pair.source[:end].count(" ") + 1), t) for start, end, t in spans
        ]
        sources = [source for several, _ in places for source in several]
        targets = [target for several, target in places for _ in several]
        if shuffled:
            shuffled.shuffle(sources)
        lines.append(" ".join(f"{s}-{t}" for s, t in dict.fromkeys(zip(sources, targets, strict=True))))
    return "".join(f"{line}\n" for line in lines)


def measure(cell: Cell) -> list[Row]:
    """Train one translator; its alignment error and token accuracy on held-out sentences."""
    source, folder = GrammarSource("hi", cell.seed), cell.folder / f"{cell.key}-data"
    folder.mkdir(exist_ok=True)
    pairs = {
        "train": source.sample("train", cell["pairs"]),
        **{name: source.sample(name, 100) for name in ("valid", "test")},
    }
    files = {split: _written(some, folder, split) for split, some in pairs.items()}
    links = folder / "links"
    shuffled = Random(cell.seed) if cell["links"] == "shuffled" else None
    write_outputs({links: _links(pairs["train"], shuffled)})
    weight = _OF_LINKS[cell["links"]]
    guided = f"training.alignment.files=[{links}] training.alignment.weight={weight}" if weight else ""
    run = cell.train("translation", _STEPS, f"{_SETTINGS} {guided}", **files)
    found = run.report_of(pairs["test"])
    return [{"token accuracy": found["token_accuracy"]["value"], "alignment error": found["alignment_error"]["value"]}]


def decide(results: Results) -> Verdict:
    """The rule."""
    parts = []
    for pairs, other in product(_PAIRS, ("none", "shuffled")):
        better = Pair("token accuracy", {"links": "true"}, {"links": other}, {"pairs": pairs})
        what = f"token accuracy with {pairs:,} pairs, true links minus {other}"
        parts.append(Part(what, better.difference(results), "above", 0))
    wrong = (results.difference("alignment error", {"links": "true"}, {"links": "none"}, pairs=n) for n in _PAIRS)
    parts += [Part("alignment error, true links minus none", error, "below", -0.1) for error in wrong]
    return judge((f"after {_STEPS} updates", parts))


CLAIM = Claim(
    name="supervised",
    sentence="Attention should be trained towards the true alignment.",
    varied="true links, shuffled ones (weight 0.3 of their loss) or none; 200, 1,000, 4,000 pairs of English and Hindi",
    measured="share of linked words with most weight on a wrong word, token accuracy",
    rule=(
        "Holds only after 250 updates, the one budget measured, if with true links minus without the alignment error "
        "is below -0.1 and token accuracy is above 0 at every size, and the accuracy with true links minus shuffled "
        "ones is above 0 too. Otherwise does not hold here."
    ),
    literature="Liu et al. 2016 (arXiv:1609.04186), Mi et al. 2016, Garg et al. 2019 (arXiv:1909.02074)",
    controls="shuffled links",
    finding=(
        "With true links attention finds the right word more often, and token accuracy rises by 8 to 11 points; with "
        "links to wrong words by 3 at most. Every size had 250 updates, many passes over 200 pairs and few over 4,000: "
        "nothing follows for size or for longer training."
    ),
    grid=cells(pairs=_PAIRS, links=tuple(_OF_LINKS)),
    measure=measure,
    decide=decide,
    checks=(
        headroom(
            "token accuracy with 200 pairs",
            Pair("token accuracy", {"links": "true"}, {"links": "none"}, {"pairs": _PAIRS[0]}),
            0,
        ),
    ),
    plots=(
        Plot("token accuracy", "token accuracy", "pairs", "links"),
        Plot("alignment error", "share of words with most weight on a wrong word", "pairs", "links"),
    ),
)

if __name__ == "__main__":
    main(CLAIM)
