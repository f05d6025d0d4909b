"""The small grammar: sentences of a table, with the links between their words."""

import re
from pathlib import Path

import pytest

import grammar
import heed
from heed.data.embedded import SPLITS, split_of
from heed.data.embedded.pairs import GrammarSource
from heed.errors import ConfigError
from heed.tasks.translation import TASK, TranslationConfig

CAT, WALL, HOME, TIRED, CONGESTED = (
    "The cat sat on the wall.",
    "The wall sat on the cat.",
    "I am going home.",
    "The animal did not cross the street because it was too tired.",
    "The animal did not cross the street because it was too congested.",
)


@pytest.fixture(scope="module")
def pairs():
    """Every pair, by its source."""
    return {pair.source: pair for split in SPLITS for pair in GrammarSource().stream(split)}


def linked(pair):
    """Target word -> what it is linked to, for words that occur once."""
    return {pair.target[slice(*link.target)]: pair.source[slice(*link.source)] for link in pair.links}


def test_the_named_sentences_are_in_the_data(pairs):
    assert {source: pairs[source].target for source in (CAT, WALL, HOME, TIRED, CONGESTED)} == {
        CAT: "El gato se sentó en la pared.",
        WALL: "La pared se sentó sobre el gato.",
        HOME: "Voy a casa.",
        TIRED: "El animal no cruzó la calle porque estaba demasiado cansado.",
        CONGESTED: "El animal no cruzó la calle porque estaba demasiado congestionada.",
    }
    assert linked(pairs[CAT]) == {
        **{"El": "The", "gato": "cat", "se": "sat", "sentó": "sat", "en": "on", "la": "the", "pared": "wall"},
        ".": ".",
    }
    assert linked(pairs[HOME]) == {"Voy": "I am going", "a": "home", "casa": "home", ".": "."}


def test_every_split_has_its_sentences_and_none_of_another(pairs):
    sizes = {split: len(list(GrammarSource().stream(split))) for split in SPLITS}
    assert sizes == {"train": 8_000, "valid": 400, "test": 1_000}
    assert len(pairs) > 9_390  # a sentence repeats only after 20 draws
    for split in SPLITS:
        assert {split_of(pair.source) for pair in GrammarSource().stream(split)} == {split}


def test_every_word_is_linked_with_whole_words(pairs):
    for pair in pairs.values():
        both = ((side, getattr(pair, side)) for side in pair.sides)
        places = {side: [word.span() for word in re.finditer(r"\w+|[^\w\s]", text)] for side, text in both}
        assert [link.target for link in pair.links] == places["target"]
        starts, ends = ({place[end] for place in places["source"]} for end in (0, 1))
        assert all(link.source[0] in starts and link.source[1] in ends for link in pair.links)


@pytest.mark.parametrize("split", SPLITS)
def test_the_table_has_what_the_script_draws(split):
    drawn = grammar.GrammarSource("es").sample(split, 40)
    table = GrammarSource().sample(split, 40)
    assert table == drawn and [pair.links for pair in table] == [pair.links for pair in drawn]


@pytest.mark.parametrize(
    ("language", "direction", "cat"),
    [
        ("de", "from_english", (CAT, "Die Katze saß auf der Mauer.")),
        ("hi", "from_english", (CAT, "Billi deewar par baithi.")),
        ("hi", "to_english", ("Billi deewar par baithi.", CAT)),
    ],
)
def test_the_script_writes_other_languages(language, direction, cat, tmp_path):
    sizes = ["--train=30", "--valid=10", "--test=10"]
    grammar.main([str(tmp_path), *sizes, f"--language={language}", f"--direction={direction}"])
    rows = [line.split("\t") for split in SPLITS for line in (tmp_path / f"{split}.tsv").read_text().splitlines()]
    assert len(rows) == 50 and list(cat) in rows


# As data of a run


def test_words_are_its_tokens_and_exact_match_selects():
    data = {"name": "grammar", "train": 300, "valid": 20, "test": 30}
    task = TASK.prepare(TranslationConfig.model_validate({"data": data}))
    assert task.config.tokenizer.kind == "word"
    assert task.config.evaluation.select_by == "exact_match"
    assert len(task.splits.examples["train"]) == 300
    assert "English to Spanish" in task.splits.notes


def test_more_than_the_table_has_is_refused():
    with pytest.raises(ConfigError, match=r"data.train is 9000, but must be less than or equal to 8000"):
        heed.train("translation", data="grammar", settings={"data.train": 9_000})


@pytest.mark.slow
def test_the_recipe_is_learned(tmp_path):
    recipe = Path(__file__).parents[1] / "examples" / "grammar-es.yaml"
    run = heed.train(recipe, out=tmp_path / "run", quiet=True, settings={"training.device": "cpu", "data.test": 300})
    assert run.report["scores"]["test"]["exact_match"]["value"] >= 0.9
    assert run.predict([WALL])[0].text == "La pared se sentó sobre el gato."
