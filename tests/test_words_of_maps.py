"""What is said of maps: no output, help, page or example says that an answer follows from what was attended to.

What looks do say is checked sentence by sentence in `test_look_sentences.py`, the lines on other weights in
`test_interventions.py`.
"""

import ast
import html
import re
from pathlib import Path

import pytest

from heed.errors import ConfigError
from heed.tasks import task_names
from small_runs import SMALL

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
WORDS = re.compile(r"\b(?:depend(?:s|ed)?|rest(?:s|ed)|because|verdicts?|supported|explain(?:s|ed)?)\b", re.IGNORECASE)
"""Words that say more than was computed, in a sentence about a map."""
MAPS = re.compile(r"\b(?:maps?|attention|attend(?:s|ed)?|(?<!font-)weights?|looked at)\b", re.IGNORECASE)
ALLOWED = {
    # nothing is said of attention or of an answer
    "Runs you can rely on.",
    # the order of the parts of a meaning, in data
    "most important part found in the",
    # the title over what was computed
    "Does the output depend on these weights?",
    # options that are gone
    "Verdicts on maps (`--verdict`, `run.verdicts`, `--beside permuted`, `heed lesson verdict`)",
    # of memory
    "because guided attention reads the activations of every block",
}
"""Sentences that a claim or one of the words may occur in, with the reason."""


def texts(docstrings=True):
    """Every text that a reader sees: pages, examples, and the strings of the code."""
    endings_in = {"docs": (".md",), "examples": (".yaml", ".py", ".md"), "src/heed": (".yaml", ".html", ".js")}
    for folder, endings in endings_in.items():
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in endings:
                yield path, path.read_text("utf-8")
    yield from ((path, path.read_text("utf-8")) for path in (ROOT / "README.md", ROOT / "CHANGELOG.md"))
    for path in sorted((ROOT / "src" / "heed").rglob("*.py")):
        nodes = [*ast.walk(ast.parse(path.read_text("utf-8")))]
        left_out = set() if docstrings else {node.value for node in nodes if isinstance(node, ast.Expr)}
        for node in nodes:
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in left_out:
                yield path, node.value


def plain(text):
    """A text without line breaks, list marks and targets of links."""
    return re.sub(r"\s+", " ", re.sub(r"\n[ \t]*(?:[#*-]+ |//)?", " ", re.sub(r"\]\([^)\s]*\)", "]", text)))


def words_of_maps(text, every=False):
    """The sentences with one of the words, of those about a map or of `every` sentence."""
    sentences = re.split(r"(?<=[.:;!?]) |\|", plain(text))
    found = [one for one in sentences if WORDS.search(one) and (every or MAPS.search(one))]
    return [one for one in found if not any(allowed.rstrip(".:") in one for allowed in ALLOWED)]


def claims(text):
    """The phrases of a text that claim what no map shows, each with its surroundings."""
    read = plain(text)
    found = (read[max(0, m.start() - 90) : m.end() + 90] for m in CLAIMS.finditer(read))
    return [around for around in found if not any(sentence in around for sentence in ALLOWED)]


def test_no_text_claims_that_an_answer_follows_from_a_map():
    found = [f"{path.relative_to(ROOT)}: ... {around} ..." for path, text in texts() for around in claims(text)]
    assert found == []


def test_no_text_about_maps_has_words_that_say_more_than_was_computed():
    """Verdicts on claims are those of rules, in docs/claims.md and examples/claims; docs/looking.md has none at all."""
    found = [
        f"{path.relative_to(ROOT)}: {sentence}"
        for path, text in texts(docstrings=False)
        if "claims" not in path.relative_to(ROOT).as_posix()
        for sentence in words_of_maps(text, every=path.name == "looking.md")
    ]
    assert found == []


LOOKS = {
    "plain": {},
    "edited": {"edits": [{"edit": "uniform"}]},
    "beside": {"beside": "untrained"},
    "steps": {"steps": True},
    "attribution": {"attribution": "loo"},
}
"""Options of looks; those that a task does not have are left out."""
MODELS = {
    "translation": "transformer", "classification": "han", "tagging": "bert", "language_modelling": "lstmn",
    "pretraining": None, "dialogue": "transformer", "summarisation": None, "images": "vit",
}  # fmt: skip
"""A second model of each task that has looks."""


@pytest.mark.parametrize(("name", "other"), MODELS.items())
def test_no_look_has_these_words_in_any_form(name, other, untrained, data):
    looked = dict.fromkeys(LOOKS, 0)
    for model in {SMALL[name].model, other or SMALL[name].model}:
        run = untrained(name, model)
        read = SMALL[name].look[0].replace("DATA", str(data))
        read = {"dialogue": ["one two", "three four"], "pretraining": "one [MASK] two"}.get(name, read)
        for kind, options in LOOKS.items():
            if name == "images" and kind == "steps":
                continue
            try:
                look = run.look(read, **options)
            except ConfigError:
                continue
            looked[kind] += 1
            for form in (look.text(), re.sub(r"<[^>]*>", "\n", html.unescape(look.html())), look.json(), look.svg()):
                assert words_of_maps(form, every=True) == claims(form) == [], (model, kind)
    assert looked["plain"] and looked["beside"]


def test_every_task_with_looks_is_here():
    assert {name for name in task_names() if SMALL[name].look} == {*MODELS}


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
    assert words_of_maps("The label depends on these weights.") and words_of_maps("The map is supported: it holds.")
    assert not words_of_maps("It stopped, because the disk is full. The map has a row for each token.")
    assert not claims("Row t: where the model looked to write output t. Weights before dropout.")
