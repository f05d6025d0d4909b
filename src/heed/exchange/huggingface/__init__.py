"""Checkpoints of the Hugging Face Hub, read and written without the library `transformers`.

A checkpoint is a folder: `config.json`, tensors, tokenizer files. Three parts read and write it:

- a **family** (`family.py`; a class for each `model_type`, in `FAMILIES` of `checkpoint.py`) knows the body: it is a
  pydantic model of `config.json`, whose fields have the names of our model's and theirs as aliases, with a table of
  layers, ours and theirs; a `Literal` of one value is a field that heed computes in one way only;
- **heads** (`heads.py`; a class for each kind, in `HEADS`) know what a task adds: the class names that are its own
  (`ForTokenClassification`), fields of its configuration, and what a run has to export;
- `read_tokenizer` and `write_tokenizer` (`tokenizers.py`) know the tokenizer files, `pieces.py` SentencePiece models.

To add a family: write a `Family` that overrides only what depends on a checkpoint (`further` tensors, `derived` and
`written` fields), in `single_stack.py`, `encoder_decoder.py`, `vit.py` or a file of its own, add it to `FAMILIES`, and
its class names to the `classes` of the heads. To add a task: name its heads in `checkpoints` of its specification.
A table calls tensors of the body `body.<name in our model>` and those of a head by the head's name: `words.*` (masked
words), `order.*` (next sentence), `labels.*` (a text's label), `tags.*`, `output.*` (the layer of a language model or
translator to the vocabulary); `Heads.places` says under which names the task's model has them. A new reversible
transform goes into `files.py`. Nothing else must be done for `heed import` and `heed export --to huggingface`.

The shapes that a checkpoint should have are those of our model sent back through the transforms on the device "meta",
so no shape is written twice. What an export wrote is read again by the same code, and compared.
"""
