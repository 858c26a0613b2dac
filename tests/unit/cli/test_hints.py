"""Commands and scripts that the program prints are typed again here, as they stand."""

import contextlib
import html
import io
import os
import re
import shlex
import subprocess
import sys
import time
import tomllib
from datetime import date, timedelta
from pathlib import Path

import polars as pl
import pytest

import neuro_divergent as nd
from neuro_divergent.cli.main import COMMANDS, main
from neuro_divergent.report import training_report

ROOT = Path(__file__).parents[3]
DAYS, H = 70, 5
TABLE, AHEAD = "my sales' 24.csv", "next days.csv"
READING = [
    *("--time", "Sold on", "--target", "Units sold", "--id", "Shop,Item", "--future", "Price"),
    *("--set", "data.separator=;", "--set", "data.time_format=%d.%m.%Y"),
]
SMALL = ["--max-epochs", "1", "--batch-size", "8", "--model", "mlp", "--set", "model.hidden_size=4"]


def call(*arguments):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([str(argument) for argument in arguments])
    return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())


def typed(line, **files):
    """A printed command, FILE and its like filled in, as a shell takes it apart."""
    first, *arguments = shlex.split(line)
    assert first == "neuro-divergent"
    return call(*(files.get(argument, argument) for argument in arguments))


def printed(text):
    """The commands in a text: each to the end of its line."""
    return re.findall(r"neuro-divergent (?!\d|:)[a-z].*", text)


def code_blocks(report):
    """What a page offers to copy, in order."""
    return [html.unescape(block) for block in re.findall(r"<pre>(.*?)</pre>", report.read_text("utf-8"), re.DOTALL)]


def run_python(script, folder):
    """A script in a namespace of its own; gives what it prints."""
    out = io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(out):
        exec(compile(script, "script", "exec"), {})
    return out.getvalue()


def sales(days, first=0):
    rows = [
        {
            "Shop": shop,
            "Item": item,
            "Sold on": (date(2024, 1, 1) + timedelta(days=first + day)).strftime("%d.%m.%Y"),
            "Price": 2.0 + day % 3,
            "Units sold": 10.0 + day % 7 + day % 3,
        }
        for shop in ("north", "south")
        for item in ("tea", "milk")
        for day in range(days)
    ]
    return pl.DataFrame(rows)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path, before = tmp_path_factory.mktemp("hints"), os.getcwd()
    sales(DAYS).write_csv(path / TABLE, separator=";")
    sales(H, DAYS).drop("Units sold").write_csv(path / AHEAD, separator=";")
    nd.samples.air_passengers().write_csv(path / "air.csv")
    os.chdir(path)
    yield path
    os.chdir(before)


@pytest.fixture(scope="module")
def trained(folder):
    """A run of a table with future columns, semicolons and two id columns, in a folder with a blank and a quote."""
    done = call("train", TABLE, "--h", H, "--level", "80", *READING, *SMALL, "--out", "anna's runs/first one")
    assert done.returncode == 0, done.stderr
    return folder / "anna's runs" / "first one", done


def test_the_summary_of_a_training_says_how_to_forecast(trained):
    _, done = trained
    (line,) = printed(done.stdout)
    assert "--level 80 --future FILE" in line
    forecast = typed(line, FILE=AHEAD)
    assert forecast.returncode == 0, forecast.stderr
    header, *rows = forecast.stdout.splitlines()
    assert header.endswith("MLP-lo-80,MLP-hi-80")
    assert len(rows) == 4 * H
    columns = re.search(r"FILE has the columns (.*) for the next 5 steps", done.stdout)
    assert columns
    assert "'Sold on', 'Price'" in columns[1]


def test_the_commands_of_a_report_run_and_give_the_same_bits(trained):
    run, _ = trained
    commands = [block for block in code_blocks(run / "report.html") if block.startswith("neuro-divergent")]
    assert [shlex.split(line)[1] for line in commands] == ["predict", "cv", "train"]
    predict, compare, again = commands
    before = typed(predict, FILE=AHEAD).stdout
    done = typed(f"{compare} --max-epochs 1 --n-windows 1")
    assert done.returncode == 0, done.stderr
    done = typed(again)
    assert done.returncode == 0, done.stderr
    (line,) = printed(done.stdout)
    assert typed(line, FILE=AHEAD).stdout == before
    assert "first one-again" in line


def test_the_script_of_a_report_runs_and_gives_the_same_losses(trained):
    run, _ = trained
    (script,) = [block for block in code_blocks(run / "report.html") if block.startswith("import neuro_divergent")]
    script += "\nprint(fitted.history.step_loss)"
    assert run_python(script, run.parents[1]).splitlines()[-1] == str(nd.load(run / "model").history.step_loss)


def test_the_script_of_a_plain_table_forecasts_the_same(folder):
    out = folder / "plain"
    done = call("train", "air.csv", "--h", 4, *SMALL, "--set", "training.early_stopping=null", "--out", out)
    (line,) = printed(done.stdout)
    assert "--level" not in line
    assert "--future" not in line
    before = typed(line).stdout.splitlines()
    (script,) = [block for block in code_blocks(out / "report.html") if block.startswith("import neuro_divergent")]
    script = script.replace("print(", "frame = (") + "\nprint(frame.write_csv())"
    after = run_python(script, folder).splitlines()
    assert [row.split(",")[-1] for row in before] == [row.split(",")[-1] for row in after if row]


def test_a_report_made_in_python_says_how_to_repeat_it():
    """Everything that it offers to copy runs, one block after the other; `frame` and `table` are the reader's."""
    days = [date(2024, 1, 1) + timedelta(days=day) for day in range(60)]
    frame = pl.DataFrame({"day": days, "y": [10.0 + day % 7 for day in range(60)], "price": [1.0, 2.0] * 30})
    ahead = pl.DataFrame({"day": [days[-1] + timedelta(days=step) for step in (1, 2)], "price": [1.0, 2.0]})
    config = nd.TrainingConfig(max_steps=2, loss=nd.Huber(delta=0.5), gradient_clipping=None, progress=False)
    model = nd.MLP(h=2, input_size=4, hidden_size=4, alias="small")
    fitted = model.fit(frame, config, time_col="day", future=["price"])
    text = training_report(fitted).render()
    *first, script = re.findall(r"<pre>(import .*?|fitted.*?|print.*?)</pre>", text, re.DOTALL)
    assert len(first) == 2
    space = {"frame": frame, "table": ahead}
    with contextlib.redirect_stdout(io.StringIO()) as out:
        for block in (script, *first):
            exec(html.unescape(block), space)
    assert space["fitted"].history.step_loss == fitted.history.step_loss
    assert "seasonal naive" in out.getvalue()  # the cross-validation


def test_one_run_has_one_fingerprint(trained):
    run, _ = trained
    shown = re.search(r"data fingerprint (\w{16})", (run / "report.html").read_text("utf-8"))[1]
    fitted = nd.load(run / "model")
    assert fitted.lineage.data_fingerprint.startswith(shown)
    for place in (run, run / "model", next((run / "checkpoints").glob("step-*"))):
        said = call("inspect", place).stdout
        assert set(re.findall(r"fingerprint\W+(\w{16})", said)) <= {shown}
    assert f"data fingerprint {shown}" in call("inspect", run / "model").stdout


def test_an_evaluation_on_known_rows_says_how_to_compare(trained):
    run, _ = trained
    said = call("evaluate", run, TABLE, "--set", "data.separator=;").stderr
    (line,) = printed(said.replace("neuro-divergent: warning", ""))
    done = typed(f"{line} --max-epochs 1 --n-windows 1")
    assert done.returncode == 0, done.stderr
    assert "MLP" in done.stdout


def test_a_run_file_is_trained_as_it_says(folder):
    done = call("init", TABLE, "--h", 3, "--model", "mlp", *READING, "--out", "my run's file.yaml")
    assert done.returncode == 0, done.stderr
    (line,) = printed(done.stdout)
    inside = printed((folder / "my run's file.yaml").read_text("utf-8"))
    assert inside == [line]
    trained = typed(f"{line} --max-epochs 1 --batch-size 8 --no-report")
    assert trained.returncode == 0, trained.stderr
    assert typed(printed(trained.stdout)[0], FILE=AHEAD).returncode == 0


def test_the_defaults_in_a_run_file_are_the_defaults(folder):
    """ "Lines that begin with # are the defaults; take the # away": with all of them taken away it trains the same."""
    call("init", "air.csv", "--h", 4, "--model", "mlp", "--out", "run.yaml")
    text = (folder / "run.yaml").read_text("utf-8")
    opened = re.sub(r"^  # (\w+: )", r"  \1", text, flags=re.MULTILINE)
    assert opened.count("\n  # ") < text.count("\n  # ") - 50
    (folder / "open.yaml").write_text(opened, "utf-8")
    for name in ("run", "open"):
        done = call("train", "--config", f"{name}.yaml", "--max-epochs", 1, "--out", f"from {name}", "--no-report")
        assert done.returncode == 0, done.stderr
    assert call("predict", "from run").stdout == call("predict", "from open").stdout


@pytest.mark.skipif(sys.platform == "win32", reason="needs locks")
def test_a_stopped_run_prints_the_command_that_resumes_it(folder):
    """`stop`, `train` itself and a command that needs the model print the same command. Typed, it finishes the run."""
    run = folder / "runs" / "air-mlp"
    long = [
        *(
            "--max-epochs",
            "200",
            "--set",
            "training.early_stopping=null",
            "--set",
            "training.checkpoints.every_n_epochs=50",
        ),
        *("--set", "training.validation_split=null"),
    ]
    arguments = ["train", "air.csv", "--h", "4", *SMALL[2:], *long, "--no-report"]
    process = subprocess.Popen(
        [sys.executable, "-m", "neuro_divergent", *arguments], stdout=subprocess.PIPE, text=True, cwd=folder,
        env=os.environ | {"OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    while process.poll() is None and not list(run.glob("checkpoints/step-*")):
        time.sleep(0.02)
    stopped = call("stop", run.relative_to(folder))
    said, _ = process.communicate(timeout=60)
    assert "the training is not finished. Resume: neuro-divergent train" in said
    (line,) = printed(stopped.stdout)
    assert line in printed(said)
    (run / "model").rename(run / "away")
    assert printed(call("predict", run).stderr) == [line]
    (run / "away").rename(run / "model")
    assert shlex.split(line)[-3:] == ["--out", "runs/air-mlp", "--resume"]
    done = typed(line)
    assert done.returncode == 0, done.stderr
    assert "200 epochs" in done.stdout
    assert "not finished" not in done.stdout


def test_a_run_of_python_is_resumed_in_python(folder):
    model, config = nd.MLP(h=2, input_size=4, hidden_size=4), nd.TrainingConfig(max_steps=2, checkpoints="of python")
    model.fit(nd.samples.air_passengers(), config)
    said = call("predict", "of python").stderr
    assert "model.fit(data, config, resume='auto')" in said


def mistakes():
    yield "a table before the model", ["predict", "air.csv"], {"runs/NAME": "plain"}
    yield "no command of that name", ["train", "--data", "air.csv", "--h", "3"], {"DATA": "air.csv"}
    yield "an unknown option", ["cv", "air.csv", "--horizont", "3"], {}


@pytest.mark.parametrize(("arguments", "files"), [pytest.param(*rest, id=name) for name, *rest in mistakes()])
def test_a_command_in_an_error_runs(folder, arguments, files):
    if not (folder / "plain").exists():
        call("train", "air.csv", "--h", 4, *SMALL, "--out", "plain", "--no-report")
    said = call(*arguments)
    assert said.returncode == 2
    lines = [part for line in printed(said.stderr) for part in re.split(r"\. See: ", line)]
    assert lines
    for line in lines:
        done = typed(line.rstrip("."), **files)
        wanted = "--h" if line.startswith("neuro-divergent train DATA") else ""
        assert done.returncode == 0 or (wanted and wanted in done.stderr), line


@pytest.mark.parametrize(
    ("rows", "arguments", "advised"),
    [
        pytest.param({"ds": "2024-01-01"}, [], "--set data.duplicates=last", id="duplicates"),
        pytest.param({"ds": "2024-01-01"}, [], "--set data.duplicates=mean", id="means"),
        pytest.param({"ds": None}, ["--set", "data.gaps=error"], "--set data.gaps=mask", id="gaps"),
        pytest.param({"y": float("inf")}, [], "--set data.infinities=mask", id="infinite"),
        pytest.param({"extra": None}, ["--historical", "extra"], "--set data.missing_exogenous=forward", id="empty"),
        pytest.param({}, ["--level", "0.8"], "--level 80", id="share"),
        pytest.param({}, ["--h", "40"], "--h 15", id="horizon"),
        pytest.param({}, ["--loss", "mae", "--level", "80"], "--loss DistributionLoss", id="point"),
        pytest.param({}, ["--set", "training.precision=fp16x"], "", id="name"),
    ],
)
def test_the_flags_that_a_refusal_advises_work(folder, rows, arguments, advised):
    days = [date(2024, 1, 1) + timedelta(days=day) for day in range(60)]
    columns = {"ds": [day.isoformat() for day in days], "y": [10.0 + day % 7 for day in range(60)], "extra": [1.0] * 60}
    for name, value in rows.items():
        columns[name][30] = value
    frame = pl.DataFrame(columns, strict=False).drop_nulls("ds")
    frame.write_csv("short.csv")
    wanted = [] if "--h" in arguments else ["--h", "4"]
    command = ["train", "short.csv", *wanted, *SMALL, "--out", "refused", "--overwrite", "--no-report"]
    said = call(*command, *arguments)
    assert said.returncode == 2
    assert "data.--set" not in said.stderr
    assert advised in said.stderr
    if advised:
        flag, *_ = advised.split()
        kept = arguments if flag not in arguments or flag == "--set" else _without(arguments, flag)
        kept = [] if "data.gaps=error" in kept else kept
        mended = call(*_without(command, flag), *kept, *shlex.split(advised))
        assert mended.returncode == 0, mended.stderr


def _without(arguments, flag):
    """The arguments without a flag and its value, which is given anew; --set is given several times."""
    if flag == "--set" or flag not in arguments:
        return list(arguments)
    place = arguments.index(flag)
    return [*arguments[:place], *arguments[place + 2 :]]


def test_what_data_check_advises_works(folder):
    days = [date(2024, 1, 1) + timedelta(days=day) for day in range(60)]
    frame = pl.DataFrame({"ds": days, "y": [10.0 + day % 7 for day in range(60)], "p": [1.0] * 60})
    frame = frame.with_columns(
        y=pl.when(pl.int_range(60) == 9).then(float("inf")).when(pl.int_range(60) == 12).then(None).otherwise("y"),
        p=pl.when(pl.int_range(60) == 5).then(None).otherwise("p"),
    )
    pl.concat([frame[:20], frame[25:], frame[-1:]]).write_csv("bad.csv")
    said = call("data", "check", "bad.csv", "--historical", "p")
    assert said.returncode == 1
    settings = re.findall(r"--set (data\.\w+=\w+)", said.stdout)
    assert {"data.duplicates=last", "data.infinities=mask", "data.missing_exogenous=forward"} <= set(settings)
    command = ["train", "bad.csv", "--h", "3", "--historical", "p", *SMALL, "--out", "checked", "--no-report"]
    assert call(*command).returncode == 2
    chosen = {setting.partition("=")[0]: setting for setting in settings}  # one of each field
    done = call(*command, *(part for setting in chosen.values() for part in ("--set", setting)))
    assert done.returncode == 0, done.stderr
    done = call("data", "check", "bad.csv", "--historical", "p", *(p for s in chosen.values() for p in ("--set", s)))
    assert done.returncode == 0


def test_warnings_advise_in_the_words_of_the_shell(folder):
    arguments = ["train", "air.csv", "--h", "4", *SMALL, "--out", "warned", "--overwrite", "--no-report"]
    long = ["--set", "training.schedule={kind: WarmupLinear, warmup: 500}"]
    said = call(*arguments, *long).stderr
    assert "the warm-up of WarmupLinear is longer than the run" in said
    (advised,) = re.findall(r"--set training[\w.=]+", said)
    mended = call(*arguments, *long, *advised.split())
    assert (mended.returncode, "warm-up" in mended.stderr) == (0, False)


def test_the_script_of_the_demo_runs(folder):
    from neuro_divergent.cli.commands.demo import OWN_FILE

    frame = nd.samples.hourly_panel()
    first = frame["unique_id"][0]
    frame.filter(pl.col("unique_id") == first).write_csv("your.csv")
    script = OWN_FILE.replace(".fit(data)", ".fit(data, nd.TrainingConfig(max_steps=1))")
    assert "NHITS" in run_python(script, folder)


@pytest.mark.parametrize("name", [*COMMANDS, "data check", "data sample"])
def test_the_commands_that_a_help_page_names_are_there(name):
    text = call(*name.split(), "--help").stdout
    for line in re.findall(r"neuro-divergent ([a-z]+)", " ".join(text.split())):
        assert line in COMMANDS or line == "data"


def test_extras_that_messages_name_are_there():
    known = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    source = "\n".join(path.read_text("utf-8") for path in (ROOT / "src").rglob("*.py"))
    named = set(re.findall(r"neuro-divergent\[(\w+)\]", source)) | set(re.findall(r'require\("\w+", "(\w+)"', source))
    assert named
    assert named <= set(known)
