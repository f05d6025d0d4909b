"""Wrong edits of pictures, a block as one function, run folders, alignments, files that commands write."""

from __future__ import annotations

from wrong_edits.edit import Edit

EDITS = [
    # packed runs
    Edit(
        "pack: paths in the home folder stay",
        'return _HOME.sub("", value)',
        "return value",
        ("tests/test_pack.py",),
    ),
    Edit(
        "pack: a file that unpacks to any size is unpacked",
        "    elif size > most:",
        "    elif size > most**2:",
        ("tests/test_pack.py",),
    ),
    Edit(
        "pack: what was unpacked is not compared with its checksums",
        "        problems = describe_damage(folder)\n        if WEIGHTS not in listed",
        "        problems: dict[str, str] = {}\n        if WEIGHTS not in listed",
        ("tests/test_pack.py",),
    ),
    # odd words
    Edit(
        "yaml: aliases may expand without bounds",
        "            if total > most:",
        "            if total > most**2:",
        ("tests/test_odd_words.py", "tests/test_run_files.py"),
    ),
    Edit(
        "messages: words are quoted whole",
        "    if len(text) <= most + most // 10:",
        "    if len(text) <= most * 1_000_000:",
        ("tests/test_odd_words.py",),
    ),
    Edit(
        "folders: parents stay where a folder cannot be made",
        "        for one in missing:\n            with suppress(OSError):",
        "        for one in missing[:0]:\n            with suppress(OSError):",
        ("tests/test_odd_words.py",),
    ),
    Edit(
        "import: a mask token loses its properties",
        "own.get(content, AddedToken(content, special=True, normalized=False))",
        "AddedToken(content, special=True, normalized=False)",
        ("tests/test_tokenizer_folders.py",),
    ),
    Edit(
        "import: the heads of a DeiT are added, not averaged",
        "[torch.cat([*theirs], dim=1) / 2]",
        "[torch.cat([*theirs], dim=1)]",
        ("tests/test_checkpoints_vit.py",),
    ),
    Edit(
        "pictures: pipes and devices are opened",
        "    if kind := kind_of(os.fstat(number)):\n        os.close(number)",
        '    if kind := "":\n        os.close(number)',
        ("tests/test_odd_words.py", "tests/test_pictures_read.py"),
    ),
    Edit(
        "numbers beyond 64 bits are used",
        "    if abs(value) >= 2**63:",
        "    if abs(value) >= 2**630:",
        ("tests/test_odd_words.py",),
    ),
    # imported ResNets, and the advice to start from a checkpoint
    Edit(
        "resnet: running means and variances are exchanged",
        'entry(f"{norm}.{part}", f"{ours}.norm.{part}") for part in ("running_mean", "running_var")',
        'entry(f"{norm}.{part}", f"{ours}.norm.running_var") for part in ("running_var", "running_var")',
        ("tests/test_checkpoints_resnet.py",),
    ),
    Edit(
        "advice: the translator of the reverse direction",
        'source, target = ("en", *found) if source_is_english else (*found, "en")',
        'source, target = (*found, "en") if source_is_english else ("en", *found)',
        ("tests/test_pretrained_advice.py",),
    ),
    # checkpoints, of runs and of the Hub
    Edit(
        "checkpoints: those of another run are taken",
        "    if carried != made_of:",
        "    if False:",
        ("tests/test_resume_trust.py",),
    ),
    Edit(
        "import: sizes are compared after the model is made",
        "        settings.most = files.most\n",
        "",
        ("tests/test_malformed_checkpoints.py",),
    ),
    Edit(
        "import: replacements may multiply",
        "len(text := step.normalize_str(text)) > _GROWTH * len(probe)",
        "len(step.normalize_str(text)) > _GROWTH * len(probe)",
        ("tests/test_malformed_checkpoints.py",),
    ),
    Edit(
        "marian: accents of a text that is not normalised are lost",
        "                text = self.normalize(text)  # spans",
        "                text = str(text)  # spans",
        ("tests/test_marian_tokenizers.py",),
    ),
    # pictures
    Edit(
        "pictures: rotated the wrong way for one EXIF value",
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
        "pictures: labels of an idx file are shifted by one",
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
        "augment: either all pictures are mirrored or none",
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
        "augment: mixup weights of the labels are exchanged",
        "return mixed, labels * share + labels.roll(1, 0) * (1.0 - share)",
        "return mixed, labels * (1.0 - share) + labels.roll(1, 0) * share",
        ("tests/test_augment.py",),
    ),
    Edit(
        "augment: cutmix uses the share drawn, not that of the area cut",
        "            shares[i] = 1.0 - (bottom - top) * (right - left) / (pixels.shape[-2] * pixels.shape[-1])\n",
        "",
        ("tests/test_augment.py",),
    ),
    Edit(
        "augment: pictures are shifted in the opposite direction",
        "return int(150.0 / 331.0 * length * share * sign)",
        "return -int(150.0 / 331.0 * length * share * sign)",
        ("tests/test_augment.py",),
    ),
    Edit(
        "augment: a picture may be erased several times",
        "        waiting &= ~fits\n",
        "",
        ("tests/test_augment.py",),
    ),
    # a stack of encoder blocks, and the loss in pieces
    Edit(
        "encoder block: the first position alone is taken before normalisation",
        "context = self.attention(seen[:, :1], self.attention.prepare(seen, mask=mask))",
        "context = self.attention(x[:, :1], self.attention.prepare(seen, mask=mask))",
        ("tests/test_encoder_block.py",),
    ),
    Edit(
        "encoder block: the first position alone attends to padding",
        "context = self.attention(seen[:, :1], self.attention.prepare(seen, mask=mask))",
        "context = self.attention(seen[:, :1], self.attention.prepare(seen))",
        ("tests/test_encoder_block.py",),
    ),
    Edit(
        "encoder stack: a watched pass computes the class token alone",
        "only_first=only_first and watch.here.slot is None and n == len(self)",
        "only_first=only_first and n == len(self)",
        ("tests/test_image_models.py",),
    ),
    Edit(
        "packed texts: a block that drops inside its feed-forward network is packed",
        "and f.dropout is None and not around[0].first and same",
        "and not around[0].first and same",
        ("tests/test_encoder_block.py",),
    ),
    Edit(
        "loss in pieces: the gradient lacks label smoothing",
        "    if uniform > 0:\n        logits -= uniform\n",
        "",
        ("tests/test_loss.py",),
    ),
    Edit(
        "loss in pieces: the gradient of the layer is that of the last piece",
        "                    d_bias += logits.sum(0)\n",
        "                    d_bias.copy_(logits.sum(0))\n",
        ("tests/test_loss.py",),
    ),
    # batch normalisation
    Edit(
        "batches of a model with batch normalisation are split into micro-batches",
        "    if normalises_batches(model):\n        return 1\n",
        "    if False:\n        return 1\n",
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
        "the end of training replaces the checksums of altered files",
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
        "a parent is used without comparing checksums",
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
        "is_free = cell[0] not in sources or cell[1] not in targets",
        "is_free = cell[0] not in sources and cell[1] not in targets",
        ("tests/test_alignment.py",),
    ),
    Edit(
        "align: the state that reads a word is taken for the one that writes it",
        'first = len(self.of_target), int(state == "read")',
        "first = len(self.of_target), 0",
        ("tests/test_align.py",),
    ),
    Edit(
        "align: links of the opposite direction stay (target, source)",
        "links[n][(j, i) if self.swapped else (i, j)] =",
        "links[n][(i, j)] =",
        ("tests/test_align.py",),
    ),
    Edit(
        "align: links of the reverse direction are not transposed",
        "(j, i) if self.swapped else (i, j)",
        "(i, j)",
        ("tests/test_align.py",),
    ),
    # files that commands write
    Edit(
        "outputs: an old file is replaced before the new one is synced to disk",
        "os.fsync(raw.fileno())\n            if _is_open_as",
        "if _is_open_as",
        ("tests/test_faults.py",),
    ),
    Edit(
        "outputs: a partly written block is written again",
        "if self._refused is not None:",
        "if False:",
        ("tests/test_faults.py",),
    ),
    Edit(
        "outputs: half a line stays in FILE.part",
        "raw.truncate(end)",
        "raw.truncate(position)",
        ("tests/test_outputs.py",),
    ),
    Edit(
        "outputs: a program gives its name to the unfinished file of a later one",
        "if _is_open_as(raw, part):\n                os.replace",
        "if True:\n                os.replace",
        ("tests/test_outputs.py",),
    ),
    Edit(
        "lock: without locks of the file system, the file of an ended process blocks the folder for ever",
        "if owner is not None and not _has_ended(owner):",
        "if owner is not None:",
        ("tests/test_lock.py",),
    ),
    Edit(
        "disk: an old folder is not restored if the new one cannot be renamed",
        "except BaseException:\n            _restore(old, final)\n",
        "except BaseException:\n",
        ("tests/test_outputs.py",),
    ),
    # figures
    Edit(
        "a letter that no font has is drawn as an empty box",
        'missing = {character for character in text if unicodedata.category(character)[0] not in "ZCM"}',
        "missing = set(text[:0])",
        ("tests/test_figures.py::test_a_missing_letter_is_refused_with_its_script_and_what_to_install",),
    ),
    Edit(
        "pages trust what users wrote",
        "autoescape=True,",
        "autoescape=False,",
        ("tests/test_figures.py::test_no_page_obeys_what_users_wrote",),
    ),
    Edit(
        "pages show hidden characters as they are",
        "finalize=_shown,",
        "",
        ("tests/test_figures.py::test_no_page_obeys_what_users_wrote",),
    ),
    Edit(
        "the weights of a large map are packed as they are, not as square roots",
        "np.rint(np.sqrt(np.abs(weights.clip(-1 if signed else 0, 1))) * scale)",
        "np.rint(np.abs(weights.clip(-1 if signed else 0, 1)) * scale)",
        ("tests/test_draw.py::test_the_numbers_of_a_large_map_are_all_there",),
    ),
    Edit(
        "an axis leaves out the ends of intervals",
        "return [*(y for line in panel.lines for _, y in line.points), *ends, *others, *level]",
        "return [*(y for line in panel.lines for _, y in line.points), *others, *level]",
        ("tests/test_figures.py::test_an_axis_covers_intervals_seeds_and_levels",),
    ),
    Edit(
        "a look at a run without looks opens the run, to refuse it",
        'if task in task_names() and "look" in spec_of(task).why_not:',
        "if task not in task_names():",
        ("tests/test_start.py::test_a_look_at_a_run_whose_task_has_none_is_refused_without_torch",),
    ),
    Edit(
        "a trace that ends lets compiled models run compiled inside the traces of other threads",
        "if not self._open and self._stance is not None:",
        "if self._stance is not None:",
        ("tests/test_trace.py::test_traces_that_overlap_in_two_threads_leave_a_model_compiled",),
    ),
    Edit(
        "the comments of a LaTeX table are not comments",
        'f"% {line}".rstrip() for line in in_text(',
        'f"{line}".rstrip() for line in in_text(',
        ("tests/test_visible.py::test_tables_for_spreadsheets_and_latex_hold_no_formula_and_no_command",),
    ),
    Edit(
        "run folder: one that was only begun is not begun again",
        "    if os.path.isdir(path) and was_only_begun(path):\n        return\n",
        "",
        ("tests/test_dead_ends.py::test_a_folder_whose_run_was_killed_before_its_settings_is_begun_again",),
    ),
    Edit(
        "metrics: a resumed run writes into a copy of hard links",
        "if kept != lines or self._path.stat().st_nlink > 1:",
        "if kept != lines:",
        ("tests/test_dead_ends.py::test_a_resumed_run_writes_nothing_into_a_copy_of_hard_links",),
    ),
]
