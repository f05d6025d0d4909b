from __future__ import annotations

import datetime
import re
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise

import pytest
from babel import Locale, localedata
from babel.dates import format_date

from heed.data.embedded.cldr import DateFormat, Field, UnusableError, has_month_names, read_format
from heed.data.embedded.dates import LANGUAGES, SEPARATOR, STYLES, UNSEEN, DateSource
from heed.data.embedded.generated import SPLITS, split_of
from heed.data.embedded.locales import isolated, locales
from heed.data.embedded.readings import Readings
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


def days(first: int, last: int) -> Iterator[datetime.date]:
    date = datetime.date(first, 1, 1)
    while date.year <= last:
        yield date
        date += datetime.timedelta(days=1)


def write(date_format: DateFormat, date: datetime.date) -> str:
    return date_format.write(date.year, date.month, date.day, date.weekday())[0]


# What is written


@pytest.mark.parametrize("language", [*LANGUAGES, *UNSEEN, "lt", "th", "eu", "hr", "bg", "kok", "ff"])
def test_formats_write_what_babel_writes(language: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for locale in locales()[language][:4]:
        if not has_month_names(locale):
            continue
        monkeypatch.setattr(localedata, "_cache", {})  # Babel's answers depend on what it was asked before
        for style in STYLES:
            for date in DAYS:
                assert write(read_format(locale, style), date) == format_date(date, style, locale)


def test_the_sources_are_what_babel_writes_for_the_target(
    samples: dict[str, list[Pair]], monkeypatch: pytest.MonkeyPatch
) -> None:
    by_locale = defaultdict(list)
    for split in ALL_SPLITS:
        for pair in samples[split][:250]:
            by_locale[locale_of(pair)].append(pair)
    assert len(by_locale) > 40
    for locale, pairs in by_locale.items():
        monkeypatch.setattr(localedata, "_cache", {})
        for pair in pairs:
            assert pair.source == format_date(dates_of(pair)[0], pair.origin.split(":")[2], locale)


def test_names_do_not_depend_on_the_locales_babel_was_asked_before(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(localedata, "_cache", {})
    for locale in ("ann", "he", "fi"):  # 'ann' has no month names; the others lend theirs to whoever shares a table
        for form in ("MMM", "MMMM", "LLL", "LLLL", "EEEE", "cccc"):
            format_date(DAYS[0], form, locale)
    assert isolated("ar").months["format"]["abbreviated"][5] == "مايو"
    assert has_month_names("ar") and not has_month_names("ann")
    assert isolated("de").months["stand-alone"]["wide"][5] == "Mai"


def test_the_example_of_the_documentation(source: DateSource) -> None:
    pair = source.example("es", "full", datetime.date(1998, 5, 9))
    assert (pair.source, pair.target, pair.origin) == (
        "sábado, 9 de mayo de 1998",
        "1998-05-09",
        "dates:es:full",
    )
    assert pair.links is not None
    said = [(pair.target[slice(*link.target)], pair.source[slice(*link.source)]) for link in pair.links]
    assert said == [("1998", "1998"), ("05", "mayo"), ("09", "9")]


@pytest.mark.parametrize(
    ("language", "year", "month", "day"),
    [
        ("ja", "1998", "5", "9"),  # 1998年5月9日土曜日
        ("ko", "1998", "5월?", "9"),  # in newer CLDR the month's name holds its digit
        ("vi", "1998", "tháng 5", "9"),
        ("he", "1998", "מאי", "9"),  # glued to a preposition that does not belong to it
        ("ca", "1998", "de maig", "9"),  # CLDR's name holds its preposition
        ("hu", "1998", "május", "9"),
        ("fa", "1998", "مهٔ", "9"),
    ],
)
def test_links_in_languages_of_other_orders_and_scripts(
    source: DateSource, language: str, year: str, month: str, day: str
) -> None:
    pair = source.example(language, "full", datetime.date(1998, 5, 9))
    said = [pair.source[slice(*link.source)] for link in pair.links or ()]
    assert (said[0], said[2]) == (year, day)
    assert re.fullmatch(month, said[1])


# Links


def test_links_point_at_what_says_each_field(samples: dict[str, list[Pair]]) -> None:
    for pair in (pair for split in ALL_SPLITS for pair in samples[split]):
        assert pair.links is not None
        year, month, day = pair.links
        date = datetime.date.fromisoformat(pair.target)
        assert number(pair.source[slice(*year.source)]) == date.year
        assert number(pair.source[slice(*day.source)]) == date.day
        names = isolated(locale_of(pair)).months["format"]
        said = pair.source[slice(*month.source)]
        assert said in {
            f"{date.month}",
            f"{date.month:02}",
            names["wide"][date.month],
            names["abbreviated"][date.month],
        }


@pytest.mark.parametrize("joined", [(1, 1), (2, 6)])
def test_each_field_of_the_target_is_linked_once_and_sources_do_not_overlap(joined: tuple[int, int]) -> None:
    for pair in DateSource(["es", "ja", "ar", "ru"], unseen=(), joined=joined).sample("train", 300):
        fields = [match.span() for match in re.finditer(r"\d+", pair.target)]
        assert [link.target for link in pair.links or ()] == fields
        sources = sorted(link.source for link in pair.links or ())
        assert all(0 <= start < end <= len(pair.source) for start, end in sources)
        assert all(end <= start for (_, end), (start, _) in pairwise(sources))


def test_joined_dates_are_single_dates_with_their_links_moved(source: DateSource) -> None:
    lengths = Counter()
    for pair in DateSource(joined=(1, 6)).sample("valid", 600):
        dates = dates_of(pair)
        lengths[len(dates)] += 1
        language, style = locale_of(pair), pair.origin.split(":")[2]
        assert pair.links is not None and len(pair.links) == 3 * len(dates)
        at_source = at_target = 0
        for place, date in enumerate(dates):
            text, spans = read_format(language, style).write(date.year, date.month, date.day, date.weekday())
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


def test_joined_can_be_one_number() -> None:
    pairs = DateSource(["de"], unseen=(), joined=3).sample("train", 50)
    assert {len(dates_of(pair)) for pair in pairs} == {3}


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


def test_locales_of_a_language_and_styles_are_drawn_alike() -> None:
    drawn = Counter(pair.origin for pair in DateSource(["en"], unseen=()).sample("train", 4000))
    by_locale = Counter()
    for origin, n in drawn.items():
        by_locale[origin.split(":")[1]] += n
    assert len(by_locale) > 5
    expected = 4000 / len(by_locale)
    assert all(0.7 * expected < n < 1.3 * expected for n in by_locale.values())
    assert all(0.5 * expected / 3 < n < 1.5 * expected / 3 for n in drawn.values())


def test_dates_lie_within_the_years() -> None:
    source = DateSource(["fr", "zh"], unseen=(), years=(1815, 1817))
    assert {dates_of(pair)[0].year for pair in source.sample("train", 500)} == {1815, 1816, 1817}


# Strings with two readings


def test_no_source_can_be_read_as_another_date() -> None:
    source = DateSource(["es", "dua", "lg", "en", "pt", "st", "ja"], unseen=["tr", "ig"], years=(1999, 2000))
    readings = defaultdict(set)
    for language in (*source.languages, *source.unseen):
        for locale in locales()[language]:
            for style in STYLES:
                for date in days(1999, 2000):
                    readings[write(read_format(locale, style), date)].add(date)
    sampled = {pair.source for split in ALL_SPLITS for pair in source.sample(split, 3000)}
    assert all(len(readings[text]) == 1 for text in sampled)
    assert len(readings["1 may 2000"]) == 2  # Spanish: May; Duala: October
    assert len(readings["05/06/1999"]) == 2  # Angola: June; Panama: May


def test_the_search_finds_exactly_what_writing_every_date_finds() -> None:
    formats = []
    for language in ("es", "dua", "teo", "en", "pt", "st", "kcg", "fur", "bas", "cs", "hr", "pl"):
        for locale in locales()[language]:
            formats += [read_format(locale, style) for style in ("medium", "full")]
    formats = list(dict.fromkeys(formats))
    check_against_brute_force(formats, (1999, 2000))


def test_the_search_asks_the_weekday_of_the_year() -> None:
    numbers = tuple(str(n) for n in range(1, 32))
    weekday = Field("weekday", tuple("Mo Di Mi Do Fr Sa So".split()))
    month, day, year = Field("month", numbers[:12]), Field("day", numbers), Field("year")
    formats = [
        DateFormat((weekday, " ", day, "/", month, "/", year)),
        DateFormat((weekday, " ", month, "/", day, "/", year)),
        DateFormat((Field("weekday", tuple("Di Mi Do Fr Sa So Mo".split())), " ", day, "/", month, "/", year)),
        DateFormat((month, "/", day, "/", year)),
    ]
    check_against_brute_force(formats, (1999, 2004))


def check_against_brute_force(formats: list[DateFormat], years: tuple[int, int]) -> None:
    said = defaultdict(set)
    for date_format in formats:
        for date in days(*years):
            said[write(date_format, date)].add(date)
    found = Readings(formats)
    total = 0
    for date_format in formats:
        number = found.number(date_format)
        expected = {date for date in days(*years) if len(said[write(date_format, date)]) > 1}
        assert {date for date in days(*years) if found.ambiguous(number, date)} == expected
        assert found.count(number, years) == len(expected)
        total += len(expected)
    assert total > 0


def test_a_month_named_alike_in_two_languages_is_left_out_of_both() -> None:
    both = DateSource(["es", "dua"], unseen=(), styles=["medium"])
    alone = DateSource(["es"], unseen=(), styles=["medium"])

    def months_of_may(source: DateSource) -> set[int]:
        pairs = source.sample("train", 3000)
        return {dates_of(pair)[0].month for pair in pairs if re.fullmatch(r"\d+ may \d+", pair.source)}

    assert months_of_may(alone) == {5}
    assert months_of_may(both) == set()
    assert alone.counts.ambiguous["es"] < both.counts.ambiguous["es"]


# What is left out


def test_counts_say_what_was_left_out() -> None:
    counts = DateSource(["pt", "es", "zh"], unseen=(), years=(2001, 2001)).counts
    assert counts.languages == 3
    nameless = [locale for locale in (*locales()["pt"], *locales()["zh"]) if not has_month_names(locale)]
    assert counts.left_out.get("no month names in this locale (CLDR falls back to 'M05')", ()) == tuple(nameless)
    left_out = sum(len(names) for names in counts.left_out.values())
    assert counts.locales + left_out == sum(len(locales()[language]) for language in ("pt", "es", "zh"))
    # dd/MM/y in Angola and MM/dd/y in Panama: 12 x 12 dates less the 12 that read the same
    assert counts.ambiguous["pt"] == 132
    assert counts.ambiguous["zh"] == 0
    assert counts.strings["pt"] % 365 == 0
    alike = len(counts.left_out["same formats as another locale of the language"])
    for said in ("3 languages", f"{alike} same formats as another", f"{sum(counts.ambiguous.values())} of", "pt"):
        assert said in str(counts)


def test_all_languages_have_month_names_and_four_digit_years() -> None:
    source = DateSource("all", styles=["medium"], years=(2000, 2000))
    assert len(source.languages) > 250
    assert {"ar", "en", "yo"} <= set(source.languages)
    assert not {"ann", *UNSEEN} & set(source.languages)
    for pair in source.sample("train", 3000):
        assert pair.source.count("2000") == 1
        assert not re.search(r"M\d\d", pair.source)


@pytest.mark.parametrize(
    ("pattern", "rule"),
    [
        ("d MMM yy", "no four-digit year"),
        ("d MMM", "a field is missing or repeated"),
        ("d. (dd) MMM y", "a field is missing or repeated"),
        ("ddMMy", "the year's digits are not separate from others"),
        ("d MMM Y", "a field other than year, month, day, weekday and era"),
    ],
)
def test_formats_that_give_no_fair_example_are_refused(
    pattern: str, rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Pattern:
        def __init__(self, pattern: str) -> None:
            self.pattern = pattern

    monkeypatch.setattr(Locale, "date_formats", {"long": Pattern(pattern)})
    read_format.cache_clear()
    with pytest.raises(UnusableError, match=re.escape(rule)):
        read_format("en", "long")


def test_an_unseen_language_shares_no_format_with_a_trained_one() -> None:
    source = DateSource(["pt"], unseen=["fur"], years=(1998, 1998))  # both have dd/MM/y in the medium style
    left_out = source.counts.left_out["a format of an unseen language that a trained language shares"]
    assert left_out == ("fur:medium", "fur_IT:medium")
    assert {pair.origin for pair in source.sample("unseen", 100)} == {"dates:fur:long", "dates:fur:full"}


def test_default_unseen_languages_give_way_to_trained_ones() -> None:
    assert DateSource(["es", "gl"]).unseen == ("ca", "da", "mr", "uk")


# Errors


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"languages": ["es", "es_MX"]}, "languages: CLDR has no language 'es_MX'; did you mean 'es'?"),
        ({"languages": ["fr"], "unseen": ["IT"]}, "unseen: CLDR has no language 'IT'; did you mean 'it'?"),
        ({"languages": "fil-PH"}, "languages: CLDR has no language 'fil-PH'; did you mean 'fil'?"),
        ({"languages": ["es", "es"]}, "languages: 'es' occurs twice"),
        ({"languages": []}, "languages is empty; list some, or use 'all'"),
        ({"languages": ["es"], "unseen": ["es"]}, "language 'es' is in both 'languages' and 'unseen'"),
        (
            {"languages": ["arn"]},
            "language 'arn' has no usable date format: no month names in this locale (CLDR falls back to 'M05')",
        ),
        ({"styles": ["ful"]}, "unknown style 'ful'; did you mean 'full'?"),
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


def test_an_unknown_language_near_no_other_lists_those_there_are() -> None:
    with pytest.raises(DataError, match=r"CLDR has no language 'qqq'; valid: .*, es, .*, zu"):
        DateSource(["qqq"])


def test_unknown_and_empty_splits_are_refused(source: DateSource) -> None:
    with pytest.raises(DataError, match="unknown split 'tests'; did you mean 'test'"):
        source.sample("tests", 1)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="split 'unseen' is empty"):
        DateSource(["es"], unseen=()).sample("unseen", 1)


def test_an_example_of_an_unknown_language_is_refused(source: DateSource) -> None:
    with pytest.raises(DataError, match="CLDR has no language 'e_s'"):
        source.example("e_s", "full", datetime.date(1998, 5, 9))
