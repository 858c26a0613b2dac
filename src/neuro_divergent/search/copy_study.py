"""Copies a study: its database, its tables and the models of its trials, without checkpoints."""

from __future__ import annotations

import os
import shutil
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neuro_divergent.core import files
from neuro_divergent.core.runs.names import (
    BEST,
    MODEL,
    REPORT,
    STUDY,
    STUDY_DATABASE,
    STUDY_ROWS,
    STUDY_TABLE,
    TRIALS,
)
from neuro_divergent.search.storage import quiet, storage_of
from neuro_divergent.search.study import NAME

if TYPE_CHECKING:
    from optuna.study import Study


def copy_study(
    directory: Path, study: Study, document: Mapping[str, Any], path: str | os.PathLike[str], *, overwrite: bool
) -> None:
    """Write a copy of a study to a directory: all of it or nothing."""
    with files.new_directory(path, overwrite=overwrite, mark=STUDY) as folder:
        _copy_trials(study, folder)
        for name in (STUDY_TABLE, STUDY_ROWS):
            if (directory / name).is_dir():
                shutil.copytree(directory / name, folder / name)
        for trial in files.names(directory / TRIALS):
            if (directory / TRIALS / trial / MODEL).is_dir():
                shutil.copytree(directory / TRIALS / trial / MODEL, folder / TRIALS / trial / MODEL)
        for name in (BEST, REPORT):
            if (directory / name).is_file():
                shutil.copyfile(directory / name, folder / name)
        here = {"search": {**document["search"], "storage": None}}  # the copy has its trials in its own file
        files.write_json(folder / STUDY, {**document, **here})


def _copy_trials(study: Study, folder: Path) -> None:
    """Write the trials of a study to a database of the folder, wherever they are stored now."""
    import optuna

    with quiet():
        storage = storage_of(folder, None)
        optuna.copy_study(
            from_study_name=study.study_name, from_storage=study._storage, to_storage=storage, to_study_name=NAME
        )
        storage.remove_session()
        storage.engine.dispose()  # type: ignore[attr-defined]  # an RDBStorage
    with closing(sqlite3.connect(folder / STUDY_DATABASE)) as connection:
        connection.execute("PRAGMA journal_mode=DELETE")  # one file: nothing is left in the log
