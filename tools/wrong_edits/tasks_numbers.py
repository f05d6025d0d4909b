"""Wrong edits of the tasks that read numbers and pictures: images, table, series."""

from __future__ import annotations

from wrong_edits.edit import Edit

IMAGES = "tests/test_images.py::{}".format
NUMBERS = "tests/test_numbers.py::{}".format

EDITS = [
    # images: reading, validation, scoring, saving
    Edit(
        "labels: a single output is taken as the probability of the first class",
        "return second if self.several_labels else torch.cat([1 - second, second], dim=-1)",
        "return second if self.several_labels else torch.cat([second, 1 - second], dim=-1)",
        (IMAGES("test_two_classes_by_one_output_have_the_probability_of_the_second"),),
    ),
    Edit(
        "images: listed classes are sorted by name",
        "    return names\n\n\ndef form_of",
        "    return label_order(names)\n\n\ndef form_of",
        (IMAGES("test_classes_come_as_they_are_listed_and_those_of_few_pictures_from_all"),),
    ),
    Edit(
        "images: top-5 accuracy counts six labels",
        "for label, _ in prediction.ranked[:TOP]}",
        "for label, _ in prediction.ranked[: TOP + 1]}",
        (IMAGES("test_five_labels_count_for_top_5_accuracy"),),
    ),
    Edit(
        "images: a smaller training set has fewer classes",
        "known = [*train, *splits.left_out, *([] if isinstance(config.data.valid, list) else "
        'splits.examples["valid"])]\n        labels = ordered',
        'known = [*train, *([] if isinstance(config.data.valid, list) else splits.examples["valid"])]\n'
        "        labels = ordered",
        (IMAGES("test_classes_come_as_they_are_listed_and_those_of_few_pictures_from_all"),),
    ),
    Edit(
        "images: mean and deviation are exchanged when restored",
        "**asdict(self.sizing), **asdict(self.normalisation)}",
        '**asdict(self.sizing), "mean": self.normalisation.deviation, "deviation": self.normalisation.mean}',
        ("tests/test_picture_store.py",),
    ),
    Edit(
        "images: the pictures of a folder are listed in disk order",
        "    return sorted(found)\n",
        "    return sorted(found, reverse=True)\n",
        (IMAGES("test_the_pictures_of_a_folder_come_by_name"),),
    ),
    Edit(
        "images: pictures of digits are mirrored by default",
        'fields = {"crop": pixels, "flip": sided is None}',
        'fields = {"crop": pixels, "flip": True}',
        ("tests/test_images_training.py",),
    ),
    # table: reading, held out rows, saving
    Edit(
        "table: columns are standardised by the validation rows too",
        "Standard.of(train.columns, train.values), labels",
        'Standard.of(train.columns, np.concatenate([train.values, splits.examples["valid"].values])), labels',
        (NUMBERS("test_rows_are_learned_and_the_training_rows_statistics_travel_with_the_run"),),
    ),
    Edit(
        "table: columns are read in the order of the file, not of the run",
        'places = [_place(has, header, column, "data.columns", hint) for column in wanted]',
        'places = sorted(_place(has, header, column, "data.columns", hint) for column in wanted)',
        (NUMBERS("test_columns_are_found_by_name_and_number_and_labels_may_be_missing_in_what_is_predicted"),),
    ),
    Edit(
        "table: numbers that are not finite are accepted",
        "    if not math.isfinite(value):\n",
        "    if math.isnan(value):\n",
        (NUMBERS("test_a_mistake_is_named_with_file_line_and_column"),),
    ),
    Edit(
        "table: line numbers are one too small",
        "lines.append(number)",
        "lines.append(number - 1)",
        (NUMBERS("test_columns_are_found_by_name_and_number_and_labels_may_be_missing_in_what_is_predicted"),),
    ),
    Edit(
        "table: rows of a second file are said to be of the first",
        "places = [part.places + np.array([first, 0])",
        "places = [part.places + np.array([0, 0])",
        (NUMBERS("test_rows_kept_as_arrays_are_split_like_rows_one_by_one"),),
    ),
    Edit(
        "table: rows read in parts are predicted repeatedly",
        '            values, lines, labels = array("d"), array("q"), []\n        count += 1',
        "            pass\n        count += 1",
        (NUMBERS("test_a_file_that_is_read_in_parts_has_each_row_once"),),
    ),
    Edit(
        "table: variances are saved instead of deviations",
        '"deviation": self.deviation.tolist()}',
        '"deviation": (self.deviation**2).tolist()}',
        (NUMBERS("test_rows_are_learned_and_the_training_rows_statistics_travel_with_the_run"),),
    ),
    # series: rows held out in time, scoring
    Edit(
        "series: validation and test rows are exchanged",
        '(("test", data.test), ("valid", data.valid))',
        '(("valid", data.valid), ("test", data.test))',
        (NUMBERS("test_the_last_rows_are_held_out_in_time"),),
    ),
    Edit(
        "series: held-out rows are trained on",
        'splits["train"].append(Part(values[:end], 0, name))',
        'splits["train"].append(Part(values, 0, name))',
        (NUMBERS("test_the_last_rows_are_held_out_in_time"),),
    ),
    Edit(
        "series: a forecast reads the row that it is scored on",
        "contexts = [values[:at] for values, at in ends]",
        "contexts = [values[: at + 1] for values, at in ends]",
        (NUMBERS("test_a_forecast_is_scored_on_rows_that_it_has_not_read"),),
    ),
    Edit(
        "series: a forecast reads the first rows of a series",
        "self.tensor(context[-self.config.data.window :])",
        "self.tensor(context[: self.config.data.window])",
        (NUMBERS("test_a_forecast_reads_the_last_rows_of_a_series"),),
    ),
    Edit(
        "series: the target is the row just read",
        "return ValuesBatch(indices, rows[:, :-1], rows[:, 1:])",
        "return ValuesBatch(indices, rows[:, :-1], rows[:, :-1])",
        (NUMBERS("test_the_last_rows_are_held_out_in_time"),),
    ),
    Edit(
        "series: errors are averaged over forecasts, not rows",
        "counts = np.array([len(error) for error in errors], dtype=np.float64)",
        "counts = np.ones(len(errors))",
        (NUMBERS("test_naive_forecasts_and_scores_worked_out_by_hand"),),
    ),
    Edit(
        "series: dates continue from the first one",
        "date, written = self.dates[-1], []",
        "date, written = self.dates[0], []",
        ("tests/test_numbers.py::test_dates_go_on_as_they_are_written",),
    ),
    Edit(
        "series: the validation loss sums the errors of the last series only",
        "            total += float(wrong.square().sum())\n",
        "            total = float(wrong.square().sum())\n",
        (NUMBERS("test_every_series_counts_in_the_validation_loss"),),
    ),
]
