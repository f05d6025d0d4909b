"""Wrong edits of answers, conversations, what a validation returns, fields of a configuration."""

from __future__ import annotations

from wrong_edits.edit import FIELDS, VALIDATION, Edit

EDITS = [
    # answers
    Edit(
        "predict: the first answer of a pipe waits for a whole window",
        "size = size or (most if arriving is None else min(_FIRST, most))",
        "size = size or most",
        ("tests/test_answering.py",),
    ),
    Edit(
        "predict: a line is lost if another line of its batch cannot be answered",
        "yield from self._each(rest[len(rest) // 2 :], where, single)",
        "yield from self._each(rest[len(rest) // 2 + 1 :], where, single)",
        ("tests/test_answering.py",),
    ),
    Edit(
        "predict: unreadable rows shift the answers to later rows",
        "        except BadLine as bad:\n            yield row.number, bad",
        "        except BadLine:\n            continue",
        ("tests/test_answering.py",),
    ),
    Edit(
        "predict: unreadable conversations shift the responses to later ones",
        "yield from _gaps(findings.left_out.total() - left_out)\n        left_out = findings.left_out.total()",
        "left_out = findings.left_out.total()",
        ("tests/test_dialogue.py",),
    ),
    # conversations
    Edit(
        "hred: the decoder attends to the turn it has to write",
        "memory.turn_of[state.rows.source_of] < read.unsqueeze(1)",
        "memory.turn_of[state.rows.source_of] <= read.unsqueeze(1)",
        ("tests/test_hred.py",),
    ),
    Edit(
        "hred: starts from the state before the last turn",
        "states[row, (read - 1).clamp_min(0)]",
        "states[row, (read - 2).clamp_min(0)]",
        ("tests/test_hred.py",),
    ),
    Edit(
        "look at a conversation: turns that are cut off shift the numbers of the others",
        "_turn_name(conversation, n) for n in range(read.first, len(conversation.turns))",
        "_turn_name(conversation, n) for n in range(len(conversation.turns) - read.first)",
        ("tests/test_dialogue_look.py",),
    ),
    Edit(
        "look at a conversation: a step shows the dialogue state after the previous turn",
        "net.hidden[n] for net in dialogue",
        "net.hidden[n - 1] for net in dialogue",
        ("tests/test_dialogue_look.py",),
    ),
    Edit(
        "look at a conversation: a turn's vector ends with the backward state of its last word",
        "net.hidden[net.last(place)] for net in read",
        "net.hidden[place.stop - 1] for net in read",
        ("tests/test_dialogue_look.py",),
    ),
    Edit(
        "look at a conversation: turns of different lengths exchange their words' states",
        "for row, n in enumerate(numbers)",
        "for row, n in enumerate(reversed(numbers))",
        ("tests/test_dialogue_look.py",),
    ),
    Edit(
        "hierarchical attention: one softmax over all words",
        "part_of, shares.shape[-1], mask)",
        "torch.zeros_like(part_of), shares.shape[-1], mask)",
        ("tests/test_hred.py",),
    ),
    Edit(
        "rows of one source share the mask of the first",
        "grouped = self.rows.group(self.seen[:, None, None].expand(-1, 1, num_queries, -1)).squeeze(1)",
        "grouped = self.rows.group(self.seen[:1, None, None].expand(len(self.seen), 1, num_queries, -1)).squeeze(1)",
        ("tests/test_hred.py",),
    ),
    # what validate returns
    Edit(
        "translation: loss per example, not per token",
        '"loss": sum(nll) / max(1, sum(tokens))',
        '"loss": sum(nll) / max(1, len(tokens))',
        VALIDATION,
    ),
    Edit(
        "translation: token accuracy is averaged over sentences",
        'share("token_accuracy", "token accuracy", correct, tokens)\n        return',
        'share("token_accuracy", "token accuracy", correct)\n        return',
        VALIDATION,
    ),
    Edit(
        "translation: exact match without normalisation",
        "float(normalize(one) == normalize(other))",
        "float(one == other)",
        VALIDATION,
    ),
    Edit(
        "summarisation: generated and copied parts exchanged",
        "mixed = (share * generated).scatter_add(-1, copied, (1.0 - share) * weights.float())",
        "mixed = ((1.0 - share) * generated).scatter_add(-1, copied, share * weights.float())",
        ("tests/test_summarisation.py",),
    ),
    Edit(
        "summarisation: documents are not cut",
        "return super().framed(source[: self.max_source])",
        "return super().framed(source)",
        ("tests/test_summarisation.py",),
    ),
    Edit(
        "ROUGE: combining marks separate words",
        'if category == "M":\n        return "mark"',
        'if category == "M":\n        return "apart"',
        ("tests/test_rouge.py",),
    ),
    Edit(
        "translation: BLEU and chrF exchanged",
        'metric: Any = {"bleu": BLEU, "chrf": CHRF, "ter": TER}[name](**options)',
        'metric: Any = {"bleu": CHRF, "chrf": BLEU, "ter": TER}[name](**options)',
        VALIDATION,
    ),
    Edit(
        "translation: decoding is cut at half",
        "beam_size=1, max_length=chosen.longest)",
        "beam_size=1, max_length=chosen.longest // 2)",
        VALIDATION,
    ),
    Edit(
        "translation: outputs and references exchanged",
        "*of_texts, exact = output_measures(texts, references, self.quick_scores",
        "*of_texts, exact = output_measures(references, texts, self.quick_scores",
        VALIDATION,
    ),
    Edit(
        "translation: the forced loss counts padding",
        "            real = batch.target_mask\n",
        "            real = torch.ones_like(batch.target_mask)\n",
        ("tests/test_validation.py", "tests/test_training.py"),
    ),
    Edit(
        "one correct label counts as all labels correct",
        'share("accuracy", "accuracy", (true == predicted).all(1)',
        'share("accuracy", "accuracy", (true == predicted).any(1)',
        VALIDATION,
    ),
    Edit(
        "labels: the validation loss is a sum",
        "loss = float(label_loss(logits, labels, self.sigmoid)) / len(labels)",
        "loss = float(label_loss(logits, labels, self.sigmoid))",
        VALIDATION,
    ),
    Edit(
        "micro F1 without the factor of 2",
        'share("micro_f1", "micro F1", (2 * hits.sum(1)).tolist(), both.sum(1).tolist())',
        'share("micro_f1", "micro F1", hits.sum(1).tolist(), both.sum(1).tolist())',
        VALIDATION,
    ),
    Edit(
        "classification: the decision threshold is 0.1",
        "return (probabilities >= 0.5).numpy()",
        "return (probabilities >= 0.1).numpy()",
        VALIDATION,
    ),
    Edit(
        "tagging: loss per sentence, not per word",
        'return {"loss": total / count}  # for a tagger, over its words',
        'return {"loss": total / len(encoded)}',
        VALIDATION,
    ),
    Edit(
        "tagging: accuracy per sentence, not per word",
        'share("accuracy", "accuracy of tags", right, [len(tags) for tags in true])',
        'share("accuracy", "accuracy of tags", right)',
        VALIDATION,
    ),
    Edit(
        "tagging: an entity counts as correct if only its type is",
        "both = [(set(entities(t)), set(entities(p))) for t, p in zip(true, predicted, strict=True)]\n    hits, said",
        "both = [({e[0] for e in entities(t)}, {e[0] for e in entities(p)}) for t, p in zip(true, predicted)]\n"
        "    hits, said",
        VALIDATION,
    ),
    Edit(
        "series: context rows are scored too",
        "max(0, part.start - first - 1) :]",
        "0:]",
        VALIDATION,
    ),
    Edit(
        "series: the loss is per row, not per number",
        "count += wrong.numel()",
        "count += wrong.shape[1]",
        VALIDATION,
    ),
    Edit(
        "series: no rows are read before the validation rows",
        "first = max(0, part.start - self.config.data.window)\n            rows",
        "first = max(0, part.start - 1)\n            rows",
        VALIDATION,
    ),
    Edit(
        "macro F1 counts labels that never occur",
        "occurs = both > 0",
        "occurs = both >= 0",
        ("tests/test_validation.py", "tests/test_classification.py"),
    ),
    Edit(
        "macro F1 without the factor of 2",
        "each = np.where(occurs, 2 * right / np.maximum(both, 1), 0.0)",
        "each = np.where(occurs, right / np.maximum(both, 1), 0.0)",
        VALIDATION,
    ),
    # fields that change nothing, or too much
    Edit(
        "the loop ignores label smoothing",
        "self._task.loss(self.model, batch, self._label_smoothing)",
        "self._task.loss(self.model, batch, 0.0)",
        (FIELDS("TrainingConfig.label_smoothing"),),
    ),
    Edit(
        "two-class smoothing is doubled",
        "target = labels.to(logits.dtype) * (1 - smoothing) + smoothing / 2",
        "target = labels.to(logits.dtype) * (1 - 2 * smoothing) + smoothing",
        VALIDATION,
    ),
    Edit(
        "smoothing of several labels only lowers the targets",
        "target = labels * (1 - smoothing) + smoothing / 2",
        "target = labels * (1 - smoothing)",
        VALIDATION,
    ),
    Edit(
        "tagging ignores label smoothing",
        'return cross_entropy(logits, chosen(tags, mask), reduction="sum", label_smoothing=label_smoothing)',
        'return cross_entropy(logits, chosen(tags, mask), reduction="sum")',
        VALIDATION,
    ),
    Edit(
        "table ignores label smoothing",
        "self.label_loss(model(batch.values), batch.targets, label_smoothing)",
        "self.label_loss(model(batch.values), batch.targets, 0.0)",
        VALIDATION,
    ),
    Edit(
        "generation ignores beam_size",
        "beam_size=max(num_best, given.beam_size) if beam_size is None else beam_size",
        "beam_size=num_best if beam_size is None else beam_size",
        (FIELDS("GenerationConfig.beam_size"),),
    ),
    Edit(
        "generation ignores length_penalty",
        "length_penalty=given.length_penalty if length_penalty is None else length_penalty",
        "length_penalty=1.0 if length_penalty is None else length_penalty",
        (FIELDS("GenerationConfig.length_penalty"),),
    ),
    Edit(
        "generation ignores min_length",
        "min_length=given.min_length if min_length is None else min_length",
        "min_length=0 if min_length is None else min_length",
        (FIELDS("GenerationConfig.min_length"),),
    ),
    Edit(
        "generation ignores max_length",
        "max_length=longest if max_length is None else max_length",
        "max_length=20 if max_length is None else max_length",
        (FIELDS("GenerationConfig.max_length"),),
    ),
    Edit(
        "clipping is ignored",
        "clip or math.inf",
        "math.inf",
        (FIELDS("TrainingConfig.clip"),),
    ),
    Edit(
        "betas are ignored",
        "beta2=self._betas[1]",
        "beta2=0.999",
        ("tests/test_optimizer.py",),
    ),
    Edit(
        "weight decay applies to biases",
        "((config.weight_decay, True), (0.0, False))",
        "((config.weight_decay, True), (config.weight_decay, False))",
        ("tests/test_optimizer.py", "tests/test_training.py"),
    ),
    Edit(
        "patience is one validation too long",
        "return patience is not None and p.bad >= patience",
        "return patience is not None and p.bad > patience",
        ("tests/test_training.py",),
    ),
    Edit(
        "the worst weights are kept",
        "if not p.best_rank or rank > p.best_rank or replaces:",
        "if not p.best_rank or rank < p.best_rank or replaces:",
        ("tests/test_training.py", FIELDS("TranslationEvaluation.select_by")),
    ),
    Edit(
        "a larger loss is better",
        "return [-loss] if self._select_by",
        "return [loss] if self._select_by",
        (FIELDS("TranslationEvaluation.select_by"), "tests/test_training.py"),
    ),
    Edit(
        "the oldest checkpoints are averaged",
        "recent = p.kept[-self._average :]",
        "recent = p.kept[: self._average]",
        ("tests/test_training.py",),
    ),
    # comparisons, advice on budgets
    Edit(
        "compare: a run that ends in the moment of Ctrl-C lets one more begin",
        "while waiting and not asked and failure is None and len(running) < jobs:",
        "while waiting and failure is None and len(running) < jobs:",
        ("tests/test_compare.py::test_a_run_that_ends_in_the_moment_of_ctrl_c_is_the_last",),
    ),
    Edit(
        "compare on a cluster: the next attempt takes the folder that a lost worker writes to",
        "        _copy(before[-1], made)",
        "        os.replace(before[-1], made)",
        ("tests/test_cluster.py::test_each_attempt_has_its_own_folder",),
    ),
    Edit(
        "compare on a cluster: numbers of attempts begin again with each command",
        'plan[one.name] = {**plan.get(one.name, {}), "label": one.label, "config": asked}',
        'plan[one.name] = {"label": one.label, "config": asked}',
        ("tests/test_cluster.py::test_a_run_that_ends_its_workers_is_given_up",),
    ),
    Edit(
        "compare: a model is tested against the best of all sizes of the training set",
        "if one.train_size == self.entries[entry].train_size]",
        "]",
        ("tests/test_learning_curves.py::test_differences_are_within_a_size",),
    ),
    Edit(
        "compare: differences at a size name the rows of another size",
        "tuple(replace(d, other=group[d.other]) for d in each)",
        "each",
        ("tests/test_learning_curves.py::test_differences_are_within_a_size",),
    ),
    Edit(
        "compare: no row is tested against the baseline",
        "for other in (best, baseline) if other is not None and other != place",
        "for other in (best,) if other is not None and other != place",
        ("tests/test_compare.py::test_differences_are_against_the_best_and_the_baseline",),
    ),
    Edit(
        "compare: rows that were not trained enough are tested",
        "others = [other for other in named if untested.isdisjoint((place, other))]",
        "others = [*named]",
        ("tests/test_compare.py::test_a_row_that_was_not_trained_enough_is_marked_everywhere_and_tested_nowhere",),
    ),
    Edit(
        "compare: a number of updates that the user chose is not enough",
        "if training.steps is not None or updates >= enough or passes >= ENOUGH_PASSES:",
        "if updates >= enough or passes >= ENOUGH_PASSES:",
        ("tests/test_compare.py::test_a_budget_too_small_for_a_model_is_marked",),
    ),
    # looks
    Edit(
        "a span of characters is judged by its first one",
        "shares = np.add.reduceat(weights, [start for start, _ in units], axis=1)",
        "shares = weights[:, [start for start, _ in units]]",
        ("tests/test_draw.py::test_a_compact_row_ends_with_its_best_span",),
    ),
    Edit(
        "rollout multiplies the layers in the wrong order",
        "mixed if not states else mixed @ states[-1]",
        "mixed if not states else states[-1] @ mixed",
        ("tests/test_picture_maps.py",),
    ),
    Edit(
        "lesson mess: held-out reviews are also in the training text",
        '(draw_reviews("train", kind) if split != "train" else [])',
        "[]",
        (
            "tests/test_lessons_trained.py::test_reviews_are_labelled_by_the_balance_of_their_halves_and_the_joint_tells_nothing",
        ),
    ),
    Edit(
        "a run of several passes is said to have too few updates",
        "if updates >= enough or passes >= ENOUGH_PASSES:",
        "if updates >= enough:",
        ("tests/test_budget.py::test_a_handful_of_updates_is_warned_of",),
    ),
    Edit(
        "files of looks: a field that has a default is forgotten",
        "return [one for one in fields(value) if one.compare]",
        'return [one for one in fields(value) if one.compare and one.name != "others"]',
        ("tests/test_look_files.py::test_every_field_of_a_look_is_read_back",),
    ),
    Edit(
        "files of looks: the header of an array is believed, whatever follows it",
        'if kind.kind not in "fbiu" or math.prod(shape) * kind.itemsize != len(data) - file.tell():',
        'if kind.kind not in "fbiu":',
        ("tests/test_look_files.py::test_a_header_that_promises_too_much_reserves_no_memory",),
    ),
    Edit(
        "a number of a look: the lines of NumPy leave out the scale of the score",
        '"q @ k" + f" * {self.scale:.12g}" * (self.scale != 1)',
        '"q @ k"',
        ("tests/test_opened.py::test_every_weight_is_what_its_numbers_give",),
    ),
    Edit(
        "a number of a look: the softmax of a word in a turn runs over the words of all turns",
        "allowed &= part_of[row].cpu() == part_of[row, index].cpu()",
        "allowed &= part_of[row].cpu() >= 0",
        ("tests/test_opened.py::test_every_weight_is_what_its_numbers_give",),
    ),
]
