"""Check of a run folder: every file is compared with the checksums written with it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from heed import folder as folders
from heed.storage.files import CHECKSUMS, describe_damage, listed
from heed.training.checkpoint import checkpoints_in
from heed.training.weights import why_unusable
from heed.visible import shell_word


@dataclass(frozen=True)
class RunState:
    """The state of a run folder: for each file the problem or "ok", further remarks, and if training has finished."""

    folder: Path
    files: dict[str, str]
    remarks: tuple[str, ...] = ()
    finished: bool = True

    @property
    def whole(self) -> bool:
        """True if no file is missing, altered or unusable."""
        return all(state == "ok" for state in self.files.values())

    def __str__(self) -> str:
        width = max(map(len, self.files), default=0)
        lines = [f"  {name:{width}}  {state}" for name, state in self.files.items()]
        bad = sum(state != "ok" for state in self.files.values())
        verdict = (
            f"{bad} of {len(self.files)} files {'is' if bad == 1 else 'are'} missing, altered or unusable"
            if bad
            else "all files are intact"
        )
        if not self.finished:
            verdict = f"not finished; {verdict if bad else 'all files with a checksum are intact'}"
        return "\n".join([f"run folder {self.folder}: {verdict}", *lines, *self.remarks])


def check_run(run: str | Path = "last") -> RunState:
    """Compare every file of a run folder, of its checkpoints and exports with the checksums written with them.

    Raises:
        RunError: There is no such folder, it is no run, or it is of another format; the message says which.
    """
    path = folders.find(run, folders.State.BEGUN)
    folders.check_format(path)
    files: dict[str, str] = {}
    remarks = []
    if (path / CHECKSUMS).is_file():
        files |= _states(path, "")
    else:
        remarks.append(f"{CHECKSUMS} is missing: the run was killed at its start, or the file was removed")
    finished = folders.state_of(path) is folders.State.FINISHED or folders.WEIGHTS in files
    if not finished:
        remarks.append(f"training has not finished; resume it with: heed train {shell_word(path)} --resume")
    checkpoints = path / "checkpoints"
    named = [p for p in checkpoints.glob("step-*") if p.name.removeprefix("step-").isdecimal()]
    for folder in sorted(named, key=lambda p: int(p.name.removeprefix("step-"))):
        files |= _states(folder, f"checkpoints/{folder.name}/")
    for folder in sorted(p for p in (path / folders.EXPORT).glob("[!.]*") if p.is_dir()):
        files |= _states(folder, f"{folders.EXPORT}/{folder.name}/")
    resumable = [p.name for p in checkpoints_in(checkpoints) if not describe_damage(p)]
    if resumable:
        remarks.append(f"a resumed run starts from {resumable[0]}")
    return RunState(path, files, tuple(remarks), finished)


def _states(folder: Path, before: str) -> dict[str, str]:
    damage, weights = describe_damage(folder), folders.WEIGHTS
    if weights in {*listed(folder)} - damage.keys() and (problem := why_unusable(folder / weights)):
        damage[weights] = problem
    return {before + name: damage.get(name, "ok") for name in (*listed(folder), *(n for n in damage if n == CHECKSUMS))}
