"""`neuro-divergent`: the commands, and the exit codes for their errors.

Exit codes: 0 success, 1 the work failed, 2 the request was wrong, 130 and 143 stopped by a signal.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence

from cyclopts import App, CycloptsError

from neuro_divergent._version import __version__
from neuro_divergent.cli.io.terminal import OncePerCause, harmless
from neuro_divergent.cli.plugin_commands import join
from neuro_divergent.cli.request.hints import TYPED
from neuro_divergent.cli.request.shell_wording import in_shell_words, on_the_shell
from neuro_divergent.cli.request.unknown_option import explained
from neuro_divergent.core.errors import (
    ConfigError,
    DataError,
    MissingExtraError,
    NeuroDivergentError,
)

app = App(
    name="neuro-divergent",
    help="Train neural networks that forecast time series, and trust them.",
    version=__version__,
    help_epilogue="Exit codes: 0 success, 1 the work failed, 2 the request was wrong, 130 and 143 stopped by a signal.",
)
# Named, not imported: `--help` must answer before torch is loaded. Other packages add commands by entry points
# (plugin_commands.py).
COMMANDS = {
    "train": ("train:train", "Train a model on a table; save it with its history and a report."),
    "predict": ("predict:predict", "Forecast with a saved model."),
    "evaluate": ("evaluate:evaluate", "Score a saved model on a table that it was not trained on."),
    "cv": ("cv:cv", "Compare models by cross-validation over time, beside a seasonal naive forecast."),
    "search": ("search:search", "Search better settings of a model; score the winner on rows that no trial saw."),
    "auto": ("auto:auto", "Find a good forecast in a given time: many models, an ensemble, a search."),
    "init": ("init:init", "Write a commented run file for a table."),
    "inspect": ("inspect:inspect", "Show a run, a checkpoint, a saved model or a study."),
    "doctor": ("doctor:doctor", "Say what is wrong with a training, with evidence and remedy."),
    "dashboard": ("dashboard:dashboard", "Show runs in a browser: live, compared, offline."),
    "stop": ("stop:stop", "Stop a training: it saves a checkpoint and can be resumed."),
    "export": ("export:export", "Write a saved model as one ONNX file that other programs run."),
    "launch": ("launch:launch", "Run one machine's part of a training on several machines."),
    "models": ("lists:models", "List the models."),
    "losses": ("lists:losses", "List the losses."),
    "optimizers": ("lists:optimizers", "List the optimizers."),
    "schedules": ("lists:schedules", "List the learning-rate schedules."),
    "demo": ("demo:demo", "Train four models on built-in data and compare them."),
    "bench": ("bench:bench", "Measure training and forecasting on this machine."),
    "completion": ("completion:completion", "Print the completion script of a shell."),
}
for _name, (_place, _help) in COMMANDS.items():
    app.command(f"neuro_divergent.cli.commands.{_place}", name=_name, help=_help)
data = App(name="data", help="Look at a table.")
data.command(
    "neuro_divergent.cli.commands.data_check:check",
    name="check",
    help="Report what is in a table, and what to do about it.",
)
data.command("neuro_divergent.cli.commands.data_sample:sample", name="sample", help="Write an example table.")
app.command(data)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code. An error is printed as one sentence, without a traceback."""
    logger, handler = logging.getLogger("neuro_divergent"), OncePerCause(in_shell_words)
    logger.addHandler(handler)
    typed = sys.argv[1:] if arguments is None else list(arguments)
    before = TYPED.set(tuple(typed))
    try:
        return _run(typed)
    finally:
        TYPED.reset(before)
        logger.removeHandler(handler)


def _run(arguments: list[str]) -> int:
    # The parser reads a lone - as an option. As a path, ./- is the same.
    arguments = ["./-" if argument == "-" else argument for argument in arguments]
    try:
        join(app, asked=arguments[0] if arguments else "")
        result = app(arguments, exit_on_error=False, print_error=False, result_action="return_value")
    except CycloptsError as error:
        return _fail(explained(error), 2)
    except (ConfigError, DataError, MissingExtraError) as error:
        return _fail(on_the_shell(error), 2)
    except NeuroDivergentError as error:
        return _fail(on_the_shell(error), 2 if error.rule == "same run" else 1)  # resumed with other settings
    except BrokenPipeError:  # the reader of the pipe has closed it
        # Nobody can read what is still in the buffer: without this the interpreter prints an error when it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except OSError as error:
        what = f"{error.filename}: " if error.filename else ""
        return _fail(f"{what}{error.strerror or error}", 1)
    except MemoryError:
        return _fail("there is not enough memory. Use a smaller --batch-size or --input-size", 1)
    except KeyboardInterrupt:
        return _fail("stopped", 130)
    except SystemExit as error:
        return _fail("stopped", 143) if error.code == 143 else int(error.code or 0)
    return result if isinstance(result, int) else 0


def _fail(sentence: str, code: int) -> int:
    # A sentence may quote a foreign file.
    sys.stderr.write("\n".join(harmless(line) for line in f"neuro-divergent: {sentence}".split("\n")) + "\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
