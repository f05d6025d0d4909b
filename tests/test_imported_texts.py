"""Imported models read a text exactly as the tokenizer of transformers does, blanks and line breaks included."""

import pytest
import torch

import heed
import marian
from heed.data.tokens import MASK
from heed.tasks.translation import _BLANK

transformers = pytest.importorskip("transformers")
from test_checkpoints_bert import bert, roberta  # noqa: E402
from test_checkpoints_gpt2 import gpt2  # noqa: E402

TEXTS = [" nort", "the man \n", "in\nthe\r\nman", "a<br />man", "\tthe  man", "man\u2028the", "the man"]
CLOSE = dict(rtol=1e-5, atol=1e-5)


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A checkpoint and its run, by family and head; made once."""
    folder, found = tmp_path_factory.mktemp("imported"), {}

    def made_of(family, kind):
        if (family, kind) not in found:
            theirs, labels = folder / f"{family.__name__}-{kind}", dict(enumerate(("bad", "fair", "good")))
            more = {"id2label": labels} if "Sequence" in kind else {}
            family(theirs, 1, kind, **more)
            found[family, kind] = theirs, heed.import_model(theirs, f"{theirs}-run", quiet=True)
        return found[family, kind]

    return made_of


def read(folder, text, *second):
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    return tokenizer(text, *second, return_tensors="pt")


def blank_roberta(folder, *given, **more):
    """A checkpoint whose mask takes the space before it, as the published ones do."""
    roberta(folder, *given, **more)
    mask = transformers.AddedToken("<mask>", lstrip=True)
    transformers.AutoTokenizer.from_pretrained(folder, mask_token=mask).save_pretrained(folder)


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("family", [gpt2, roberta, bert])
def test_a_text_has_the_probabilities_that_transformers_gives(made, family, text):
    folder, run = made(family, "ForSequenceClassification")
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    with torch.no_grad():
        expected = model(**read(folder, text)).logits.softmax(-1)[0]
    (found,) = run.predict([text])
    torch.testing.assert_close(torch.tensor([found.probabilities[name] for name in run.head.labels]), expected, **CLOSE)
    look = run.look(text, contributions=False).look
    assert look.source == text and look.target == found.label


@pytest.mark.parametrize("family", [roberta, bert])
def test_a_pair_has_the_probabilities_that_transformers_gives(made, family, tmp_path):
    folder, _ = made(family, "ForSequenceClassification")
    run = heed.import_model(folder, tmp_path / "pairs", settings={"data.columns.second": "second"}, quiet=True)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(folder).eval()
    pairs = [(" the man", "in\nthe "), ("the", " man")]
    for pair, found in zip(pairs, run.predict(pairs), strict=True):
        with torch.no_grad():
            expected = model(**read(folder, *pair)).logits.softmax(-1)[0]
        own = torch.tensor([found.probabilities[name] for name in run.head.labels])
        torch.testing.assert_close(own, expected, **CLOSE)


@pytest.mark.parametrize(
    "text", [" the man [MASK] in", "the[MASK] man", "the\n[MASK]\nman", "[MASK] man", "in the [MASK] \n", "to  [MASK]."]
)
@pytest.mark.parametrize("family", [roberta, blank_roberta, bert])
def test_a_mask_is_filled_as_by_transformers(made, family, text):
    folder, run = made(family, "ForMaskedLM")
    model = transformers.AutoModelForMaskedLM.from_pretrained(folder).eval()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    batch = read(folder, text.replace(MASK, tokenizer.mask_token))
    special = [*tokenizer.all_special_ids]
    with torch.no_grad():
        scores = model(**batch).logits[batch["input_ids"] == tokenizer.mask_token_id][0].softmax(-1)
    scores[special] = 0
    (found,) = run.predict([text], most=5)
    best = scores.topk(5)
    assert [one.probability for one in found.masks[0]] == pytest.approx(best.values.tolist(), abs=1e-5)


@pytest.mark.filterwarnings("ignore:Recommended")
def test_sources_of_translations_are_read_as_by_transformers(tmp_path, monkeypatch):
    pytest.importorskip("sentencepiece")
    marian.write_model(tmp_path, marian.write_tokenizers(tmp_path, marian.train_pieces(tmp_path)))
    run = heed.import_model(tmp_path, tmp_path / "run", quiet=True)
    tokenizer = transformers.MarianTokenizer.from_pretrained(tmp_path)
    texts, read = [" the", "\x85the\u2028", "the\n.\x85", " \n "], []
    written = lambda head, input, model, sources, *_: read.extend(sources) or [[_BLANK]] * len(sources)  # noqa: E731
    monkeypatch.setattr(type(run.head), "write", written)
    run.task.head.translate(run.task, run.model, texts)
    assert read == [tokenizer(text)["input_ids"] for text in texts[:3]]  # a blank text is not read


@pytest.mark.parametrize(
    ("family", "token", "text", "filled"),
    [
        (blank_roberta, "\u0120man", "to[MASK].", "to man."),  # the token has the space that the text lacks
        (blank_roberta, "\u0120man", "to\n[MASK].", "to\nman."),
        (blank_roberta, "\u0120man", "[MASK] to", "man to"),
        (blank_roberta, "an", "m[MASK] in", "man in"),
        (blank_roberta, "an", "m [MASK] in", "man in"),  # the mask takes the space, and the token has none
        (roberta, "an", "m [MASK] in", "m an in"),
        (bert, "##ing", "go [MASK] in", "going in"),
        (bert, "man", "the [MASK]!", "the man!"),
    ],
)
def test_the_word_at_a_mask_has_the_space_of_its_token(tmp_path, family, token, text, filled):
    family(tmp_path / "theirs", 1, "ForMaskedLM")
    tokenizer = transformers.AutoTokenizer.from_pretrained(tmp_path / "theirs")
    model = transformers.AutoModelForMaskedLM.from_pretrained(tmp_path / "theirs")
    with torch.no_grad():
        model.get_output_embeddings().bias[tokenizer.convert_tokens_to_ids(token)] = 50.0
    model.save_pretrained(tmp_path / "theirs")
    run = heed.import_model(tmp_path / "theirs", tmp_path / "run", quiet=True)
    assert run.predict(text).text == filled
