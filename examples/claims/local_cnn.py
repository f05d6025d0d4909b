"""An arrow points at one of three figures: can a network relate the two if its receptive field does not touch both?

Pictures of `examples/data/shapes.py` have an arrow and three figures of 5 pixels at the corners of a square; the label
is the figure that the arrow points at, and without relating the two nothing is better than guessing one of the three.
`cnn` has convolutions of 3 x 3 without max-pooling, then the mean over all positions, which relates nothing: with n of
them a position has a receptive field of 2 n + 1 pixels. A field of fewer than `distance - 5` pixels never touches two
figures; one of `distance + 7` contains all four. The field of the residual network is the whole picture. A `vit` of 2
blocks has 4 patches, each with one figure: with patches that cut through figures it needs 50,000 pictures.
"""

from __future__ import annotations

from harness import Cell, Claim, Part, Plot, Results, Row, Verdict, cells, control, judge, main

from shapes import draw_shapes

_FAR = 10
_PICTURES = {"train": 8000, "valid": 100, "test": 500}
_SETTINGS = (
    "augment.crop=0 augment.flip=false training.batch_size=32 training.validate_every=10000 evaluation.bootstrap=5"
)
_CNN = "model.convolutions=1 model.pool_size=1 model.pooling=mean model.dropout=0.0 training.learning_rate=0.005"
NETWORKS = {
    **{
        f"cnn, {depth}": ("cnn", 400, f"{_CNN} model.num_filters={[16] * depth}".replace(", ", ","))
        for depth in (1, 2, 4, 7)
    },
    "resnet, 8": ("resnet", 400, "model.form=cifar model.depth=8 training.learning_rate=0.005"),
    "vit, 2": (
        "vit",
        2000,
        "model.patch_size=10 model.stride=7 model.d_model=64 model.num_heads=4 model.num_layers=2 model.d_ff=128 "
        "model.dropout=0.0 model.positions=sinusoidal training.learning_rate=0.001 training.schedule=constant",
    ),
}


def measure(cell: Cell) -> list[Row]:
    """Train one network; accuracy on pictures of other arrangements, and its receptive field in pixels."""
    model, steps, settings = NETWORKS[cell["network"]]
    size = cell["distance"] + 7
    data = {}
    for split, count in _PICTURES.items():
        pixels, labels = draw_shapes(split, count, 1, size=(size, size), distance=cell["distance"])
        data[split] = list(zip(pixels, labels, strict=True))
    run = cell.train("images", steps, f"{_SETTINGS} {settings}", model=model, **data)
    field = run.model.body.receptive_field() or size  # a ViT's patches all see each other
    return [{"field": float(field), "accuracy": run.report["scores"]["test"]["accuracy"]["value"]}]


def decide(results: Results) -> Verdict:
    """The rule."""
    deep, vit = (results.mean("accuracy", network=name, distance=_FAR) for name in ("cnn, 7", "vit, 2"))
    near = Part("accuracy of one convolution", results.mean("accuracy", network="cnn, 1", distance=_FAR), "below", 0.4)
    shared, what = [near, Part("accuracy of the ViT", vit, "above", 0.9)], "accuracy of seven convolutions"
    struggles, relates = Part(what, deep, "below", 0.9), Part(what, deep, "above", 0.9)
    return judge(("", [struggles, *shared]), ("when the network is shallow", [relates, *shared]))


CLAIM = Claim(
    name="local-cnn",
    sentence="A convolutional network works locally and struggles with long-range relations.",
    varied=(
        "convolutions 1, 2, 4, 7 at a distance of the related figures of 10 pixels, 2 and 4 at 7; ViT with patches "
        "that fit the figures"
    ),
    measured="accuracy against guessing one of three",
    rule=(
        "Holds if one convolution, whose field cannot touch two figures, is below 0.4, seven are below 0.9, and the "
        "ViT is above 0.9. Holds only when the network is shallow if seven convolutions are above 0.9 instead. "
        "Otherwise does not hold here."
    ),
    literature="Luo et al. 2016 (arXiv:1701.04128) on receptive fields",
    finding=(
        "One convolution guesses, which follows from its receptive field. Seven relate the figures as well as the ViT, "
        "which had five times their updates and patches cut to fit the figures. All seeds share their pictures, so the "
        "intervals are those of initial weights and order alone."
    ),
    grid=(
        *cells(network=tuple(NETWORKS), distance=(_FAR,)),
        *cells(network=("cnn, 2", "cnn, 4"), distance=(7,)),
    ),
    measure=measure,
    decide=decide,
    checks=(control("accuracy of the residual network", "accuracy", {"network": "resnet, 8", "distance": _FAR}, 0.9),),
    plots=(
        Plot("accuracy", "accuracy, by distance in pixels", "network", "distance", (1 / 3, "guessing one of three")),
    ),
)

if __name__ == "__main__":
    main(CLAIM)
