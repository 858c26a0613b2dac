"""Packages that happen to be installed here bring no plugins to the tests: neither to this process nor to others."""

import os

from neuro_divergent.cli.plugin_commands import COMMAND_GROUP
from neuro_divergent.core.registry import PLUGIN_GROUP, WITHOUT, plugin_entries

installed = {
    entry.dist.name for group in (PLUGIN_GROUP, COMMAND_GROUP) for entry in plugin_entries(group) if entry.dist
}
if installed:
    os.environ[WITHOUT] = ",".join(sorted({*filter(None, os.environ.get(WITHOUT, "").split(",")), *installed}))
