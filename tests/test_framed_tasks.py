"""Classification and tagging with a body that reads framed texts (bert): what it is given, and what is taken of it."""

import pytest
import torch

import contract
from heed.data.tokens import END, START
from heed.errors import ConfigError
from heed.runs.train import train_config
from heed.training.progress import Quiet

SMALL = {"name": "bert", "d_model": 8, "num_heads": 2, "d_ff": 8, "num_layers": 2, "max_length": 12, "dropout": 0.0}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder, words = tmp_path_factory.mktemp("framed"), "one two three four five six".split()
    texts = [[words[n % 6], words[n % 5], words[n % 4]] for n in range(40)]
    (folder / "texts.txt").write_text("".join(f"{'ab'[n % 2]} {' '.join(text)}\n" for n, text in enumerate(texts)))
    lines = ["".join(f"{word} {'B-x' if word == 'one' else 'O'}\n" for word in text) for text in texts]
    (folder / "tags.conll").write_text("\n".join(lines))
    return folder


def config_of(folder, task, file, tokenizer=None, **model):
    data, tokenizer = {"train": str(folder / file), "valid": 8}, tokenizer or {"kind": "word", "min_count": 1}
    return contract.config_of(task, data, tokenizer=tokenizer, model={**SMALL, **model}, training={"steps": 2})


def made(folder, task, file, tokenizer=None, **model):
    return contract.task_and_model(config_of(folder, task, file, tokenizer, **model), seed=1)


@pytest.mark.parametrize("pooling", ["auto", "last", "first", "attention"])
def test_a_classifier_gives_framed_texts_to_its_body(folder, pooling):
    task, model = made(folder, "classification", "texts.txt", pooling=pooling)
    given = []
    model.body.register_forward_hook(lambda module, inputs, hidden: given.append((*inputs, hidden)))
    logits = model(**task.batch_of(["one two", "", "six five four"]).inputs)
    tokens, mask, hidden = given[0]
    assert tokens[1].tolist() == [START, END, 0, 0, 0] and tokens[0].tolist()[::3] == [START, END]
    assert mask.sum(1).tolist() == [4, 2, 5]
    if pooling == "auto":
        assert task.config.model.model_extra["pooling"] == "mean"
    if pooling == "last":
        torch.testing.assert_close(logits, model.output(torch.tanh(model.body.pooler(hidden[:, 0]))))
    if pooling == "first":
        torch.testing.assert_close(logits, model.output(hidden[:, 0]))


def test_a_start_token_is_not_put_before_it_twice(folder):
    with pytest.raises(ConfigError, match=r"model.pooling is cls, but model bert already reads a start token"):
        made(folder, "classification", "texts.txt", pooling="cls")


def test_a_text_longer_than_the_positions_is_cut_and_counted(folder):
    task, model = made(folder, "classification", "texts.txt", max_length=4)
    encoded = task.input.encode_texts(["one two three four"])
    assert len(task.input.tokens_of(encoded[0])) == 2
    assert "32 texts are longer than the model's 2 tokens; the rest is not read" in task.notes
    assert task.answers(model, encoded)[0].shape == (2,)


def test_a_look_at_a_classifier_shows_the_frame(folder):
    config = config_of(folder, "classification", "texts.txt", pooling="last")
    run = train_config(config, folder / "classifier", Quiet())[0]
    look = run.look("one zebra").look
    start, end = run.tokenizer.token(START), run.tokenizer.token(END)
    (seen,) = look.maps
    assert seen.key.labels == seen.query.labels == (start, "one", "?zebra", end)
    torch.testing.assert_close(seen.weights.sum(-1), torch.ones(4))
    assert look.shadings[0].title.startswith(f"Attention of {start} in encoder layer 1")


def test_a_tagger_takes_the_states_of_the_words_and_not_of_the_frame(folder):
    task, model = made(folder, "tagging", "tags.conll")
    given = []
    model.body.register_forward_hook(lambda module, inputs, hidden: given.append((*inputs, hidden)))
    states = model(**task.batch_of([["one", "two"], ["six", "five", "four"]]).inputs)
    tokens, mask, _, hidden = given[0]
    assert tokens[0].tolist()[::3] == [START, END] and mask.sum(1).tolist() == [4, 5]
    torch.testing.assert_close(states[0, :2], hidden[0, 1:3])
    torch.testing.assert_close(states[1], hidden[1, 1:4])


def test_the_state_of_a_word_is_the_mean_or_that_of_its_first_token(folder):
    tokenizer = {"kind": "char"}
    words = [["one", "six"], ["four"]]
    states, hidden = {}, None
    for word in ("mean", "first"):
        task, model = made(folder, "tagging", "tags.conll", tokenizer, word=word)
        given = []
        model.body.register_forward_hook(lambda module, inputs, hidden, given=given: given.append(hidden))
        states[word] = model(**task.batch_of(words).inputs)
        hidden = given[0][:, 1:]
    (first, second), (other,) = (list(map(len, one)) for one in task.input.tokenizer.encode_words(words))
    torch.testing.assert_close(states["first"][0], hidden[0, [0, first]])
    torch.testing.assert_close(states["first"][1, 0], hidden[1, 0])
    torch.testing.assert_close(states["mean"][0, 1], hidden[0, first : first + second].mean(0))
    torch.testing.assert_close(states["mean"][1, 0], hidden[1, :other].mean(0))


def test_a_sentence_longer_than_the_positions_is_tagged_in_pieces(folder):
    task, model = made(folder, "tagging", "tags.conll")
    words = "one two three four five six one two three four five six".split()
    states = model(**task.batch_of([words, ["one"]]).inputs)
    for part in (slice(0, 10), slice(10, 12)):
        alone = model(**task.batch_of([words[part]]).inputs)
        torch.testing.assert_close(states[0, part], alone[0])
    assert len(task.answers(model, task.input.encode([task.input.example_of(words)]))[0].tags) == 12


def test_a_look_at_a_tagger_shows_the_frame(folder):
    config = config_of(folder, "tagging", "tags.conll", characters="cnn")
    run = train_config(config, folder / "tagger", Quiet())[0]
    look = run.look("one two").look
    start, end = run.tokenizer.token(START), run.tokenizer.token(END)
    assert look.maps[0].key.labels == (start, "one", "two", end) and look.shadings[0].axis.labels == ("one", "two")
    with pytest.raises(ConfigError, match=r"the text has 11 tokens, but model bert reads 10 at a time"):
        run.look(" ".join(["one"] * 11))


def test_a_delay_does_not_apply_to_a_body_that_sees_the_whole_text(folder):
    with pytest.raises(ConfigError, match=r"model.delay is 1, but model bert sees the whole text; remove model.delay"):
        made(folder, "tagging", "tags.conll", delay=1)
