"""Writes docs/gallery/: trains a small model of each family and draws one look at it.

    python docs/gallery.py                  all families, about 15 minutes of one core
    python docs/gallery.py gpt vit          these only
    python docs/gallery.py --pages          the pages again from docs/gallery/measured.json; trains nothing

Data is embedded and budgets are given in updates, so the pictures repeat on one machine.
"""

from __future__ import annotations

import json
import shlex
import sys
import tempfile
import textwrap
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import heed

GALLERY = Path(__file__).parent / "gallery"
NOTE = "<!-- Written by docs/gallery.py; edit the script, not this page. -->"


@dataclass(frozen=True)
class Family:
    """A family of models: what is trained, what is looked at, and what a reader sees in the picture."""

    name: str
    title: str
    models: tuple[str, ...]
    system: str
    """Its heading in docs/systems.md, as an anchor, and the words of the link."""
    task: str
    settings: dict[str, Any]
    steps: int
    given: tuple[str, ...]
    """What the model reads."""
    score: str
    """The score in the report, and its name for people."""
    see: str
    look: dict[str, Any] = field(default_factory=dict)
    index: int | None = None
    """Which map is drawn; by default what `heed look --out look.svg` writes."""


DATE = "sábado, 9 de mayo de 1998"
TEDDY = {"data.name": "teddy", "model.name": "rnn", "model.cell": "lstm", "model.d_embedding": 32, "model.d_hidden": 32,
         "model.dropout": 0.0, "training.batch_tokens": 500, "training.learning_rate": 0.01, "training.warmup": 10,
         "model.bidirectional": False}  # fmt: skip
FEW = {"data.valid": 100, "data.test": 100}
FAMILIES = (
    Family(
        name="recurrent",
        title="RNN, LSTM and GRU",
        models=("rnn",),
        system="a4-lstm",
        task="tagging",
        settings=TEDDY | {"model.delay": 1},
        steps=150,
        given=("He said Teddy Roosevelt was a President",),
        score="accuracy",
        see=(
            "An LSTM reads from left to right and tags each word one word late. Each row is a gate, averaged over "
            "its units; each column is a word. Where the input gate is high and the forget gate low, the cell "
            "replaces its content. `model.cell=gru` and `model.cell=rnn` train the other two; a plain RNN has no "
            "gates."
        ),
        look={"gates": True},
        index=-1,
    ),
    Family(
        name="bidirectional",
        title="Bidirectional networks",
        models=("rnn",),
        system="a6-both-directions",
        task="tagging",
        settings=TEDDY | {"model.bidirectional": True},
        steps=150,
        given=("He said Teddy Roosevelt was a President",),
        score="accuracy",
        see=(
            "This network reads in both directions. Below each word are its tag and the tag's probability. When "
            "`Teddy` is tagged, the network that reads from right to left has already read `Roosevelt`. A network "
            "that reads only from left to right is right in half of such sentences, whatever its size."
        ),
    ),
    Family(
        name="encoder-decoder",
        title="Encoder and decoder without attention",
        models=("seq2seq",),
        system="a7-encoder-and-decoder-without-attention",
        task="translation",
        settings=FEW
        | {"data.name": "dates", "data.languages": ["en", "es"], "model.name": "seq2seq", "model.size": "tiny"},
        steps=250,
        given=(DATE,),
        score="exact_match",
        see=(
            "The decoder knows the date only by this one vector, drawn as a bar for each unit. The vector is as long "
            "for a date as for a page of text, which is why attention was added."
        ),
    ),
    Family(
        name="bahdanau",
        title="Bahdanau: additive attention",
        models=("bahdanau",),
        system="b1-additive-alignment",
        task="translation",
        settings=FEW
        | {"data.name": "dates", "data.languages": ["en", "es"], "model.name": "bahdanau", "model.size": "tiny"},
        steps=300,
        given=(DATE,),
        score="exact_match",
        see=(
            "Each row is a character that the decoder wrote, each column a character that it read. The year is "
            "written first, though it was read last. To write the month, the decoder attends to the letters that "
            "distinguish it from other months."
        ),
    ),
    Family(
        name="luong",
        title="Luong: attention from the new state",
        models=("luong",),
        system="b3-luongs-attention",
        task="translation",
        settings=FEW
        | {"data.name": "dates", "data.languages": ["en", "es"], "model.name": "luong", "model.size": "tiny"},
        steps=700,
        given=(DATE,),
        score="exact_match",
        see=(
            "The date is that of Bahdanau's picture. Luong's weights are computed from the state after each step, "
            "Bahdanau's from the state before it."
        ),
    ),
    Family(
        name="attention-only",
        title="One attention layer and nothing else",
        models=("attention_only", "attention_lm"),
        system="c1-a-translator-of-one-attention-layer",
        task="translation",
        settings=FEW
        | {
            "data.name": "copy",
            "data.length": [3, 10],
            "model.name": "attention_only",
            "model.positions": "sinusoidal",
            "model.size": "tiny",
        },
        steps=1000,
        given=("3141592",),
        score="exact_match",
        see=(
            "A translator without recurrence and without feed-forward layers learns to copy digits. It must attend "
            "along the diagonal, which it finds from positions alone (`model.positions=sinusoidal`); without "
            "positions it cannot know which digit comes next."
        ),
    ),
    Family(
        name="lstmn",
        title="LSTMN: attention inside a recurrent network",
        models=("lstmn", "self_rnn"),
        system="b5-self-attention-in-one-recurrent-network",
        task="language_modelling",
        settings={"data.name": "meals", "model.name": "lstmn", "model.size": "tiny"},
        steps=80,
        given=("I love eating pizza with chilli flakes",),
        score="perplexity",
        see=(
            "An LSTMN is an LSTM that attends to its own earlier states, its tape. Rows are the tokens read, columns "
            "the earlier tokens. The upper right is hatched, because a state cannot attend to later states."
        ),
        look={"given": True},
        index=0,
    ),
    Family(
        name="hierarchical",
        title="Hierarchical attention",
        models=("han",),
        system="b8-hierarchical-attention",
        task="classification",
        settings={
            "data.name": "planted",
            "data.sentences": [4, 6],
            "model.name": "han",
            "model.size": "tiny",
            "training.learning_rate": 0.01,
            "training.warmup": 20,
            "training.batch_tokens": 2000,
        },
        steps=300,
        given=(
            "We saw the old house. The minister came late. There was some time again. They left early. "
            "We found the old street.",
        ),
        score="accuracy",
        see=(
            "One word in one sentence decides the label of a document. The background of each word shows its weight "
            "in its sentence times the weight of the sentence in the document."
        ),
    ),
    Family(
        name="transformer",
        title="Transformer",
        models=("transformer", "encoder"),
        system="c6-transformer-for-translation",
        task="translation",
        settings={"data.name": "grammar", "data.language": "es", "model.name": "transformer", "model.size": "tiny"},
        steps=700,
        given=("My friend saw the small goat and helped it.",),
        score="exact_match",
        see=(
            "The map shows the attention of the last decoder layer to the source, the mean of its heads. Spanish "
            "puts most adjectives after the noun, so `cabra` and `pequeña` cross; `la` before `ayudó` (helped her) "
            "attends to `goat`, whose gender it takes. `--head all` shows each head by itself."
        ),
    ),
    Family(
        name="gpt",
        title="GPT",
        models=("gpt",),
        system="c7-gpt",
        task="language_modelling",
        settings={"data.name": "meals", "model.name": "gpt", "model.size": "tiny"},
        steps=120,
        given=("I love eating pizza with chilli flakes",),
        score="perplexity",
        see=(
            "The map shows the causal self-attention of the last layer over the tokens read, the mean of its heads. "
            "Each token attends to itself and to earlier tokens. A head that finds no token to attend to often puts "
            "its weight on the first one."
        ),
        look={"given": True},
        index=0,
    ),
    Family(
        name="bert",
        title="BERT",
        models=("bert",),
        system="c8-bert",
        task="pretraining",
        settings={"data.name": "stories", "model.name": "bert", "model.size": "tiny"},
        steps=100,
        given=("my uncle went home [MASK] noon. the cake smelled of garlic and herbs.",),
        score="masked_accuracy",
        see=(
            "The map shows self-attention in both directions over two sentences with a masked word, the mean of the "
            "heads of the last layer. The row of `[MASK]` shows which words the guess is based on; after so few "
            "updates, these are not yet its neighbours."
        ),
        index=0,
    ),
    Family(
        name="vit",
        title="Vision Transformer",
        models=("vit",),
        system="c9-vision-transformer",
        task="images",
        settings={"data.name": "digits", "model.name": "vit", "model.size": "tiny", "model.patch_size": 2},
        steps=600,
        given=("test:3",),
        score="accuracy",
        see=(
            "The picture is cut into patches of 2 x 2 pixels. From left to right: the picture; how much the class "
            "token attends to each patch in the last layer; attention rolled out over all layers; Grad-CAM, which "
            "shows what each patch adds to the score. Below, each head of each layer."
        ),
    ),
    Family(
        name="hred",
        title="Hierarchical encoder for dialogue",
        models=("hred",),
        system="b9-hierarchical-encoder-for-dialogue",
        task="dialogue",
        settings=FEW | {"data.name": "bookings", "model.name": "hred", "model.size": "tiny"},
        steps=400,
        given=(
            "I need a table.",
            "Of course. For how many people?",
            "For seven.",
            "For which day?",
            "On Sunday.",
            "At what time?",
            "At five.",
            "In whose name?",
            "Ann.",
            "A table for seven on Sunday at five, in the name of Ann. Is that right?",
            "Yes.",
        ),
        score="exact_match",
        see=(
            "One network reads the words of each turn, another reads the turns. The number before a turn is its "
            "share of the attention of the response; the background of each word shows the word's share. Most of the "
            "attention is on the turn that repeats the whole booking. With so small a budget, half of the responses "
            "are right. `?` marks a word that is not in the vocabulary."
        ),
    ),
)
WITHOUT = ("bag", "cnn", "mlp", "resnet")
"""Models with neither attention nor recurrence."""


def make(family: Family, folder: Path, steps: int | None = None, **smaller: Any) -> dict[str, Any]:
    """Train, draw into `folder`, and return what the page states. `steps` and `smaller` are for a trial."""
    steps = steps or family.steps
    settings = {
        **family.settings,
        "training.steps": steps,
        "training.threads": 1,
        "evaluation.bootstrap": 20,
        **smaller,
    }
    with tempfile.TemporaryDirectory() as place:
        run = heed.train(family.task, settings=settings, out=Path(place) / family.name, quiet=True)
        look = run.look(family.given[0] if len(family.given) == 1 else list(family.given), **family.look)
        drawn = look.svg() if family.index is None else look.svg(family.index)
        (folder / f"{family.name}.svg").write_text(drawn, encoding="utf-8")
        report = json.loads((Path(place) / family.name / "report.json").read_text(encoding="utf-8"))
    scores = report["scores"].get("test") or report["scores"]["valid"]
    score = scores[family.score]
    score = score["value"] if isinstance(score, dict) else score
    return {"parameters": report["parameters"], "steps": steps, "score": round(score, 4)}


def page(family: Family, measured: dict[str, Any]) -> str:
    """The page of a family."""
    score, models = measured["score"], ", ".join(f"`{name}`" for name in family.models)
    reached = (
        f"perplexity {score:.2f}" if family.score == "perplexity" else f"{family.score.replace('_', ' ')} {score:.1%}"
    )
    row = family.system.split("-")[0].upper()
    commands = [_command(family, "train", measured["steps"]), _command(family, "look", measured["steps"])]
    return "\n".join(
        [
            NOTE,
            "",
            f"# {family.title}",
            "",
            f"![{family.title}: a look]({family.name}.svg)",
            "",
            *textwrap.wrap(family.see, 120, break_on_hyphens=False, break_long_words=False),
            "",
            "```sh",
            *commands,
            "```",
            "",
            f"{measured['parameters']:,} parameters, {measured['steps']} updates, {reached} on held-out examples.",
            f"Models: {models}. Equations, code and papers: [{row}](../systems.md#{family.system}).",
            "",
        ]
    )


def _command(family: Family, verb: str, steps: int) -> str:
    """The command that trains, or draws, what is shown."""
    if verb == "look":
        flags = [f"--{key}" for key in family.look]
        return shlex.join(["heed", "look", f"runs/{family.name}", *family.given, *flags, "--out", "look.html"])
    settings = {key: value for key, value in family.settings.items() if key != "model.name"}
    words = ["heed", "train", family.task, "--model", family.settings["model.name"]]
    words += [f"{key}={_written(value)}" for key, value in settings.items()]
    return shlex.join([*words, f"training.steps={steps}", "training.threads=1", "--out", f"runs/{family.name}"])


def _written(value: Any) -> str:
    return json.dumps(value, separators=(",", ":")) if isinstance(value, bool | list) else str(value)


def index() -> str:
    """The page that lists all families."""
    rows = [f"| [{family.title}]({family.name}.md) | {family.task.replace('_', ' ')} |" for family in FAMILIES]
    text = (
        "Each page shows one look at a small model of a family, trained on embedded data. How to read a look: "
        "[looking.md](../looking.md). `python docs/gallery.py` makes all pictures and pages."
    )
    head = [NOTE, "", "# Gallery", "", *textwrap.wrap(text, 120), "", "| family | task |", "|---|---|"]
    return "\n".join([*head, *rows, ""])


def main(words: list[str]) -> None:
    """Make the families that are named, or all, and write every page."""
    named = {family.name: family for family in FAMILIES}
    if wrong := [word for word in words if word not in named and word != "--pages"]:
        sys.exit(f"no family {wrong[0]!r}; valid: {', '.join(named)}")
    GALLERY.mkdir(exist_ok=True)
    file = GALLERY / "measured.json"
    for name in [] if "--pages" in words else words or named:
        began = time.perf_counter()
        found = make(named[name], GALLERY)
        print(f"{name}: {found}, {time.perf_counter() - began:.0f} s", flush=True)
        measured = (json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}) | {name: found}
        ordered = {name: measured[name] for name in named if name in measured}
        file.write_text(json.dumps(ordered, indent=1) + "\n", encoding="utf-8")
    measured = json.loads(file.read_text(encoding="utf-8"))
    for name, family in named.items():
        if name in measured:
            (GALLERY / f"{name}.md").write_text(page(family, measured[name]), encoding="utf-8")
    (GALLERY / "index.md").write_text(index(), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
