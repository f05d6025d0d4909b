"""Wrong edits of pictures, a block as one function, run folders, alignments, files that commands write."""

from __future__ import annotations

from wrong_edits.edit import Edit

EDITS = [
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
        "pre-norm block: the gradient ignores the inner dropout",
        "d_active.mul_(kept) if s.inner_dropout else d_active",
        "d_active",
        ("tests/test_pre_norm_block.py",),
    ),
    Edit(
        "pre-norm block: the gradient of both dropouts uses the second mask",
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
        "first state: the residual connection of the first position has no gradient",
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
        "batches of a model with batch normalisation are split into micro-batches",
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
        "has_place = cell[0] not in self.sources or cell[1] not in self.targets",
        "has_place = cell[0] not in self.sources and cell[1] not in self.targets",
        ("tests/test_alignment.py",),
    ),
    Edit(
        "align: the state that reads a word is taken for the one that writes it",
        'first = len(self.of_target), int(state == "read")',
        "first = len(self.of_target), 0",
        ("tests/test_align.py",),
    ),
    Edit(
        "align: pairs used to choose layer and head are scored",
        '"test": slice(1, None, 2)}',
        '"test": slice(0, None, 2)}',
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
        "os.fsync(self.raw.fileno())\n        os.replace",
        "os.replace",
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
        "self.raw.truncate(end)",
        "self.raw.truncate(position)",
        ("tests/test_outputs.py",),
    ),
    Edit(
        "disk: an old folder is not restored if the new one cannot be renamed",
        "except BaseException:\n            _restore(old, final)\n",
        "except BaseException:\n",
        ("tests/test_outputs.py",),
    ),
]
