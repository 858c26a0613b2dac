"""The layers of a network as plain data, for pictures and pages."""

from __future__ import annotations

from typing import Any

from torch import nn

MOST_LAYERS = 2000


def layers_of(module: nn.Module) -> list[dict[str, Any]]:
    """Name, type, size and own parameters of every part of a network, outermost first.

    A parameter that several parts share counts for the first of them.

    >>> layers_of(nn.Sequential(nn.Linear(3, 2), nn.ReLU()))[1:]
    [{'name': '0', 'type': 'Linear', 'size': 'in_features=3, out_features=2, bias=True', 'parameters': 8, \
'trainable': 8}, {'name': '1', 'type': 'ReLU', 'size': '', 'parameters': 0, 'trainable': 0}]
    """
    seen: set[int] = set()
    found = []
    for name, part in list(module.named_modules())[:MOST_LAYERS]:
        own = [item for item in part.parameters(recurse=False) if id(item) not in seen]
        seen.update(map(id, own))
        found.append(
            {
                "name": name,
                "type": type(part).__name__,
                "size": part.extra_repr().replace("\n", " ")[:200],
                "parameters": sum(item.numel() for item in own),
                "trainable": sum(item.numel() for item in own if item.requires_grad),
            }
        )
    return found
