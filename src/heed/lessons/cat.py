"""A lesson with training: the same words in two orders, read by models that know order and by models that do not.

Small classifiers name who sat. None has seen a sentence with cat and wall.
"""

from __future__ import annotations

from heed.lessons.parts import WORD_MODEL, Script, Stage, double, score_on_test, sentences_of, train_small

TITLE = "The cat sat on the wall. The wall sat on the cat."
_PAIR = ("The cat sat on the wall.", "The wall sat on the cat.")
_STEPS = 120
_SETTINGS = f"{WORD_MODEL} training.batch_tokens=600 training.warmup=20 training.learning_rate=0.005"
_NETWORKS = {
    "bag of words": "model.name=bag",
    "self-attention, no positions": "model.name=encoder model.positions=none",
    "words side by side (mlp)": "model.name=mlp",
    "windows of words (cnn)": "model.name=cnn",
    "recurrent network": "model.name=rnn model.pooling=last model.bidirectional=false",
    "self-attention, positions": "model.name=encoder",
}
_UNORDERED = 2  # the first networks, which do not know the order of words
_SAME = 1e-5  # probabilities that differ by less are equal except for rounding
_stage = Script("cat", networks=_NETWORKS)


def stages() -> tuple[Stage, ...]:
    """Train the models and give both sentences to each; takes some seconds."""
    drawn = sentences_of("cat")[""]
    data = {split: [(sentence, sitter) for sentence, sitter in rows] for split, rows in drawn.items()}
    counts = {"nouns": len({sitter for _, sitter in data["train"]}), "train": len(data["train"])}
    numbers = []
    for settings in _NETWORKS.values():
        run = train_small("classification", _STEPS, f"{_SETTINGS} {settings}", **data)
        rows = run.probabilities(list(_PAIR)).double()
        cat, wall = (run.head.labels.index(word) for word in ("cat", "wall"))
        numbers.append([rows[0, cat], rows[1, wall], (rows[0] - rows[1]).abs().max(), score_on_test(run, "accuracy")])
    who, notes = double(numbers), ["no order"] * _UNORDERED + ["knows order"] * (len(_NETWORKS) - _UNORDERED)
    columns = {"right": who[:, :2], "apart": who[:, 2], "accuracy": who[:, 3]}
    blind, seeing, apart = who[:_UNORDERED], who[_UNORDERED:], who[:_UNORDERED, 2].max()
    percentages = {"blind": 100 * blind[:, 3].max(), "seeing": 100 * seeing[:, 3].min(), "mlp": 100 * seeing[0, 3]}
    return (
        _stage("sentences", lines=_PAIR, test=len(data["test"]), **counts),
        _stage("who", numbers=who, numbers_notes=notes, **columns, **counts),
        _stage(
            "result",
            apart=apart,
            holds=bool(apart < _SAME),
            solved=sum(bool(row[:2].min() > 0.5) for row in seeing),
            networks=len(seeing),
            **percentages,
        ),
    )
