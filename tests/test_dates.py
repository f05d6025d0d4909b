from __future__ import annotations

import datetime
import re
import unicodedata
from collections import Counter, defaultdict

import pytest
from babel import Locale
from babel.dates import format_date

from date_formats import read_formats
from heed.data.embedded import SPLITS, split_of
from heed.data.embedded.pairs import (
    LANGUAGES,
    SEPARATOR,
    UNSEEN,
    DateFormat,
    DateSource,
    DigitSource,
    Order,
    formats,
)
from heed.data.examples import Pair
from heed.errors import DataError

ALL_SPLITS = (*SPLITS, "unseen")
DAYS = [datetime.date(1998, 5, 9), datetime.date(2000, 2, 29), datetime.date(1900, 12, 31), datetime.date(2031, 11, 1)]


@pytest.fixture(scope="module")
def source() -> DateSource:
    return DateSource()


@pytest.fixture(scope="module")
def samples(source: DateSource) -> dict[str, list[Pair]]:
    return {split: source.sample(split, 2000) for split in ALL_SPLITS}


def locale_of(pair: Pair) -> str:
    return pair.origin.split(":")[1]


def language_of(pair: Pair) -> str:
    return locale_of(pair).split("_")[0]


def dates_of(pair: Pair) -> list[datetime.date]:
    return [datetime.date.fromisoformat(text) for text in pair.target.split("; ")]


def number(text: str) -> int:
    value = 0
    for character in text:
        value = 10 * value + unicodedata.digit(character)
    return value


def write(date_format: DateFormat | None, date: datetime.date) -> str:
    assert date_format is not None
    return date_format.write(date)[0]


# What is written


def test_the_sources_are_what_babel_writes_for_the_target(samples: dict[str, list[Pair]]) -> None:
    by_locale = defaultdict(list)
    for split in ALL_SPLITS:
        for pair in samples[split][:250]:
            by_locale[locale_of(pair)].append(pair)
    assert len(by_locale) > 40
    for locale, pairs in by_locale.items():
        for pair in pairs:
            assert pair.source == format_date(dates_of(pair)[0], pair.origin.split(":")[2], locale)


def test_the_table_has_the_formats_of_babel() -> None:
    assert {
        name: {style: DateFormat.of(pieces) for style, pieces in each.items()} for name, each in read_formats().items()
    } == formats()


# Links


def test_links_point_at_what_says_each_field(samples: dict[str, list[Pair]]) -> None:
    for pair in (pair for split in ALL_SPLITS for pair in samples[split]):
        assert pair.links is not None
        year, month, day = pair.links
        date = datetime.date.fromisoformat(pair.target)
        assert number(pair.source[slice(*year.source)]) == date.year
        assert number(pair.source[slice(*day.source)]) == date.day
        names = Locale.parse(locale_of(pair)).months["format"]
        said = pair.source[slice(*month.source)]
        assert said in {
            f"{date.month}",
            f"{date.month:02}",
            names["wide"][date.month],
            names["abbreviated"][date.month],
        }


def test_joined_dates_are_single_dates_with_their_links_moved(source: DateSource) -> None:
    lengths = Counter()
    for pair in DateSource(joined=(1, 6)).sample("valid", 600):
        dates = dates_of(pair)
        lengths[len(dates)] += 1
        language, style = locale_of(pair), pair.origin.split(":")[2]
        assert pair.links is not None and len(pair.links) == 3 * len(dates)
        at_source = at_target = 0
        for place, date in enumerate(dates):
            text, spans = formats()[language][style].write(date)
            assert pair.source[at_source : at_source + len(text)] == text
            for link, kind in zip(pair.links[3 * place : 3 * place + 3], ("year", "month", "day"), strict=True):
                assert link.source == (spans[kind][0] + at_source, spans[kind][1] + at_source)
                assert link.target[0] - at_target == {"year": 0, "month": 5, "day": 8}[kind]
            at_source += len(text) + len(SEPARATOR)
            at_target += 10 + len(SEPARATOR)
        assert at_source - len(SEPARATOR) == len(pair.source)
        assert pair.source.count(";") == len(dates) - 1
    assert set(lengths) == set(range(1, 7))
    assert min(lengths.values()) > 60  # 100 each on average


# Splits and sampling


def test_splits_have_no_date_in_common(samples: dict[str, list[Pair]]) -> None:
    dates = {split: {pair.target for pair in samples[split]} for split in ALL_SPLITS}
    for split in SPLITS:
        assert all(split_of(date) == split for date in dates[split])
    assert all(split_of(date) == "test" for date in dates["unseen"])


def test_another_seed_draws_other_examples_but_keeps_the_splits(samples: dict[str, list[Pair]]) -> None:
    other = DateSource(seed=2).sample("test", 500)
    assert {pair.source for pair in other} != {pair.source for pair in samples["test"][:500]}
    assert all(split_of(pair.target) == "test" for pair in other)


def test_a_sample_is_the_beginning_of_a_longer_one_whoever_draws_it(samples: dict[str, list[Pair]]) -> None:
    again = DateSource()
    for split in ALL_SPLITS:
        short = again.sample(split, 100)
        assert short == samples[split][:100]
        assert [pair.origin for pair in short] == [pair.origin for pair in samples[split][:100]]


def test_sources_do_not_repeat(samples: dict[str, list[Pair]]) -> None:
    for split in ALL_SPLITS:
        assert len({pair.source for pair in samples[split]}) == len(samples[split])


def test_a_sample_larger_than_what_there_is_repeats_instead_of_hanging() -> None:
    pairs = DateSource(["sv"], unseen=(), styles=["full"], years=(1998, 1998)).sample("test", 200)
    assert len(pairs) == 200
    assert 10 < len({pair.source for pair in pairs}) < 40  # 5 % of 365 dates


def test_languages_are_drawn_alike_however_many_locales_they_have(source: DateSource) -> None:
    count = 6900
    drawn = Counter(language_of(pair) for pair in source.sample("train", count))
    assert set(drawn) == set(LANGUAGES)
    expected = count / len(LANGUAGES)
    assert sum((n - expected) ** 2 / expected for n in drawn.values()) < 48.3  # 99.9 % of chi-square with 22
    unseen = Counter(language_of(pair) for pair in source.sample("unseen", 1000))
    assert set(unseen) == set(UNSEEN)
    assert all(140 < n < 260 for n in unseen.values())


def test_dates_lie_within_the_years() -> None:
    source = DateSource(["fr", "zh"], unseen=(), years=(1815, 1817))
    assert {dates_of(pair)[0].year for pair in source.sample("train", 500)} == {1815, 1816, 1817}


# Strings with two readings


def test_no_source_can_be_read_as_another_date() -> None:
    """Every date of a year is written in every format; exactly the ambiguous ones are never drawn."""
    source = DateSource(years=(2000, 2000))
    every = {one for each in formats().values() for one in each.values()}
    first = datetime.date(2000, 1, 1)
    days = [first + datetime.timedelta(days=n) for n in range(366)]
    readings = defaultdict(set)
    for date_format in every:
        for date in days:
            readings[write(date_format, date)].add(date)
    for date_format in every:
        ambiguous = {date for date in days if len(readings[write(date_format, date)]) > 1}
        assert {date for date in days if source.is_ambiguous(date_format, date)} == ambiguous
    sampled = {pair.source for split in ALL_SPLITS for pair in source.sample(split, 3000)}
    assert all(len(readings[text]) == 1 for text in sampled)
    assert len(readings["05/06/2000"]) == 2  # Angola: June; Panama: May


def test_each_split_of_each_year_has_dates_with_one_reading() -> None:
    for year in (1000, 1900, 1999, 2000, 2023, 2099, 9999):
        source = DateSource(["pt", "es"], unseen=(), styles=["medium"], years=(year, year))
        assert all(len(source.sample(split, 5)) == 5 for split in SPLITS)


# What is left out


def test_an_unseen_language_shares_no_format_with_a_trained_one() -> None:
    source = DateSource(["zh"], unseen=["ja"], years=(1998, 1998))
    assert formats()["ja"]["long"] == formats()["zh"]["long"]
    assert {pair.origin for pair in source.sample("unseen", 100)} == {"dates:ja:medium", "dates:ja:full"}


def test_default_unseen_languages_give_way_to_trained_ones() -> None:
    assert DateSource(["es", "gl"]).unseen == ("ca", "da", "mr", "uk")


# Errors


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"languages": ["es", "es_MX"]}, "languages: there is no language 'es_MX'; did you mean 'es'?"),
        ({"languages": ["fr"], "unseen": ["IT"]}, "unseen: there is no language 'IT'; did you mean 'it'?"),
        ({"languages": ["es", "es"]}, "languages: 'es' occurs twice"),
        ({"languages": []}, f"languages is empty; valid: {', '.join((*LANGUAGES, *UNSEEN))}"),
        ({"languages": ["es"], "unseen": ["es"]}, "language 'es' is in both 'languages' and 'unseen'"),
        ({"styles": ["ful"]}, "styles: there is no style 'ful'; did you mean 'full'?"),
        ({"styles": []}, "styles is empty; valid: medium, long, full"),
        ({"joined": 0}, "joined is (0, 0), expected (min, max) with 1 <= min <= max"),
        ({"joined": (3, 2)}, "joined is (3, 2), expected (min, max) with 1 <= min <= max"),
        ({"years": (98, 99)}, "years is (98, 99), expected (min, max) with 1000 <= min <= max <= 9999"),
    ],
)
def test_errors_carry_what_the_user_wrote(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(DataError) as error:
        DateSource(**arguments)  # type: ignore[arg-type]
    assert str(error.value) == message


def test_unknown_and_empty_splits_are_refused(source: DateSource) -> None:
    with pytest.raises(DataError, match="unknown split 'tests'; did you mean 'test'"):
        source.sample("tests", 1)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="split 'unseen' is empty"):
        DateSource(["es"], unseen=()).sample("unseen", 1)


# Digits


@pytest.mark.parametrize("kind", ["copy", "reverse"])
def test_digits_are_copied_along_the_diagonal_and_reversed_along_the_other(kind: Order) -> None:
    for pair in DigitSource(kind, (1, 8)).sample("train", 300):
        assert re.fullmatch(r"[0-9]{1,8}", pair.source)
        step = 1 if kind == "copy" else -1
        assert pair.target == pair.source[::step]
        wanted = [((i, i + 1), (j, j + 1)) for i, j in enumerate(range(len(pair.source))[::step])]
        assert [(link.target, link.source) for link in pair.links or ()] == wanted


@pytest.mark.parametrize("kind", ["copy", "reverse"])
def test_splits_of_digits_are_disjoint_and_the_same_for_every_kind_and_seed(kind: Order) -> None:
    for seed in (1, 2):
        source = DigitSource(kind, (2, 5), seed)
        for split in SPLITS:
            assert all(split_of(pair.source) == split for pair in source.sample(split, 300))


def test_the_shares_of_the_splits() -> None:
    shares = Counter(split_of(str(number)) for number in range(20_000))
    assert abs(shares["train"] - 18_000) < 150  # three standard deviations: 127
    assert abs(shares["valid"] - 1_000) < 100
    assert abs(shares["test"] - 1_000) < 100


def test_lengths_of_digits_are_uniform() -> None:
    lengths = Counter(len(pair.source) for pair in DigitSource(length=(4, 9)).sample("train", 3000))
    assert set(lengths) == {4, 5, 6, 7, 8, 9}
    assert all(400 < count < 600 for count in lengths.values())


def test_a_sample_of_digits_is_the_beginning_of_a_longer_one_and_does_not_repeat() -> None:
    pairs = DigitSource(seed=7).sample("valid", 1000)
    assert DigitSource(seed=7).sample("valid", 100) == pairs[:100]
    assert DigitSource(seed=8).sample("valid", 100) != pairs[:100]
    assert len({pair.source for pair in pairs}) == 1000


def test_short_strings_run_out_and_repeat() -> None:
    pairs = DigitSource(length=(2, 2)).sample("train", 500)
    assert len({pair.source for pair in pairs}) == sum(split_of(f"{n:02}") == "train" for n in range(100))


def test_a_split_without_strings_is_refused() -> None:
    empty = {split for split in SPLITS if not any(split_of(str(digit)) == split for digit in range(10))}
    assert empty  # ten strings do not fill three splits of which two are small
    for split in empty:
        with pytest.raises(DataError, match=rf"length \(1, 1\): split '{split}' has no strings .*; allow longer"):
            DigitSource(length=(1, 1)).sample(split, 1)
        assert {len(pair.source) for pair in DigitSource(length=(1, 3)).sample(split, 50)} <= {2, 3}


def test_errors_of_digits_carry_what_the_user_wrote() -> None:
    with pytest.raises(DataError, match="unknown kind 'revers' of digit strings; did you mean 'reverse'"):
        DigitSource("revers")  # type: ignore[arg-type]
    with pytest.raises(DataError, match=r"length is \(5, 3\), expected \(min, max\) with 1 <= min <= max"):
        DigitSource(length=(5, 3))
    with pytest.raises(DataError, match="unknown split 'trian'; did you mean 'train'"):
        DigitSource().sample("trian", 1)  # type: ignore[arg-type]
