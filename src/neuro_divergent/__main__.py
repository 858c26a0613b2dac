"""`python -m neuro_divergent` is `neuro-divergent`."""

import sys

from neuro_divergent.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
