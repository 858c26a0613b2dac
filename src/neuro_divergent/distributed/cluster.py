"""Several machines that train one model: their addresses, and the command to run on each."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from neuro_divergent.core.config import Description
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.core.field_types import Takes, default

PORT = 29500
"""The port of the main machine, if its address names none."""


def _gpus(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


class Node(Description):
    """One machine of a cluster.

    >>> Node("10.0.0.10:29500", gpus=[0, 1], role="master").processes
    2
    """

    address: str = Field(kw_only=False)
    """Host name or IP address, and a port after a colon. The others connect to the address of the main machine."""
    gpus: Takes[Annotated[tuple[Annotated[int, Field(ge=0)], ...] | None, BeforeValidator(_gpus)], list[int] | None] = (
        default(None)
    )
    """Numbers of the GPUs to use, one process each; None trains on the CPU."""
    cpu_processes: Annotated[int, Field(ge=1)] = 1
    """Number of processes on a machine without GPUs."""
    role: Literal["master", "worker"] = "worker"
    """The main machine is where the processes meet. A cluster has one."""

    @model_validator(mode="after")
    def _possible(self) -> Self:
        host, _, port = self.address.rpartition(":") if ":" in self.address else (self.address, "", str(PORT))
        if not host or not port.isdecimal() or not 0 < int(port) < 1 << 16 or any(c.isspace() for c in host):
            raise ConfigError(
                f"address must be a host and a port such as 10.0.0.10:29500, but got address={self.address!r}"
            )
        if self.gpus is not None and (not self.gpus or len(set(self.gpus)) < len(self.gpus)):
            raise ConfigError(f"gpus must be different numbers of GPUs, or None, but got gpus={list(self.gpus)}")
        if self.gpus is not None and self.cpu_processes != 1:
            raise ConfigError("a machine trains on its GPUs or on its CPU, but got gpus and cpu_processes")
        return self

    @property
    def host(self) -> str:
        """The address without the port."""
        return self.address.rpartition(":")[0] if ":" in self.address else self.address

    @property
    def port(self) -> int:
        """The port."""
        return int(self.address.rpartition(":")[2]) if ":" in self.address else PORT

    @property
    def processes(self) -> int:
        """Number of processes on this machine."""
        return self.cpu_processes if self.gpus is None else len(self.gpus)


class Cluster(Description):
    """Several machines that train one model.

    >>> cluster = Cluster(nodes=[Node("10.0.0.10", gpus=[0, 1], role="master"), Node("10.0.0.11", gpus=[0, 1])])
    >>> cluster.world
    4
    """

    nodes: Takes[tuple[Node, ...], Sequence[Node]] = default(..., min_length=1)
    """The machines. Each has the same number of processes."""
    backend: Literal["auto", "gloo", "nccl"] = "auto"
    """What carries the messages: nccl between GPUs, else gloo."""
    name: str = "neuro-divergent"
    """Name of the run. Machines that meet at one address must have one name."""

    @model_validator(mode="after")
    def _possible(self) -> Self:
        main = [node.address for node in self.nodes if node.role == "master"]
        if len(main) != 1:
            raise ConfigError(
                f'a cluster has one main machine, but got {len(main)} nodes with role="master"'
                + (f": {', '.join(main)}" if main else f". Set it for one of {_listed(self.nodes)}")
            )
        counts = {node.processes for node in self.nodes}
        if len(counts) > 1:
            each = ", ".join(f"{node.address} {node.processes}" for node in self.nodes)
            raise ConfigError(f"all machines need the same number of processes, but got {each}")
        hosts = [node.address for node in self.nodes]
        if len(set(hosts)) < len(hosts):
            raise ConfigError(f"each machine is named once, but got {', '.join(hosts)}")
        if self.backend == "nccl" and any(node.gpus is None for node in self.nodes):
            raise ConfigError('backend="nccl" needs GPUs on every machine, but a node has gpus=None. Use "gloo"')
        return self

    @property
    def main(self) -> Node:
        """The machine where the processes meet."""
        return next(node for node in self.nodes if node.role == "master")

    @property
    def world(self) -> int:
        """Number of all processes."""
        return sum(node.processes for node in self.nodes)

    def number(self, node: int) -> int:
        """The rank of a machine by its place in `nodes`: the main machine is 0, the others keep their order."""
        main = self.nodes.index(self.main)
        return 0 if node == main else node + 1 if node < main else node

    def torchrun(self, node: int, *, restarts: int = 0) -> list[str]:
        """The torchrun command of one machine, up to the script, as a list of words."""
        if not 0 <= node < len(self.nodes):
            raise ConfigError(f"node must be from 0 to {len(self.nodes) - 1}, but got node={node}")
        main = self.main
        return [
            "torchrun",
            f"--nnodes={len(self.nodes)}",
            f"--nproc-per-node={self.nodes[node].processes}",
            f"--node-rank={self.number(node)}",
            f"--master-addr={main.host}",
            f"--master-port={main.port}",
            f"--max-restarts={restarts}",
        ]

    def environment(self, node: int) -> dict[str, str]:
        """Environment variables of a machine's processes."""
        own = {"TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1"}
        gpus = self.nodes[node].gpus
        return own if gpus is None else own | {"CUDA_VISIBLE_DEVICES": ",".join(map(str, gpus))}

    def commands(self, script: str, *arguments: str, how: Literal["copy", "ssh", "slurm"] = "copy") -> list[str]:
        """The commands that start the training, one per machine; for SLURM the one batch file.

        Args:
            script: a Python script, or "-m" and the name of a module as the first argument.
            arguments: the arguments of the script.
            how: "copy" to run each line on its machine, "ssh" to run all lines on one, "slurm" for a file for sbatch.
        """
        words = [script, *arguments]
        lines = []
        for number, node in enumerate(self.nodes):
            variables = [f"{name}={value}" for name, value in self.environment(number).items()]
            line = shlex.join([*(["env", *variables]), *self.torchrun(number), *words])
            lines.append(f"ssh {shlex.quote(node.host)} {shlex.quote(line)}" if how == "ssh" else line)
        return [self._slurm(words)] if how == "slurm" else lines

    def _slurm(self, words: Sequence[str]) -> str:
        node = self.nodes[0]
        gpus = "" if node.gpus is None else f"#SBATCH --gpus-per-node={len(node.gpus)}\n"
        return (
            "#!/bin/bash\n"
            f"#SBATCH --job-name={shlex.quote(self.name)}\n"
            f"#SBATCH --nodes={len(self.nodes)}\n"
            f"#SBATCH --ntasks-per-node={node.processes}\n"
            f"{gpus}"
            f"export MASTER_PORT={self.main.port}\n"
            'export MASTER_ADDR=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)\n'
            f"srun python {shlex.join(words)}\n"
        )


def _listed(nodes: Sequence[Node]) -> str:
    return ", ".join(node.address for node in nodes)
