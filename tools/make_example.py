"""Make `src/heed/example.zip`, the run that `heed look example` opens without any training.

    python tools/make_example.py RUN

RUN is a finished training of `examples/dates.yaml` with a number of updates in place of minutes:

    heed train examples/dates.yaml --out RUN training.minutes=null training.steps=2000

Its weights are rounded to bfloat16, which halves the file, and the zip file is compressed whole. The script ends with
an error unless the rounded model still gets 1,000 held-out dates right.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import tempfile
import zipfile
from pathlib import Path

import torch

import heed
from heed.storage.files import CHECKSUMS
from heed.training.weights import read_tensors, save_tensors

OUT = Path(__file__).parent.parent / "src/heed/example.zip"
_LEFT_OUT = {"metrics.jsonl", "curves.svg"}
_DATED = (1980, 1, 1, 0, 0, 0)  # the same run gives the same file


def rounded(path: Path) -> bytes:
    """The weights of a run in bfloat16, as the content of a file."""
    tensors = {name: tensor.to(torch.bfloat16) for name, tensor in read_tensors(path).items()}
    save_tensors(tensors, path, {"format": "pt"})
    return path.read_bytes()


def main() -> None:
    """Round and compress a run, and check what it still knows."""
    parser = argparse.ArgumentParser(description="Make the run that comes with heed.")
    parser.add_argument("run", type=Path)
    run = parser.parse_args().run
    with tempfile.TemporaryDirectory() as place:
        packed = Path(place) / "run.zip"
        heed.pack(run, packed)
        with zipfile.ZipFile(packed) as archive:
            content = {name.partition("/")[2]: archive.read(name) for name in archive.namelist()}
        (weights := Path(place) / "model.safetensors").write_bytes(content["model.safetensors"])
        content["model.safetensors"] = rounded(weights)
        sums = json.loads(content[CHECKSUMS])
        digest = hashlib.blake2b(content["model.safetensors"], digest_size=20).hexdigest()
        sums["model.safetensors"] = {"bytes": len(content["model.safetensors"]), "blake2b": digest}
        content[CHECKSUMS] = json.dumps({name: sums[name] for name in sums if name not in _LEFT_OUT}, indent=1).encode()
        with zipfile.ZipFile(OUT, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
            for name in sorted(content.keys() - _LEFT_OUT):
                member = zipfile.ZipInfo(f"example/{name}", _DATED)
                archive.writestr(member, content[name], zipfile.ZIP_DEFLATED, 9)
    scores = heed.load(OUT).evaluate()
    print(f"{OUT}: {OUT.stat().st_size:,} bytes; exact match {scores['exact_match']}")
    if scores["exact_match"]["value"] < 1:
        raise SystemExit("the rounded model does not get every held-out date right")


if __name__ == "__main__":
    main()
