"""Read untrusted YAML: size, depth and number of nodes are limited, and aliases are refused.

An alias repeats a part of a document by a short name. Nine aliases of nine aliases, nine levels deep, are a billion
nodes in a few hundred bytes. Descriptions do not need aliases.
"""

from __future__ import annotations

from typing import Any

import yaml

from neuro_divergent.core.errors import ConfigError

MAX_YAML_BYTES = 2**18
MAX_YAML_DEPTH = 64
MAX_YAML_PARTS = 50_000


def parse_yaml(text: str, name: str = "the text") -> Any:
    """Return the plain data of a YAML document, such as a run file. JSON is YAML too.

    >>> parse_yaml("max_epochs: 3")
    {'max_epochs': 3}
    """
    size = len(text.encode(errors="replace"))
    if size > MAX_YAML_BYTES:
        raise ConfigError(f"{name} must have at most {MAX_YAML_BYTES} bytes, but has {size}")
    try:
        return _Loader(text).get_single_data()
    except (yaml.YAMLError, ValueError, RecursionError, OverflowError) as error:
        if isinstance(error, ConfigError):
            raise ConfigError(f"{name} {error}") from None
        raise ConfigError(f"{name} must be valid YAML, but is not: {' '.join(str(error).split())}") from None


class _Loader(yaml.SafeLoader):
    """Counts the nodes of a document while they are read."""

    depth = parts = 0

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise ConfigError("must spell out all values, but has an alias (*). Write the values in its place")
        self.depth += 1
        self.parts += 1
        if self.depth > MAX_YAML_DEPTH or self.parts > MAX_YAML_PARTS:
            raise ConfigError(
                f"must be nested at most {MAX_YAML_DEPTH} deep and have at most {MAX_YAML_PARTS} parts, but is larger"
            )
        node = super().compose_node(parent, index)
        self.depth -= 1
        return node
