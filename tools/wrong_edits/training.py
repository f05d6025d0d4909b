"""Wrong edits of training, attention, layers, models, generation."""

from __future__ import annotations

from wrong_edits.edit import BLOCKS, DROPS, SEARCH, Edit

EDITS = [
    # training
    Edit(
        "weights of the warm-up are kept",
        "or rank > p.best_rank or replaces:",
        "or rank > p.best_rank:",
        ("tests/test_budget.py::test_the_warm_up_is_a_tenth_of_the_plan_and_its_weights_are_not_kept",),
    ),
    Edit(
        "a run whose loss is level ends early",
        "            p.worse = p.worse + 1 if is_warm and rises else 0\n",
        "            p.worse += is_warm\n",
        ("tests/test_budget.py::test_it_uses_its_budget_where_the_loss_does_not_rise",),
    ),
    Edit(
        "a large validation set takes most of the budget",
        "        return min(1.0, _PART * self.seconds / seconds)\n",
        "        return 1.0\n",
        ("tests/test_budget.py",),
    ),
    Edit(
        "a model of which too few updates fit is trained",
        "            if is_enough(size, batch, updates):\n",
        "            if True:\n",
        ("tests/test_sizing.py",),
    ),
    Edit(
        "a new plan makes the learning rate jump",
        "        return Schedule(warmup, total, p.step, risen, now.decay(p.step))\n",
        "        return Schedule(warmup, total, p.step, risen, 0.0)\n",
        ("tests/test_budget.py",),
    ),
    Edit(
        "warm-up starts at the full learning rate",
        "        return self.risen + (1.0 - self.risen) * (step - self.since) / (self.warmup - self.since)\n",
        "        return 1.0\n",
        ("tests/test_training.py",),
    ),
    Edit(
        "the cosine schedule ends at half the learning rate",
        "return 0.5 * (1.0 + math.cos(math.pi * self.decay(",
        "return 0.5 * (1.0 + math.cos(0.5 * math.pi * self.decay(",
        ("tests/test_training.py",),
    ),
    Edit(
        "accumulated batches do not act as one batch",
        "(loss / (count / self.processes.count)).backward()",
        "(loss / (batch.num_targets / self.processes.count)).backward()",
        ("tests/test_training.py",),
    ),
    Edit(
        "dropout stays off after a validation",
        "        self._held.trained.train()\n        if self._chooses_threads:",
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
        "if size and max(1, sum(grown)) * (size + 1) > batch_tokens:",
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
        "a row without visible keys attends uniformly",
        "return torch.softmax(scores.masked_fill(hidden, lowest), dim=-1).masked_fill(hidden, 0.0)",
        "return torch.softmax(scores.masked_fill(hidden, lowest), dim=-1)",
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
        ("tests/test_keys_rows.py",),
    ),
    Edit(
        "the causal mask aligns at the top left",
        "return key <= query + (num_keys - num_queries)",
        "return key <= query",
        ("tests/test_keys_rows.py",),
    ),
    Edit(
        "padding masks show one position too many",
        "return torch.arange(width, device=lengths.device) < lengths.unsqueeze(-1)",
        "return torch.arange(width, device=lengths.device) <= lengths.unsqueeze(-1)",
        ("tests/test_keys_rows.py",),
    ),
    Edit(
        "a position is masked only if it is both padding and future",
        "combined & future",
        "combined | future",
        ("tests/test_keys_rows.py", "tests/test_modules.py"),
    ),
    Edit(
        "attention applies dropout outside training",
        "dropout = self.dropout if self.training else 0.0\n        weights = None",
        "dropout = self.dropout\n        weights = None",
        (DROPS,),
    ),
    Edit(
        "keys and values exchanged in multi-head attention",
        "keys, values = linear_together(key, self.w_key, self.w_value)",
        "keys, values = linear_together(key, self.w_value, self.w_key)",
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
        "post-norm omits the residual connection",
        "return self.norm(x + self.dropout(sublayer(x)))",
        "return self.norm(self.dropout(sublayer(x)))",
        ("tests/test_transformer.py", "tests/test_reference.py"),
    ),
    Edit(
        "positions use a different base",
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
        "Bahdanau starts from the forward network's last state",
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
        "the CRF ignores end scores",
        "return torch.logsumexp(alpha + self.end, dim=1)",
        "return torch.logsumexp(alpha, dim=1)",
        ("tests/test_tags.py",),
    ),
    Edit(
        "Viterbi minimises instead of maximising",
        "longer, before = (score.unsqueeze(2) + transitions).max(1)",
        "longer, before = (score.unsqueeze(2) + transitions).min(1)",
        ("tests/test_tags.py",),
    ),
    Edit(
        "a delayed tagger uses each word's undelayed state",
        "return self.body(ended, read, features)[:, self.delay :]",
        "return self.body(ended, read, features)[:, : tokens.shape[1]]",
        ("tests/test_teddy.py::test_a_delay_reads_on_whatever_the_padding",),
    ),
    # generation
    Edit(
        "hypotheses are compared without length normalisation",
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
    Edit(
        "a resumed run has its whole time budget again",
        "        self.budget.add(self.progress.seconds)\n",
        "",
        ("tests/test_training.py::test_a_resumed_run_has_the_rest_of_its_time_budget",),
    ),
    Edit(
        "the interval of a forecast's gain is turned around",
        "*interval(1 - drawn[id(model)] / others)",
        "*interval(1 - others / drawn[id(model)])",
        ("tests/test_numbers.py",),
    ),
    Edit(
        "tokens a second count validations and pauses",
        "p, seconds = progress, max(1e-9, progress.training_seconds)",
        "p, seconds = progress, max(1e-9, progress.seconds)",
        ("tests/test_training.py",),
    ),
    Edit(
        "the gradient's norm is logged after clipping",
        "clip_gradient(self._held.trained, c.clip)",
        "clip_gradient(self._held.trained, c.clip).clamp_max(c.clip or math.inf)",
        ("tests/test_training.py",),
    ),
    Edit(
        "the random state is that of the current device",
        "torch.cuda.get_rng_state(device)",
        "torch.cuda.get_rng_state()",
        ("tests/test_training.py",),
    ),
    Edit(
        "the random state is restored on the current device",
        'torch.cuda.set_rng_state(checkpoint.random[f"{rank}.cuda"], device)',
        'torch.cuda.set_rng_state(checkpoint.random[f"{rank}.cuda"])',
        ("tests/test_training.py",),
    ),
    Edit(
        "threads: a second thread is kept for a gain within noise",
        "if min(self._tried) < usual * (_WORTH if self._trial > self.count else 1.0):",
        "if min(self._tried) < usual:",
        ("tests/test_threads.py",),
    ),
    Edit(
        "threads: a number that was tried in vain is tried again at once",
        "self._wait = max(_REST, _SHARE * self._extra)",
        "self._wait = 0.0",
        ("tests/test_threads.py",),
    ),
    Edit(
        "bert: padding is attended to outside of training",
        "return super().forward(x, None if here(mask).all() else mask)",
        "return super().forward(x, None)",
        ("tests/test_bert.py", "tests/test_models.py"),
    ),
]
