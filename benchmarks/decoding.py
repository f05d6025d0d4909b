"""Tokens per second of greedy and beam search, heed and other programs, interleaved in one run.

    python benchmarks/decoding.py [--threads 1 2] [--length 25] [--repeats 7] [--only heed]

Four encoder and four decoder layers of width 128, 4 heads, feed-forward width 256, 10,000 tokens, random weights in
float32; sources of 8 to 20 tokens; all outputs are forced to the same length. CTranslate2 has heed's weights, exported
by heed; Hugging Face Marian is built from a configuration of the same shape. Programs that are not installed are
reported and left out. A short sleep follows each measurement: some schedulers throttle a process that never yields.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from machine import print_machine
from torch import Tensor

from heed.config import TokenizerConfig
from heed.data.tokens import END, PADDING, START, UNKNOWN
from heed.data.tokens.tokenizer import TextTokenizer
from heed.generation import SearchOptions, generate, without_gradient
from heed.models.transformer import Transformer, TransformerConfig

VOCABULARY, WIDTH, LAYERS, HEADS, INNER = 10_000, 128, 4, 4, 256
Search = Callable[[Tensor, Tensor, int, int], object]
"""Sources, their mask, beam size and output length."""


def build() -> Transformer:
    torch.manual_seed(1)
    widths = {"d_model": WIDTH, "num_heads": HEADS, "num_layers": LAYERS, "d_ff": INNER}
    config = TransformerConfig(source_vocab_size=VOCABULARY, target_vocab_size=VOCABULARY, **widths)
    return Transformer(config).eval()


def with_heed(model: Transformer) -> Search:
    def search(source: Tensor, mask: Tensor, beam_size: int, length: int) -> object:
        forbidden = (PADDING, UNKNOWN, START)
        options = SearchOptions(END, length, min_length=length, beam_size=beam_size, forbidden=forbidden)
        prompt = torch.full((len(source), 1), START)
        with without_gradient():
            memory = model.encode(source, mask)
        written = generate(model, memory, prompt, options).hypotheses
        assert all(len(h.log_probs) == length for (h,) in written)
        return written

    return search


def with_marian() -> Search:
    from transformers import GenerationConfig, MarianConfig, MarianMTModel

    torch.manual_seed(1)
    config = MarianConfig(
        vocab_size=VOCABULARY,
        d_model=WIDTH,
        encoder_layers=LAYERS,
        decoder_layers=LAYERS,
        encoder_attention_heads=HEADS,
        decoder_attention_heads=HEADS,
        encoder_ffn_dim=INNER,
        decoder_ffn_dim=INNER,
        activation_function="relu",
        scale_embedding=True,
        max_position_embeddings=256,
        pad_token_id=PADDING,
        eos_token_id=END,
        forced_eos_token_id=None,
        decoder_start_token_id=START,
    )
    model = MarianMTModel(config).eval()

    @torch.no_grad()
    def search(source: Tensor, mask: Tensor, beam_size: int, length: int) -> object:
        settings = GenerationConfig(
            max_new_tokens=length,
            min_new_tokens=length,
            num_beams=beam_size,
            do_sample=False,
            pad_token_id=PADDING,
            eos_token_id=END,
            decoder_start_token_id=START,
        )
        written = model.generate(source, attention_mask=mask.long(), generation_config=settings)
        assert written.shape == (len(source), length + 1)
        return written

    return search


def with_ctranslate2(model: Transformer, threads: int, quantization: str) -> Search:
    import ctranslate2

    from heed.exchange.ctranslate2 import write_model

    words = " ".join(f"w{n}" for n in range(VOCABULARY - 4))
    tokenizer = TextTokenizer.train([words], TokenizerConfig(kind="word", vocab_size=VOCABULARY, min_count=1))
    names = tokenizer.tokens
    with tempfile.TemporaryDirectory() as folder:
        write_model(model, tokenizer, tokenizer, Path(folder), quantization, 256)
        translator = ctranslate2.Translator(folder, intra_threads=threads)

    def search(source: Tensor, mask: Tensor, beam_size: int, length: int) -> object:
        sources = [[names[i] for i in row[real].tolist()] for row, real in zip(source, mask, strict=True)]
        forced = {"min_decoding_length": length, "max_decoding_length": length, "disable_unk": True}
        never = [[names[PADDING]], [names[START]]]
        return translator.translate_batch(sources, beam_size=beam_size, suppress_sequences=never, **forced)

    return search


def sources_of(batch: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(batch)
    lengths = torch.randint(8, 21, (batch,), generator=generator)
    mask = torch.arange(int(lengths.max())) < lengths.unsqueeze(1)
    return torch.randint(4, VOCABULARY, mask.shape, generator=generator).masked_fill(~mask, PADDING), mask


def seconds(searches: dict[str, Search], batch: int, beam_size: int, length: int, repeats: int) -> dict[str, float]:
    """Median time of each program, measured in turns."""
    source, mask = sources_of(batch)
    times: dict[str, list[float]] = {name: [] for name in searches}
    for search in searches.values():
        search(source, mask, beam_size, 4)
    for _ in range(repeats):
        for name, search in searches.items():
            start = time.perf_counter()
            search(source, mask, beam_size, length)
            times[name].append(time.perf_counter() - start)
            time.sleep(0.1 * times[name][-1])
    return {name: statistics.median(taken) for name, taken in times.items()}


def searches_of(threads: int, only: list[str] | None) -> dict[str, Search]:
    model = build()
    makers: dict[str, Callable[[], Search]] = {
        "heed": lambda: with_heed(model),
        "marian": with_marian,
        "ctranslate2": lambda: with_ctranslate2(model, threads, "float32"),
        "ctranslate2-int8": lambda: with_ctranslate2(model, threads, "int8"),
    }
    found = {}
    for name, make in makers.items():
        if only is None or name in only:
            try:
                found[name] = make()
            except ImportError as error:
                print(f"{name} left out: {error.name} is not installed")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, nargs="+", default=[2])
    parser.add_argument("--length", type=int, default=25)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--only", nargs="+")
    given = parser.parse_args()
    torch.set_num_threads(max(given.threads))
    print_machine()
    print(f"outputs of {given.length} tokens, medians of {given.repeats}")
    print("tokens per second; in brackets: speed of the first column divided by this one")
    for threads in given.threads:
        torch.set_num_threads(threads)
        searches = searches_of(threads, given.only)
        print(f"| {threads} threads | " + " | ".join(searches) + " |\n|---" + "|---" * len(searches) + "|")
        for batch, beam_size in ((64, 1), (64, 5), (1, 1), (1, 5)):
            taken = seconds(searches, batch, beam_size, given.length, given.repeats)
            rates = {name: batch * given.length / time for name, time in taken.items()}
            first = next(iter(rates.values()))
            cells = (f"{rate:,.0f} ({first / rate:.2f}x)" for rate in rates.values())
            print(f"| batch {batch}, beam {beam_size} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
