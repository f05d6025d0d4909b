"""Train skip-gram word vectors on your own text, for `model.word_vectors`.

    pip install -e '.[bench]'      (gensim)
    python examples/skipgram.py imdb.vec data/documents/imdb/imdb.train.tsv.xz [FILE ...] [--width 100] [--epochs 5]

Reads plain text (one document a line), TSV with a column `text`, and CoNLL files (one word a line, first column; names
ending in .conll or .iob2), optionally compressed as .gz or .xz; labels are ignored. Text is tokenized as in heed
(`tokenizer.kind: word`) and lower-cased: heed looks words up as written, then lower-cased. Output is the text format of
word2vec. Skip-gram with 5 negative samples, a window of 5, words that occur at least 3 times (Mikolov et al. 2013,
arXiv:1310.4546); one thread, so that the same text gives the same vectors.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import lzma
import sys
import time
from collections.abc import Iterator
from pathlib import Path

from heed.data.examples import split_sentences
from heed.data.tokens import split_words


def main() -> None:
    parser = argparse.ArgumentParser(description="Train skip-gram word vectors.")
    parser.add_argument("out", type=Path, help="output file")
    parser.add_argument("files", type=Path, nargs="+", help="files of text")
    parser.add_argument("--width", type=int, default=100)
    parser.add_argument("--epochs", type=int, default=5)
    asked = parser.parse_args()
    try:
        from gensim.models import Word2Vec
    except ImportError:
        sys.exit("this needs gensim: pip install -e '.[bench]'")
    began = time.perf_counter()
    sentences = [words for path in asked.files for words in sentences_of(path)]
    count = sum(map(len, sentences))
    print(f"{count:,} words in {len(sentences):,} sentences, read in {time.perf_counter() - began:.0f} s", flush=True)
    model = Word2Vec(
        sentences, vector_size=asked.width, epochs=asked.epochs, sg=1, negative=5, window=5, min_count=3,
        seed=1, workers=1,
    )  # fmt: skip
    model.wv.save_word2vec_format(str(asked.out))
    print(f"{len(model.wv):,} vectors of width {asked.width} in {asked.out}, {time.perf_counter() - began:.0f} s")


def sentences_of(path: Path) -> Iterator[list[str]]:
    """The words of each sentence of a file, in lower case."""
    opens = {".gz": gzip.open, ".xz": lzma.open}.get(path.suffix, open)
    name = path.name.removesuffix(path.suffix) if path.suffix in (".gz", ".xz") else path.name
    with opens(path, "rt", encoding="utf-8", newline="\n") as file:
        if ".conll" in name or name.endswith(".iob2"):
            yield from _first_columns(file)
            return
        texts: Iterator[str] = iter(file)
        if name.endswith(".tsv"):
            rows = csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE)
            if "text" not in (rows.fieldnames or ()):
                sys.exit(f"{path}: no column 'text' among {', '.join(rows.fieldnames or ())}")
            texts = (row["text"] for row in rows)
        for text in texts:
            for start, end in split_sentences(text):
                sentence = text[start:end].lower()
                yield [sentence[a:b] for a, b in split_words(sentence)]


def _first_columns(lines: Iterator[str]) -> Iterator[list[str]]:
    words: list[str] = []
    for line in lines:
        if line.strip() and not line.startswith("#"):
            words.append(line.split("\t")[0].strip().lower())
        elif words:
            yield words
            words = []
    if words:
        yield words


if __name__ == "__main__":
    main()
