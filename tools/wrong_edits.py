"""The deliberate wrong edits that tools/mutants.py makes: single slips that a suite must notice.

Each is keyed by a text that occurs once in src/heed, wherever its file may lie.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Edit:
    """One wrong edit.

    Attributes:
        what: What is wrong then.
        old: A text that occurs exactly once in src/heed.
        new: What it becomes.
        tests: The tests nearest to it, as pytest takes them.
    """

    what: str
    old: str
    new: str
    tests: tuple[str, ...]


VALIDATION = ("tests/test_validation.py",)
FIELDS = "tests/test_fields.py::test_changing_a_field_changes_what_is_seen[{}]".format
DROPS = "tests/test_models.py::test_every_dropout_of_a_model_drops"
BLOCKS = "tests/test_models.py::test_every_block_drops_after_each_sublayer_and_in_each_attention"
SEARCH = ("tests/test_generation.py",)
LANGUAGE = ("tests/test_language_modelling.py",)

EDITS = [
    # answers
    Edit(
        "predict: the first answer of a pipe waits for a whole window",
        "size = size or (most if self._arriving is None else min(_FIRST, most))",
        "size = size or most",
        ("tests/test_answering.py",),
    ),
    Edit(
        "predict: a line is lost where another one of its batch cannot be answered",
        "yield from self._each(rest[len(rest) // 2 :], where, single)",
        "yield from self._each(rest[len(rest) // 2 + 1 :], where, single)",
        ("tests/test_answering.py",),
    ),
    Edit(
        "predict: rows that cannot be read shift the answers to those after them",
        "yield from _gaps(findings.left_out.total() - left_out)\n        left_out = findings.left_out.total()",
        "left_out = findings.left_out.total()",
        ("tests/test_answering.py",),
    ),
    # conversations
    Edit(
        "hred: a response knows the turn that it is",
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
        "look at a conversation: turns that are not read shift the numbers of the others",
        "_turn_name(conversation, n) for n in range(read.first, len(conversation.turns))",
        "_turn_name(conversation, n) for n in range(len(conversation.turns) - read.first)",
        ("tests/test_dialogue_look.py",),
    ),
    Edit(
        "look at a conversation: a step shows the dialogue state after the turn before",
        "net.hidden[n] for net in dialogue",
        "net.hidden[n - 1] for net in dialogue",
        ("tests/test_dialogue_look.py",),
    ),
    Edit(
        "look at a conversation: a turn's vector ends with the backward state of its last word",
        "*(states[0] for states in back)",
        "*(states[-1] for states in back)",
        ("tests/test_dialogue_look.py",),
    ),
    Edit(
        "look at a conversation: turns of other lengths exchange their words' states",
        "states[number] = hidden[row, : lengths[number]]",
        "states[rows[-1 - row]] = hidden[row, : lengths[rows[-1 - row]]]",
        ("tests/test_dialogue_look.py",),
    ),
    Edit(
        "hierarchical attention: one softmax over all words",
        "part_of, shares.shape[-1], mask)",
        "torch.zeros_like(part_of), shares.shape[-1], mask)",
        ("tests/test_hred.py",),
    ),
    Edit(
        "rows of one source share what the first of them may see",
        "grouped = rows.group(seen[:, None, None].expand(-1, 1, num_queries, -1)).squeeze(1)",
        "grouped = rows.group(seen[:1, None, None].expand(len(seen), 1, num_queries, -1)).squeeze(1)",
        ("tests/test_hred.py",),
    ),
    # what validate returns
    Edit(
        "translation: loss per example, not per token",
        '"loss": sum(nll) / sum(tokens)',
        '"loss": sum(nll) / len(tokens)',
        VALIDATION,
    ),
    Edit(
        "translation: token accuracy is of sentences",
        'share("token_accuracy", "token accuracy", correct, tokens)\n        return',
        'share("token_accuracy", "token accuracy", correct)\n        return',
        VALIDATION,
    ),
    Edit(
        "translation: exact match without normalisation",
        "references = [self.target_tokenizer.normalize(pair.target) for pair in pairs]\n        *of_texts",
        "references = [pair.target for pair in pairs]\n        *of_texts",
        VALIDATION,
    ),
    Edit(
        "summarisation: what is generated and what is copied exchanged",
        "mixed = (share * generated).scatter_add(-1, copied, (1.0 - share) * weights.float())",
        "mixed = ((1.0 - share) * generated).scatter_add(-1, copied, share * weights.float())",
        ("tests/test_summarisation.py",),
    ),
    Edit(
        "summarisation: documents read to their end",
        "return super().framed(source[: self.max_source])",
        "return super().framed(source)",
        ("tests/test_summarisation.py",),
    ),
    Edit(
        "ROUGE: marks separate words",
        'if category == "M":\n        return "mark"',
        'if category == "M":\n        return "apart"',
        ("tests/test_rouge.py",),
    ),
    Edit(
        "translation: BLEU and chrF exchanged",
        'metric = {"bleu": BLEU, "chrf": CHRF, "ter": TER}[name]()',
        'metric = {"bleu": CHRF, "chrf": BLEU, "ter": TER}[name]()',
        VALIDATION,
    ),
    Edit(
        "translation: decoding is cut at half",
        "beam_size=1, max_length=longest)]",
        "beam_size=1, max_length=longest // 2)]",
        VALIDATION,
    ),
    Edit(
        "translation: outputs and references exchanged",
        "*of_texts, exact = output_measures(texts, references, self.quick_scores)",
        "*of_texts, exact = output_measures(references, texts, self.quick_scores)",
        VALIDATION,
    ),
    Edit(
        "translation: the forced loss counts padding",
        "            real = batch.target_mask[row]\n",
        "            real = torch.ones_like(batch.target_mask[row])\n",
        ("tests/test_validation.py", "tests/test_training.py"),
    ),
    Edit(
        "any label right counts as all right",
        'share("accuracy", "accuracy", (true == predicted).all(1)',
        'share("accuracy", "accuracy", (true == predicted).any(1)',
        VALIDATION,
    ),
    Edit(
        "classification: the loss is a sum",
        "loss = float(label_loss(logits, labels, self.sigmoid)) / len(encoded)",
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
        "classification: a label is chosen from a tenth on",
        "return (probabilities >= 0.5).numpy()",
        "return (probabilities >= 0.1).numpy()",
        VALIDATION,
    ),
    Edit(
        "tagging: loss per sentence, not per word",
        'return {"loss": loss / sum(map(len, true)),',
        'return {"loss": loss / len(true),',
        VALIDATION,
    ),
    Edit(
        "tagging: accuracy per sentence, not per word",
        'share("accuracy", "accuracy of tags", right, [len(tags) for tags in true])',
        'share("accuracy", "accuracy of tags", right)',
        VALIDATION,
    ),
    Edit(
        "tagging: entities count where the type alone is right",
        "both = [(set(entities(t)), set(entities(p))) for t, p in zip(true, predicted, strict=True)]\n    hits, said",
        "both = [({e[0] for e in entities(t)}, {e[0] for e in entities(p)}) for t, p in zip(true, predicted)]\n"
        "    hits, said",
        VALIDATION,
    ),
    Edit(
        "table: the loss is over all labels",
        "loss = -probabilities[torch.from_numpy(true)].clamp_min(1e-30).log().mean()",
        "loss = -probabilities.clamp_min(1e-30).log().mean()",
        VALIDATION,
    ),
    Edit(
        "series: rows that are only read are scored too",
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
        "series: nothing is read before the validation rows",
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
        "smoothing of several labels takes without giving",
        "target = labels * (1 - smoothing) + smoothing / 2",
        "target = labels * (1 - smoothing)",
        VALIDATION,
    ),
    Edit(
        "tagging ignores label smoothing",
        'return cross_entropy(logits, tags[mask], reduction="sum", label_smoothing=label_smoothing)',
        'return cross_entropy(logits, tags[mask], reduction="sum")',
        VALIDATION,
    ),
    Edit(
        "table ignores label smoothing",
        'return cross_entropy(logits, batch.targets, reduction="sum", label_smoothing=label_smoothing)',
        'return cross_entropy(logits, batch.targets, reduction="sum")',
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
        "max_length=(given.max_length or 200) if max_length is None else max_length",
        "max_length=20 if max_length is None else max_length",
        (FIELDS("GenerationConfig.max_length"),),
    ),
    Edit(
        "clipping is ignored",
        "c.clip or math.inf",
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
        "biases decay too",
        "((config.weight_decay, True), (0.0, False))",
        "((config.weight_decay, True), (config.weight_decay, False))",
        ("tests/test_optimizer.py", "tests/test_training.py"),
    ),
    Edit(
        "patience counts one validation too many",
        "return patience is not None and p.bad >= patience",
        "return patience is not None and p.bad > patience",
        ("tests/test_training.py",),
    ),
    Edit(
        "the worst weights are kept",
        "if not p.best_rank or rank > p.best_rank:",
        "if not p.best_rank or rank < p.best_rank:",
        ("tests/test_training.py", FIELDS("TranslationEvaluation.select_by")),
    ),
    Edit(
        "a larger loss is better",
        "return [-loss] if self._select_by",
        "return [loss] if self._select_by",
        (FIELDS("TranslationEvaluation.select_by"), "tests/test_training.py"),
    ),
    Edit(
        "averages are of the oldest checkpoints",
        "recent = p.kept[-self._average :]",
        "recent = p.kept[: self._average]",
        ("tests/test_training.py",),
    ),
    # training
    Edit(
        "warm-up begins at its end",
        "        return step / warmup\n",
        "        return 1.0\n",
        ("tests/test_training.py",),
    ),
    Edit(
        "the cosine ends at half",
        "return 0.5 * (1.0 + math.cos(math.pi * course_at(",
        "return 0.5 * (1.0 + math.cos(0.5 * math.pi * course_at(",
        ("tests/test_training.py",),
    ),
    Edit(
        "accumulated batches are not one batch",
        "(loss / (count / self.processes.count)).backward()",
        "(loss / (batch.num_targets / self.processes.count)).backward()",
        ("tests/test_training.py",),
    ),
    Edit(
        "after a validation nothing is dropped any more",
        "        self.model.train()\n        if self._chooses_threads:",
        "        if self._chooses_threads:",
        ("tests/test_training.py",),
    ),
    Edit(
        "every pass has the same order",
        "generator.manual_seed((seed * 1_000_003 + epoch) % 2**63)",
        "generator.manual_seed((seed * 1_000_003) % 2**63)",
        ("tests/test_batching.py",),
    ),
    Edit(
        "a batch's cost leaves the padding out",
        "if size and sum(grown) * (size + 1) > batch_tokens:",
        "if size and sum(cost) * (size + 1) > batch_tokens:",
        ("tests/test_batching.py",),
    ),
    # attention
    Edit(
        "softmax over the queries",
        "return torch.softmax(scores, dim=-1)\n",
        "return torch.softmax(scores, dim=-2)\n",
        ("tests/test_attend.py",),
    ),
    Edit(
        "a row that may attend to nothing attends evenly",
        "return torch.softmax(scores.masked_fill(~mask, lowest), dim=-1).masked_fill(~mask, 0.0)",
        "return torch.softmax(scores.masked_fill(~mask, lowest), dim=-1)",
        ("tests/test_attend.py",),
    ),
    Edit(
        "scaled dot product divided by d",
        "self.scale = 1.0 / math.sqrt(d)",
        "self.scale = 1.0 / d",
        ("tests/test_attend.py", "tests/test_modules.py"),
    ),
    Edit(
        "the causal mask shows the next position",
        "return key <= query + (num_keys - num_queries)",
        "return key <= query + (num_keys - num_queries) + 1",
        ("tests/test_masks.py",),
    ),
    Edit(
        "the causal mask aligns at the top left",
        "return key <= query + (num_keys - num_queries)",
        "return key <= query",
        ("tests/test_masks.py",),
    ),
    Edit(
        "padding is one longer",
        "return torch.arange(width, device=lengths.device) < lengths.unsqueeze(-1)",
        "return torch.arange(width, device=lengths.device) <= lengths.unsqueeze(-1)",
        ("tests/test_masks.py",),
    ),
    Edit(
        "padding and the future are masked only where both are",
        "combined & future",
        "combined | future",
        ("tests/test_masks.py", "tests/test_modules.py"),
    ),
    Edit(
        "attention drops its weights outside training too",
        "dropout = self.dropout if self.training else 0.0\n        weights = None",
        "dropout = self.dropout\n        weights = None",
        (DROPS,),
    ),
    Edit(
        "keys and values exchanged in multi-head attention",
        "return Keys(prepared, self._split(self.w_value(value)), mask)",
        "return Keys(prepared, self._split(self.w_key(value)), mask)",
        ("tests/test_modules.py",),
    ),
    Edit(
        "additive scores without tanh",
        "return torch.tanh(projected.unsqueeze(-2) + prepared.unsqueeze(-3)) @ v",
        "return (projected.unsqueeze(-2) + prepared.unsqueeze(-3)) @ v",
        ("tests/test_attend.py", "tests/test_modules.py"),
    ),
    # layers and models
    Edit(
        "Transformer blocks without dropout",
        'block: dict[str, Any] = {\n            "dropout": c.dropout,',
        'block: dict[str, Any] = {\n            "dropout": 0.0,',
        (BLOCKS,),
    ),
    Edit(
        "encoder blocks without dropout",
        "block = partial(EncoderBlock, c.d_model, c.num_heads, c.d_ff, dropout=c.dropout, norm=c.norm)",
        "block = partial(EncoderBlock, c.d_model, c.num_heads, c.d_ff, dropout=0.0, norm=c.norm)",
        (BLOCKS,),
    ),
    Edit(
        "pre-norm sublayers without dropout",
        "return x + self.dropout(sublayer(self.norm(x)))",
        "return x + sublayer(self.norm(x))",
        (DROPS,),
    ),
    Edit(
        "post-norm leaves the residual out",
        "return self.norm(x + self.dropout(sublayer(x)))",
        "return self.norm(self.dropout(sublayer(x)))",
        ("tests/test_transformer.py", "tests/test_reference.py"),
    ),
    Edit(
        "positions count by another base",
        "(-math.log(10000.0) / d)",
        "(-math.log(1000.0) / d)",
        ("tests/test_embeddings.py",),
    ),
    Edit(
        "embeddings of the Transformer are not scaled",
        "scaled = table(tokens) * self.embedding_scale",
        "scaled = table(tokens)",
        ("tests/test_transformer.py", "tests/test_reference.py"),
    ),
    Edit(
        "the notes' update gate weighs the old state",
        'if cell == "gru" else (1 - z) * h + z * n,)',
        'if cell == "gru" else z * h + (1 - z) * n,)',
        ("tests/test_recurrent.py",),
    ),
    Edit(
        "Bahdanau starts from the forward net's last state",
        "last = finals[-1][-1]  # (B, d_hidden)",
        "last = finals[-1][0]  # (B, d_hidden)",
        ("tests/test_bahdanau.py",),
    ),
    Edit(
        "Bahdanau's start without tanh",
        "s_0 = torch.tanh(self.initial(memory.summary))[rows.source_of]",
        "s_0 = self.initial(memory.summary)[rows.source_of]",
        ("tests/test_bahdanau.py",),
    ),
    Edit(
        "mean pooling counts padding",
        "return total / mask.sum(1, keepdim=True).clamp_min(1)",
        "return total / mask.shape[1]",
        ("tests/test_text_encoders.py", "tests/test_models.py", "tests/test_classification.py"),
    ),
    Edit(
        "the CRF forgets how a sentence ends",
        "return torch.logsumexp(alpha + self.end, dim=1)",
        "return torch.logsumexp(alpha, dim=1)",
        ("tests/test_crf.py",),
    ),
    Edit(
        "Viterbi looks for the worst beginning",
        "longer, before = (score.unsqueeze(2) + transitions).max(1)",
        "longer, before = (score.unsqueeze(2) + transitions).min(1)",
        ("tests/test_crf.py",),
    ),
    Edit(
        "a delayed tagger gives a word its own state",
        "return self.body(ended, read, features)[:, self.delay :]",
        "return self.body(ended, read, features)[:, : tokens.shape[1]]",
        ("tests/test_teddy.py::test_a_delay_reads_on_whatever_the_padding",),
    ),
    # generation
    Edit(
        "hypotheses are compared without their length",
        "score = total / len(probs) ** options.length_penalty",
        "score = total",
        SEARCH,
    ),
    Edit(
        "a beam ends while an open row could still win",
        "return done[needed - 1].score >= bound",
        "return True",
        SEARCH,
    ),
    Edit(
        "the end token is allowed one token too early",
        "banned = self.forbidden if written >= self.min_length",
        "banned = self.forbidden if written + 1 >= self.min_length",
        SEARCH,
    ),
    Edit(
        "worst hypotheses first",
        "done.sort(key=lambda h: -h.score)",
        "done.sort(key=lambda h: h.score)",
        SEARCH,
    ),
    Edit(
        "temperature multiplies",
        "torch.softmax((ordered - ordered[:, :1]) / sampling.temperature, dim=-1)",
        "torch.softmax((ordered - ordered[:, :1]) * sampling.temperature, dim=-1)",
        ("tests/test_sampling.py",),
    ),
    Edit(
        "top_k keeps one more",
        "probabilities[:, sampling.top_k :] = 0.0",
        "probabilities[:, sampling.top_k + 1 :] = 0.0",
        ("tests/test_sampling.py",),
    ),
    # data, guided attention, measures
    Edit(
        "weak links guide",
        "sure = strength * (strength > least)",
        "sure = strength",
        ("tests/test_guided.py",),
    ),
    Edit(
        "guided attention has the wrong sign",
        "return -(alignment * weights.clamp_min(tiny).log()).sum()",
        "return (alignment * weights.clamp_min(tiny).log()).sum()",
        ("tests/test_guided.py",),
    ),
    Edit(
        "links reach the next source token",
        "return target.astype(np.int32), (source + first).astype(np.int32), rows[target, source]",
        "return target.astype(np.int32), (source + first + 1).astype(np.int32) % rows.shape[1], rows[target, source]",
        ("tests/test_supervision.py",),
    ),
    Edit(
        "links of a file with the names of columns belong to the pair before",
        "else int(found[2]) - self._skipped",
        "else int(found[2])",
        ("tests/test_supervision.py",),
    ),
    Edit(
        "links of the pairs held out for validation are not looked at",
        "for pair, line in self._lines(some, corpus):",
        "for pair, line in self._lines((), corpus):",
        ("tests/test_supervision.py",),
    ),
    Edit(
        "possible links are used where they are to be ignored",
        "for link in links if link.sure or possible for",
        "for link in links for",
        ("tests/test_supervision.py",),
    ),
    Edit(
        "pairs given in Python have the links of the line before",
        'return int(found[2]) + 1 if found[1] == "["',
        'return max(1, int(found[2])) if found[1] == "["',
        ("tests/test_supervision.py",),
    ),
    Edit(
        "a link out of range is judged by the other side's words",
        '(("source", pair.source), ("target", pair.target))',
        '(("source", pair.target), ("target", pair.source))',
        ("tests/test_links.py",),
    ),
    Edit(
        "words of a file counted from 1 stay so",
        "source, target = int(found[1]) - base, int(found[3]) - base",
        "source, target = int(found[1]), int(found[3])",
        ("tests/test_links.py",),
    ),
    Edit(
        "a word that is linked twice has twice the weight",
        "rows = targets.T @ shares / np.maximum(targets.sum(0)[:, None], 1)",
        "rows = targets.T @ shares",
        ("tests/test_link_rows.py",),
    ),
    Edit(
        "no word is explained by nothing",
        "_NULL = 0.2\n",
        "_NULL = 1e-9\n",
        ("tests/test_word_alignment.py",),
    ),
    Edit(
        "an entity of the same type goes on after its end",
        '(before in "OES" or kind != kind_before)',
        '(before in "O" or kind != kind_before)',
        ("tests/test_tags.py",),
    ),
    Edit(
        "I may follow the B of another type",
        'or before in (f"B-{kind}", f"I-{kind}")',
        'or (before or "O") != "O"',
        ("tests/test_tags.py",),
    ),
    Edit(
        "a word that occurs once is a word of the vocabulary",
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
        "subword sampling keeps the merges it should drop",
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
        "a run that starts from another takes the rows in another order",
        "return [(i, known[name]) for i, name in enumerate(own) if name in known]",
        "return [(i, i) for i, name in enumerate(own) if name in known and i < len(parent)]",
        ("tests/test_transfer.py", "tests/test_parent.py"),
    ),
    Edit(
        "intervals of 90 %",
        "low, high = np.quantile(known, [0.025, 0.975])",
        "low, high = np.quantile(known, [0.05, 0.95])",
        ("tests/test_significance.py", "tests/test_metrics.py"),
    ),
    Edit(
        "a p-value counts smaller differences",
        "extreme += int(np.sum(differences >= observed - _EQUAL))",
        "extreme += int(np.sum(differences <= observed - _EQUAL))",
        ("tests/test_significance.py",),
    ),
    # kernels
    Edit(
        "the piecewise loss takes the whole truth in spite of smoothing",
        "return log_total.sum() - (1.0 - smoothing) * chosen.sum()",
        "return log_total.sum() - chosen.sum()",
        ("tests/test_loss.py",),
    ),
    Edit(
        "dropout is scaled by the share that is dropped",
        "return 256 / (256 - threshold)",
        "return 256 / threshold",
        ("tests/test_dropout.py",),
    ),
    Edit(
        "the gradient of relu and dropout is not scaled",
        "return operation(grad_outputs[0], result, 0).mul_(ctx.scale), None",
        "return operation(grad_outputs[0], result, 0), None",
        ("tests/test_dropout.py", "tests/test_kernels.py"),
    ),
    Edit(
        "the gradient of a normalisation forgets the deviation",
        "return d_x.mul_(inverse), d_weight, d_bias, None",
        "return d_x, d_weight, d_bias, None",
        ("tests/test_norm.py",),
    ),
    Edit(
        "the GRU's gradient forgets the update gate",
        "of_n.mul_(of_z)  # (1 - z)(1 - n^2)",
        "of_n.mul_(z)",
        ("tests/test_kernels.py", "tests/test_recurrent.py"),
    ),
    Edit(
        "a piece of the vocabulary forgets its largest logit",
        "torch.where(largest.isneginf(), largest, sums.log_().add_(largest))",
        "torch.where(largest.isneginf(), largest, sums.log_())",
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
        "the end token before a document belongs to the document before",
        "stream.document_at(targets_at) - ends",
        "stream.document_at(targets_at - 1) - ends",
        ("tests/test_blocks.py",),
    ),
    Edit(
        "rows of a stream lose the tokens by which they cannot be equally long",
        "rows * count // self.rows + chunks",
        "rows * (count // self.rows) + chunks",
        ("tests/test_blocks.py",),
    ),
    Edit(
        "a blank is put before texts whose tokens should give them back",
        'scheme = "never" if exact else "always"',
        'scheme = "always"',
        ("tests/test_tokenizer.py", "tests/test_tokenizer_properties.py"),
    ),
    Edit(
        "a text is encoded in parts that begin where a token may not",
        r'r"(?<=[!-~\w])\n(?=[!-~\w])"',
        r'r"\n"',
        ("tests/test_tokenizer.py",),
    ),
    Edit(
        "shingles cross from one document into the next",
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
        "nll / math.log(2) / max(1, self._num_bytes",
        "nll / max(1, self._num_bytes",
        (*LANGUAGE, "tests/test_validation.py"),
    ),
    Edit(
        "windows score a token that the window before has scored",
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
        "the last token of a prompt counts for its choices",
        "if stop > border)",
        "if stop >= border)",
        ("tests/test_ranking.py",),
    ),
    # pictures
    Edit(
        "pictures: turned the wrong way for one value of EXIF",
        "6: Image.Transpose.ROTATE_270",
        "6: Image.Transpose.ROTATE_90",
        ("tests/test_pictures_decode.py",),
    ),
    Edit(
        "pictures: transparent pixels over black",
        'Image.new("RGBA", image.size, "white")',
        'Image.new("RGBA", image.size, "black")',
        ("tests/test_pictures_decode.py",),
    ),
    Edit(
        "pictures: an idx file's labels are one off",
        'names[label], f"{path}#{i}", f"{origin}#{i}"',
        'names[label - 1], f"{path}#{i}", f"{origin}#{i}"',
        ("tests/test_pictures_read.py",),
    ),
    Edit(
        "pictures: results of threads out of order",
        "yield from waiting.popleft().result()",
        "yield from waiting.pop().result()",
        ("tests/test_pictures_read.py",),
    ),
    Edit(
        "pictures: members of an unpacked archive begin one byte late",
        "self.members[_clean(member.name)] = (self.size, len(data))",
        "self.members[_clean(member.name)] = (self.size + 1, len(data))",
        ("tests/test_pictures_read.py",),
    ),
    # random changes of pictures
    Edit(
        "augment: every picture is mirrored, or none",
        "flipped[chosen] = pictures[chosen][:, :, ::-1]",
        "flipped[:] = pictures[:, :, ::-1]",
        ("tests/test_augment.py",),
    ),
    Edit(
        "augment: mirrored from top to bottom",
        "flipped[chosen] = pictures[chosen][:, :, ::-1]",
        "flipped[chosen] = pictures[chosen][:, ::-1]",
        ("tests/test_augment.py",),
    ),
    Edit(
        "augment: labels are mixed the other way round",
        "return mixed, labels * share + labels.roll(1, 0) * (1.0 - share)",
        "return mixed, labels * (1.0 - share) + labels.roll(1, 0) * share",
        ("tests/test_augment.py",),
    ),
    Edit(
        "augment: the share of cutmix is the one drawn, not that of the area cut",
        "            shares[i] = 1.0 - (bottom - top) * (right - left) / (pixels.shape[-2] * pixels.shape[-1])\n",
        "",
        ("tests/test_augment.py",),
    ),
    Edit(
        "augment: pictures are moved the other way",
        "return _moved(pictures, [1.0, 0.0, np.trunc(amounts), 0.0, 1.0, 0.0])",
        "return _moved(pictures, [1.0, 0.0, -np.trunc(amounts), 0.0, 1.0, 0.0])",
        ("tests/test_augment.py",),
    ),
    Edit(
        "augment: a picture may be erased several times",
        "        waiting &= ~fits\n",
        "",
        ("tests/test_augment.py",),
    ),
    # a pre-norm block as one function
    Edit(
        "pre-norm block: the gradient of the first residual connection is lost",
        "        d_x += d_middle\n\n        _pool.give(work, qkv, middle, inner, active)\n",
        "\n        _pool.give(work, qkv, middle, inner, active)\n",
        ("tests/test_pre_norm_block.py",),
    ),
    Edit(
        "pre-norm block: the inner dropout is not in the gradient",
        "d_active.mul_(kept) if s.inner_dropout else d_active",
        "d_active",
        ("tests/test_pre_norm_block.py",),
    ),
    Edit(
        "pre-norm block: the gradient of both dropouts by the second mask",
        "d_h = torch.mul(d_middle, keep_1, out=work)",
        "d_h = torch.mul(d_middle, keep_2, out=work)",
        ("tests/test_pre_norm_block.py",),
    ),
    Edit(
        "first state: the gradient of softmax without its sum",
        "d_scores = weighed.addcmul_(kept, weighed.sum(-1, keepdim=True), value=-1.0).mul_(s.scale)",
        "d_scores = weighed.mul_(s.scale)",
        ("tests/test_pre_norm_block.py",),
    ),
    Edit(
        "first state: the first position's own residual connection has no gradient",
        "        d_x[:, 0] += d_first\n",
        "",
        ("tests/test_pre_norm_block.py",),
    ),
    Edit(
        "first state: the bias of the values is left out",
        "context = context.transpose(0, 1).flatten(1).add_(b_value)",
        "context = context.transpose(0, 1).flatten(1)",
        ("tests/test_pre_norm_block.py",),
    ),
    # batch normalisation
    Edit(
        "a model with batch normalisation is divided into micro-batches",
        'and device.type == "cpu" and not normalises_batches(model)',
        'and device.type == "cpu"',
        ("tests/test_images_training.py",),
    ),
    # sealed run folders
    Edit(
        "weights count as final before they are sealed",
        "if (path / WEIGHTS).is_file() and (WEIGHTS in listed(path)",
        "if (path / WEIGHTS).is_file() or (WEIGHTS in listed(path)",
        ("tests/test_seal.py",),
    ),
    Edit(
        "the end of training gives altered files new checksums",
        "{name: (keep or {}).get(name) or checksum(folder / name) for name",
        "{name: checksum(folder / name) for name",
        ("tests/test_seal.py",),
    ),
    Edit(
        "weights that are not finite are used",
        "check_finite(weights[name], name, where)",
        "pass",
        ("tests/test_seal.py",),
    ),
    Edit(
        "a parent is used without being compared",
        "folders.verify(path, force=None)",
        "pass",
        ("tests/test_seal.py",),
    ),
    # word alignments
    Edit(
        "AER: possible links count as recall",
        "return 1 - _ratio(sums[:, 0] + sums[:, 1], sums[:, 2] + sums[:, 3])",
        "return 1 - _ratio(2 * sums[:, 1], sums[:, 2] + sums[:, 3])",
        ("tests/test_alignment.py",),
    ),
    Edit(
        "grow-diag: a neighbour needs two free words",
        "has_place = cell[0] not in self.sources or cell[1] not in self.targets",
        "has_place = cell[0] not in self.sources and cell[1] not in self.targets",
        ("tests/test_alignment.py",),
    ),
    Edit(
        "align: the state that has read a word is that which writes it",
        'first = len(self.of_target), int(state == "read")',
        "first = len(self.of_target), 0",
        ("tests/test_align.py",),
    ),
    Edit(
        "align: the pairs that chose layer and head are scored",
        '"test": slice(1, None, 2)}',
        '"test": slice(0, None, 2)}',
        ("tests/test_align.py",),
    ),
    Edit(
        "align: links of the other direction are not turned round",
        "(j, i) if self.swapped else (i, j)",
        "(i, j)",
        ("tests/test_align.py",),
    ),
    # files that commands write
    Edit(
        "outputs: an old file is replaced before the new one is on the disk",
        "os.fsync(self.raw.fileno())\n        os.replace",
        "os.replace",
        ("tests/test_faults.py",),
    ),
    Edit(
        "outputs: a block that was written in part is written again",
        "if self._refused is not None:",
        "if False:",
        ("tests/test_faults.py",),
    ),
    Edit(
        "outputs: half a line stays in FILE.part",
        "self.raw.truncate(end)",
        "self.raw.truncate(position)",
        ("tests/test_outputs.py",),
    ),
    Edit(
        "disk: an old folder is not given its name again where the new one cannot get it",
        "except BaseException:\n            _restore(old, final)\n",
        "except BaseException:\n",
        ("tests/test_outputs.py",),
    ),
]
