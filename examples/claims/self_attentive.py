"""An LSTM and an LSTMN of equal width on delayed recall, trained on texts of one lag or of many.

The LSTMN starts each step from a mean over all its earlier states, weighted by attention, so one step leads from the
question mark back to the symbol, at T (T - 1) / 2 comparisons for a text of T words, of which the LSTM needs none.
"""

from __future__ import annotations

from harness import Cell, Claim, Plot, Results, Row, Verdict, cells, main
from vanishing import MIXED, gradients, recalled, train_recall

_STEPS, _MIXED_STEPS, ASKED = 300, 600, (1, 10, 30, 100, 200)
_WIDTHS = "model.d_embedding=32 model.d_hidden=32"
_OF_NETWORK = {
    "LSTM": f"model.name=rnn model.cell=lstm model.bidirectional=false {_WIDTHS}",
    "LSTMN": f"model.name=lstmn {_WIDTHS} model.d_attention=32",
}
_OF_LAGS = {"10": (10,), "100": (100,), "1 to 100": MIXED}


def measure(cell: Cell) -> list[Row]:
    """Train one network; the share of symbols recalled and, of mixed lags, the gradient, by lag."""
    lags = _OF_LAGS[cell["trained"]]
    alone = len(lags) == 1
    run = train_recall(cell, _STEPS if alone else _MIXED_STEPS, _OF_NETWORK[cell["network"]], lags)
    if alone:
        return [{"kind": "one lag", "lag": lags[0], "recalled": recalled(run, lags[0], cell.seed)}]
    found = zip(ASKED, gradients(run, ASKED, cell.seed), strict=True)
    return [
        {"kind": "mixed lags", "lag": lag, "recalled": recalled(run, lag, cell.seed), "gradient": gradient}
        for lag, gradient in found
    ]


def decide(results: Results) -> Verdict:
    """The rule."""
    one, mixed = (
        results.difference("recalled", {"network": "LSTMN"}, {"network": "LSTM"}, kind=kind, lag=100)
        for kind in ("one lag", "mixed lags")
    )
    what = "symbols recalled at lag 100 after training on that lag, LSTMN minus LSTM"
    if one.low > 0.1 and mixed.low > 0.1:
        return Verdict("holds", one, what)
    if one.low > 0.1:
        return Verdict("holds only", one, what, "when short lags are not practised first")
    return Verdict("does not hold here", one, what)


CLAIM = Claim(
    name="self-attentive",
    sentence="A recurrent network that attends to its own past is less likely to forget.",
    varied=(
        "network (LSTM, LSTMN) of width 32, lag 1 to 200, trained for 300 updates on one lag (10, 100) or 600 on lags "
        "1 to 100"
    ),
    measured="share of symbols recalled; gradient by lag",
    rule=(
        "Holds if LSTMN minus LSTM is above 0.1 at lag 100 in both kinds of training. Holds only when short lags are "
        "not practised first if this is so for single lags and not for mixed ones. Otherwise does not hold here."
    ),
    literature="Cheng et al. 2016 (arXiv:1601.06733)",
    controls="lag 1 to 10, where both should be right",
    finding=(
        "If only the long lag is practised the LSTM never learns it and the LSTMN does at once. If short lags are "
        "practised too, the LSTM learns all of them, up to 200."
    ),
    grid=cells(network=tuple(_OF_NETWORK), trained=tuple(_OF_LAGS)),
    measure=measure,
    decide=decide,
    plots=(
        Plot("recalled", "recalled, trained on lags 1 to 100", "lag", "network", None, {"kind": "mixed lags"}),
        Plot("recalled", "recalled, trained on that lag", "lag", "network", (1 / 8, "chance"), {"kind": "one lag"}),
        Plot("gradient", "log10 gradient, lags 1 to 100", "lag", "network", None, {"kind": "mixed lags"}),
    ),
)

if __name__ == "__main__":
    main(CLAIM)
