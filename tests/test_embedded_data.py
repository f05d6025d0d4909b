"""Embedded data and the scripts of examples/data: what is drawn, split and repeated; the run that comes with heed."""

import importlib
import math
import re
from collections import Counter, defaultdict
from itertools import islice
from pathlib import Path

import pytest

import grammar
import heed
from heed import folder
from heed.cli import main
from heed.data.embedded import SPLITS, split_of
from heed.data.embedded.pairs import GrammarSource
from heed.data.embedded.texts import PROBABILITIES, distribution, draw_meals, prompts
from heed.errors import ConfigError, DataError, HeedWarning, RunError
from heed.tasks.heads.continuing import rank
from heed.tasks.translation import TASK, TranslationConfig
from recall import KINDS, look_ups
from shapes import ARROWS, FIGURES, arrangements, draw_shapes

pytestmark = pytest.mark.usefixtures("own_cache")

SETTINGS = {
    "model.name": "rnn",
    "model.cell": "lstm",
    "model.d_hidden": 64,
    "training.learning_rate": 0.02,
    "model.size": "tiny",
    "training.batch_tokens": 1_024,
    "training.warmup": 20,
    "training.validate_every": 10_000,
    "training.threads": 1,
    "training.device": "cpu",
    "evaluation.bootstrap": 20,
}


def test_every_prompt_has_three_choices_and_belongs_to_one_split():
    known = {split: set(prompts(split)) for split in SPLITS}
    assert len(known["test"]) >= 200 and not known["train"] & (known["valid"] | known["test"])
    assert not known["valid"] & known["test"]
    lengths = Counter()
    for prompt in set().union(*known.values()):
        choices = distribution(prompt)
        assert tuple(choices.values()) == PROBABILITIES and len(choices) == 3 and prompt.endswith(" with")
        firsts = [choice.split()[0] for choice in choices]
        # No choice begins another, so that the probabilities of all texts that go on with one add up to its own.
        assert not any(a != b and f"{b} ".startswith(f"{a} ") for a in choices for b in choices), firsts
        lengths.update(len(choice.split()) for choice in choices)
    assert set(lengths) == {1, 2, 3, 4} and min(lengths.values()) > sum(lengths.values()) / 10
    assert distribution("I love eating pizza with") == {"chilli flakes": 0.7, "my friend": 0.2, "sand": 0.1}
    assert distribution("I love playing with") == {"my friend": 0.7, "sand": 0.2, "chilli flakes": 0.1}


def test_choices_are_drawn_by_their_probabilities_and_a_seed_repeats():
    drawn = draw_meals("train", 20_000, 1)
    assert drawn[:50] == draw_meals("train", 50, 1) and drawn[:50] != draw_meals("train", 50, 2)
    places = Counter()
    for document in drawn:
        prompt, _, choice = document.text.partition(" with ")
        places[list(distribution(f"{prompt} with")).index(choice)] += 1
    for place, p in enumerate(PROBABILITIES):
        assert abs(places[place] - 20_000 * p) < 4 * math.sqrt(20_000 * p * (1 - p))
    for split in SPLITS:
        held = set(prompts(split))
        assert {f"{d.text.partition(' with ')[0]} with" for d in draw_meals(split, 300, 7)} <= held


def test_an_unknown_prompt_is_named():
    with pytest.raises(DataError, match=r"no prompt 'I love eating pizza wit'; did you mean 'I love eating pizza with"):
        distribution("I love eating pizza wit")


def errors_by_length(run, questions):
    """The share of prompts whose first choice is the most probable, and by tokens of a choice all |p - p_true|."""
    right, errors = 0, defaultdict(list)
    ranked = rank(run.input, run.model, questions, end=True)
    for (prompt, choices), found in zip(questions, ranked, strict=True):
        true = distribution(prompt)
        right += found[0].choice == choices[0]
        for one in found:
            errors[len(one.tokens) - 1].append(abs(math.exp(one.log_prob) - true[one.choice]))
    return right / len(questions), errors


def test_a_small_model_ranks_as_the_grammar_does(tmp_path):
    run = heed.train("language_modelling", data="meals", steps=500, out=tmp_path / "run", settings=SETTINGS, quiet=True)
    questions = [(prompt, list(distribution(prompt))) for prompt in prompts("test")]
    assert len(questions) >= 200
    right, errors = errors_by_length(run, questions)
    table = {length: sum(each) / len(each) for length, each in sorted(errors.items())}
    every = [one for each in errors.values() for one in each]
    assert right >= 0.99 and sum(every) / len(every) <= 0.03
    assert list(table) == [1, 2, 3, 4] and max(table.values()) <= 0.045
    # The order in which the choices are given does not matter.
    prompt, choices = questions[0]
    assert [one.choice for one in run.rank(prompt, choices[::-1], end=True)] == choices


# --- The small grammar: sentences of a table, with the links between their words


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


# --- The scripts of examples/data: heed reads what they write, each time the same, and no test example is trained on


SIZES = ["--train=40", "--valid=8", "--test=12"]
READ = {
    "bookings": "dialogue FOLDER/train.jsonl --valid FOLDER/valid.jsonl --test FOLDER/test.jsonl data.respond=host",
    "notes": "summarisation FOLDER/train.jsonl --valid FOLDER/valid.jsonl --test FOLDER/test.jsonl",
    "recall": "classification FOLDER/train.txt --valid FOLDER/valid.txt --test FOLDER/test.txt",
    "shapes": "images FOLDER",
    "stories": "pretraining FOLDER/train.txt --valid FOLDER/valid.txt --test FOLDER/test.txt data.format=lines",
}


def files_in(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def examples_in(files, split):
    """The lines of a split, or its pictures."""
    found = [data for name, data in files.items() if name.startswith(split)]
    return found if len(found) > 1 else found[0].splitlines()


@pytest.mark.usefixtures("own_cache")
@pytest.mark.parametrize("name", READ)
def test_what_a_script_writes_is_read_and_repeats(name, tmp_path, capsys):
    script = importlib.import_module(name)
    for copy, seed in (("one", 1), ("again", 1), ("other", 2)):
        script.main([str(tmp_path / copy), *SIZES, f"--seed={seed}"])
    one, again, other = (files_in(tmp_path / copy) for copy in ("one", "again", "other"))
    assert one == again != other
    assert [len(examples_in(one, split)) for split in ("train", "valid", "test")] == [40, 8, 12]
    trained = {*examples_in(one, "train"), *examples_in(other, "train")}
    assert trained.isdisjoint({*examples_in(one, "test"), *examples_in(other, "test")})
    capsys.readouterr()
    with pytest.raises(SystemExit) as ended:
        main(["check", *READ[name].replace("FOLDER", str(tmp_path / "one")).split()])
    out, err = capsys.readouterr()
    assert not ended.value.code, err
    assert "40" in out and "12" in out


@pytest.mark.parametrize("kind", KINDS)
def test_texts_of_every_kind_are_labelled(kind, tmp_path):
    importlib.import_module("recall").main([str(tmp_path), *SIZES, f"--kind={kind}"])
    lines = (tmp_path / "train.txt").read_text().splitlines()
    texts = {answer: text.split() for answer, _, text in (line.partition(" ") for line in lines)}
    for answer, words in texts.items():
        if kind == "delayed_recall":
            assert words[0] == answer and words[-1] == "?"
        elif kind == "adding":
            assert int(answer) == sum(int(word[1:]) for word in words if word[0] == "x")
        elif kind == "two_clauses":
            assert answer == f"{words[0]}-{words[-1]}"


def test_each_question_of_a_look_up_is_answered():
    for text, answer in islice(look_ups(3, 2, 1), 50):
        told, _, asked = text.partition(" ? ")
        words, questions = told.split(), asked.split()
        things = {words[i]: dict(zip(("colour", "shape"), words[i + 1 : i + 3], strict=True)) for i in (0, 3, 6)}
        assert answer == "-".join(things[questions[i + 1]][questions[i]] for i in (0, 2))
    with pytest.raises(DataError, match="9 questions about 2 things"):
        next(look_ups(2, 9, 1))


def test_the_label_of_a_picture_is_the_figure_that_the_arrow_points_at():
    for one in islice(arrangements("train", 1, (32, 24), 12, colours=False), 50):
        picture, named = one.drawn(32, 24) > 127, {marks: name for name, marks in (FIGURES | ARROWS).items()}
        windows = [picture[row : row + 5, column : column + 5] for row, column in one.corners]
        shown = [
            named[tuple("".join(".#"[pixel] for pixel in line) for line in window.astype(int))] for window in windows
        ]
        assert one.label == shown[1:][list(ARROWS).index(shown[0])]


def test_arrangements_of_training_pictures_are_in_no_other_split():
    shown = {
        split: {repr(one) for seed in (1, 2) for one in islice(arrangements(split, seed, (14, 14), 7, False), 300)}
        for split in ("train", "valid", "test")
    }
    assert not shown["train"] & (shown["valid"] | shown["test"])
    with pytest.raises(DataError, match="distance is 28 in pictures of 32 x 32 pixels, expected 7 to 25"):
        draw_shapes("train", 1, 1, distance=28)


# --- The run that comes with heed


def test_the_run_that_comes_with_heed_answers_without_any_training(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.warns(HeedWarning, match="'example' is the run that comes with heed: dates in 23 languages to ISO"):
        run = heed.load("example")
    dates = {"3 mars 2024": "2024-03-03", "sábado, 9 de mayo de 1998": "1998-05-09", "Dec 25, 1999": "1999-12-25"}
    assert {date: run.predict(date).text for date in dates} == dates
    look = run.look("3 mars 2024")
    assert [*look.maps]
    assert {path.name for path in run.folder.iterdir()}.isdisjoint({"metrics.jsonl", "checkpoints"})
    with pytest.raises(RunError, match=r"'example' has no metrics.jsonl, so it has no training curves; give a text"):
        run.curves()


def test_a_folder_of_that_name_comes_first(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("example").mkdir()
    assert folder.find("example") == Path("example")


def test_without_runs_the_server_opens_it_and_last_names_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert folder.newest_or_example() == "example"
    with pytest.raises(RunError, match="train one, name its folder, or try the run that comes with heed: example"):
        heed.load()
    place = tmp_path / "runs" / "a"
    place.mkdir(parents=True)
    (place / "format.json").write_text("{}")
    assert folder.newest_or_example() == "last"
