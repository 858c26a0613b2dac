"""Makes the plugin package in this folder look installed: on the path, with the metadata that an installer writes."""

from __future__ import annotations

import sys
from importlib.metadata import entry_points
from pathlib import Path

from neuro_divergent.core import registry

PLUGIN = Path(__file__).parent / "plugin_package"

sys.path.insert(0, str(PLUGIN))
registry.members("model")
# The registry looks for plugins once; when another folder's tests have made it do so before, the entry is loaded here.
for entry in entry_points(group=registry.PLUGIN_GROUP, name="drift"):
    entry.load()
