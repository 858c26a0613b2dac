"""What every test may rely on, however the tests were started."""

import signal

# A shell that starts the tests in the background lets them ignore Ctrl-C, and the processes they start inherit that.
# Tests of interruptions need the signal as a person's terminal gives it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
