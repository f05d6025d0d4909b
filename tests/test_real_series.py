"""Series as people have them: dates in any form and order, of several series, with gaps; said or refused by name."""

import json

import numpy as np
import pandas as pd
import pytest
import torch
from torch.testing import assert_close

import heed
from commands import call
from heed.errors import DataError
from heed.tasks import check_config
from heed.tasks.base.head_options import SeriesHead
from heed.tasks.heads.next_row import Forecaster
from heed.tasks.inputs.dates import find_dates
from heed.tasks.series.task import TASK


def dates_of(cells, **given):
    frame = cells if isinstance(cells, pd.DataFrame) else pd.DataFrame({"when": cells})
    return find_dates(frame, [np.arange(len(frame))], lambda row: f"'a.csv' line {row + 2}", **given)


def following(dates, count):
    timeline = dates.timeline(np.arange(len(dates.times)))
    return [" ".join(map(str, row)) for row in timeline.following(timeline.order[-1], count)], timeline


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
        (["2020-01-01", "2020-01-02", "2020-13-03"], {}, "'a.csv' line 4, column 'when': '2020-13-03' is no date like"),
        (["2020-01-01", "", "2020-01-03"], {}, "line 3, column 'when': the date is missing"),
        (["01/02/2020", "02/02/2020", "05/02/2020"], {}, r"'01/02/2020' can be 2020-02-01 \(data.date_format=%d/%m/%Y"),
        (["one", "two"], {"column": "when"}, "line 2, column 'when': 'one' is no date; data.date_format reads"),
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


# --- files


DAYS = pd.date_range("2023-01-01", periods=60).strftime("%Y-%m-%d")
ONE = pd.DataFrame({"date": DAYS, "sales": np.arange(60.0)})
TWO = pd.concat([ONE.assign(shop=7), ONE.assign(shop=5, sales=100 + ONE.sales)])[["date", "shop", "sales"]]
SMALL = {"data.window": 7, "data.horizon": 3, "model.d_hidden": 4, "training.threads": 1, "training.device": "cpu"}
SMALL |= {"evaluation.bootstrap": 10}


def prepared(folder, frame, index=False, **data):
    frame.to_csv(folder / "a.csv", index=index)
    values = {"train": str(folder / "a.csv"), "window": 7, "valid": 5, **data}
    return TASK.prepare(check_config({"task": "series", "data": values, "model": {"size": "tiny"}}, "test"))


def values_of(task, split="train"):
    return {part.origin: part.values[:, 0].tolist() for part in task.splits.examples[split]}


@pytest.mark.parametrize("frame", [ONE[::-1], ONE.sample(frac=1, random_state=1)])
def test_rows_in_another_order_are_sorted_by_their_dates_and_it_is_said(tmp_path, frame):
    task = prepared(tmp_path, frame)
    assert values_of(task) == {"a.csv": [*range(55)]} and values_of(task, "valid") == {"a.csv": [*range(60)]}
    assert "rows sorted by their dates: those of 1 series were in another order" in task.notes
    assert "rows sorted" not in prepared(tmp_path, ONE).notes


def test_dates_that_repeat_are_several_series_whose_column_is_named(tmp_path):
    advice = "they are several series; data.columns.series=shop reads one for each 'shop'"
    with pytest.raises(DataError, match=f"a.csv:2 and a.csv:62 have the same date, 2023-01-01: {advice}"):
        prepared(tmp_path, TWO)
    with pytest.raises(DataError, match=r"a.csv:4 and a.csv:5 have the same date, 2023-01-03; leave one of the rows"):
        prepared(tmp_path, pd.concat([ONE[:3], ONE[2:]]))


@pytest.mark.parametrize("index", [False, True])
def test_a_file_in_long_form_is_one_series_for_each_name(tmp_path, index):
    task = prepared(tmp_path, TWO.sample(frac=1, random_state=3), index, columns={"series": "shop"})
    assert values_of(task) == {"5": [*range(100, 155)], "7": [*range(55)]}
    assert task.input.columns == ("sales",) and "train: 110 rows of 2 series" in task.notes
    assert task.report_counts()["valid"] == {"examples": 10, "series": 2}


def test_a_short_series_of_several_is_left_out_by_name(tmp_path):
    frame = pd.concat([TWO, TWO[:9].assign(shop=9)])
    task = prepared(tmp_path, frame, columns={"series": "shop"})
    assert set(values_of(task)) == {"7", "5"} and "left out: '9' has 9 rows" in task.notes
    with pytest.raises(DataError, match=r"'a.csv' has 9 rows \(5 held out for validation, 0 for testing\); training"):
        prepared(tmp_path, ONE[:9])


@pytest.mark.parametrize("columns", [["sales"], "sales", [1], {"values": ["sales"], "date": "date"}])
def test_a_list_of_columns_names_those_to_forecast(tmp_path, columns):
    frame = ONE.assign(other="x")
    task = prepared(tmp_path, frame, columns=columns)
    assert task.input.columns == ("sales",) and "every day" in task.notes
    with pytest.raises(DataError, match=r"column 'other': 'x' is not a number; data.columns selects"):
        prepared(tmp_path, frame)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"columns": {"series": "shpo"}}, r"no column 'shpo'; did you mean 'shop'\?; data.columns.series=NAME chooses"),
        ({"columns": {"date": "day"}}, "no column 'day'.*; data.columns.date=NAME chooses from 'date' .2023-01-01"),
        ({"columns": {"series": "shop"}, "date_format": "%d.%m.%Y"}, "no column of dates such as %d.%m.%Y"),
    ],
)
def test_a_column_that_is_not_there_is_named(tmp_path, data, message):
    with pytest.raises(DataError, match=message):
        prepared(tmp_path, TWO, **data)


def test_counters_are_left_out_of_a_series_and_it_is_said(tmp_path):
    task = prepared(tmp_path, ONE, index=True)
    assert task.input.columns == ("sales",)
    assert "the column without a name is different in every row: left out (data.columns can ask for it)" in task.notes


def test_a_file_that_starts_with_a_date_names_no_columns(tmp_path):
    with pytest.raises(DataError, match="a column is named '2023-01-01', a date; the first line should name"):
        prepared(tmp_path, ONE[1:].set_axis(["2023-01-01", "0.5"], axis=1))


def test_windows_and_forecasts_do_not_cross_a_gap(tmp_path):
    task = prepared(tmp_path, ONE.drop([20, 21, 22, 57]), valid=8, test=2)
    assert "2 gaps in the dates, which windows do not cross; rows missing: 3 after 2023-01-20 (a.csv:21)" in task.notes
    assert [part.values[:, 0].tolist() for part in task.splits.examples["train"]] == [[*range(20)], [*range(23, 49)]]
    rows = [task.collate([i]) for batch in task.train_batches(0) for i in batch]
    changes = {round(float(change), 4) for batch in rows for change in batch.inputs["values"][0].diff(dim=0).flatten()}
    assert len(changes) == 1  # every row follows the one before
    (valid,) = task.splits.examples["valid"]
    assert (valid.values[0, 0], valid.values[valid.start, 0], valid.values[-1, 0]) == (23, 49, 56)
    with pytest.raises(DataError, match=r"no 8 rows \(data.window \+ 1\) follow one another without a gap"):
        prepared(tmp_path, ONE.drop(range(0, 60, 7)))


def test_missing_values_are_refused_or_interpolated_in_time(tmp_path):
    frame = ONE.copy()
    frame.loc[[10, 11], "sales"] = np.nan
    with pytest.raises(DataError, match=r"a.csv:12, column 'sales': the value is missing; .* data.missing=interpolate"):
        prepared(tmp_path, frame)
    task = prepared(tmp_path, frame.sample(frac=1, random_state=2), missing="interpolate")
    np.testing.assert_allclose(values_of(task)["a.csv"], range(55))
    assert "2 missing values interpolated" in task.notes


@pytest.mark.parametrize(
    ("freq", "count", "season", "window"),
    [
        *(("h", 200, 24, 48), ("30min", 400, 48, 96), ("D", 60, 7, 48), ("B", 60, 5, 48), ("W", 300, 52, 104)),
        *(("MS", 70, 12, 48), ("QS", 60, 4, 48), ("YS", 60, "none", 48), ("h", 70, "none", 48), ("YS", 50, "none", 16)),
    ],
)
def test_the_season_follows_from_the_spacing(tmp_path, freq, count, season, window):
    dates = pd.date_range("2023-01-02", periods=count, freq=freq).strftime("%Y-%m-%d %H:%M")
    frame = pd.DataFrame({"when": dates, "sales": np.random.default_rng(1).normal(size=count)})
    task = prepared(tmp_path, frame, window="auto")
    data = task.config.data
    assert (data.season, data.window, data.date_format) == (season, window, "%Y-%m-%d %H:%M")
    assert (f"season of {season} rows, by the spacing of the dates, every " in task.notes) == (season != "none")
    for off in ("none", 1):
        assert prepared(tmp_path, frame, window="auto", season=off).config.data.season == "none"


def test_a_season_is_the_start_of_learning(tmp_path):
    frame = ONE.assign(sales=np.tile(np.random.default_rng(1).normal(size=7), 9)[:60])
    task = prepared(tmp_path, frame, window=14)
    model = task.build_model().eval()
    assert task.validate(model)["loss"] < 1e-9  # it repeats itself exactly
    values = torch.randn(2, 20, 1)
    model.output.weight.data.normal_()
    whole, _ = model.read(values)
    first, states = model.read(values[:, :9])
    second, _ = model.read(values[:, 9:], states)
    assert_close(torch.cat([first, second], dim=1), whole)
    without = Forecaster(model.body, 1, SeriesHead())
    without.output = model.output
    assert_close(whole[:, 6:] - without(values)[:, 6:], values[:, :14] - values[:, 6:])
    assert_close(whole[:, :6], without(values)[:, :6])


@pytest.fixture(scope="module")
def shops(tmp_path_factory):
    folder = tmp_path_factory.mktemp("shops")
    TWO.to_csv(folder / "shops.csv", index=False)
    settings = SMALL | {"data.columns.series": "shop", "data.test": 6}
    return heed.train("series", train=folder / "shops.csv", steps=2, out=folder / "run", settings=settings, quiet=True)


def test_each_series_is_forecast_and_scored_by_name(shops, tmp_path, capsys):
    code, out, _ = call(capsys, "predict", shops.folder, "--input", shops.folder.parent / "shops.csv")
    rows = [line.split(",") for line in out.splitlines()]
    assert code == 0 and rows[0] == ["shop", "date", "sales"]
    assert [row[:2] for row in rows[1:]] == [[shop, f"2023-03-0{n}"] for shop in "75" for n in (2, 3, 4)]
    code, out, _ = call(capsys, "evaluate", shops.folder)
    assert "test: 4 forecasts" in out and "seasonal naive: 7 rows before (data.season)" in out
    assert "\n  5: 2 forecasts, MAE of the model: sales " in out
    ONE.to_csv(tmp_path / "one.csv", index=False)  # without the column of names
    code, out, _ = call(capsys, "predict", shops.folder, "--input", tmp_path / "one.csv", "--horizon", 1)
    assert code == 0 and out.startswith("date,sales\n2023-03-02,")
    code, _, err = call(capsys, "look", shops.folder, shops.folder.parent / "shops.csv")
    assert code == 2 and "shops.csv has 2 series; a look shows one" in err
    code, out, _ = call(capsys, "evaluate", shops.folder, tmp_path / "one.csv", "--json")
    assert json.loads(out)[str(tmp_path / "one.csv")]["examples"] == 18


# --- data in Python


@pytest.mark.parametrize(
    "frame",
    [
        ONE,
        ONE[::-1],
        ONE.assign(date=pd.to_datetime(ONE.date)),
        ONE.assign(date=pd.to_datetime(ONE.date).dt.tz_localize("Europe/Berlin")).set_index("date")[::-1],
        ONE.assign(date=pd.PeriodIndex(ONE.date, freq="D")).set_index("date"),
        ONE.to_dict("list"),
    ],
)
def test_a_data_frame_is_read_as_a_file(frame):
    run = heed.train("series", train=frame, steps=1, out=None, settings=SMALL, quiet=True)
    assert values_of(run.task) == {"train": [*range(54)]} and "every day" in run.task.notes
    forecast = run.predict(frame)
    table = forecast.to_frame()
    table = table if "date" in table else table.reset_index()
    assert [*table.columns] == ["date", "sales"] and forecast.shape == (3, 1)
    assert [str(day)[:10] for day in table.date] == ["2023-03-02", "2023-03-03", "2023-03-04"]
    if hasattr(frame, "dtypes") and "date" not in frame.columns:
        assert type(forecast.to_frame().index) is type(frame.index)
    np.testing.assert_allclose(run.predict(ONE[::-1]), forecast, rtol=1e-5)


def test_a_data_frame_in_long_form_has_a_series_for_each_name():
    settings = SMALL | {"data.columns.series": "shop"}
    run = heed.train("series", train=TWO, steps=1, out=None, settings=settings, quiet=True)
    assert set(values_of(run.task)) == {"7", "5"}
    forecast = run.predict(TWO, horizon=2)
    assert forecast.to_frame()[["shop", "date"]].values.tolist() == [
        [shop, day] for shop in "75" for day in ("2023-03-02", "2023-03-03")
    ]
    np.testing.assert_allclose(run.predict(ONE, horizon=2), forecast[:2], rtol=1e-5)
    with pytest.raises(DataError, match=r"train\[0\] and train\[60\] have the same date.*data.columns.series=shop"):
        heed.train("series", train=TWO, steps=1, out=None, settings=SMALL, quiet=True)
    with pytest.raises(DataError, match="series has 2 columns, expected sales"):
        run.predict(np.ones((3, 2)))
    with pytest.raises(DataError, match=r"series\[1\], column 'sales': the value is missing"):
        run.predict([1.0, np.nan, 2.0])
    both = run.predict([np.arange(9.0)[:, None], np.arange(5.0)[:, None]], horizon=2)
    np.testing.assert_allclose(both[2:], run.predict(range(5), horizon=2), rtol=1e-5)


@pytest.mark.parametrize("season", ["none", 4])
def test_the_last_rows_of_a_training_example_are_forecast_from_forecasts(tmp_path, season):
    frame = pd.DataFrame({"sales": np.random.default_rng(1).normal(size=80)})
    task = prepared(tmp_path, frame, window=12, horizon=3, season=season)
    torch.manual_seed(1)
    model = task.build_model().eval()
    torch.nn.init.normal_(model.output.weight)
    batch = task.collate([0, 7])
    known = 3 if season == 4 else 0  # the first rows have no row a season before the next
    with torch.no_grad():
        rows, targets = batch.inputs["values"], batch.targets["rows"]
        assert rows.shape[1] == 9
        expected = (model(rows)[:, known:] - targets[:, :-3]).square().sum()
        for true in targets.unbind(1)[-3:]:
            rows = torch.cat([rows, model(rows)[:, -1:]], dim=1)  # all rows are read again for each forecast
            last = model(rows)[:, -1]
            expected += (last - true).square().sum()
    assert task.loss(model, batch, 0.0).item() == pytest.approx(expected.item(), rel=1e-4)
