"""Checkpoints of the Hugging Face Hub, read and written without the library `transformers`.

A checkpoint is a folder: `config.json`, tensors, tokenizer files. Three parts read and write it:

- a **family** (`family.py`; one object for each `model_type`, in `checkpoint.py`) knows the body: which fields of
  `config.json` mean which fields of our model, and a table of tensors (their name, our name, a reversible transform);
- a **task** knows the heads: `huggingface.py` in its folder has a `TaskCheckpoint` (`heed.tasks.base.huggingface`),
  and `architectures` of its specification lists the endings of class names that are its own (`ForTokenClassification`);
- `read_tokenizer` and `write_tokenizer` (`tokenizers.py`) know the tokenizer files.

To add a family: write `exchange/huggingface/<family>.py` with a subclass of `Family`, add it to `FAMILIES` in
`checkpoint.py`, and name its architectures in the tasks that it is for. `family.table` calls tensors of the body
`body.<name in our model>` and those of a head by the head's name: `words.*` (masked words), `order.*` (next sentence),
`labels.*` (a text's label), `tags.*`, `output.*` (the layer of a language model or translator to the vocabulary).
`TaskCheckpoint.places` says under which names the task's model has them. A family with several tokenizers (a source's
and a target's) overrides `tokenizers` and `write_tokenizers`; a new reversible transform goes into `files.py`.
Nothing else must be done for `heed import` and `heed export --to huggingface`.

The shapes that a checkpoint should have are those of our model sent back through the transforms on the device "meta",
so no shape is written twice. What an export wrote is read again by the same code, and compared.
"""
