"""Settings of small runs that copy digits; runs to kill, damage and resume."""

from heed.config import read_config
from heed.runs.train import train_config
from heed.tasks import check_config
from reporters import Killed, Killer, Listener

SMALL = {"batch_tokens": 150, "threads": 1, "device": "cpu", "precision": "float32", "warmup": 2}
MODEL = {"d_embedding": 12, "d_hidden": 12, "d_attention": 12, "dropout": 0.3}


def translation(model=MODEL, data=None, tokenizer=None, **training):
    """Settings of a translator that copies digits."""
    return check_config(
        {
            "data": {"name": "copy", "length": [2, 6], "train": 120, "valid": 16, "test": 16, **(data or {})},
            "tokenizer": tokenizer or {},
            "model": model,
            "training": {"steps": 6, "validate_every": 2, **SMALL, **training},
            "evaluation": {"bootstrap": 10},
        },
        "the test",
    )


def changed(config, **sections):
    """The configuration with other values in some sections."""
    values = config.model_dump(by_alias=True)
    return check_config(values | {name: {**values[name], **new} for name, new in sections.items()}, "the test")


def train(out, config, resume=False, reporter=None):
    return train_config(config, out, reporter or Listener(), resume=resume)


def killed(out, config, at, resume=False):
    """The folder of a run that was killed after an update."""
    try:
        train(out, config, resume, Killer(at))
    except Killed:
        return out
    raise AssertionError("training has ended before the kill")


def resumed(folder, config=None):
    """What `heed train FOLDER --resume` says, perhaps with the settings of another file, and the result."""
    reporter = Listener()
    path = folder / "config.yaml"
    _, result = train(folder, config or check_config(read_config(path), str(path)), resume=True, reporter=reporter)
    return reporter.text, result


def weights_of(out):
    return (out / "model.safetensors").read_bytes()


def files_in(folder):
    """The content of each file."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def flip(path):
    """Alter one bit of a file."""
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
