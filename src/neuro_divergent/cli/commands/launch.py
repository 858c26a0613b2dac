"""`neuro-divergent launch`: run one machine's part of a training on several machines."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from neuro_divergent.cli.io.terminal import say
from neuro_divergent.core.errors import ConfigError

if TYPE_CHECKING:
    from neuro_divergent.distributed.cluster import Cluster


def launch(
    *command: Annotated[str, Parameter(allow_leading_hyphen=True)],
    cluster: Path,
    node: int | None = None,
    max_restarts: int = 3,
) -> None:
    """Run one machine's part of a training on several machines; without --node, print the command of each machine.

    The processes of all machines meet at the main machine. Give the same command and the same files on each.

    Parameters
    ----------
    command
        After --: train sales.csv --h 28 --out runs/sales, any other command with its flags, or a Python script.
    cluster
        A YAML or JSON file with the fields of Cluster: nodes with address, gpus or cpu_processes, and role.
    node
        Which of the file's machines this is, counted from 0.
    max_restarts
        How often this machine starts its processes again after one of them has died.
    """
    found = _cluster(cluster)
    if not command:
        raise ConfigError("launch needs a command after --, such as -- train sales.csv --h 28 --out runs/sales")
    words = list(command) if command[0].endswith(".py") else ["-m", "neuro_divergent", *command]
    if node is None:
        for number, line in enumerate(found.commands(words[0], *words[1:])):
            say(f"# {found.nodes[number].address}\n{line}")
        return
    program = [sys.executable, "-m", "torch.distributed.run", *found.torchrun(node, restarts=max_restarts)[1:], *words]
    sys.stdout.flush()
    os.execve(sys.executable, program, {**os.environ, **found.environment(node)})


def _cluster(path: Path) -> Cluster:
    from neuro_divergent.core.plain_files import plain_bytes
    from neuro_divergent.core.yaml import parse_yaml
    from neuro_divergent.distributed.cluster import Cluster

    fields: Any = parse_yaml(plain_bytes(path, 1 << 20).decode("utf-8", errors="replace"), str(path))
    if not isinstance(fields, dict):
        raise ConfigError(f"a cluster file has the field nodes, but {path} is {type(fields).__name__}")
    return Cluster.from_dict({"kind": "Cluster", **fields})
