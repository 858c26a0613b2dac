"""Which device to compute on: "auto", "cpu", "cuda", "cuda:1", "mps"."""

from __future__ import annotations

import logging
import re

import torch

from neuro_divergent.core.errors import ConfigError

log = logging.getLogger(__name__)

_PATTERN = re.compile(r"auto|cpu|mps|cuda(:\d+)?")


def resolve_device(name: str = "auto") -> torch.device:
    """Return the device of this name. If it is absent, return the CPU and log a warning.

    "auto" takes the first CUDA device, then Apple's MPS, then the CPU.
    """
    if not _PATTERN.fullmatch(name):
        raise ConfigError(f"device must be auto, cpu, cuda, cuda:N or mps, but got device={name!r}")
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "mps" if torch.backends.mps.is_available() else "cpu"
    if name == "mps" and not torch.backends.mps.is_available():
        return _fallback(name, "this machine has no MPS device")
    if name.startswith("cuda"):
        index = int(name.partition(":")[2] or 0)
        if not torch.cuda.is_available():
            return _fallback(name, "torch sees no CUDA device on this machine")
        if index >= torch.cuda.device_count():
            return _fallback(name, f"this machine has {torch.cuda.device_count()} CUDA devices")
    return torch.device(name)


def _fallback(name: str, why: str) -> torch.device:
    log.warning("device %r was requested, but %s: computing on the CPU instead", name, why)
    return torch.device("cpu")
