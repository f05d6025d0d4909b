"""Wrong edits of data, guided attention, measures, kernels, language models."""

from __future__ import annotations

from wrong_edits.edit import FIELDS, LANGUAGE, Edit

EDITS = [
    # generated data, batches
    Edit(
        "dates with two readings are drawn",
        "if date.day > 12 or date.day == date.month or not date_format.is_numeric:",
        "if date.day > 0 or date.day == date.month or not date_format.is_numeric:",
        ("tests/test_dates.py",),
    ),
    Edit(
        "unseen languages are written in formats of trained ones",
        "if one is not None and one not in known]",
        "if one is not None]",
        ("tests/test_dates.py",),
    ),
    Edit(
        "padding is counted as if all rows were one group",
        "longest = length if 2 * length <= longest or not longest else longest",
        "longest = longest or length",
        ("tests/test_batching.py",),
    ),
    Edit(
        "the German verb stays second after dass",
        'asked = {"dependent"}',
        "asked = set()",
        ("tests/test_grammar.py",),
    ),
    Edit(
        "a Hindi verb agrees with the subject after ne",
        'if "ergative" in _pick(self._data["roles"]["subject"], shared):',
        'if "ergative" in _pick(self._data["roles"]["object"], shared):',
        ("tests/test_grammar.py",),
    ),
    Edit(
        "a Spanish verb that stands alone is not linked to its subject",
        'if one != "subject" or alone]',
        'if one != "subject"]',
        ("tests/test_grammar.py",),
    ),
    # data, guided attention, measures
    Edit(
        "weak links guide attention",
        "sure = strength * (strength > least)",
        "sure = strength",
        ("tests/test_supervision.py",),
    ),
    Edit(
        "guided attention has the wrong sign",
        "return -(alignment * weights.clamp_min(tiny).log()).sum()",
        "return (alignment * weights.clamp_min(tiny).log()).sum()",
        ("tests/test_supervision.py",),
    ),
    Edit(
        "links reach the next source token",
        "return target.astype(np.int32), (source + first).astype(np.int32), rows[target, source]",
        "return target.astype(np.int32), (source + first + 1).astype(np.int32) % rows.shape[1], rows[target, source]",
        ("tests/test_supervision.py",),
    ),
    Edit(
        "in a file with column names, links belong to the previous pair",
        "else int(found[2]) - self._skipped",
        "else int(found[2])",
        ("tests/test_recognised.py",),
    ),
    Edit(
        "links of the pairs held out for validation are not checked",
        "for pair, line in self._lines(some, corpus):",
        "for pair, line in self._lines((), corpus):",
        ("tests/test_supervision.py",),
    ),
    Edit(
        "possible links are used although they should be ignored",
        "for link in links if link.sure or possible for",
        "for link in links for",
        ("tests/test_supervision.py",),
    ),
    Edit(
        "pairs given in Python get the links of the previous line",
        'return int(found[2]) + 1 if found[1] == "["',
        'return max(1, int(found[2])) if found[1] == "["',
        ("tests/test_supervision.py",),
    ),
    Edit(
        "the range of a link is checked against the other side",
        '(("source", pair.source), ("target", pair.target))',
        '(("source", pair.target), ("target", pair.source))',
        ("tests/test_links.py",),
    ),
    Edit(
        "words counted from 1 in a file are not renumbered from 0",
        "source, target = whole_number(found[1]) - base, whole_number(found[3]) - base",
        "source, target = whole_number(found[1]), whole_number(found[3])",
        ("tests/test_links.py",),
    ),
    Edit(
        "a word with two links has twice the weight",
        "rows = targets.T @ shares / np.maximum(targets.sum(0)[:, None], 1)",
        "rows = targets.T @ shares",
        ("tests/test_links.py",),
    ),
    Edit(
        "no word is aligned to the empty word",
        "_NULL = 0.2\n",
        "_NULL = 1e-9\n",
        ("tests/test_alignment.py",),
    ),
    Edit(
        "an entity continues after its end if the next has the same type",
        '(before in "OES" or kind != kind_before)',
        '(before in "O" or kind != kind_before)',
        ("tests/test_tags.py",),
    ),
    Edit(
        "I may follow B of another type",
        'or before in (f"B-{kind}", f"I-{kind}")',
        'or (before or "O") != "O"',
        ("tests/test_tags.py",),
    ),
    Edit(
        "words that occur once are in the vocabulary",
        "min_frequency=config.min_count",
        "min_frequency=1",
        (FIELDS("TokenizerConfig.min_count"),),
    ),
    Edit(
        "columns are standardised by their variance",
        "np.where(constant | (deviation == 0), 1.0, deviation)",
        "np.where(constant | (deviation == 0), 1.0, deviation**2)",
        ("tests/test_validation.py", "tests/test_numbers.py"),
    ),
    Edit(
        "subword sampling keeps the merges that it should drop",
        "for pair, place in pairs if draw.random() >= dropped",
        "for pair, place in pairs if draw.random() < dropped",
        ("tests/test_tokenizer.py", "tests/test_tokenizer_properties.py"),
    ),
    Edit(
        "the seasonal forecast is one row late",
        "rows = start + np.arange(horizon) % max(1, len(context) - start)",
        "rows = start + (np.arange(horizon) + 1) % max(1, len(context) - start)",
        ("tests/test_numbers.py",),
    ),
    Edit(
        "a forecast repeats its first row",
        "said, states = self.read(rows[-1], states)",
        "said, states = self.read(rows[0], states)",
        ("tests/test_numbers.py",),
    ),
    Edit(
        "a run started from a parent copies the rows in the wrong order",
        "return [(i, known[name]) for i, name in enumerate(own) if name in known]",
        "return [(i, i) for i, name in enumerate(own) if name in known and i < len(parent)]",
        ("tests/test_transfer.py",),
    ),
    Edit(
        "intervals of 90 %",
        "low, high = np.quantile(known, [0.025, 0.975])",
        "low, high = np.quantile(known, [0.05, 0.95])",
        ("tests/test_significance.py", "tests/test_metrics.py"),
    ),
    Edit(
        "p-values count smaller differences",
        "extreme += int(np.sum(differences >= observed - _EQUAL))",
        "extreme += int(np.sum(differences <= observed - _EQUAL))",
        ("tests/test_significance.py",),
    ),
    Edit(
        "p-values over seeds have as many degrees of freedom as resamples",
        "freedom = 1 / np.sum(shares**2 / np.array([len(first) - 1, len(second) - 1]))",
        "freedom = len(deviations)",
        ("tests/test_significance.py",),
    ),
    # kernels
    Edit(
        "the piecewise loss ignores label smoothing",
        "return log_total.sum() - (1.0 - smoothing) * chosen.sum()",
        "return log_total.sum() - chosen.sum()",
        ("tests/test_loss.py",),
    ),
    Edit(
        "dropout is scaled by the drop rate",
        "return 256 / (256 - threshold)",
        "return 256 / threshold",
        ("tests/test_norm.py",),
    ),
    Edit(
        "the gradient of relu and dropout is not scaled",
        "return operation(grad_outputs[0], result, 0).mul_(ctx.scale), None",
        "return operation(grad_outputs[0], result, 0), None",
        ("tests/test_norm.py", "tests/test_kernels.py"),
    ),
    Edit(
        "the gradient of a normalisation omits the standard deviation",
        "return d_x.mul_(inverse), d_weight, d_bias, None",
        "return d_x, d_weight, d_bias, None",
        ("tests/test_norm.py",),
    ),
    Edit(
        "the GRU's gradient omits the update gate",
        "of_n.mul_(of_z)  # (1 - z)(1 - n^2)",
        "of_n.mul_(z)",
        ("tests/test_kernels.py", "tests/test_recurrent.py"),
    ),
    Edit(
        "a short last run of the vocabulary offers tokens beyond its end",
        "found.masked_fill_(tokens >= self._vocab_size, -torch.inf)",
        "pass",
        ("tests/test_search.py", "tests/test_generation.py"),
    ),
    # documents, tokens and blocks of language models
    Edit(
        "the input before the first target is the last token of the stream",
        "window[places < 0] = first_token",
        "pass",
        ("tests/test_blocks.py",),
    ),
    Edit(
        "the end token before a document is assigned to the previous document",
        "stream.document_at(targets_at) - ends",
        "stream.document_at(targets_at - 1) - ends",
        ("tests/test_blocks.py",),
    ),
    Edit(
        "rows of a stream lose the tokens that do not divide evenly",
        "rows * count // self.rows + chunks",
        "rows * (count // self.rows) + chunks",
        ("tests/test_blocks.py",),
    ),
    Edit(
        "a space is put before texts that tokens should reproduce exactly",
        'scheme = "never" if exact else "always"',
        'scheme = "always"',
        ("tests/test_tokenizer.py", "tests/test_tokenizer_properties.py"),
    ),
    Edit(
        "a text is encoded in parts that begin inside a token",
        r'r"(?<=[!-~\w])\n(?=[!-~\w])"',
        r'r"\n"',
        ("tests/test_tokenizer.py",),
    ),
    Edit(
        "shingles cross document boundaries",
        "whole = place + PIECE <= ends[owners]",
        "whole = place <= ends[owners]",
        ("tests/test_documents.py",),
    ),
    # language modelling: state, scores, ranking
    Edit(
        "every batch of a recurrent language model begins without a state",
        "packed = None if batch.begins else self._of(rows)",
        "packed = None",
        LANGUAGE,
    ),
    Edit(
        "language modelling: end tokens count in the validation loss",
        "one.log_probs[: len(one.log_probs) - self.end_token].sum()",
        "one.log_probs.sum()",
        LANGUAGE,
    ),
    Edit(
        "language modelling: bits per byte are nats",
        "nll / math.log(2) / max(1, num_bytes",
        "nll / max(1, num_bytes",
        (*LANGUAGE, "tests/test_validation.py"),
    ),
    Edit(
        "windows score tokens that the previous window has scored",
        "scored = np.concatenate([[0], stops[:-1]])",
        "scored = np.concatenate([[0], stops[:-1] - 1])",
        LANGUAGE,
    ),
    Edit(
        "a rank counts from 0",
        "((logits > own).sum(-1) + 1).int()",
        "(logits > own).sum(-1).int()",
        ("tests/test_ranking.py", *LANGUAGE),
    ),
    Edit(
        "the last token of a prompt counts towards the score of a choice",
        "if stop > border)",
        "if stop >= border)",
        ("tests/test_ranking.py",),
    ),
    Edit(
        "tables: columns that were read are not recorded",
        "columns.update(columns or table.columns)",
        "pass",
        ("tests/test_recognised.py::test_columns_that_were_recognised_are_stored_and_used",),
    ),
    Edit(
        "tables: columns of a training set are required of every table of pairs",
        "if again and self.names and not self.has(",
        "if False and not self.has(",
        ("tests/test_recognised.py::test_pairs_of_another_table_may_lack_the_columns_of_training",),
    ),
    Edit(
        "word order: a line with several columns is read as its first column",
        "row.table.is_lines and not row.blank",
        "False",
        ("tests/test_word_order.py",),
    ),
    Edit(
        "lengths: the word at the start of a text is counted as one after a space",
        "            spaced[first] = False\n",
        "            spaced[first[:1]] = False\n",
        ("tests/test_store.py::test_lengths_from_words_are_those_of_the_texts",),
    ),
]
