"""Finds the runs and the studies below the directories that a dashboard may show.

A run has an id, and requests name ids only: no part of a path comes from a request. Links are not followed.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from neuro_divergent.core.errors import DataFileError, NeuroDivergentError, first_line
from neuro_divergent.core.runs import names
from neuro_divergent.core.runs.remote import RemoteFolder

MOST_PLACES = 20_000
MOST_DEPTH = 8
"""Limits of the search for runs."""
_SIGNS = frozenset({names.CONFIG, names.CHECKPOINTS, names.EVENTS, names.MODEL})
_REMOTE_SIGNS = frozenset({names.CONFIG, names.CHECKPOINTS, names.EVENT_PARTS})


@dataclass(frozen=True)
class Place:
    """A run or a study below one of the directories."""

    kind: Literal["run", "study"]
    root: str
    """The directory of the dashboard, as it was given."""
    name: str
    """The path below the root, with forward slashes; the name of the root if it is the run itself."""
    path: str
    """The directory or address."""
    study: str | None = None
    """The id of the study that a run is a trial of."""

    @property
    def id(self) -> str:
        """A short name for requests."""
        return place_id(self.root, self.path)

    @property
    def remote(self) -> bool:
        """Whether it is at a remote address."""
        return names.is_remote(self.path)


def place_id(root: str, path: str) -> str:
    """The id of a run or a study: 16 hexadecimal digits of a digest."""
    return hashlib.sha256(f"{root}\0{path}".encode(errors="surrogateescape")).hexdigest()[:16]


def find_places(roots: list[str], failed: dict[str, str] | None = None) -> list[Place]:
    """Every run and study below the directories.

    Args:
        roots: the directories.
        failed: gets the error of each remote directory that cannot be listed, by directory.
    """
    found: list[Place] = []
    for root in roots:
        try:
            found += _remote(root) if names.is_remote(root) else _local(root)
        except NeuroDivergentError as error:
            if failed is not None:
                failed[root] = first_line(error)
    return list({place.id: place for place in found}.values())


def check_root(root: str) -> str:
    """Return a directory of runs in the form in which it is used; raise if it cannot be one."""
    if names.is_remote(root):
        RemoteFolder(root).names()
        return root.rstrip("/")
    if not Path(root).is_dir():
        raise DataFileError(
            f"a dashboard shows a directory of runs, but {root} is {'a file' if Path(root).exists() else 'not there'}. "
            "A training with checkpoints makes one: neuro-divergent train table.csv --h 12 --out runs/first"
        )
    return os.path.realpath(root)


def _local(root: str) -> Iterator[Place]:
    stack: list[tuple[Path, int, str | None]] = [(Path(root), 0, None)]
    count = 0
    while stack and count < MOST_PLACES:
        folder, depth, study = stack.pop()
        inside = _entries(folder)
        shown = folder.relative_to(root).as_posix()
        name = Path(root).name if shown == "." else shown
        if names.STUDY in inside:
            place = Place("study", root, name, str(folder))
            yield place
            trials = folder / names.TRIALS
            if inside.get(names.TRIALS):
                stack += [(trials / trial, depth + 2, place.id) for trial, real in _entries(trials).items() if real]
        elif _is_run(inside):
            yield Place("run", root, name, str(folder), study)
        elif depth < MOST_DEPTH:
            stack += [(folder / entry, depth + 1, study) for entry, real in inside.items() if real]
        count += 1


def _is_run(inside: dict[str, bool]) -> bool:
    return any(sign in inside and (sign != names.MODEL or inside[sign]) for sign in _SIGNS)


def _entries(folder: Path) -> dict[str, bool]:
    """The names in a directory, and whether each is a directory that is no link. Hidden names are left out."""
    try:
        with os.scandir(folder) as entries:
            return {
                entry.name: entry.is_dir(follow_symlinks=False) for entry in entries if not entry.name.startswith(".")
            }
    except OSError:
        return {}


def _remote(root: str) -> Iterator[Place]:
    folder = RemoteFolder(root)
    held = folder.names()
    if _REMOTE_SIGNS & set(held):
        yield Place("run", root, root.rsplit("/", 1)[-1], root)
        return
    for name in sorted(held)[:MOST_PLACES]:
        if _REMOTE_SIGNS & set(folder.names(name)):
            yield Place("run", root, name, f"{root}/{name}")


def foreign_links(folder: Path) -> list[str]:
    """The links in a run's directory and in its directories of checkpoints and forecasts. A run has none of its own."""
    found = []
    for inner in ("", names.CHECKPOINTS, names.SNAPSHOTS, names.MODEL, names.CONTEXT, names.REFIT, names.ATTEMPTS):
        try:
            with os.scandir(folder / inner) as entries:
                found += [f"{inner}/{entry.name}".lstrip("/") for entry in entries if entry.is_symlink()]
        except OSError:
            continue
    return found
