"""Wrong edits of the tasks that write, and of word alignment: dialogue, summarisation, links between words."""

from __future__ import annotations

from wrong_edits.edit import Edit

DIALOGUE = "tests/test_dialogue.py::{}".format
SUMMARIES = "tests/test_summarisation.py::{}".format
ALIGN = "tests/test_align.py::{}".format

BASELINES = "tests/test_baselines.py::{}".format

EDITS = [
    # the output of the best baseline
    Edit(
        "baselines: the worst one is shown for the best",
        "max(made, key=lambda name: float(made[name][first]",
        "min(made, key=lambda name: float(made[name][first]",
        (BASELINES("test_the_best_baseline_is_the_one_with_the_best_first_score"),),
    ),
    Edit(
        "baselines: lines of a file get a further line instead of a column",
        "self._of_lines = where is not None",
        "self._of_lines = False",
        (BASELINES("test_the_output_of_the_best_baseline_stands_beside_that_of_the_model"),),
    ),
    Edit(
        "baselines: the lead of a report has one word more",
        'cls(whole_number(found[1] or "1"), found[2])',
        'cls(whole_number(found[1] or "1") + 1, found[2])',
        (SUMMARIES("test_the_lead_of_the_report_is_written_beside_the_summary_without_the_data"),),
    ),
    # dialogue: reading, validation, scoring, saving
    Edit(
        "dialogue: conversations start at their last line",
        "first = first if turns else number",
        "first = number",
        ("tests/test_conversations.py::test_packed_files_and_several_paragraphs",),
    ),
    Edit(
        "dialogue: blank turns shift the speakers of the others",
        "            turns.append(text)\n            speakers.append(speaker)\n        else:",
        "            turns.append(text)\n            speakers.insert(0, speaker)\n        else:",
        ("tests/test_conversations.py::test_blank_turns_take_their_speaker_with_them",),
    ),
    Edit(
        "dialogue: the first turn counts as a response",
        "return [n for n in range(1, len(conversation.turns)) if respond",
        "return [n for n in range(len(conversation.turns)) if respond",
        (DIALOGUE("test_a_joined_history_has_the_token_of_its_speaker_before_each_turn"),),
    ),
    Edit(
        "dialogue: speaker tokens do not count towards the history length",
        "room -= lengths[place] + 1",
        "room -= lengths[place]",
        (DIALOGUE("test_the_oldest_turns_are_left_out_and_counted"),),
    ),
    Edit(
        "dialogue: scores are assigned to responses in batch order",
        "rows = np.concatenate([np.arange(*first[index : index + 2]) for index in indices])",
        "rows = np.arange(sum(int(first[index + 1] - first[index]) for index in indices))",
        (DIALOGUE("test_a_reference_scores_the_same_whatever_shares_its_batch"),),
    ),
    Edit(
        "dialogue: responses are resampled, not conversations",
        "np.add.at(sums, np.asarray(owners, dtype=np.int64), measure.statistics)",
        "np.add.at(sums, np.arange(len(owners)) % count, measure.statistics)",
        (DIALOGUE("test_responses_count_for_their_conversation_and_by_the_turns_before_them"),),
    ),
    Edit(
        "dialogue: scores by number of turns leave out the last of each range",
        "if first <= count <= last]",
        "if first <= count < last]",
        (DIALOGUE("test_responses_count_for_their_conversation_and_by_the_turns_before_them"),),
    ),
    Edit(
        "dialogue: speakers are restored in a different order",
        'Speakers(("", *names)), None)',
        'Speakers(("", *names[::-1])), None)',
        (DIALOGUE("test_validation_and_its_speakers_are_those_of_the_references"),),
    ),
    Edit(
        "distinct-n is averaged over outputs",
        "new, [len(one) for one in grams])",
        "new, [1 for one in grams])",
        ("tests/test_rouge.py",),
    ),
    # summarisation: reading, validation, scoring
    Edit(
        "summarisation: the lead is the worst one",
        "return max(every, key=score)",
        "return min(every, key=score)",
        (SUMMARIES("test_the_lead_is_as_long_as_scores_best_on_other_documents"),),
    ),
    Edit(
        "summarisation: the lead is chosen on the documents to be scored",
        'return Lead.chosen(self.examples("valid"))',
        'return Lead.chosen(self.examples("test"))',
        (SUMMARIES("test_a_run_reports_rouge_beside_bleu_with_intervals_and_the_lead"),),
    ),
    Edit(
        "summarisation: a document that fits exactly is reported as cut",
        "if len(tokens) > self.max_source]",
        "if len(tokens) >= self.max_source]",
        (SUMMARIES("test_long_documents_are_cut_counted_and_named"),),
    ),
    Edit(
        "summarisation: cut documents are numbered from 0",
        "self._read + n + 1 for n in cut",
        "self._read + n for n in cut",
        (SUMMARIES("test_predict_reads_documents_of_a_column_and_names_those_that_it_cut"),),
    ),
    Edit(
        "summarisation: columns of summaries and documents exchanged",
        "names = DOCUMENT_NAMES, SUMMARY_NAMES",
        "names = SUMMARY_NAMES, DOCUMENT_NAMES",
        (SUMMARIES("test_data_in_python_has_the_same_names"),),
    ),
    Edit(
        "summarisation: checkpoints are selected by exact match",
        'return "exact_match" if isinstance(self.config.data, NotesData) else "rougeL"',
        'return "exact_match"',
        (SUMMARIES("test_a_run_reports_rouge_beside_bleu_with_intervals_and_the_lead"),),
    ),
    Edit(
        "ROUGE is the recall",
        "score[name].fmeasure for score",
        "score[name].recall for score",
        ("tests/test_rouge.py::test_the_scores_are_those_worked_out_by_hand",),
    ),
    # word alignment: reading, scoring, choosing
    Edit(
        "links: a repeated link is sure only if every copy is",
        'links.get((source, target), False) or found[2] == "-"',
        'links.get((source, target), True) and found[2] == "-"',
        ("tests/test_links.py",),
    ),
    Edit(
        "links: lines are counted from 0",
        "for number, line in enumerate(lines_of(path, findings), start=1):\n        try:",
        "for number, line in enumerate(lines_of(path, findings), start=0):\n        try:",
        ("tests/test_links.py",),
    ),
    Edit(
        "links: the word after the last one is accepted",
        "if link.source >= len(pair.source.split()) or link.target >= len(pair.target.split())",
        "if link.source > len(pair.source.split()) or link.target > len(pair.target.split())",
        (ALIGN("test_gold_links_to_words_that_are_not_there_count_as_missed"),),
    ),
    Edit(
        "alignment: precision counts only sure links as correct",
        "return _ratio(sums[:, 1], sums[:, 2])",
        "return _ratio(sums[:, 0], sums[:, 2])",
        ("tests/test_alignment.py",),
    ),
    Edit(
        "alignment: a token that only touches the linked words counts as correct",
        "if first < link.source[1] and last > link.source[0]:",
        "if first <= link.source[1] and last >= link.source[0]:",
        ("tests/test_metrics.py::test_aligned_characters_by_hand",),
    ),
    Edit(
        "align: the layers that disagree most are chosen",
        "chosen = min(both, key=lambda places:",
        "chosen = max(both, key=lambda places:",
        (ALIGN("test_of_two_directions_the_layers_with_the_most_common_links_are_chosen"),),
    ),
    Edit(
        "align: a score is a sum over tokens",
        "return [-loss / count for loss, count in zip(nll, tokens, strict=True)]",
        "return [-loss for loss, count in zip(nll, tokens, strict=True)]",
        (ALIGN("test_both_directions_become_one_alignment"),),
    ),
    # scores
    Edit(
        "scores: BLEU and chrF of a run that lower-cases distinguish case",
        "(tokenizer.normalize, tokenizer.lowercases)",
        "(tokenizer.normalize, False)",
        ("tests/test_own_references.py",),
    ),
    Edit(
        "compare: runs that differ in case are each scored in their own way",
        "self.literal = any([*map(other.normalize, references)] != plain for other in others)",
        "self.literal = False",
        ("tests/test_own_references.py",),
    ),
    # looks, outputs, conversations
    Edit(
        "look: maps of a written text show its tokens, not its words",
        "[sides[name][1] for name in axes[of.get(",
        "[sides[name][0] for name in axes[of.get(",
        ("tests/test_words.py::test_a_look_shows_words_and_states_how",),
    ),
    Edit(
        "look: units are shown at the first token of a word",
        "values = gate[[self.last(word) for word in words.tokens]].T",
        "values = gate[[word.start for word in words.tokens]].T",
        ("tests/test_units.py",),
    ),
    Edit(
        "look: the units of smallest variance are shown",
        "argsort(descending=True, stable=True)[:chosen]",
        "argsort(stable=True)[:chosen]",
        ("tests/test_units.py",),
    ),
    Edit(
        "look: the origin of an LSTMN's cell leaves out the forget gate",
        'self.gates["forget"] @ self.gates["cell"].abs().T',
        'torch.ones_like(self.gates["forget"]) @ self.gates["cell"].abs().T',
        ("tests/test_units.py",),
    ),
    Edit(
        "look: the words of a sentence are shaded by the product, not its root",
        "return math.copysign(math.sqrt(abs(level)), level) if self.nested else level",
        "return level",
        ("tests/test_units.py", "tests/test_dialogue_look.py"),
    ),
    Edit(
        "predict: an unknown word becomes the source word that was looked at least",
        "word = words.tokens[int(per_word[position].argmax())]",
        "word = words.tokens[int(per_word[position].argmin())]",
        ("tests/test_words.py::test_an_unknown_word_is_replaced_by_the_source_word_it_looked_at",),
    ),
    Edit(
        "chat: a turn that could not be answered stays in the conversation",
        "        except BaseException:\n            self.turns.pop()\n            raise",
        "        except BaseException:\n            raise",
        (DIALOGUE("test_a_response_is_written_piece_by_piece"),),
    ),
]
