"""Files as people have them, on the shell: one command, or one refusal that asks for everything."""

import contextlib
import gzip
import io
import json
import os
import shlex
import subprocess
import sys
from datetime import date, datetime, timedelta

import polars as pl
import pytest

from neuro_divergent.cli.main import main

DAYS = [date(2023, 12, 20) + timedelta(days=number) for number in range(60)]
FAST = ("--model", "dlinear", "--h", 3, "--max-epochs", 1, "--no-report")


def run(*arguments, cwd, given=None):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.ExitStack() as stack:
        stack.enter_context(contextlib.chdir(cwd))
        stack.enter_context(contextlib.redirect_stdout(out))
        stack.enter_context(contextlib.redirect_stderr(err))
        if given is not None:
            stack.enter_context(pytest.MonkeyPatch.context()).setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(given)))
        code = main([os.fspath(one) if isinstance(one, os.PathLike) else str(one) for one in arguments])
    return subprocess.CompletedProcess(arguments, code, out.getvalue(), err.getvalue())


def german():
    rows = [f"{day:%d.%m.%Y};{name};1.{n:03},5" for name in ("Süd", "Nord") for n, day in enumerate(DAYS)]
    return "\r\n".join(["Umsätze;;", "", "Tag;Filiale;Umsatz", *rows, "Summe;;9.999,5"]).encode("cp1252")


def quarters():
    rows = [f"{1998 + n // 4} Q{n % 4 + 1}\t{name}\t{n}" for name in ("a", "b") for n in range(60)]
    return gzip.compress("\n".join(["Quarter\tRegion\tTrips", *rows]).encode())


def seconds():
    start = int(datetime(2024, 1, 1).timestamp()) // 3600 * 3600
    return "\n".join(["unix,symbol,close,volume", *(f"{start + 3600 * n},BTC,{n}.5,7.0" for n in range(60))]).encode()


def keys():
    rows = [f"{s}|{i}|{day:%Y%m%d}|{n}" for s in (1, 2) for i in "ab" for n, day in enumerate(DAYS)]
    return "\n".join(["store|item|day|sold", *rows]).encode("utf-16")


def months():
    rows = [f"{name};{2015 + n // 12};{n % 12 + 1};{n},5" for name in ("Süd", "Nord") for n in range(60)]
    return "\n".join(["Filiale;Jahr;Monat;Umsatz", *rows, "Summe;;;99,5"]).encode("cp1252")


def hours():
    rows = [
        f"{zone},2024,1,{day}," + ",".join(str(day * 10 + n % 7) for n in range(24))
        for zone in (1, 2)
        for day in range(1, 20)
    ]
    return "\n".join(["zone_id,year,month,day," + ",".join(f"h{n}" for n in range(1, 25)), *rows]).encode()


def unnamed():
    return "\n".join(f"{day:%d.%m.%Y}\t{n % 7},5" for n, day in enumerate(DAYS)).encode("utf-16")


def weekdays():
    rows = [f"{datetime(2024, 1, 1) + timedelta(hours=n):%a %d %b %Y %H:%M};{n % 24}" for n in range(96)]
    return "\n".join(["When;Load [MW]", *rows]).encode()


@pytest.mark.parametrize(
    ("name", "content", "columns", "last"),
    [
        ("months.csv", months(), ["Filiale", "ds", "DLinear"], "2020-03-01"),
        ("hours.csv", hours(), ["zone_id", "ds", "DLinear"], "2024-01-20 02:00:00"),
        ("unnamed.txt", unnamed(), ["column_1", "DLinear"], "2024-02-20"),
        ("weekdays.csv", weekdays(), ["When", "DLinear"], "2024-01-05 02:00:00"),
        ("umsatz.csv", german(), ["Filiale", "Tag", "DLinear"], "2024-02-20"),
        ("trips.tsv.gz", quarters(), ["Region", "Quarter", "DLinear"], "2013-07-01"),
        ("btc.csv", seconds(), ["symbol", "unix", "DLinear"], "2024-01-03 14:00:00"),
        ("sold.txt", keys(), ["store", "item", "day", "DLinear"], "2024-02-20"),
    ],
)
def test_a_strange_file_is_checked_trained_on_and_forecast(tmp_path, name, content, columns, last):
    (tmp_path / name).write_bytes(content)
    checked = run("data", "check", name, cwd=tmp_path)
    assert checked.returncode == 0, checked.stderr
    assert "assumed: " in checked.stdout
    assert "otherwise say --" in checked.stdout
    trained = run("train", name, *FAST, "--out", "run", cwd=tmp_path)
    assert trained.returncode == 0, trained.stderr
    forecast = run("predict", "run", name, cwd=tmp_path)
    assert forecast.returncode == 0, forecast.stderr
    table = pl.read_csv(io.StringIO(forecast.stdout), infer_schema=False)
    assert table.columns == columns
    assert table[columns[-2]][-1].removesuffix(".000000") == last
    scored = run("evaluate", "run", name, "--json", cwd=tmp_path)
    assert scored.returncode == 0, scored.stderr


def american():
    rows = [
        f'{day:%m/%d/%Y},shop one of the {side},"1{n:02},500"'
        for side in ("north", "south")
        for n, day in enumerate(DAYS)
    ]
    return "\n".join(["Day,Shop,Sold", *rows]).encode()


def test_the_answer_about_marks_is_in_the_command_that_an_evaluation_prints(tmp_path):
    (tmp_path / "us.csv").write_bytes(american())
    asked = run("data", "check", "us.csv", cwd=tmp_path)
    assert asked.returncode == 2
    assert "answers" not in asked.stderr  # one question, with both of its answers
    assert run("train", "us.csv", *FAST, "--set", "data.thousands=,", "--out", "run", cwd=tmp_path).returncode == 0
    warned = run("evaluate", "run", "us.csv", cwd=tmp_path).stderr
    line = warned[warned.index("neuro-divergent cv") :]
    compared = run(*shlex.split(line)[1:], "--max-epochs", 1, "--n-windows", 1, cwd=tmp_path)
    assert compared.returncode == 0, compared.stderr
    checked = run("data", "check", "us.csv", "--set", "data.thousands=,", cwd=tmp_path).stdout
    assert "shop one of the north  " in checked
    assert "shop one of the south  " in checked


def test_text_in_a_column_of_numbers_is_answered_with_a_flag(tmp_path):
    rows = [f"{day},{n}.5,{'yes' if n % 7 == 0 else 'no'}" for n, day in enumerate(DAYS)]
    (tmp_path / "days.csv").write_text("\n".join(["ds,y,Holiday", *rows]))
    refused = run("data", "check", "days.csv", "--future", "Holiday", cwd=tmp_path)
    assert refused.stderr.endswith("Say --categorical Holiday as well.\n")
    checked = run("data", "check", "days.csv", "--future", "Holiday", "--categorical", "Holiday", cwd=tmp_path)
    assert checked.returncode == 0, checked.stderr
    checked = run("data", "check", "days.csv", "--categorical", "Holiday", cwd=tmp_path)
    assert "taken as known ahead (otherwise say --historical Holiday)" in checked.stdout


def test_standard_input_is_a_table(tmp_path):
    assert "1 series, 60 rows" in run("data", "check", "-", cwd=tmp_path, given=seconds()).stdout
    trained = run("train", "-", *FAST, cwd=tmp_path, given=seconds())
    assert trained.returncode == 0, trained.stderr
    assert (tmp_path / "runs" / "table-dlinear" / "model").is_dir()
    assert run("predict", "runs/table-dlinear", "-", cwd=tmp_path, given=seconds()).returncode == 0


def test_a_wide_table_needs_one_correction(tmp_path):
    rows = "".join(f'{day:%m/%d/%Y},"1,00{n % 10}.5",{n}\n' for n, day in enumerate(DAYS))
    (tmp_path / "prices.csv").write_text(f"Date,AAPL,XOM\n{rows}")
    refused = run("train", "prices.csv", *FAST, cwd=tmp_path)
    assert refused.returncode == 2
    assert "several: 'AAPL', 'XOM'" in refused.stderr
    assert "--set data.wide=True" in refused.stderr
    for typed in (("--wide",), ("--set", "data.wide=True")):
        assert run("train", "prices.csv", *typed, *FAST, cwd=tmp_path).returncode == 0


def test_all_questions_come_at_once_and_the_answers_work(tmp_path):
    rows = "".join(f"{n % 12 + 1:02}/{n // 12 + 1:02}/2020;1,234;{n}\n" for n in range(60))
    (tmp_path / "t.csv").write_text(f"day;x;z\n{rows}")
    refused = run("train", "t.csv", *FAST, cwd=tmp_path)
    assert refused.returncode == 2
    for part in ("--set data.thousands=,", "--target NAME", "--set data.time_format=%m/%d/%Y"):
        assert part in refused.stderr
    answers = (
        "--set",
        "data.thousands=,",
        "--target",
        "x",
        "--set",
        "data.time_format=%d/%m/%Y",
        "--set",
        "data.gaps=mask",
    )
    assert run("train", "t.csv", *answers, *FAST, cwd=tmp_path).returncode == 0


def test_check_and_train_refuse_the_same_and_name_every_reason(tmp_path):
    table = pl.DataFrame(
        {"ds": [*DAYS, DAYS[-1]], "y": [1.0, float("inf"), *range(59)], "price": [0.5, None, *range(59)]}
    )
    table.write_csv(tmp_path / "t.csv")
    checked = run("data", "check", "t.csv", "--future", "price", cwd=tmp_path)
    trained = run("train", "t.csv", "--future", "price", *FAST, cwd=tmp_path)
    assert (checked.returncode, trained.returncode) == (1, 2)
    for part in ("1 row repeats a series and time", "1 target is infinite", "1 cell of column 'price' is empty"):
        assert part in checked.stdout
        assert part in trained.stderr
    answers = ("duplicates=last", "infinities=mask", "missing_exogenous=zero")
    settings = [word for answer in answers for word in ("--set", f"data.{answer}")]
    assert run("data", "check", "t.csv", "--future", "price", *settings, cwd=tmp_path).returncode == 0
    assert run("train", "t.csv", "--future", "price", *settings, *FAST, cwd=tmp_path).returncode == 0


def test_init_writes_down_how_the_file_is_written(tmp_path):
    (tmp_path / "umsatz.csv").write_bytes(german())
    assert run("init", "umsatz.csv", "--model", "dlinear", "--h", 3, cwd=tmp_path).returncode == 0
    written = (tmp_path / "run.yaml").read_text()
    for part in ("separator: ;", "decimal_comma: true", "header_line: 3", "time_col: Tag", "time_format: '%d.%m.%Y'"):
        assert part in written
    done = run("train", "--config", "run.yaml", "--max-epochs", 1, "--no-report", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["series"] == 2


def test_the_columns_of_a_time_are_a_flag_and_in_the_commands_that_are_printed(tmp_path):
    (tmp_path / "months.csv").write_bytes(months())
    checked = run("data", "check", "months.csv", cwd=tmp_path).stdout
    assert "columns 'Jahr', 'Monat' together are the time: '2015', '1' is 2015-01-01 (otherwise say --time" in checked
    trained = run("train", "months.csv", "--time", "Jahr,Monat", *FAST, "--out", "run", cwd=tmp_path)
    assert trained.returncode == 0, trained.stderr
    warned = run("evaluate", "run", "months.csv", cwd=tmp_path).stderr
    line = warned[warned.index("neuro-divergent cv") :]
    assert "--time Jahr,Monat" in line
    compared = run(*shlex.split(line)[1:], "--max-epochs", 1, "--n-windows", 1, cwd=tmp_path)
    assert compared.returncode == 0, compared.stderr
    written = run("init", "months.csv", "--out", "run.yaml", cwd=tmp_path)
    assert written.returncode == 0, written.stderr
    repeated = run("train", "--config", "run.yaml", "--max-epochs", 1, "--no-report", "--out", "two", cwd=tmp_path)
    assert repeated.returncode == 0, repeated.stderr


def test_columns_known_ahead_are_read_with_the_same_time_columns(tmp_path):
    rows = [f"{2015 + n // 12},{n % 12 + 1},{n},{n % 3}" for n in range(63)]
    (tmp_path / "t.csv").write_text("\n".join(["Year,Month,y,promo", *rows[:60]]))
    (tmp_path / "ahead.csv").write_text("\n".join(["Year,Month,promo", *(f"2020,{n + 1},{n % 3}" for n in range(3))]))
    trained = run("train", "t.csv", "--future", "promo", "--model", "mlp", *FAST[2:], "--out", "run", cwd=tmp_path)
    assert trained.returncode == 0, trained.stderr
    forecast = run("predict", "run", "--future", "ahead.csv", cwd=tmp_path)
    assert forecast.returncode == 0, forecast.stderr
    assert "2020-03-01" in forecast.stdout
