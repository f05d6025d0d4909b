"""Continuing prompts: every way against plain recomputation, stop texts, streaming, windows beyond the context."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from heed.data.tokens import END, PADDING, START, UNKNOWN
from heed.data.tokens.tokenizer import TextTokenizer
from heed.errors import ConfigError
from heed.generation import SamplingOptions
from heed.models.attention_lm import AttentionLM, AttentionLMConfig
from heed.tasks.heads.continuing import Pieces, WritingOptions, continue_all, stream

TEXTS = ["I love eating pizza with my friend.", "We drink water; they sleep in the garden!"]
PROMPTS = ["I love", "", "We drink water and", "th", "the pizza"]


def hand_made(context=200, end_token=True, carries=False):
    """A task with a character tokenizer, and a model of random weights large enough to disagree with itself."""
    tokenizer = TextTokenizer.train_characters(TEXTS)
    first = END if end_token else START
    task = SimpleNamespace(tokenizer=tokenizer, context=context, first_token=first, end_token=end_token)
    task.prompt_tokens = lambda ids: [first, *ids]
    torch.manual_seed(3)
    model = AttentionLM(AttentionLMConfig(vocab_size=tokenizer.vocab_size, d_model=32, num_heads=2, num_layers=2))
    with torch.no_grad():
        model.output.weight.mul_(4.0)
    model.carries = carries
    return task, model.eval()


def next_log_probs(model, ids):
    """Of the token after these, by one pass over all of them."""
    with torch.no_grad():
        return torch.log_softmax(model.logits(model(torch.tensor([ids])))[0, -1].double(), -1)


def forbidden(end_token=True):
    return [PADDING, UNKNOWN, START] + ([] if end_token else [END])


def windows(ids, context, prompt):
    """What is read of tokens, of which the first `prompt` are the prompt, by the documented rule."""
    start = max(0, prompt - context)
    for count in range(prompt, len(ids) + 1):
        if count - start > context:
            start = count - (context - context // 4)
    return ids[start:]


def argmax_text(task, model, prompt, length, end_token=True):
    """Repeated argmax of the full model over the documented window."""
    ids = [task.first_token, *task.tokenizer.encode(prompt).ids]
    first, log_probs = len(ids), []
    for _ in range(length):
        scores = next_log_probs(model, windows(ids, task.context, first))
        scores[forbidden(end_token)] = -math.inf
        token = int(scores.argmax())
        log_probs.append(float(scores[token]))
        if token == END:
            break
        ids.append(token)
    return task.tokenizer.decode(ids[first:]), log_probs


@pytest.mark.parametrize("end_token", [True, False])
def test_greedy_is_repeated_argmax_of_the_full_model_for_prompts_of_any_length_together(end_token):
    task, model = hand_made(end_token=end_token)
    found = continue_all(task, model, PROMPTS, WritingOptions(length=30))
    for prompt, (continuation,) in zip(PROMPTS, found, strict=True):
        text, log_probs = argmax_text(task, model, prompt, 30, end_token)
        assert continuation.text == text and continuation.prompt == prompt
        assert np.allclose(continuation.log_probs, log_probs, atol=1e-5)
        assert continuation.log_prob == pytest.approx(sum(log_probs), abs=1e-4)
        assert len(continuation.tokens) == len(log_probs)
        assert continuation.finished == (continuation.tokens[-1] == "</s>")


@pytest.mark.parametrize("context", [7, 12, 40])
def test_beyond_the_context_the_window_is_recomputed(context):
    task, model = hand_made(context)
    found = continue_all(task, model, PROMPTS, WritingOptions(length=50))
    assert any(len(c.ids) + len(c.prompt) > context for (c,) in found)
    for prompt, (continuation,) in zip(PROMPTS, found, strict=True):
        text, log_probs = argmax_text(task, model, prompt, 50)
        assert continuation.text == text
        assert np.allclose(continuation.log_probs, log_probs, atol=1e-5)
        assert continuation.unread == max(0, len(prompt) - context)


def test_no_output_ends_before_the_smallest_length():
    task, model = hand_made(context=8)
    with torch.no_grad():
        model.output.bias[END] = 9.0  # wants to end at once
    for count in (0, 3, 20):
        for (c,) in continue_all(task, model, PROMPTS, WritingOptions(length=40, min_length=count)):
            assert c.finished and len(c.ids) == count and c.tokens[-1] == "</s>"


def test_a_model_that_carries_its_state_reads_any_length():
    task, model = hand_made(context=7, carries=True)
    prompt = PROMPTS[2]
    ((short,),) = continue_all(task, model, [prompt], WritingOptions(length=20))
    wide, _ = hand_made(context=500)
    assert short.text == argmax_text(wide, model, prompt, 20)[0] and short.unread == 0


@pytest.mark.parametrize("context", [8, 200])
def test_a_seed_gives_the_same_text_in_whatever_batch(context):
    task, model = hand_made(context)
    options = WritingOptions(length=25, num_best=2, sampling=SamplingOptions(seed=5, temperature=1.3, top_p=0.95))
    together = continue_all(task, model, PROMPTS, options)
    for prompt, both in zip(PROMPTS, together, strict=True):
        (alone,) = continue_all(task, model, [prompt], options)
        assert [c.text for c in alone] == [c.text for c in both]
        assert len({c.text for c in both}) == 2  # drawn independently
        assert both[0].score >= both[1].score
    other = continue_all(task, model, PROMPTS, WritingOptions(length=25, sampling=SamplingOptions(seed=6)))
    assert any(a[0].text != b[0].text for a, b in zip(other, together, strict=True))


def test_a_beam_finds_at_least_as_probable_an_output_as_greedy_and_stays_in_the_context():
    task, model = hand_made()
    options = WritingOptions(length=6, beam_size=5, num_best=3, length_penalty=0.0)
    greedy = continue_all(task, model, PROMPTS, WritingOptions(length=6, length_penalty=0.0))
    for (one,), best in zip(greedy, continue_all(task, model, PROMPTS, options), strict=True):
        assert len(best) == 3 and best[0].log_prob >= one.log_prob - 1e-5
        assert [c.score for c in best] == sorted((c.score for c in best), reverse=True)
        for c in best:
            ids = [task.first_token, *task.tokenizer.encode(c.prompt).ids]
            for token, log_prob in zip((*c.ids, END), c.log_probs, strict=False):
                assert float(next_log_probs(model, ids)[token]) == pytest.approx(log_prob, abs=1e-5)
                ids.append(token)
    narrow, _ = hand_made(context=10)
    (cut,) = continue_all(narrow, model, [PROMPTS[2]], WritingOptions(length=6, beam_size=2))
    assert cut[0].unread == len(PROMPTS[2]) - (10 + 1 - 6)
    with pytest.raises(ConfigError, match="a beam cannot write beyond the model's context: length is 11, and the"):
        continue_all(narrow, model, ["I"], WritingOptions(length=11, beam_size=2))


@pytest.mark.parametrize("options", [{}, {"beam_size": 3}, {"sampling": SamplingOptions(seed=2)}])
def test_a_stop_text_cuts_the_text_exactly_before_it(options):
    task, model = hand_made()
    for prompt in PROMPTS[:3]:
        ((free,),) = continue_all(task, model, [prompt], WritingOptions(length=30, **options))
        for start in range(2, min(12, len(free.text) - 3)):
            stop = free.text[start : start + 3]  # spans three tokens of this tokenizer
            ((cut,),) = continue_all(
                task, model, [prompt], WritingOptions(length=30, stop=("no such text", stop), **options)
            )
            if "beam_size" in options:  # another output may win where this one ends early
                assert stop not in cut.text
                continue
            assert cut.text == free.text[: free.text.find(stop)]
            assert cut.stopped_by == stop and cut.finished and cut.tokens[-3:] == tuple(stop)
            assert len(cut.ids) == free.text.find(stop) + 3


@pytest.mark.parametrize("penalty", [0.0, 1.0])
def test_a_beam_as_wide_as_the_tree_finds_the_best_output_with_a_stop_text(penalty):
    task, model = hand_made()
    options = WritingOptions(length=2, beam_size=700, num_best=5, length_penalty=penalty, stop=("e",))
    ids = [task.first_token, *task.tokenizer.encode("They").ids]
    letter, vocabulary = task.tokenizer.encode("e").ids[0], range(END, task.tokenizer.vocab_size)
    first, found = next_log_probs(model, ids), []
    for token in vocabulary:
        if token in (END, letter):
            found.append((float(first[token]), 1))
            continue
        second = next_log_probs(model, [*ids, token])
        found += [(float(first[token] + second[other]), 2) for other in vocabulary]
    scores = sorted((total / count**penalty for total, count in found), reverse=True)
    (best,) = continue_all(task, model, ["They"], options)
    assert [c.score for c in best] == pytest.approx(scores[:5], abs=1e-5)
    assert all("e" not in c.text for c in best)


def test_a_stop_text_is_found_across_the_border_of_two_windows():
    task, model = hand_made(context=8)
    ((free,),) = continue_all(task, model, ["We"], WritingOptions(length=40))
    for start in range(len(free.text) - 4):
        stop = free.text[start : start + 4]
        ((cut,),) = continue_all(task, model, ["We"], WritingOptions(length=40, stop=(stop,)))
        assert cut.text == free.text[: free.text.find(stop)]


@pytest.mark.parametrize("stop", [(), ("e",), ("ee", "th "), ("xyz",)])
@pytest.mark.parametrize("sampling", [None, SamplingOptions(seed=4)])
def test_streaming_shows_exactly_the_final_text(stop, sampling):
    task, model = hand_made(context=10)
    for prompt in PROMPTS:
        options = WritingOptions(length=40, stop=stop, sampling=sampling)
        pieces, steps = [], stream(task, model, prompt, options)
        while True:
            try:
                pieces.append(next(steps))
            except StopIteration as end:
                final = end.value
                break
        assert "".join(pieces) == final.text and all(pieces)
        assert [[final]] == continue_all(task, model, [prompt], options)
        if not stop:
            assert len(pieces) == len(final.text)  # character by character


def test_streaming_needs_one_output_that_never_changes():
    task, model = hand_made()
    for options in (WritingOptions(beam_size=2), WritingOptions(num_best=2, sampling=SamplingOptions())):
        with pytest.raises(ConfigError, match="only one output, greedy or sampled, can be shown"):
            next(stream(task, model, "I", options))


def test_pieces_hold_back_incomplete_characters_and_beginnings_of_stop_texts():
    pieces = Pieces(lambda tokens: bytes(tokens).decode("utf-8", "replace"), ["###", "é!"])
    shown = [pieces.add(byte) for byte in "aé€é##b#é!c".encode()]
    assert "".join(shown) == "aé€é##b#"
    assert shown[0] == "a" and shown[1:3] == ["", ""]  # é may begin "é!"
    assert shown[3:6] == ["", "", "é€"] and shown[-1] == ""


def test_repetition_penalty_is_that_of_keskar_et_al_for_greedy_and_sampling():
    task, model = hand_made(context=12)
    penalty, length = 1.7, 30

    def reference(prompt):
        ids = [task.first_token, *task.tokenizer.encode(prompt).ids]
        first = len(ids)
        for _ in range(length):
            with torch.no_grad():
                seen = windows(ids, task.context, first)
                logits = model.logits(model(torch.tensor([seen])))[0, -1].double().numpy()
            divisor = np.ones(len(logits))
            divisor[list(set(ids) - {PADDING, UNKNOWN, START, END})] = penalty
            logits = np.where(logits > 0, logits / divisor, logits * divisor)
            logits[forbidden()] = -np.inf
            token = int(np.argmax(logits))
            if token == END:
                break
            ids.append(token)
        return task.tokenizer.decode(ids[first:])

    changed = 0
    for narrow in (None, SamplingOptions(top_k=1)):
        options = WritingOptions(length=length, repetition_penalty=penalty, sampling=narrow)
        for prompt, (c,) in zip(PROMPTS, continue_all(task, model, PROMPTS, options), strict=True):
            assert c.text == reference(prompt)
            changed += c.text != argmax_text(task, model, prompt, length)[0]
            ids = [task.first_token, *task.tokenizer.encode(prompt).ids]  # log-probabilities stay the model's
            for token, log_prob in zip(c.ids[:4], c.log_probs, strict=False):
                if len(ids) <= task.context:
                    assert float(next_log_probs(model, ids)[token]) == pytest.approx(log_prob, abs=1e-5)
                ids.append(token)
    assert changed > 4


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"length": 0}, "length is 0, expected at least 1 token"),
        ({"stop": "ab"}, r"stop takes several texts; for one, write \['ab'\]"),
        ({"stop": ("a", "")}, "a stop text is empty"),
        ({"num_best": 3}, "num_best 3 needs a beam_size of at least 3, or sampling; the beam_size is 1"),
        ({"beam_size": 2, "sampling": SamplingOptions()}, "beam_size 2 cannot be combined with sampling"),
        ({"repetition_penalty": 0.0}, "repetition_penalty is 0.0, expected a finite number above 0"),
        ({"repetition_penalty": 1.2, "beam_size": 2}, "repetition_penalty 1.2 works only with greedy search and"),
        ({"length_penalty": -1.0}, "length_penalty is -1.0, expected at least 0"),
    ],
)
def test_options_that_cannot_be_are_refused(options, message):
    with pytest.raises(ConfigError, match=message):
        WritingOptions(**options)
