"""Wrong edits of what tasks share: capabilities, ensembles, predictions, the scoring loop, comparisons."""

from __future__ import annotations

from wrong_edits.edit import Edit

CONFORMANCE = "tests/test_conformance.py::{}".format
LABELLED = "tests/test_compare_labelled.py"
PRUNING = "tests/test_pruning.py::{}".format

EDITS = [
    Edit(
        "a report does not name its task",
        'return {"task": self.config.task, **scores}',
        "return scores",
        (CONFORMANCE("test_a_report_names_its_task_and_every_measure_of_the_outcomes"),),
    ),
    Edit(
        "results of a scored batch are in the order of the batch",
        "for i, result in zip(indices, score(batch), strict=True):",
        "for i, result in zip(sorted(indices), score(batch), strict=True):",
        ("tests/test_classification.py",),
    ),
    Edit(
        "an ensemble of labels is its first run",
        "return torch.stack([probabilities(run) for run in self.members]).mean(0)",
        "return torch.stack([probabilities(run) for run in self.members])[0]",
        (LABELLED,),
    ),
    Edit(
        "an ensemble of taggers decides without the CRF of its member",
        "deciding = next((run for run in runs if isinstance(run.model.head, CrfHead)), runs[0])",
        "deciding = runs[0]",
        (LABELLED,),
    ),
    Edit(
        "several labels are one string in JSON",
        '"label": list(self.labels) if self.several else self.label,',
        '"label": self.label,',
        ("tests/test_classification.py::test_a_prediction_of_labels_formats_itself_for_every_use",),
    ),
    Edit(
        "a capability is found missing only for single runs",
        "if hasattr(type(run), name) and not (name in _SINGLE and len(run.members) > 1):",
        "if hasattr(type(run), name):",
        (LABELLED, "tests/test_ensembles.py"),
    ),
    Edit(
        "entropy is compared with that over all keys, masked ones too",
        "most = _allowed(map)[rows].sum(-1).double().log()",
        "most = torch.ones_like(_allowed(map)[rows]).sum(-1).double().log()",
        ("tests/test_remarks.py",),
    ),
    Edit(
        "a row with tied largest weights looks at the first of them",
        "single = (weights == weights.amax(-1, keepdim=True)).sum(-1) == 1",
        "single = (weights == weights.amax(-1, keepdim=True)).sum(-1) > 0",
        ("tests/test_remarks.py",),
    ),
    Edit(
        "pruning keeps the first heads instead of those that are missed most",
        "module.keep(own)",
        "module.keep(range(len(own)))",
        (PRUNING("test_every_command_works_on_a_pruned_run"),),
    ),
    Edit(
        "fast decoding takes the heads of the first block for all",
        "cross_heads = [block.cross.heads for block in blocks if block.cross is not None]",
        "cross_heads = [blocks[0].attention.heads for _ in blocks]",
        (PRUNING("test_writing_is_the_same_fast_and_watched"),),
    ),
    Edit(
        "a difference is the weights without the edits minus those with them",
        "after.weights - before.weights",
        "before.weights - after.weights",
        ("tests/test_edits_as_data.py::test_an_edited_look_shows_what_the_edits_change",),
    ),
    Edit(
        "a thumbnail shows every n-th weight, not the largest",
        "values = np.fmax.reduceat(values, starts, axis=axis)",
        "values = values.take(starts, axis=axis)",
        ("tests/test_overview.py",),
    ),
    Edit(
        "masked cells of an overview look like weights of 0",
        '"mask": None if mask is None or exact else masks.setdefault(mask, len(masks)),',
        '"mask": None,',
        ("tests/test_draw.py",),
    ),
    Edit(
        "the shortest repetition is not seen",
        "if start >= 0 and stop - start >= max(12, 4 * period):",
        "if start >= 0 and stop - start > max(12, 4 * period):",
        ("tests/test_draw.py",),
    ),
]
