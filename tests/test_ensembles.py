"""Runs that write together: the mean of their probabilities, over any pair decoders, in every search."""

import json

import pytest
import torch

import heed
from commands import call
from heed.attention import Rows
from heed.errors import ConfigError
from heed.generation import Ensemble, SamplingOptions, SearchOptions, generate
from heed.models.base import PairDecoder
from heed.registry import list_models

END, VOCABULARY = 3, 9
DECODERS = {name: body for name, body in list_models() if body.interface == "pair_decoder"}


def build(name, seed, **fields):
    body = DECODERS[name]
    torch.manual_seed(seed)
    sizes = {"source_vocab_size": 11, "target_vocab_size": VOCABULARY}
    model = body(body.config_class(**{**body.config_class.sizes["tiny"], **sizes, **fields, "dropout": 0.0})).eval()
    assert isinstance(model, PairDecoder)
    with torch.no_grad():  # far from uniform, and different from one another
        for parameter in model.output.parameters():
            parameter.mul_(3).add_(torch.randn_like(parameter), alpha=0.5)
    return model


@pytest.fixture(scope="module")
def members():
    """Every pair decoder there is, and one of them twice, at another width."""
    return [build(name, seed) for seed, name in enumerate(DECODERS)] + [build("bahdanau", 99, d_hidden=24)]


@pytest.fixture(scope="module")
def together(members):
    return Ensemble(members)


@pytest.fixture(scope="module")
def batch():
    body = DECODERS["bahdanau"]
    return body.example(body.config_class(source_vocab_size=11, target_vocab_size=VOCABULARY), 1)


def log_probs(model, batch):
    with torch.no_grad():
        return torch.log_softmax(model.logits(model(**batch)), dim=-1)


def test_probabilities_are_the_members_mean(together, members, batch):
    mean = torch.stack([log_probs(member, batch).exp() for member in members]).mean(0)
    torch.testing.assert_close(log_probs(together, batch).exp(), mean, atol=1e-6, rtol=0)
    with torch.no_grad():  # its logits are log-probabilities already
        logits = together.logits(together(**batch))
    torch.testing.assert_close(logits, torch.log_softmax(logits, -1), atol=1e-5, rtol=0)


def test_a_model_with_itself_is_the_model(members, batch):
    twice = Ensemble([members[0], members[0]])
    torch.testing.assert_close(log_probs(twice, batch), log_probs(members[0], batch), atol=1e-5, rtol=0)
    assert len({id(p) for p in twice.parameters()}) == len(list(members[0].parameters()))


def test_steps_equal_the_full_pass_and_rows_can_be_chosen(together, batch):
    full = log_probs(together, batch)
    rows = torch.tensor([2, 0, 0])
    with torch.no_grad():
        memory = together.encode(batch["source"], batch["source_mask"])
        state = together.start(memory, Rows.repeat(3))
        _, state = together.step(batch["target"][:, :2], state)
        state = state.select(rows)
        hidden, _ = together.step(batch["target"][rows, 2:], state)
        torch.testing.assert_close(together.logits(hidden), full[rows, 2:], atol=1e-5, rtol=0)
        alone = together.start(memory.select(torch.tensor([1])), Rows.repeat(1))
        hidden, _ = together.step(batch["target"][1:2], alone)
        torch.testing.assert_close(together.logits(hidden), full[1:2], atol=1e-5, rtol=0)


@pytest.mark.parametrize("beam", [1, 4])
def test_searches_rank_by_the_mean_probability(together, batch, beam):
    """What a search reports for its output is what the ensemble gives that output by teacher forcing."""
    options = SearchOptions(end_token=END, max_length=7, beam_size=beam, num_best=beam, forbidden=(0, 2))
    with torch.no_grad():
        memory = together.encode(batch["source"], batch["source_mask"])
    prompt = torch.full((3, 1), 2)
    found = generate(together, memory, prompt, options).hypotheses
    for source, hypotheses in enumerate(found):
        for hypothesis in hypotheses:
            target = torch.tensor([[2, *hypothesis.tokens, *([END] if hypothesis.finished else [])]])
            one = {
                "source": batch["source"][source : source + 1],
                "source_mask": batch["source_mask"][source : source + 1],
            }
            forced = log_probs(together, {**one, "target": target[:, :-1]})[0]
            expected = forced.gather(1, target[0, 1:, None]).squeeze(1)
            torch.testing.assert_close(torch.tensor(hypothesis.log_probs), expected, atol=1e-5, rtol=0)
    drawn = generate(together, memory, prompt, options, sampling=SamplingOptions(seed=5))
    assert drawn == generate(together, memory, prompt, options, sampling=SamplingOptions(seed=5))


# --- runs


SMALL = {
    "data.train": 120,
    "data.valid": 20,
    "data.test": 15,
    "data.length": [2, 5],
    "model.d_embedding": 12,
    "model.d_attention": 12,
    "training.batch_tokens": 200,
    "training.threads": 1,
    "training.device": "cpu",
    "training.learning_rate": 0.01,
    "evaluation.bootstrap": 20,
}


def trained(folder, seed, **further):
    settings = {**SMALL, "model.d_hidden": 12, **further}
    return heed.train("translation", data="copy", steps=25, seed=seed, out=folder, settings=settings, quiet=True)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    return [trained(folder / "a", 1), trained(folder / "b", 2, **{"model.d_hidden": 20, "model.cell": "lstm"})]


def test_an_ensemble_of_runs_predicts_and_scores(runs):
    both = heed.ensemble([runs[0], runs[1].folder])
    text = "3 1 4"
    one = both.predict(text, beam_size=3)
    ids = [*one.ids, *([END] if one.finished else [])]
    assert len(one.token_probs) == len(ids)
    report = both.evaluate("test")
    assert report["examples"] == 15 and "alignment_error" not in report
    pairs = both.task.splits.examples["test"]
    nll = [run.task.judged(run.model, run.input.encode(pairs))[:, 0] for run in runs]
    mixed = both.task.judged(both.model, both.input.encode(pairs))[:, 0]
    # Jensen: the mean of probabilities is at least the geometric mean, so its loss is at most the mean loss.
    assert all(m <= (a + b) / 2 + 1e-4 for m, a, b in zip(mixed, *nll, strict=True))
    assert both.align(text, one) == runs[0].align(text, one)
    assert repr(both).startswith("<heed ensemble of ")


def test_the_commands_take_further_runs(runs, capsys):
    a, b = (str(run.folder) for run in runs)

    both = heed.ensemble([a, b])
    lines = ["3 1 4", "", "2 2"]
    code, out, _ = call(capsys, "predict", a, "--with", b, stdin="\n".join(lines) + "\n")
    assert code == 0 and out == "".join(p.text + "\n" for p in both.predict(lines))
    code, out, _ = call(capsys, "evaluate", a, "--with", b, "--json")
    report = json.loads(out)["test"]
    assert report == json.loads(json.dumps(both.evaluate("test")))
    assert report["perplexity"] != heed.load(a).evaluate("test")["perplexity"]
    code, out, err = call(capsys, "predict", a, "--with", "nowhere", "x")
    assert (code, out, err) == (2, "", "heed: no run folder 'nowhere'\n")


def test_other_vocabularies_are_refused_by_their_first_difference(runs, tmp_path):
    other = trained(tmp_path / "c", 3, **{"tokenizer.kind": "word", "tokenizer.min_count": 1})
    with pytest.raises(ConfigError, match=r"a' and '.*c' cannot form an ensemble: their source tokenizers differ"):
        heed.ensemble([runs[0], other])
    with pytest.raises(ConfigError, match="an ensemble needs at least one run"):
        heed.ensemble([])


def test_runs_may_differ_in_tags_of_the_source_but_not_of_the_target(runs):
    tagged = heed.load(runs[1].folder)
    tagged.task.input.source_tokenizer.add_tags(["<bt>"])
    heed.ensemble([runs[0], tagged])
    tagged.task.input.target_tokenizer.add_tags(["<bt>"])
    with pytest.raises(ConfigError, match=r"target tokenizers differ: the tags \(none\) and <bt>"):
        heed.ensemble([runs[0], tagged])
