"""Columns of dates in series: left out of what is forecast, recognised in many forms, continued in predictions."""

import csv
import math
from datetime import date, timedelta

import pytest

import heed
from heed.cli import main
from heed.errors import DataError
from heed.tasks.series.task import date_column


def write(path, head, rows):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([head, *rows])
    return path


@pytest.mark.parametrize(
    ("dates", "following", "step"),
    [
        (["2020-02-27", "2020-02-28", "2020-02-29"], ["2020-03-01", "2020-03-02"], "every day"),
        (["2020-01-31", "2020-02-29", "2020-03-31"], ["2020-04-30", "2020-05-31"], "every month"),
        (["2020-01-30", "2020-02-29", "2020-03-30", "2020-04-30"], ["2020-05-30", "2020-06-30"], "every month"),
        (["2019-10-01", "2020-01-01", "2020-04-01"], ["2020-07-01", "2020-10-01"], "every 3 months"),
        (["2020-11", "2020-12", "2021-01"], ["2021-02", "2021-03"], "every month"),
        (["Nov 2020", "Dec 2020", "Jan 2021"], ["Feb 2021", "Mar 2021"], "every month"),
        (["2024-01-04", "2024-01-05", "2024-01-08"], ["2024-01-09", "2024-01-10"], "every day from Monday to Friday"),
        (["1.1.2020", "8.1.2020", "15.1.2020"], ["22.1.2020", "29.1.2020"], "every week"),
        (["01/02/2020", "02/02/2020", "03/02/2020"], ["04/02/2020", "05/02/2020"], "every day"),
        (["01/30/2020", "01/31/2020", "02/01/2020"], ["02/02/2020", "02/03/2020"], "every day"),
        (["01/02/2020", "01/03/2020", "01/04/2020"], ["01/05/2020", "01/06/2020"], "every month"),
        (["2020-01-01 22:00", "2020-01-01 23:00", "2020-01-02 00:00"], ["2020-01-02 01:00"], "every hour"),
        (
            ["2020-01-01T23:45:00Z", "2020-01-02T00:00:00Z", "2020-01-02T00:15:00Z"],
            ["2020-01-02T00:30:00Z"],
            "every 15",
        ),
        (["2018-05-01", "2019-05-01", "2020-05-01"], ["2021-05-01"], "every year"),
    ],
)
def test_dates_go_on_as_they_are_written(tmp_path, dates, following, step):
    path = write(tmp_path / "a.csv", ["value", "when"], [[n, day] for n, day in enumerate(dates)])
    column = date_column(path)
    assert column.name == "when" and column.step.name.startswith(step)
    assert column.following(len(following)) == following
    assert f"({dates[0]} to {dates[-1]}, {step}" in str(column)


def test_numbers_texts_and_columns_that_are_forecast_are_no_dates(tmp_path):
    rows = [[2020, "a"], [2021, "2020-01-01"], [2022, ""]]
    assert date_column(write(tmp_path / "a.csv", ["year", "text"], rows)) is None
    path = write(tmp_path / "b.csv", ["when", "value"], [["2020-01-01", 1], ["2020-01-02", 2]])
    assert date_column(path, ["when"]) is None
    (tmp_path / "c.csv").write_text("2020-01-01,1\n2020-01-02,2\n")
    with pytest.raises(DataError, match=r"c.csv' line 1 starts with a date \('2020-01-01'\), but should name"):
        date_column(tmp_path / "c.csv")


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("series")
    days = [date(2020, 1, 1) + timedelta(n) for n in range(80)]
    rows = [[day.isoformat(), f"{math.sin(n):.4f}"] for n, day in enumerate(days)]
    path = write(folder / "sales.csv", ["date", "sales"], rows)
    settings = {"data.window": 6, "data.horizon": 3, "model.d_hidden": 4, "training.threads": 1}
    settings |= {"training.device": "cpu", "evaluation.bootstrap": 10}
    return heed.train("series", train=path, steps=2, out=folder / "run", settings=settings, quiet=True)


def predicted(run, path, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["predict", str(run.folder), "--input", str(path)])
    out, err = capsys.readouterr()
    assert not ended.value.code
    return [line.split(",") for line in out.splitlines()], err


def test_the_forecast_has_the_dates_that_follow(run, capsys):
    assert run.task.standard.columns == ("sales",)
    assert "column 'date' holds dates (2020-01-01 to 2020-03-20, every day): it is not forecast" in run.task.notes
    rows, err = predicted(run, run.folder.parent / "sales.csv", capsys)
    assert [row[0] for row in rows] == ["date", "2020-03-21", "2020-03-22", "2020-03-23"] and err == ""
    assert rows[0] == ["date", "sales"] and all(math.isfinite(float(row[1])) for row in rows[1:])


def test_a_file_without_dates_or_with_uneven_ones_has_a_forecast_without(run, tmp_path, capsys):
    rows, err = predicted(run, write(tmp_path / "a.csv", ["sales"], [[n] for n in range(9)]), capsys)
    assert rows[0] == ["sales"] and len(rows) == 4 and err == ""
    uneven = [["2020-01-01", 1], ["2020-01-02", 2], ["2020-01-09", 3]]
    rows, err = predicted(run, write(tmp_path / "b.csv", ["day", "sales"], uneven), capsys)
    assert rows[0] == ["sales"]
    assert err == "heed: the dates of column 'day' are not evenly spaced, so the forecast has no dates\n"
