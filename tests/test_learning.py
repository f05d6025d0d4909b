"""What it is all for: small tasks are learned, with the attention where it must be."""

from pathlib import Path

import pytest
import torch

import heed
from heed.data.embedded.pairs import DigitSource
from heed.watch.edits import Uniform

pytestmark = pytest.mark.usefixtures("as_installed")


def share_of_rows_on_the_line(run, kind, longest, count=40):
    """Rows of maps of held-out strings whose largest weight lies on the (anti-)diagonal, in the model's own outputs."""
    right = rows = 0
    for pair in DigitSource(kind, (3, longest), seed=77).sample("test", count):
        shown = run.look(pair.source)
        places = shown.maps[0].best()[: len(pair.source)]  # the row of the end token may look anywhere
        wanted = list(range(len(pair.source)))
        wanted = wanted if kind == "copy" else wanted[::-1]
        right += sum(place == want for place, want in zip(places, wanted, strict=False))
        rows += len(wanted)
    return right / rows


def check_learned(run, kind, longest):
    test = run.report["scores"]["test"]
    assert test["exact_match"]["value"] >= 0.95
    assert test["alignment_error"]["value"] <= 0.05
    assert share_of_rows_on_the_line(run, kind, longest) >= 0.95
    # and the attention is what does it
    pairs = run.task.splits.examples["test"]
    with heed.edit(run.model, Uniform("cross")):
        outputs = run.predict([pair.source for pair in pairs])
    assert sum(out.text == pair.target for out, pair in zip(outputs, pairs, strict=True)) < 0.5 * len(pairs)


def test_copying_is_learned_along_the_diagonal(tmp_path):
    settings = {"data.length": [3, 6], "data.train": 5_000, "data.valid": 50, "data.test": 200}
    settings |= {f"model.d_{part}": 48 for part in ("embedding", "hidden", "attention")}
    settings |= {"training.batch_tokens": 400, "training.learning_rate": 0.01, "training.warmup": 50}
    settings |= {"training.validate_every": 300, "training.threads": 1, "training.device": "cpu"}
    run = heed.train("translation", data="copy", steps=300, out=tmp_path / "run", quiet=True, settings=settings)
    check_learned(run, "copy", 6)
    weights = run.look("90210").maps[0].weights
    assert torch.diagonal(weights[:5, :5]).min() > 0.5


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["copy", "reverse"])
def test_the_recipes_are_learned_along_the_line(kind, tmp_path):
    recipe = Path(__file__).parents[1] / "examples" / f"{kind}.yaml"
    settings = {"training.threads": 1, "training.device": "cpu", "data.test": 300, "training.validate_every": 1_000}
    run = heed.train(recipe, steps=1_000, out=tmp_path / "run", quiet=True, settings=settings)
    check_learned(run, kind, 12)
    assert run.report["scores"]["test"]["exact_match"]["value"] >= 0.99
