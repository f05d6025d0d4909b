"""What is said of maps: no output, help, page or example says that an answer follows from what was attended to.

What looks do say is checked sentence by sentence in `test_look_sentences.py`.
"""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
CLAIMS = re.compile(
    r"\b(?:rest(?:s|ed|ing)? (?:up)?on|(?:is|are|was|were) based (?:up)?on|rel(?:y|ies|ied|ying) (?:up)?on|"
    r"because (?:of|it|they|the model)(?: \w+){0,3} (?:attends?|attention|look(?:s|ed)?|weights?)|"
    r"(?:attends?|attention|look(?:s|ed)?|weights?)\b[^.;:]{0,60}\bbecause|"
    r"pays? (?:\w+ )?attention|focus(?:es|ed|ing)? on|"
    r"explains? (?:the|its|this|an?) (?:answer|label|output|prediction|decision)|"
    r"(?:score|map|attention|gradients?|weights?) (?:that )?explains?|"
    r"important (?:word|token|pixel|patch|head|part)|contributions? of (?:each|every|the) (?:patch|pixel)|"
    r"on which the (?:score|output|label) depends|"
    r"weights? (?:\w+ )?shows? (?:which|what|why)|shows? why|evidence for (?:the|its|this) (?:label|answer|output))",
    re.IGNORECASE,
)
SUPPORTED = {
    # nothing is said of attention or of an answer
    "Runs you can rely on.",
    # the hatching is of the mask
    "the upper right is hatched, because a state cannot attend to later ones.",
    # of colours
    "because on a fixed scale long rows are all pale",
    # what a lesson computes: the state at '?' does contain the film
    "The '?' of turn 2 has some weight because its state still contains the film.",
    # the order of the parts of a meaning, in data
    "most important part found in the",
}
"""Sentences that a claim may occur in, with the reason."""


def texts():
    """Every text that a reader sees: pages, examples, and the strings of the code."""
    endings_in = {"docs": (".md",), "examples": (".yaml", ".py", ".md"), "src/heed": (".yaml", ".html", ".js")}
    for folder, endings in endings_in.items():
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in endings:
                yield path, path.read_text("utf-8")
    yield from ((path, path.read_text("utf-8")) for path in (ROOT / "README.md", ROOT / "CHANGELOG.md"))
    for path in sorted((ROOT / "src" / "heed").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield path, node.value


def claims(text):
    """The phrases of a text that claim what no map shows, each with its surroundings."""
    plain = re.sub(r"\s+", " ", re.sub(r"\n[ \t]*(?:[#*-] |//)?", " ", text))
    found = ((plain[max(0, m.start() - 90) : m.end() + 90], m[0]) for m in CLAIMS.finditer(plain))
    return [around for around, _ in found if not any(sentence in around for sentence in SUPPORTED)]


def test_no_text_claims_that_an_answer_follows_from_a_map():
    found = [f"{path.relative_to(ROOT)}: ... {around} ..." for path, text in texts() for around in claims(text)]
    assert found == []


@pytest.mark.parametrize(
    "claim",
    [
        "The label rests on 'goal'.",
        "Its answer is based on the last word.",
        "It writes 'la' because it attends to 'house'.",
        "It attends to `house` when it writes `la`, because `la` takes its gender.",
        "The model pays close attention to the verb.",
        "The model focuses on the field.",
        "Label whose score gradients explain.",
        "the most important words of the text",
        "pixels on which the score depends",
        "Weights show which words a model uses.",
    ],
)
def test_claims_are_recognised(claim):
    assert claims(claim)
    assert not claims("Row t: where the model looked to write output t. Weights before dropout.")
