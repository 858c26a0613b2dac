"""`neuro-divergent`: the commands, and how their errors become exit codes.

Exit codes: 0 good, 1 the work failed, 2 the request was wrong, 130 and 143 stopped by a signal.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from cyclopts import App, CycloptsError

from neuro_divergent._version import __version__
from neuro_divergent.core.errors import ConfigError, DataError, MissingExtraError, NeuroDivergentError

app = App(
    name="neuro-divergent",
    help="Train neural networks that forecast time series, and trust them.",
    version=__version__,
)
# Named, not imported: `--help` must answer before torch could even be loaded.
app.command("neuro_divergent.cli.demo:demo", name="demo", help="Train four models on embedded data and compare them.")
app.command("neuro_divergent.cli.train:train", name="train", help="Train a model on a table and save it.")
app.command("neuro_divergent.cli.predict:predict", name="predict", help="Forecast with a saved model.")
app.command("neuro_divergent.cli.inspect:inspect", name="inspect", help="Show a run, a checkpoint or a saved model.")
app.command("neuro_divergent.cli.lists:models", name="models", help="List the models.")
app.command("neuro_divergent.cli.lists:losses", name="losses", help="List the losses.")
app.command("neuro_divergent.cli.lists:optimizers", name="optimizers", help="List the optimizers.")
app.command("neuro_divergent.cli.lists:schedules", name="schedules", help="List the learning-rate schedules.")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and give its exit code; mistakes end in one sentence, not in a traceback."""
    try:
        result = app(
            sys.argv[1:] if arguments is None else list(arguments),
            exit_on_error=False,
            print_error=False,
            result_action="return_value",
        )
    except CycloptsError as error:
        return _fail(f"{error}".strip() or "the command was not understood", 2)
    except (ConfigError, DataError, MissingExtraError) as error:
        return _fail(str(error), 2)
    except NeuroDivergentError as error:
        return _fail(str(error), 1)
    except KeyboardInterrupt:
        return _fail("stopped", 130)
    except BrokenPipeError:  # the reader of a pipe has seen enough
        sys.stderr.close()
        return 0
    return result if isinstance(result, int) else 0


def _fail(sentence: str, code: int) -> int:
    sys.stderr.write(f"neuro-divergent: {sentence}\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
