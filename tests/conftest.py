"""What every test may rely on, however the tests were started and whatever is installed beside the package."""

import os
import signal

from neuro_divergent.cli.plugin_commands import COMMAND_GROUP
from neuro_divergent.core.registry import PLUGIN_GROUP, WITHOUT, plugin_entries

# Other installed packages bring no plugins to the tests, neither to this process nor to those that tests start.
installed = {
    entry.dist.name for group in (PLUGIN_GROUP, COMMAND_GROUP) for entry in plugin_entries(group) if entry.dist
}
if installed:
    os.environ[WITHOUT] = ",".join(sorted({*filter(None, os.environ.get(WITHOUT, "").split(",")), *installed}))

# A shell that starts the tests in the background lets them ignore Ctrl-C, and the processes they start inherit that.
# Tests of interruptions need the signal as a person's terminal gives it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
