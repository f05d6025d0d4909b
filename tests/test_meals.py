"""Embedded data meals: what it draws, and that ranking by trained models finds the probabilities of the grammar."""

import math
from collections import Counter, defaultdict

import pytest

import heed
from heed.data.embedded.texts import PROBABILITIES, distribution, draw_meals, prompts
from heed.errors import DataError
from heed.tasks.heads.continuing import rank

pytestmark = pytest.mark.usefixtures("own_cache")

SPLITS = ("train", "valid", "test")
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
