"""Series as people have them: dates in any form and order, of several series, with gaps; said or refused by name."""

import numpy as np
import pandas as pd
import pytest

from heed.errors import DataError
from heed.tasks.series.dates import find_dates


def dates_of(cells, **given):
    frame = cells if isinstance(cells, pd.DataFrame) else pd.DataFrame({"when": cells})
    return find_dates(frame, [np.arange(len(frame))], lambda row: f"'a.csv' line {row + 2}", **given)


def following(dates, count):
    timeline = dates.timeline(np.arange(len(dates.times)))
    return [" ".join(map(str, row)) for row in dates.following(timeline, timeline.order[-1], count)], timeline


DST = [f"2024-03-30 {h:02}:00" for h in range(24)] + [f"2024-03-31 {h:02}:00" for h in range(24) if h != 2]
AUTUMN = [f"2024-10-27 {h:02}:00" for h in (0, 1, 2, 2, 3, 4, 5)]


@pytest.mark.parametrize(
    ("dates", "after", "step"),
    [
        (["2020-02-27", "2020-02-28", "2020-02-29"], ["2020-03-01", "2020-03-02"], "every day"),
        (["2020-01-31", "2020-02-29", "2020-03-31"], ["2020-04-30", "2020-05-31"], "every month"),
        (["2020-01-30", "2020-02-29", "2020-03-30", "2020-04-30"], ["2020-05-30", "2020-06-30"], "every month"),
        (["2019-10-01", "2020-01-01", "2020-04-01"], ["2020-07-01", "2020-10-01"], "every 3 months"),
        (["2020-11", "2020-12", "2021-01"], ["2021-02", "2021-03"], "every month"),
        (["Nov 2020", "Dec 2020", "Jan 2021"], ["Feb 2021", "Mar 2021"], "every month"),
        (["2024-01-04", "2024-01-05", "2024-01-08"], ["2024-01-09", "2024-01-10"], "every day from Monday to Friday"),
        (["1.1.2020", "8.1.2020", "15.1.2020"], ["22.1.2020", "29.1.2020"], "every week"),
        (["30.12.19", "31.12.19", "01.01.20"], ["02.01.20"], "every day"),
        (["13/02/2020", "14/02/2020", "15/02/2020"], ["16/02/2020"], "every day"),
        (["01/30/2020", "01/31/2020", "02/01/2020"], ["02/02/2020", "02/03/2020"], "every day"),
        (["1/5/2020 22:00", "1/5/2020 23:00", "1/6/2020 0:00"], ["1/6/2020 1:00"], "every hour"),
        (["01/05/2020 10:00 PM", "01/05/2020 11:00 PM", "01/06/2020 12:00 AM"], ["01/06/2020 01:00 AM"], "every hour"),
        (["2020-01-01 22:00", "2020-01-01 23:00", "2020-01-02 00:00"], ["2020-01-02 01:00"], "every hour"),
        (
            ["2020-01-01T23:45:00Z", "2020-01-02T00:00:00Z", "2020-01-02T00:15:00Z"],
            ["2020-01-02T00:30:00Z"],
            "every 15 minutes",
        ),
        (["2018-05-01", "2019-05-01", "2020-05-01"], ["2021-05-01"], "every year"),
        (["2024-W51", "2024-W52", "2025-W01"], ["2025-W02", "2025-W03"], "every week"),
        (["2024Q3", "2024Q4", "2025Q1"], ["2025Q2", "2025Q3"], "every 3 months"),
        (["2024-Q3", "2024-Q4", "2025-Q1"], ["2025-Q2"], "every 3 months"),
        (
            [f"2024-03-30T{h}:00:00+01:00" for h in (22, 23)] + ["2024-03-31T00:00:00+01:00"],
            ["2024-03-31T01:00:00+01:00"],
            "every hour",
        ),
        (  # hours across a change of clocks
            ["2024-03-31T00:00:00+01:00", "2024-03-31T01:00:00+01:00", "2024-03-31T03:00:00+02:00"],
            ["2024-03-31T04:00:00+02:00"],
            "every hour",
        ),
        (  # days across it
            ["2024-03-30T00:00:00+01:00", "2024-03-31T00:00:00+01:00", "2024-04-01T00:00:00+02:00"],
            ["2024-04-02T00:00:00+02:00"],
            "every day",
        ),
        (DST, ["2024-04-01 00:00", "2024-04-01 01:00"], "every hour"),
        (AUTUMN, ["2024-10-27 06:00"], "every hour"),
        (AUTUMN[::-1], ["2024-10-27 06:00"], "every hour"),
        (pd.date_range("2024-03-30", periods=30, freq="h", tz="Europe/Berlin"), None, "every hour"),
        (pd.date_range("2024-03-30", periods=3, freq="D", tz="Europe/Berlin")[::-1], None, "every day"),
        (pd.period_range("2024-01", periods=4, freq="M"), ["2024-05"], "every month"),
        (pd.date_range("2024-01-31", periods=4, freq="ME"), ["2024-05-31 00:00:00"], "every month"),
    ],
)
def test_dates_go_on_as_they_are_written(dates, after, step):
    column = dates_of(dates)
    made, timeline = following(column, len(after or "x"))
    assert column.names == ("when",) and str(timeline.step) == step and not timeline.missing.any()
    if after is None:  # of pandas, with its time zone
        series = dates.sort_values()
        after = [str((series[-1:] + (series.freq or -dates.freq))[0])]
    assert made == after
    shuffled = column.timeline(np.random.default_rng(1).permutation(len(dates)))
    assert shuffled.step == timeline.step or len(set(dates)) < len(dates) or dates is DST
    assert (shuffled.times == timeline.times).all() or len(set(dates)) < len(dates) or dates is DST


@pytest.mark.parametrize(
    ("columns", "names", "after"),
    [
        ({"year": [2023] * 3, "month": [10, 11, 12], "x": [1, 2, 3]}, ("year", "month"), "2024 1"),
        (
            {"Year": ["2023"] * 3, "Month": ["02"] * 3, "Day": ["26", "27", "28"]},
            ("Year", "Month", "Day"),
            "2023 03 01",
        ),
        (
            {"Date": ["16/12/2006"] * 3, "Time": ["17:24:00", "17:25:00", "17:26:00"]},
            ("Date", "Time"),
            "16/12/2006 17:27:00",
        ),
        ({"date": ["2011-01-01"] * 3, "hour": [21, 22, 23]}, ("date", "hour"), "2011-01-02 0"),
        ({"sold": [1, 2, 3], "day": [20230130, 20230131, 20230201]}, ("day",), "20230202"),
        ({"sold": [1, 2, 3], "year": [2001, 2002, 2003]}, ("year",), "2004"),
        ({"order_date": [202311, 202312, 202401]}, ("order_date",), "202402"),
    ],
)
def test_numbers_are_dates_where_their_columns_are_called_so(columns, names, after):
    dates = dates_of(pd.DataFrame(columns))
    assert dates.names == names and following(dates, 1)[0] == [after]


@pytest.mark.parametrize(
    "cells", [{"sold": [2001, 2002, 2003]}, {"day": [1, 2, 3]}, {"time": [0.5, 1.5, 2.5]}, {"when": ["a", "b"]}]
)
def test_other_numbers_and_texts_are_no_dates(cells):
    assert dates_of(pd.DataFrame(cells)) is None


@pytest.mark.parametrize(
    ("dates", "given", "message"),
    [
        (
            ["2020-01-01", "2020-01-02", "2020-13-03"],
            {},
            "'a.csv' line 4, column 'when': '2020-13-03' is no date like '2020-01-01'",
        ),
        (["2020-01-01", "", "2020-01-03"], {}, "line 3, column 'when': the date is missing"),
        (
            ["01/02/2020", "02/02/2020", "05/02/2020"],
            {},
            r"'01/02/2020' can be 2020-02-01 \(data.date_format=%d/%m/%Y\) or 2020-01-02",
        ),
        (["one", "two"], {"wanted": "when"}, "line 2, column 'when': 'one' is no date; data.date_format reads"),
    ],
)
def test_a_date_that_cannot_be_read_is_named(dates, given, message):
    with pytest.raises(DataError, match=message):
        dates_of(dates, **given)


def test_days_and_months_are_told_apart_by_the_whole_column_by_spacing_or_by_the_option():
    assert dates_of(["01/02/2020", "02/02/2020", "03/02/2020", "13/02/2020"]).times[0] == pd.Timestamp("2020-02-01")
    dates = [f"{d:02}/{m:02}/2020" for m in (1, 2) for d in range(5, 13)]
    assert dates_of(dates).times[1] == pd.Timestamp("2020-01-06")
    assert dates_of(dates[:8], form="%m/%d/%Y").times[1] == pd.Timestamp("2020-06-01")
