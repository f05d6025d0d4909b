"""Wrong edits of the tasks that read texts: language modelling, pretraining, classification, tagging."""

from __future__ import annotations

from wrong_edits.edit import Edit

LM = "tests/test_language_modelling.py::{}".format
ROW = "tests/test_pretraining_rows.py::{}".format
DOCUMENTS = "tests/test_documents.py::{}".format
PRETRAINING = "tests/test_pretraining.py::{}".format
CLASSES = "tests/test_classification.py::{}".format
TAGS = "tests/test_tags.py::{}".format
TAGGING = "tests/test_tagging.py::{}".format

EDITS = [
    # language modelling: reading, scoring
    Edit(
        "language modelling: documents start one line late",
        "        if not parts:\n            first = number\n        parts.append(line)",
        "        if not parts:\n            first = number + 1\n        parts.append(line)",
        (DOCUMENTS("test_a_separator_is_a_line_and_belongs_to_no_document"),),
    ),
    Edit(
        "language modelling: a look shades each token by the surprisal of the next one",
        "bits[max(0, one.start - 1) : one.stop - 1]",
        "bits[one.start : one.stop]",
        ("tests/test_language_model_look.py::test_a_given_text_is_shaded_by_surprisal",),
    ),
    Edit(
        "documents: end tokens are counted as tokens of the text",
        "len(encoded) - encoded.end_token * encoded.num_documents",
        "len(encoded)",
        (LM("test_a_model_is_trained_and_scores_every_token_of_a_file"),),
    ),
    Edit(
        "language modelling: the end of one document is in both training and validation sets",
        "(replace(d, text=d.text[:cut]) if d == whole else d for d in documents)",
        "(d for d in documents)",
        (DOCUMENTS("test_of_a_single_document_the_last_share_validates"),),
    ),
    Edit(
        "language modelling: the validation loss includes end tokens",
        "tokens = sum(len(row) - self.end_token for row in rows)",
        "tokens = sum(len(row) for row in rows)",
        (LM("test_a_model_is_trained_and_scores_every_token_of_a_file[gpt]"),),
    ),
    Edit(
        "language modelling: perplexity per word is per token",
        '"perplexity per word", nll, words, 1, np.exp)',
        '"perplexity per word", nll, tokens, 1, np.exp)',
        (LM("test_bits_per_byte_do_not_depend_on_how_a_text_is_cut"),),
    ),
    Edit(
        "language modelling: the token of a piece's first character is assigned to the previous piece",
        'np.searchsorted(self.starts[first:last], characters, side="right") - 1',
        'np.searchsorted(self.starts[first:last], characters, side="left") - 1',
        (LM("test_bits_per_byte_do_not_depend_on_how_a_text_is_cut"),),
    ),
    Edit(
        "language modelling: the loss by place counts places from 1",
        "*(one.seen for one in scores)]) - 1",
        "*(one.seen for one in scores)])",
        (LM("test_the_loss_by_place_begins_at_the_first_place"),),
    ),
    Edit(
        "language modelling: every chunk of a row begins without the state of the one before",
        "begins=not chunks[0])",
        "begins=True)",
        (LM("test_the_loss_of_batches_with_carried_state_is_that_of_one_long_pass"),),
    ),
    Edit(
        "language modelling: of states that a checkpoint holds, only the last group is restored",
        "groups.setdefault(number, {})[key] = tensor",
        "groups = {number: {**groups.get(number, {}), key: tensor}}",
        (LM("test_each_row_goes_on_from_its_own_state_however_the_batch_is_divided"),),
    ),
    Edit(
        "pretraining: no chosen token is read as a random one",
        "is_random &= draw[1] < how.mask_token_share + how.random_token_share",
        "is_random &= draw[1] < how.mask_token_share",
        (ROW("test_fifteen_percent_are_chosen_of_which_most_are_masked_some_random_and_some_kept"),),
    ),
    # pretraining: reading, scoring, validation
    Edit(
        "pretraining: sentences after the first start one character early",
        "lengths = [0, *(len(sentence) + 1 for sentence in sentences[:-1])]",
        "lengths = [0, *(len(sentence) for sentence in sentences[:-1])]",
        (ROW("test_a_text_is_read_with_one_blank_between_its_sentences"),),
    ),
    Edit(
        "pretraining: pairs are assigned to the document of their second text",
        "owner = passages.document_at(rows.first)\n",
        "owner = passages.document_at(rows.second)\n",
        (PRETRAINING("test_a_pair_counts_for_the_document_of_its_first_text"),),
    ),
    Edit(
        "pretraining: the less probable answer counts as correct",
        "right = nats < -scores[np.arange(len(labels)), 1 - labels]",
        "right = nats > -scores[np.arange(len(labels)), 1 - labels]",
        (PRETRAINING("test_scores_of_words_and_pairs_worked_out_by_hand"),),
    ),
    Edit(
        "pretraining: the loss of pairs is per masked word",
        'rate(nats, names[1], column(f"{kind}_nats"), counts, 3)',
        'rate(nats, names[1], column(f"{kind}_nats"), column("masked"), 3)',
        (PRETRAINING("test_scores_of_words_and_pairs_worked_out_by_hand"),),
    ),
    Edit(
        "pretraining: predict --next asks whether the first text follows the second",
        "tuple(text.split(BETWEEN)) for text in texts",
        "tuple(text.split(BETWEEN)[::-1]) for text in texts",
        (PRETRAINING("test_predict_next_takes_two_arguments_or_two_columns"),),
    ),
    Edit(
        "pretraining: pairs of a batch are weighted as those of the pass made last",
        'parts["next"] = batch.pair_weight *',
        'parts["next"] = self.pass_of(max(self._passes)).pair_weight *',
        (PRETRAINING("test_the_loss_and_the_message_are_of_the_pass_of_the_batch"),),
    ),
    Edit(
        "pretraining: checkpoints are selected by the masked words alone",
        'for name in ("masked_loss", "next_loss") if name in values',
        'for name in ("masked_loss",) if name in values',
        (PRETRAINING("test_either_part_can_be_switched_off[masked_words-next]"),),
    ),
    Edit(
        "imported bert: the end token of heed's own vocabularies begins the second segment",
        "(tokens == self.config.end_token)",
        "(tokens == 3)",
        ("tests/test_checkpoints_bert.py::test_segments_of_a_pair_begin_after_the_end_token",),
    ),
    Edit(
        "imported vocabularies: texts end with the end token of heed's own",
        "moved.scatter_(1, lengths + 1, special.end)",
        "moved.scatter_(1, lengths + 1, 3)",
        ("tests/test_checkpoints_use.py::test_a_child_keeps_the_files_while_the_tokens_are_the_same",),
    ),
    Edit(
        "pretraining: pairs are masked when scored",
        "collate_rows(passages, rows, indices, None, _SEEDS, double, special)",
        "collate_rows(passages, rows, indices, self.masking, _SEEDS, double, special)",
        (PRETRAINING("test_pairs_are_scored_unmasked_and_in_rows_that_no_seed_changes"),),
    ),
    Edit(
        "pretraining: unknown words are masked and count as correct answers",
        "(tokens != special.end) & (tokens != special.unknown)",
        "(tokens != special.end)",
        (ROW("test_unknown_words_are_never_to_be_predicted"),),
    ),
    Edit(
        "pretraining: scored rows depend on the seed",
        "return draw_rows(passages, self.cut, 0, None)",
        "return draw_rows(passages, self.cut, self.config.training.seed, 0)",
        (PRETRAINING("test_pairs_are_scored_unmasked_and_in_rows_that_no_seed_changes"),),
    ),
    # classification: reading, scoring, saving
    Edit(
        "labels are not in numerical order",
        "    return sorted(set(labels), key=key)\n",
        "    return sorted(set(labels))\n",
        ("tests/test_texts.py::test_labels_are_ordered_by_value_and_by_letter",),
    ),
    Edit(
        "labels are saved in a different order from the model's",
        "text = json.dumps(labels, ensure_ascii=False, indent=1)",
        "text = json.dumps(labels[::-1], ensure_ascii=False, indent=1)",
        (CLASSES("test_a_loaded_run_predicts_the_same_and_knows_its_labels"),),
    ),
    Edit(
        "classification: lines are counted from 0",
        "enumerate(lines_of(path, findings), start=1), text)",
        "enumerate(lines_of(path, findings), start=0), text)",
        ("tests/test_texts.py::test_a_mistake_is_named_with_its_place",),
    ),
    Edit(
        "classification: rows of the confusion matrix are predictions",
        "confusion_matrix(true.argmax(1), predicted.argmax(1),",
        "confusion_matrix(predicted.argmax(1), true.argmax(1),",
        (CLASSES("test_scores_of_labels_worked_out_by_hand"),),
    ),
    Edit(
        "classification: a decision against a label is as sure as its probability",
        "np.where(predicted, probabilities, 1 - probabilities)",
        "probabilities",
        (CLASSES("test_a_decision_against_a_label_is_as_sure_as_it_is_improbable"),),
    ),
    Edit(
        "texts on disk: a batch counts its texts from 0, not from the place of each in the training set",
        "        return replace(chosen, indices=indices)\n",
        "        return chosen\n",
        ("tests/test_large.py::test_labelled_texts_on_disk_are_those_in_memory",),
    ),
    Edit(
        "classification: the least confident errors come first",
        "key=lambda i: -outputs[i].probability)",
        "key=lambda i: outputs[i].probability)",
        (CLASSES("test_the_errors_that_the_model_was_surest_of_come_first"),),
    ),
    Edit(
        "classification: omitted tokens are not counted",
        "    return kept, max(0, -left)\n",
        "    return kept, max(0, left)\n",
        (CLASSES("test_a_long_text_is_read_up_to_a_length_and_told"),),
    ),
    Edit(
        "held out: equal texts are split between sets",
        "    distinct, groups, sizes = np.unique(keys, return_inverse=True, return_counts=True)\n",
        "    distinct, groups, sizes = keys, np.arange(len(keys)), np.ones(len(keys), np.int64)\n",
        ("tests/test_texts.py::test_what_is_held_out_is_counted_and_equal_texts_stay_together",),
    ),
    Edit(
        "held out: a label may lose its last training text",
        "        if sizes[group] <= wanted and all(left[label] > least for label in labels[own[group]]):\n",
        "        if sizes[group] <= wanted:\n",
        ("tests/test_texts.py::test_no_label_loses_all_its_training_texts_whatever_is_held_out",),
    ),
    Edit(
        "held out: a resumed run of an earlier version trains on what it had held out",
        'return {**values, "hold_out": "hash"}',
        "return values",
        ("tests/test_texts.py::test_a_run_of_an_earlier_version_keeps_what_it_had_held_out",),
    ),
    # tagging: reading, scoring, saving
    Edit(
        "tagging: words are left out when a text is tagged",
        "        if self.training and self.word_dropout:\n",
        "        if self.word_dropout:\n",
        ("tests/test_tagging.py::test_words_are_left_out_in_training_only",),
    ),
    Edit(
        "tagging: the last letters of a word are its first",
        'f"-{low[-n:]}" for n in last',
        'f"-{low[:n]}" for n in last',
        ("tests/test_tagging.py::test_affixes_of_words_by_hand",),
    ),
    Edit(
        "tagging: a column from the end is the first one",
        "        return number % len(row)\n",
        "        return max(number, 0)\n",
        ("tests/test_tags.py",),
    ),
    Edit(
        "tagging: sentences start one line late",
        "yield number - len(rows), rows",
        "yield number - len(rows) + 1, rows",
        ("tests/test_tags.py",),
    ),
    Edit(
        "tagging: a type seen only with B in training cannot have I",
        'for letter in "BI" for kind in types',
        'for letter in "B" for kind in types',
        (TAGGING("test_a_type_that_only_begins_in_training_may_go_on_elsewhere"),),
    ),
    Edit(
        "tagging: recall is precision",
        'share("recall", "recall", hits, there)',
        'share("recall", "recall", hits, said)',
        (TAGS("test_precision_is_of_what_was_said_and_recall_of_what_was_there"),),
    ),
    Edit(
        "tagging: sentences of a batch exchange their tags",
        "tags = [self.labels[tag] for tag in best[row, :count].tolist()]",
        "tags = [self.labels[tag] for tag in best[-1 - row, :count].tolist()]",
        ("tests/test_validation.py::test_tagging",),
    ),
    Edit(
        "tagging: characters are not restored",
        "        if (folder / _CHARACTERS).is_file():\n",
        "        if False:\n",
        (TAGGING("test_a_loaded_run_predicts_the_same"),),
    ),
    Edit(
        "tagging: checkpoints for entities are selected by tag accuracy",
        'return "accuracy" if self.plain else "entity_f1"',
        'return "accuracy"',
        (TAGGING("test_a_type_that_only_begins_in_training_may_go_on_elsewhere"),),
    ),
    Edit(
        "tagging: the old tag is kept beside the new one",
        "*row[label + 1 :]]) if isinstance(row, list)",
        "*row[label:]]) if isinstance(row, list)",
        (TAGGING("test_columns_are_written_again_with_the_predicted_tags"),),
    ),
    Edit(
        "classification: recognised columns are not stored",
        "named = {field: column for field, column in read.items() if isinstance(column, str)}",
        "named: dict[str, str] = {}",
        ("tests/test_recognised.py::test_columns_that_were_recognised_are_stored_and_used",),
    ),
    Edit(
        "classification: columns of the training set are required of every file",
        "if form.known and table.names and not table.has(",
        "if False and not table.has(",
        ("tests/test_recognised.py::test_columns_that_were_recognised_are_stored_and_used",),
    ),
    Edit(
        "translation: a header is a pair",
        "if sure and source is None and target is None:",
        "if False:",
        ("tests/test_recognised.py::test_a_header_of_pairs_selects_the_columns_and_is_no_pair",),
    ),
    Edit(
        "alignment: links begin at the header",
        "return int(named and of_columns and not isinstance(data, HubSection | InMemory))",
        "return 0",
        ("tests/test_recognised.py::test_links_are_those_of_the_pairs_below_a_header",),
    ),
    Edit(
        "hub: the only two columns of texts are not recognised",
        "if source is target is None and len(table.texts) == 2:",
        "if False:",
        ("tests/test_hub.py::test_the_only_two_columns_of_texts_are_the_pair",),
    ),
    Edit(
        "check: columns of the table of lengths do not widen",
        "widths = [max(least, *(len(line[n]) + 2 for line in lines)) for n, least in",
        "widths = [least for n, least in",
        ("tests/test_language_modelling.py::test_the_table_of_lengths_widens_to_its_longest_number",),
    ),
    Edit(
        "classification: a look shows a label's own weights, not their difference from the mean over labels",
        "return weight[number] - weight.mean(0)",
        "return weight[number]",
        ("tests/test_claims.py",),
    ),
    Edit(
        "n-grams: case is kept",
        "    text = text.lower()\n    return [text[start:end]",
        "    return [text[start:end]",
        ("tests/test_classification_ngrams.py",),
    ),
    Edit(
        "n-grams: the body is kept without evidence for it",
        'if scores[share]["accuracy"] <= scores[0.0]["accuracy"]:',
        'if scores[share]["accuracy"] < 0:',
        ("tests/test_classification_ngrams.py",),
    ),
    Edit(
        "n-grams: words and characters are normalised together",
        "words, characters = normalize(idf * of_words, dim=-1), normalize(idf * ~of_words, dim=-1)\n",
        "words, characters = normalize(idf, dim=-1), 0\n",
        ("tests/test_classification_ngrams.py",),
    ),
    Edit(
        "images: after a broken picture, the other half of the files has no answer",
        "return self._labelled(pictures[:half], problems) + self._labelled(pictures[half:], problems)",
        "return self._labelled(pictures[:half], problems) + [NOTHING] * (len(pictures) - half)",
        ("tests/test_odd_inputs.py",),
    ),
    Edit(
        "classification: an imported run reads texts without the blanks around them",
        "return text if self.is_imported else text.strip()",
        "return text.strip()",
        ("tests/test_imported_texts.py",),
    ),
    Edit(
        "filling: a word that continues the one before the mask stands apart",
        "(before.rstrip() if tokenizer.masks_spaces else before) + best.word",
        "before + best.word",
        ("tests/test_imported_texts.py",),
    ),
    Edit(
        "classification: tokens that are cut from a pair are not counted",
        "return [*whole, between, *other], sum(lengths) - sum(kept)",
        "return [*whole, between, *other], 0",
        ("tests/test_text_pairs.py::test_of_a_pair_that_is_too_long_the_longer_text_is_cut_first",),
    ),
    Edit(
        "tagging: pieces of a framed sentence leave no room for the start and end token",
        "most = int(self.body.config.max_length) - frame_size(False)",
        "most = int(self.body.config.max_length)",
        ("tests/test_framed_tasks.py::test_a_sentence_longer_than_the_positions_is_tagged_in_pieces",),
    ),
    # what merging files once lost
    Edit(
        "links of characters: places of subwords in place of words",
        'of_words = Words.of(run.task.source_tokenizer, ids, "source", {}).sum(torch.from_numpy(weights))\n',
        "of_words = torch.from_numpy(weights)\n",
        ("tests/test_words.py",),
    ),
    Edit(
        "unknown words are copied by weights that nobody has checked",
        '.weights if check else seen.weights("cross", layer)',
        '.weights if False else seen.weights("cross", layer)',
        ("tests/test_words.py",),
    ),
    Edit(
        "looks: a word cut between two sentences is listed in both",
        "if start <= at.start < stop)",
        "if start < at.stop and at.start < stop)",
        ("tests/test_classification.py",),
    ),
    Edit(
        "evaluate: the whole training corpus is read to compare the sides of files",
        "return pair_reader(columns, suggest_task, self.task.names, again).read([*map(str, files)], findings)",
        "return [*pair_reader(columns, suggest_task, self.task.names, again).read([*map(str, files)], findings)]",
        ("tests/test_recognised.py",),
    ),
    # attributions, verdicts, edits
    Edit(
        "ig: the left end of each step, not its middle",
        "(torch.arange(number, device=vectors.device) + 0.5) / number",
        "torch.arange(number, device=vectors.device) / number",
        ("tests/test_attribution.py",),
    ),
    Edit(
        "attribution: a tied output layer reads the virtual table",
        "(tokens,), tie_weights=False)",
        "(tokens,), tie_weights=True)",
        ("tests/test_attribution.py",),
    ),
    Edit(
        "attribution: masks and separators are moved along the integral",
        "tokens = torch.where(self.held, self.tokens, tokens)",
        "pass",
        ("tests/test_attribution.py",),
    ),
    Edit(
        "patching: a network that reads from the right is patched in the order of its steps",
        "place = step if site.order is None else site.order[step]",
        "place = step",
        ("tests/test_patching.py",),
    ),
    Edit(
        "patching: a patched state is not carried on",
        "self.state = state if watch.here.slot is None else watch.here.slot.state(self._cell, state)",
        "self.state = state",
        ("tests/test_patching.py",),
    ),
    Edit(
        "verdict: rows that disagree on the first word are supported",
        "if above <= _LEVEL and agree >= len(judged) / 2:",
        "if above <= _LEVEL:",
        ("tests/test_verdict.py",),
    ),
    Edit(
        "verdict: uniform weights are judged with the weights as they are",
        "changed(Uniform(mechanism, layer, head)) if looked",
        "changed() if looked",
        ("tests/test_verdict.py",),
    ),
    Edit(
        "verdict: three words whose changes add up stand for one another",
        "(changes - row.changes[np.array(threes)].sum(axis=1)).tolist()",
        "changes.tolist()",
        ("tests/test_verdict.py",),
    ),
    Edit(
        "verdict: the word of a tag is compared with the others",
        "if key != n and key not in skipped and",
        "if key not in skipped and",
        ("tests/test_verdict.py",),
    ),
    Edit(
        "verdict: a self_rnn is judged by what it looked up after the word",
        'int(mechanism == "self")',
        "0",
        ("tests/test_verdict.py",),
    ),
    Edit(
        "block: the other weights keep their size",
        "return _scaled(left, weights.sum(-1, keepdim=True))",
        "return left",
        ("tests/test_edits_as_data.py",),
    ),
    Edit(
        "set: a masked key gets weight",
        "chosen = chosen if allowed is None else chosen * allowed",
        "chosen = chosen * 1.0",
        ("tests/test_edits_as_data.py",),
    ),
    Edit(
        "serve: any Host is answered",
        'if len(hosts) != 1 or hosts[0].decode("latin-1").lower() not in self.hosts:',
        "if len(hosts) != 1:",
        ("tests/test_serve.py",),
    ),
    Edit(
        "serve: any Origin is answered",
        'if any(origin.decode("latin-1").lower() not in allowed for origin in origins) or len(origins) > 1:',
        "if len(origins) > 1:",
        ("tests/test_serve.py",),
    ),
    Edit(
        "serve: a part of the token is enough",
        'if len(tokens) != 1 or not hmac.compare_digest(tokens[0], b"Bearer " + self.token):',
        'if len(tokens) != 1 or not tokens[0].startswith(b"Bearer " + self.token):',
        ("tests/test_serve.py",),
    ),
    Edit(
        "serve: what nobody waits for goes on",
        "            raise GivenUpError\n",
        "            pass\n",
        ("tests/test_serve.py",),
    ),
    Edit(
        "serve: a bad input spoils the others of its batch",
        "                    self._alone(inputs, result)",
        "                    result.set_exception(error)",
        ("tests/test_serve.py",),
    ),
]
