"""Intervals and tests: cases one can count by hand, a plain NumPy reference, and sacrebleu's own test."""

import itertools
import math

import numpy as np
import pytest
from sacrebleu.metrics import BLEU, CHRF, TER
from scipy import stats
from scipy.special import expit

from heed.comparison.results import Resampling, results_of
from heed.errors import ConfigError
from heed.evaluation.measures import Outcomes, share
from heed.evaluation.significance import (
    difference,
    holm,
    interval,
    intervals,
    over_seeds,
    randomisation_test,
    resampled,
)
from heed.evaluation.text_scores import text_measure

WORDS = ["der", "Hund", "sieht", "die", "Katze", "und", "geht", "nach", "Hause", "heute"]


def sentences(count, seed, noise):
    """References, and outputs in which each word is another with probability `noise`."""
    draw = np.random.default_rng(seed)
    references = [" ".join(draw.choice(WORDS, draw.integers(4, 12))) for _ in range(count)]
    swap = np.random.default_rng(seed + 1000 * round(100 * noise))
    outputs = [" ".join(swap.choice(WORDS) if swap.random() < noise else w for w in r.split()) for r in references]
    return outputs, references


def exact(right):
    return share("exact_match", "exact match", right)


# --- measures


def test_a_share_is_a_ratio_of_sums():
    measure = share("token_accuracy", "token accuracy", [1, 2, 0], [2, 2, 6])
    assert measure.score() == pytest.approx(3 / 10)
    assert measure.each().tolist() == [0.5, 1.0, 0.0]


def test_a_share_of_nothing_is_no_number():
    assert math.isnan(share("alignment_error", "alignment error", [0, 0], [0, 0]).score())


METRICS = {"bleu": BLEU, "chrf": CHRF, "ter": TER}


@pytest.mark.parametrize("name", METRICS)
def test_a_text_measure_is_the_score_that_sacrebleu_gives(name):
    outputs, references = sentences(40, 1, 0.3)
    metric, measure = METRICS[name](), text_measure(name, outputs, references)
    assert measure.score() == metric.corpus_score(outputs, [references]).score
    assert measure.note == str(metric.get_signature())
    assert measure.higher_is_better == (name != "ter")
    alone = [metric.corpus_score([o], [[r]]).score for o, r in zip(outputs[:5], references[:5], strict=True)]
    assert measure.each()[:5].tolist() == alone


@pytest.mark.parametrize("method", ["_extract_corpus_statistics", "_compute_score_from_stats"])
def test_a_sacrebleu_that_has_changed_inside_is_named(method, monkeypatch):
    class Other:
        """A metric of a later sacrebleu."""

    for kept in {"_extract_corpus_statistics", "_compute_score_from_stats"} - {method}:
        setattr(Other, kept, None)
    monkeypatch.setattr("sacrebleu.metrics.chrf.CHRF", Other)
    with pytest.raises(ConfigError, match=rf"sacrebleu \d.*lacks Other.{method}, which heed needs to score; install"):
        text_measure("chrf", ["a"], ["a"])


def test_outputs_without_any_match_have_a_score():
    assert text_measure("bleu", ["a b c d e"], ["v w x y z"]).score() == pytest.approx(0.0, abs=1e-6)


# --- bootstrap


def test_resampling_agrees_with_drawing_examples_one_by_one():
    draw = np.random.default_rng(7)
    tokens = draw.integers(1, 20, size=60)
    right = draw.binomial(tokens, draw.random(60))
    scores = resampled([[share("token_accuracy", "token accuracy", right, tokens)]], 4_000, seed=3)[0]
    plain = []
    for _ in range(4_000):
        chosen = draw.integers(60, size=60)
        plain.append(right[chosen].sum() / tokens[chosen].sum())
    low, high = interval(scores)
    assert (low, high) == pytest.approx(np.quantile(plain, [0.025, 0.975]), abs=0.1 * (high - low))
    assert scores.mean() == pytest.approx(np.mean(plain), abs=4 * np.std(plain) / math.sqrt(2_000))


def test_the_interval_has_the_width_of_theory():
    low, high = interval(resampled([[exact([1.0, 0.0] * 200)]], 4_000, seed=1)[0])
    assert high - low == pytest.approx(2 * 1.96 * math.sqrt(0.25 / 400), rel=0.1)


def test_differences_are_paired():
    # One is right exactly where the other is wrong in one example more: the difference hardly varies.
    first = np.random.default_rng(0).integers(2, size=300).astype(float)
    second = first.copy()
    second[np.flatnonzero(second)[0]] = 0.0
    one, other = resampled([[exact(first)], [exact(second)]], 500, seed=1)
    assert (one - other).min() >= -1e-12
    assert np.ptp(one - other) < 0.25 * np.ptp(one)


@pytest.mark.parametrize("count", [1, 5, 50, 1000])
def test_shares_of_0_and_1_have_the_exact_interval(count):
    none, every = (intervals([exact([right] * count)], 50)[0] for right in (0.0, 1.0))
    known = stats.binomtest(0, count).proportion_ci(method="exact")
    assert (none.low, none.high) == pytest.approx((0.0, known.high))
    assert (every.low, every.high) == pytest.approx((1 - known.high, 1.0))
    if count == 50:
        assert str(none) == "0.0% [0.0%, 7.1%]"


def test_a_difference_has_the_interval_of_its_resamples_and_without_a_spread_that_of_an_event_never_seen():
    first, second = exact([1.0, 0.0] * 30), exact([1.0, 0.0, 0.0] * 20)
    one, other = resampled([[first], [second]], 200, seed=1)
    change = difference(second, first, 200)
    assert (change.low, change.high) == interval(other - one) and change.value == pytest.approx(20 / 60 - 1 / 2)
    same, lost = difference(first, first, 200), difference(exact([0.0] * 50), exact([1.0] * 50), 200)
    reach = stats.binomtest(0, 60).proportion_ci(method="exact").high
    assert (same.value, same.low, same.high) == pytest.approx((0.0, -reach, reach))
    assert (lost.value, lost.low) == (-1.0, -1.0) and lost.high == pytest.approx(-1 + 0.0711, abs=1e-4)
    outputs, references = sentences(20, 4, 0.3)
    text = text_measure("bleu", outputs, references)
    assert math.isnan(difference(text, text, 50).low)


def test_seeds_are_averaged_in_every_resample():
    runs = [exact(np.random.default_rng(seed).integers(2, size=50)) for seed in range(3)]
    together = resampled([runs], 20, seed=5)[0]
    apart = resampled([[run] for run in runs], 20, seed=5)
    assert together == pytest.approx(np.mean(apart, axis=0))


def test_resamples_depend_on_their_seed_only():
    measure = exact([1.0, 0.0, 0.0, 1.0])
    np.random.seed(1)
    first = resampled([[measure]], 30, seed=2)[0]
    np.random.seed(2)
    assert resampled([[measure]], 30, seed=2)[0].tolist() == first.tolist()
    assert resampled([[measure]], 30, seed=3)[0].tolist() != first.tolist()


# --- approximate randomisation


def randomised(first, second, trials, seed):
    (p,) = randomisation_test(first, [second], trials, seed)
    return p


def test_a_run_does_not_differ_from_its_copy():
    measure = exact([1, 0, 1, 1, 0])
    assert randomised(measure, measure, 200, seed=1) == 1.0
    outputs, references = sentences(20, 4, 0.3)
    text = text_measure("bleu", outputs, references)
    assert randomised(text, text, 50, seed=1) == 1.0


@pytest.mark.parametrize(("better", "worse"), [(3, 0), (5, 1), (6, 0), (4, 4), (8, 2)])
def test_exact_match_is_the_sign_test(better, worse):
    # Only examples on which the runs differ matter; each is a fair coin under the null hypothesis.
    same = [1.0] * 7 + [0.0] * 5
    first, second = [1.0] * better + [0.0] * worse + same, [0.0] * better + [1.0] * worse + same
    n, observed = better + worse, abs(better - worse)
    by_hand = sum(math.comb(n, k) for k in range(n + 1) if abs(n - 2 * k) >= observed) / 2**n
    p = randomised(exact(first), exact(second), 20_000, seed=1)
    assert p == pytest.approx(by_hand, abs=4 * math.sqrt(by_hand * (1 - by_hand) / 20_000) + 1e-4)


def test_all_assignments_by_brute_force():
    outputs, references = sentences(8, 5, 0.1)
    others, _ = sentences(8, 5, 0.6)
    first, second = text_measure("chrf", outputs, references), text_measure("chrf", others, references)
    observed, extreme = abs(first.score() - second.score()), 0
    for kept in itertools.product([True, False], repeat=8):
        ours = [a if keep else b for keep, a, b in zip(kept, outputs, others, strict=True)]
        theirs = [b if keep else a for keep, a, b in zip(kept, outputs, others, strict=True)]
        one, other = (CHRF().corpus_score(side, [references]).score for side in (ours, theirs))
        extreme += abs(one - other) >= observed - 1e-9
    p = randomised(first, second, 10_000, seed=2)
    assert p == pytest.approx(extreme / 2**8, abs=0.02)


def test_p_is_never_zero():
    first, second = exact([1.0] * 100), exact([0.0] * 100)
    assert randomised(first, second, 99, seed=1) == pytest.approx(1 / 100)


def test_it_is_two_sided_and_blind_to_the_order():
    outputs, references = sentences(50, 6, 0.2)
    others, _ = sentences(50, 6, 0.3)
    first, second = text_measure("bleu", outputs, references), text_measure("bleu", others, references)
    p = randomised(first, second, 400, seed=3)
    assert 0 < p < 1
    assert randomised(second, first, 400, seed=3) == pytest.approx(p)


@pytest.mark.parametrize("name", ["bleu", "chrf", "ter"])
def test_the_p_value_is_that_of_sacrebleu(name, monkeypatch):
    """The same draws and no ties: the same number of extreme trials."""
    from sacrebleu.metrics import BLEU, CHRF, TER
    from sacrebleu.significance import PairedTest

    monkeypatch.setenv("SACREBLEU_SEED", "7")
    outputs, references = sentences(80, 8, 0.3)
    others, _ = sentences(80, 8, 0.33)
    kind = {"bleu": BLEU, "chrf": CHRF, "ter": TER}[name]()
    systems = [("first", outputs), ("second", others)]
    _, scores = PairedTest(systems, {name: kind}, [references], test_type="ar", n_samples=500)()
    theirs = next(value for key, value in scores.items() if key != "System")[1].p_value
    measures = [text_measure(name, texts, references) for texts in (outputs, others)]
    ours = randomised(*measures, 500, seed=7)
    assert 0.002 < theirs < 0.9, "the case should be neither hopeless nor trivial"
    assert ours == pytest.approx(theirs, abs=0.01 if name == "ter" else 1e-9)  # TER is a ratio of small numbers: ties


def test_under_the_null_hypothesis_small_p_values_are_as_rare_as_they_say():
    generator, small = np.random.default_rng(0), 0
    for trial in range(300):
        first, second = generator.random((2, 60)) < 0.6
        small += randomised(exact(first), exact(second), 200, seed=trial) <= 0.1
    assert small <= 0.1 * 300 + 4 * math.sqrt(300 * 0.1 * 0.9)
    assert small >= 3


# --- over seeds and examples


def seeds_of(count, accuracy, spread, seed, examples=400):
    """Which of some examples each of several seeds has right; `spread` is the deviation of the seeds' accuracy."""
    draw = np.random.default_rng(seed)
    hard = draw.random(examples) / 2  # the same examples are hard for every seed
    return [
        exact((0.5 * draw.random(examples) + hard < accuracy + draw.normal(0, spread)).astype(float))
        for _ in range(count)
    ]


def of_seeds(*models, resamples=4_000):
    """`over_seeds` of one model or two, each the measures of its seeds."""
    draws = iter(resampled([[run] for runs in models for run in runs], resamples, seed=1))
    drawn = [np.stack([next(draws) for _ in runs]) for runs in models]
    return over_seeds([np.array([run.score() for run in runs]) for runs in models], drawn)


@pytest.mark.parametrize(("first", "second"), [(2, 2), (3, 2), (5, 4), (3, 0)])
def test_several_seeds_are_tested_as_a_plain_version_does(first, second):
    """Of shares, the variances are known: that of the seeds' scores, and the covariance of two seeds over examples."""
    models = [seeds_of(first, 0.72, 0.02, seed=3), *([seeds_of(second, 0.5, 0.04, seed=4)] if second else [])]
    found, p = of_seeds(*models, resamples=20_000)
    right = [np.stack([run.statistics[:, 0] for run in runs]) for runs in models]  # (seeds, examples)
    parts = [runs.mean(1).var(ddof=1) / len(runs) for runs in right]
    freedom = sum(parts) ** 2 / sum(v**2 / (len(runs) - 1) for v, runs in zip(parts, right, strict=True))
    shared = 0.0
    for i, ours in enumerate(right):
        for j, theirs in enumerate(right):
            of_pairs = [
                np.cov(a, b)[0, 1] for m, a in enumerate(ours) for n, b in enumerate(theirs) if i != j or m != n
            ]
            shared += (1 if i == j else -1) * np.mean(of_pairs) / 400
    value = right[0].mean() - (right[1].mean() if second else 0)
    seeds, examples = sum(parts), max(0.0, shared)
    reach = (seeds * stats.t.ppf(0.975, freedom) + examples * 1.96) / math.sqrt(seeds + examples)
    away = value / math.sqrt(seeds + examples)
    by_hand = 2 * (seeds * stats.t.sf(away, freedom) + examples * stats.norm.sf(away)) / (seeds + examples)
    assert found.value == pytest.approx(value)
    assert (found.low, found.high) == pytest.approx((value - reach, value + reach), abs=0.03 * reach)
    assert p == pytest.approx(by_hand, rel=0.15, abs=1e-6)


@pytest.mark.parametrize(("seeds", "other"), [(2, 1.0), (2, 0.0), (3, 1.0), (5, 0.5)])
def test_seeds_that_vary_do_not_make_equal_models_differ(seeds, other):
    """A seed's deviation is five times the examples' here: with examples alone, half of these pairs would differ."""
    draw, small, alone = np.random.default_rng(0), 0, 0
    for _ in range(600):
        first, second = 5 * draw.normal(size=seeds), 5 * other * draw.normal(size=seeds)
        shift = draw.normal()
        drawn = [np.tile(draw.normal(size=300), (seeds, 1)), np.zeros((seeds, 300))]  # examples, the same for all seeds
        _, p = over_seeds([first + shift, second], drawn)
        small += p <= 0.05
        alone += abs(first.mean() - second.mean() + shift) > 1.96
    assert small <= 0.05 * 600 + 3 * math.sqrt(600 * 0.05 * 0.95)
    assert small >= 1 and alone > 150


def test_seeds_that_agree_leave_the_bootstrap_over_examples():
    a, b = seeds_of(1, 0.7, 0.0, seed=1), seeds_of(1, 0.6, 0.0, seed=2)
    found, p = of_seeds(a * 2, b * 3)
    one, other = resampled([a, b], 4_000, seed=1)
    low, high = interval(one - other)
    assert (found.low, found.high) == pytest.approx((low, high), abs=0.05 * (high - low))
    assert 0 < p < 0.05
    assert of_seeds(a * 2, a * 2)[1] == 1.0


def test_seeds_without_any_variation_have_a_p_value_that_the_resamples_allow():
    perfect, useless = [exact([1.0] * 50)] * 3, [exact([0.0] * 50)] * 3
    assert of_seeds(perfect, useless, resamples=999)[1] == pytest.approx(1 / 1_000)
    assert of_seeds(perfect, perfect, resamples=999)[1] == 1.0


def test_the_interval_of_a_share_stays_a_share():
    scores, drawn = np.array([0.9, 1.0]), np.array([[0.9, 0.9, 0.9], [1.0, 1.0, 1.0]])
    (low, high), reach = stats.t.interval(0.95, 1, 0.95, 0.05), 0.05 * stats.t.ppf(0.975, 1)
    assert (low, high) == pytest.approx((0.95 - reach, 0.95 + reach))
    plain, kept = (over_seeds([scores], [drawn], is_share)[0] for is_share in (False, True))
    assert (plain.low, plain.high) == pytest.approx((low, high))
    assert (kept.low, kept.high) == (pytest.approx(low), 1.0)
    both = over_seeds([scores, scores], [drawn, drawn], True)[0]
    assert -1 <= both.low < 0 < both.high <= 1


def tables_of(seeds, spread, models, draw, examples=500):
    """Outcomes of equal models on examples of differing difficulty; a seed moves the logit of all of them."""
    hard = 1.5 + draw.normal(size=(1, 1, examples))
    moved = spread * draw.normal(size=(models, seeds, 1))
    right = draw.random((models, seeds, examples)) < expit(hard + moved)
    made = ([Outcomes(("",) * examples, (exact(run),)) for run in runs] for runs in right.astype(float))
    return dict(enumerate(made))


def coverage(seeds, spread, tables):
    """The share of rows whose interval holds the mean over all seeds and examples."""
    draw, covered = np.random.default_rng(1), 0
    truth = stats.norm.expect(expit, loc=1.5, scale=math.hypot(1, spread))
    for _ in range(tables):
        row = results_of(tables_of(seeds, spread, 1, draw), [], None, Resampling(200, 1))[0][0]
        covered += row.scores["exact_match"].low <= truth <= row.scores["exact_match"].high
    return covered / tables


@pytest.mark.parametrize(("seeds", "spread"), [(3, 0.6), (5, 0.15)])
def test_the_interval_of_a_row_covers_seeds_and_examples(seeds, spread):
    assert coverage(seeds, spread, 150) >= 0.9  # of an interval over examples alone 0.31 and 0.82


@pytest.mark.slow  # half a minute
@pytest.mark.parametrize("seeds", [3, 5])
@pytest.mark.parametrize("spread", [0, 0.05, 0.15, 0.3, 0.6])
def test_the_coverage_of_a_row_is_near_95_per_cent(seeds, spread):
    assert 0.93 <= coverage(seeds, spread, 2_000) <= 0.97


def equal_models(seeds, spread, tables):
    """The share of tables of five equal models with some p <= 0.05 against the best or the first."""
    draw, some = np.random.default_rng(2), 0
    for _ in range(tables):
        rows, _ = results_of(tables_of(seeds, spread, 5, draw), [], 0, Resampling(200, 1))
        some += any(one.p <= 0.05 for row in rows.values() for one in row.against["exact_match"])
    return some / tables


def test_one_seed_has_an_interval_over_examples_but_no_p():
    assert equal_models(1, 0.15, 10) == 0
    draw = np.random.default_rng(3)
    rows, _ = results_of(tables_of(1, 0.15, 5, draw), [], 0, Resampling(200, 1))
    against = [one for row in rows.values() for one in row.against["exact_match"]]
    assert len(against) >= 4 and all(math.isnan(one.p) and one.low <= one.value <= one.high for one in against)


def test_equal_models_seldom_differ():
    assert equal_models(3, 0.15, 60) <= 0.1  # without the correction 0.2


@pytest.mark.slow  # 1 minute
@pytest.mark.parametrize(("seeds", "spread"), [(2, 0.15), (3, 0), (3, 0.15), (3, 0.6), (5, 0.15)])
def test_of_five_equal_models_some_differ_in_at_most_5_per_cent_of_tables(seeds, spread):
    assert equal_models(seeds, spread, 1_000) <= 0.05


def test_a_model_that_is_better_still_differs():
    a, b, c = (seeds_of(5, accuracy, 0.01, seed) for seed, accuracy in ((1, 0.6), (2, 0.6), (3, 0.7)))
    rows, _ = results_of(
        {n: [Outcomes(("",) * 400, (run,)) for run in runs] for n, runs in enumerate((a, b, c))},
        [],
        0,
        Resampling(500, 1),
    )
    (against_best,), (of_best,) = (rows[i].against["exact_match"] for i in (0, 2))
    assert against_best.p == of_best.p <= 0.05 and against_best.value == -of_best.value < 0
    assert rows[1].against["exact_match"][1].p > 0.05


def test_holms_correction_is_that_of_a_table_by_hand():
    # Sorted: 0.01 * 4, 0.02 * 3, 0.03 * 2 (not below the one before), 0.9 * 1.
    assert holm(np.array([0.02, 0.9, 0.01, 0.03])) == pytest.approx([0.06, 0.9, 0.04, 0.06])
    assert holm(np.array([0.6, 0.7])).tolist() == [1.0, 1.0] and len(holm(np.array([]))) == 0


def test_resamples_without_a_score_count_for_nothing():
    low, high = interval(np.array([0.2, np.nan, 0.2]))
    assert (low, high) == (0.2, 0.2)
    assert all(np.isnan(interval(np.array([np.nan, np.nan]))))
