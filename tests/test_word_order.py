"""Word order: sentences shuffled by (seed, sentence), the trigram baseline, and a run from command line to scores."""

import gzip
import json
import math
from collections import Counter
from itertools import permutations

import pytest
import torch

import heed
from contract import write_lines
from heed.cli import main
from heed.config import Columns
from heed.data.examples import Pair
from heed.data.findings import Findings
from heed.data.kinds.pairs import ShuffledPair, shuffle_words, shuffled_reader, words_of
from heed.data.tokens.tokenizer import END, START
from heed.errors import ConfigError, DataError
from heed.generation import SamplingOptions
from heed.tasks import check_config, task_class
from heed.tasks.translation.start import open_pairs
from heed.tasks.translation.word_order import Trigrams, advance, may_follow

pytestmark = pytest.mark.usefixtures("own_cache")

SENTENCES = [
    f"{who} {does} {what} {when}{mark}"
    for who in ("Anna", "We", "The old man")
    for does in ("sells", "often buys", "never eats")
    for what in ("red apples", "bread", "warm fish soup")
    for when, mark in (("on Monday", "."), ("at the market", "!"), ("in May", ""))
]
SETTINGS = {
    "data.shuffle_source": "words",
    "data.valid": 8,
    "tokenizer.kind": "word",
    "tokenizer.min_count": 1,
    "tokenizer.lowercase": False,
    "model.name": "bahdanau",
    "model.size": "tiny",
    "model.d_embedding": 32,
    "model.d_hidden": 48,
    "model.d_attention": 32,
    "training.guided_attention": 0.0,
    "training.learning_rate": 0.02,
    "training.warmup": 5,
    "training.batch_tokens": 300,
    "training.validate_every": 1_000,
    "training.threads": 1,
    "training.device": "cpu",
    "evaluation.bootstrap": 50,
}


def opened(files, **data):
    files = {"train": files} if isinstance(files, str) else files
    values = {"task": "translation", "data": {"shuffle_source": "words", "valid": 3, **files, **data}}
    return open_pairs(check_config(values, "test").data)


# --- shuffling


def test_marks_that_open_and_end_a_sentence_stay_and_words_keep_theirs():
    assert words_of("What time is it now?") == ("", ["What", "time", "is", "it", "now"], "?")
    assert words_of("¿Qué hora es?") == ("¿", ["Qué", "hora", "es"], "?")
    assert words_of('  It was\tbrisk, fun ?!") ') == ("", ["It", "was", "brisk,", "fun"], '?!")')
    assert words_of('He said "Yes."') == ("", ["He", "said", '"Yes'], '."')
    assert words_of("...") == ("", [], "...") and words_of("") == ("", [], "")
    shuffled = {shuffle_words("¿Qué hora es?", seed) for seed in range(200)}
    assert shuffled == {"¿" + " ".join(o) + "?" for o in permutations(["Qué", "hora", "es"])} - {"¿Qué hora es?"}


@pytest.mark.parametrize("sentence", [*SENTENCES[::7], "a a a b", "no no yes no yes yes", "b a"])
def test_the_same_words_stand_in_an_order_of_their_own(sentence):
    drawn = [shuffle_words(sentence, seed) for seed in range(20)]
    assert drawn == [shuffle_words(sentence, seed) for seed in range(20)]
    for one in drawn:
        assert sorted(words_of(one)[1]) == sorted(words_of(sentence)[1]) and words_of(one)[2] == words_of(sentence)[2]
        assert one != sentence


@pytest.mark.parametrize("sentence", ["Hello!", "no no no", "", "Hm ?"])
def test_without_another_order_the_sentence_stays(sentence):
    assert words_of(shuffle_words(sentence, 1)) == words_of(sentence)


def test_all_other_orders_are_equally_likely():
    drawn = Counter(shuffle_words("one two two three", seed) for seed in range(6_600))
    assert len(drawn) == 11 and "one two two three" not in drawn
    expected = 600  # chi-squared, 10 degrees of freedom: above 29.6 once in a thousand
    assert sum((count - expected) ** 2 / expected for count in drawn.values()) < 29.6


def test_the_order_depends_on_the_seed_and_the_sentence_and_not_on_its_place(tmp_path):
    first = opened(write_lines(tmp_path / "a.txt", *SENTENCES), valid=10)
    turned = opened(write_lines(tmp_path / "b.txt", *SENTENCES[::-1]), valid=10)
    other = opened(write_lines(tmp_path / "c.txt", *SENTENCES), valid=10, shuffle_seed=2)
    for split in ("train", "valid"):
        assert set(first.examples[split]) == set(turned.examples[split])
        # Held out by the sentence: another seed shuffles the same sentences otherwise.
        assert [p.target for p in first.examples[split]] == [p.target for p in other.examples[split]]
        assert [p.source for p in first.examples[split]] != [p.source for p in other.examples[split]]
    assert "sentences held out for validation by a hash of the target" in first.notes


def test_equal_sentences_are_held_out_together_and_kept_out_of_training(tmp_path):
    train = write_lines(tmp_path / "train.txt", *SENTENCES, *SENTENCES)
    test = write_lines(tmp_path / "test.txt", *SENTENCES[:5], "An apple fell.")
    splits = opened({"train": train, "test": test}, valid=10, overlap="drop", duplicates="drop")
    targets = {split: [pair.target for pair in pairs] for split, pairs in splits.examples.items()}
    assert not set(targets["train"]) & {*targets["valid"], *targets["test"]}
    assert len(set(targets["train"])) == len(targets["train"]) and "swapped" not in splits.notes


def test_stored_sentences_are_those_in_memory(tmp_path):
    path = write_lines(tmp_path / "a.txt", *SENTENCES)
    held, stored = opened(path), opened(path, in_memory=0)
    for split in ("train", "valid"):
        assert list(stored.examples[split]) == held.examples[split] and isinstance(held.examples[split], list)
    assert stored.examples["train"][0] == ShuffledPair(shuffle_words(SENTENCES[0], 1), SENTENCES[0])
    again = opened(path, in_memory=0, shuffle_seed=2)
    assert again.examples["train"][0].source == shuffle_words(SENTENCES[0], 2)


def test_sentences_are_read_from_columns_objects_and_compressed_files(tmp_path):
    two = ["It rains.", 'He said, "no".']
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress("\n".join(two).encode()))
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"text": one, "n": 1}) + "\n" for one in two))
    (tmp_path / "b.jsonl").write_text("".join(json.dumps({"english": one}) + "\n" for one in two))
    (tmp_path / "a.csv").write_text('It rains.,1\n"He said, ""no"".",2\n')
    (tmp_path / "a.tsv").write_text("".join(f"{one}\tx\n" for one in two))
    (tmp_path / "b.txt").write_text("".join(f"x\t{one}\n" for one in two))
    (tmp_path / "named.tsv").write_text("id\tsentence\n" + "".join(f"x\t{one}\n" for one in two))
    given = {"a.txt.gz": None, "a.jsonl": None, "b.jsonl": "english", "a.csv": None, "a.tsv": None, "b.txt": 1}
    for name, column in {**given, "named.tsv": "sentence"}.items():
        read = list(shuffled_reader(Columns(target=column), 1).read([tmp_path / name], Findings()))
        assert [pair.target for pair in read] == two, name
        assert read[-1].origin == f"{name}:{3 if name == 'named.tsv' else 2}"


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        (
            "One.\nTwo\tDos\n",
            "a.txt",
            r"a.txt' line 2 has 2 columns \('Two \| Dos'\), expected one sentence; data.colu",
        ),
        ('{"text": "One."}\n{"txt": "Two."}\n', "a.jsonl", r"a.jsonl' line 2 has no field 'text'; did you mean 'txt'"),
        ('{"text": "One."}\n["Two."]\n', "a.jsonl", r"line 2 is a list, expected an object with the field 'text'"),
        ("One.\nTwo.\n", "a.jsonl", r'line 1 is not JSON: .* expected one object a line, such as \{"text": "..."\}'),
    ],
)
def test_lines_that_are_no_sentence_are_named(tmp_path, text, name, message):
    (tmp_path / name).write_text(text)
    with pytest.raises(DataError, match=message):
        opened(str(tmp_path / name))


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (
            {"train": ["a.txt", "b.txt"]},
            r"shuffle_source words makes the source from the target: data.train must be one",
        ),
        ({"test": ["a.txt", "b.txt"]}, r"data.test must be one file of sentences, but is a.txt, b.txt"),
        ({"extra": [{"files": ["a.txt", "b.txt"]}]}, r"data.extra\[0\].files must be one file"),
        ({"columns": {"source": 0}}, r"but data.columns.source is 0; set only one of the two"),
        ({"extra": [{"files": ["b.txt"], "columns": {"source": "a"}}]}, r"but data.extra\[0\].columns.source is 'a'"),
        ({"shuffle_source": "letters"}, r"data.shuffle_source is 'letters', but must be 'words'"),
        ({"shuffle_source": None, "shuffle_seed": 5}, r"data.shuffle_seed is 5, but nothing is shuffled; add"),
    ],
)
def test_options_that_do_not_go_together_are_refused(data, message):
    values = {"train": ["a.txt"], "shuffle_source": "words", **data}
    with pytest.raises(ConfigError, match=message):
        check_config({"task": "translation", "data": values}, "test")


# --- the trigram model


def test_trigrams_are_add_k_and_sum_to_one():
    model = Trigrams([["a", "b", "a"], ["a", "b"]], k=0.5)
    assert model.vocab_size == 4  # a, b, an unknown word, the end
    # "a b" was followed by "a" once and by the end once.
    assert math.isclose(math.exp(model.log_prob("a", "b", "a")), (1 + 0.5) / (2 + 0.5 * 4))
    for before in (("", ""), ("", "a"), ("a", "b"), ("zebra", "b")):
        assert math.isclose(sum(math.exp(model.log_prob(*before, w)) for w in ("a", "b", "zebra", "\n")), 1)
    by_hand = sum(math.log(p) for p in ((2.5 / 4), (2.5 / 4), (1.5 / 4)))
    assert math.isclose(model.score(["a", "b"]), by_hand)


def test_k_is_the_one_under_which_held_out_sentences_are_most_probable():
    train, valid = [s.split() for s in SENTENCES[::2]], [s.split() for s in SENTENCES[1::2]]
    model, constants = Trigrams(train), (1.0, 0.1, 0.01, 0.001)
    model.tune(valid, constants)
    scores = {k: sum(map(Trigrams(train, k).score, valid)) for k in constants}
    assert model.k == max(scores, key=scores.get) and len(set(scores.values())) == len(constants)


@pytest.mark.parametrize(
    "sentence", [*SENTENCES[::11], "red red apples buys", "market the the at man bread", "a b c d"]
)
def test_a_beam_without_limit_finds_the_best_of_all_orders(sentence):
    model = Trigrams((s.split() for s in SENTENCES), k=0.03)
    _, words, closing = words_of(sentence)
    for last in ([], [closing]):
        found = model.best_order(words[:6], (), last, beam_size=10**6)
        every = set(permutations(words[:6]))
        best = max(model.score([*order, *last]) for order in every)
        assert sorted(found) == sorted(words[:6]) and math.isclose(model.score([*found, *last]), best)
        # The words before count as well.
        first = model.best_order(words[:5], ("The", "old"), last, beam_size=10**6)
        best = max(model.score(["The", "old", *order, *last]) for order in set(permutations(words[:5])))
        assert math.isclose(model.score(["The", "old", *first, *last]), best)


def test_a_narrow_beam_follows_the_likeliest_beginning_and_a_wide_one_does_not():
    model = Trigrams([["a"]] * 5 + [["b", "a", "c"]] * 3, k=0.01)
    assert model.best_order(["c", "b", "a"], beam_size=1)[0] == "a"
    assert model.best_order(["c", "b", "a"], beam_size=3) == ["b", "a", "c"]
    assert model.best_order([]) == [] and model.best_order(["c", "c"]) == ["c", "c"]


# --- writing the same words


@pytest.fixture(scope="module", params=["word", "bpe"])
def shared(request, tmp_path_factory):
    """A task whose sides have one vocabulary, and a model with first weights."""
    path = write_lines(tmp_path_factory.mktemp("shared") / "train.txt", *SENTENCES)
    fields = {name: value for name, value in SETTINGS.items() if name.startswith("model.")}
    values = {
        "task": "translation",
        "data": {"train": path, "shuffle_source": "words", "valid": 8},
        "tokenizer": {"kind": request.param, "vocab_size": 60, "min_count": 1, "shared": True, "lowercase": False},
        "model": {name.removeprefix("model."): value for name, value in fields.items()},
        "training": {"guided_attention": 0.0},
        "generation": {"same_words": True},
    }
    task = task_class("translation").prepare(check_config(values, "test"))
    torch.manual_seed(1)
    return task, task.build_model().eval()


@pytest.mark.parametrize("options", [{"beam_size": 1}, {"beam_size": 4}, {"sampling": SamplingOptions(seed=3)}])
def test_outputs_have_the_words_of_the_source(shared, options):
    task, model = shared
    sources = [*(shuffle_words(s, 1) for s in SENTENCES[::5]), "bread bread Anna bread eats eats.", "Anna!"]
    for source, written in zip(sources, task.translate(model, sources, **options), strict=True):
        _, words, closing = words_of(source)
        out = written[0].text.replace(closing, "").split() if closing else written[0].text.split()
        assert sorted(out) == sorted(words) and written[0].finished, (source, written[0].text)


def test_a_beam_without_limit_finds_the_most_probable_output(shared):
    task, model = shared
    source = "bread eats Anna warm bread"
    (found,) = task.translate(model, [source], beam_size=400, length_penalty=0.0)
    texts = sorted({" ".join(order) for order in permutations(source.split())})
    nll = task.forced_scores(model, task.encode_pairs([Pair(source, text) for text in texts]))[0]
    assert len(texts) == 60 and found[0].text == texts[nll.index(min(nll))]
    # The probabilities are the model's own, as they are for any output.
    assert math.isclose(found[0].log_prob, -min(nll), rel_tol=1e-4)


def test_a_word_that_begins_another_can_be_written_before_and_after_it():
    foot, ball, print_ = 10, 11, 12
    place = (((foot,), (foot, ball), (foot, print_)), ())
    for written in permutations([(foot,), (foot, ball), (foot, print_)]):
        now = place
        for token in (token for word in written for token in word):
            assert token in may_follow(now, END)
            now = advance(now, token)
        assert may_follow(now, END) == {END}
    assert may_follow(advance(place, foot), END) == {foot, ball, print_}
    assert advance(place, START) == place and may_follow(((), ()), END) == {END}


def test_same_words_needs_one_vocabulary():
    values = {"task": "translation", "data": {"train": ["a.txt"]}, "generation": {"same_words": True}}
    with pytest.raises(ConfigError, match=r"same_words is true, but source and target have separate tokenizers"):
        check_config(values, "test")


# --- a run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("order")
    train = write_lines(folder / "train.txt", *SENTENCES[:-12])
    test = write_lines(folder / "test.txt", *SENTENCES[-12:])
    return heed.train(
        "translation", train=train, test=test, steps=60, out=folder / "run", settings=SETTINGS, quiet=True
    )


def test_a_run_scores_beside_its_baselines(run):
    scores = run.report["scores"]["test"]
    shuffled, trigrams = scores["baselines"].values()
    assert [name.partition(",")[0] for name in scores["baselines"]] == ["the shuffled input", "add-k trigrams"]
    assert shuffled["exact_match"]["value"] == 0 and shuffled["bleu"]["value"] < trigrams["bleu"]["value"]
    for values in (shuffled, trigrams):
        for name in ("exact_match", "bleu"):
            assert values[name]["low"] <= values[name]["value"] <= values[name]["high"]
    card = (run.folder / "README.md").read_text()
    assert "baseline (the shuffled input): BLEU" in card and "beam 50): BLEU" in card
    assert run.config.evaluation.select_by == "exact_match"


def test_a_file_of_sentences_or_of_ones_own_pairs_is_scored(run, tmp_path, capsys):
    sentences = write_lines(tmp_path / "s.txt", *SENTENCES[-12:])
    scores = run.score(run.read([sentences]))
    assert scores == run.report["scores"]["test"]
    own = write_lines(tmp_path / "own.txt", "bread Anna buys often.")
    right = write_lines(tmp_path / "right.txt", "Anna often buys bread.")
    (pair,) = run.read([own, right])
    assert (pair.source, pair.target) == ("bread Anna buys often.", "Anna often buys bread.")
    main_ok(capsys, "evaluate", run.folder, sentences)
    out = main_ok(capsys, "predict", run.folder, "bread Anna buys often.")
    assert out.strip() and len(out.splitlines()) == 1


def test_baselines_without_the_training_data_are_the_shuffled_input(run, tmp_path, monkeypatch):
    opened = heed.load(run.folder)
    moved = opened.task.config.data.model_copy(update={"train": [str(tmp_path / "gone.txt")]})
    monkeypatch.setattr(opened.task, "config", opened.task.config.model_copy(update={"data": moved}))
    made = opened.baselines(run.examples("test"))
    assert list(made) == ["the shuffled input"] and made["the shuffled input"].measure("exact_match").score() == 0


def main_ok(capsys, *words):
    with pytest.raises(SystemExit) as stopped:
        main(list(map(str, words)))
    out, err = capsys.readouterr()
    assert not stopped.value.code, err
    return out
