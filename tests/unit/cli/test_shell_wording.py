"""What the shell advises comes from the fields of an error, not from the words of its message."""

import ast
import copy
import pickle
import shlex
from datetime import date
from pathlib import Path

import polars as pl
import pytest

import neuro_divergent as nd
from neuro_divergent.cli.request.findings import findings
from neuro_divergent.cli.request.read_table import read_table
from neuro_divergent.cli.request.run_file import Columns, sections
from neuro_divergent.cli.request.shell_wording import _flag, on_the_shell
from neuro_divergent.core import errors, files
from neuro_divergent.core.errors import Advice, DataError, NeuroDivergentError, StorageError
from neuro_divergent.data.read.load_file import FILE_FIELDS
from neuro_divergent.data.schema.load_report import DataReport
from neuro_divergent.data.schema.schema import DataSchema
from neuro_divergent.forecasting.network.output_columns import forecast_columns

SOURCE = Path(nd.__file__).parent

DAYS = [date(2024, 1, 1), date(2024, 1, 2), date(2024, 1, 2), date(2024, 1, 5)]


def read(days=DAYS, **fields):
    values = fields.pop("y", [1.0] * len(days))
    frame = pl.DataFrame({"unique_id": ["a"] * len(days), "ds": days, "y": values})
    nd.TimeSeriesDataFrame.from_frame(frame, **fields)


def write_into_a_file(folder):
    (folder / "file").write_text("")
    files.write_text(folder / "file" / "inside", "")


@pytest.mark.parametrize(
    ("mistake", "expected"),
    [
        pytest.param(
            lambda _: read(),
            ["--set data.duplicates=last", "--set data.duplicates=mean", "--set data.time_zone=NAME"],
            id="duplicates",
        ),
        pytest.param(lambda _: read(duplicates="last", gaps="error"), ["--set data.gaps=mask"], id="gaps"),
        pytest.param(lambda _: read(["31.1.24 noon"]), ["--set data.time_format=%d.%m.%Y", "--time NAME"], id="form"),
        pytest.param(lambda _: read(DAYS[:2], y=["1,5", "2,5"]), ["--set data.decimal_comma=True"], id="comma"),
        pytest.param(lambda _: read(time_col="day"), ["--time ds"], id="column"),
        pytest.param(write_into_a_file, ["Choose a path that you may write to"], id="place"),
        pytest.param(
            lambda _: forecast_columns("NHITS", nd.MAE(), [80], None),
            ["MAE forecasts a point", "Train again with --level 80,95"],
            id="intervals",
        ),
    ],
)
def test_wording_a_message_anew_changes_nothing_of_the_advice(tmp_path, mistake, expected):
    with pytest.raises(NeuroDivergentError) as caught:
        mistake(tmp_path)
    error = caught.value
    for same in (error, type(error)("it is worded in another way", **error.facts)):
        said = on_the_shell(same)
        for part in expected:
            assert said.count(part) == 1
        assert "=..." not in said


def test_a_run_that_may_not_go_on_is_told_by_its_facts():
    said = on_the_shell(StorageError("worded in another way", rule="same run", got="batch_size was 10, but is 5"))
    assert "but batch_size was 10, but is 5. Restore what it had, change by flags only" in said


def test_the_words_of_a_message_alone_give_no_advice(tmp_path):
    words = 'the log could not be written. Say duplicates="last", or name a change in resume_with={...}'
    assert on_the_shell(StorageError(words)) == words
    file = tmp_path / "panel.csv"
    rows = {
        "store": ["a", "b"] * 9,
        "ds": [date(2024, 1, day // 2 + 1) for day in range(18)],
        "y": ["n"] * 18,
        "y2": [1.0] * 18,
    }
    pl.DataFrame(rows).write_csv(file)
    with pytest.raises(DataError, match="add --id store") as caught:
        read_table(file, {"id_col": "y", "target_col": "y2"})
    assert caught.value.rule == "one row per time"


def advised_in_source():
    """Every setting that some message of the library advises, as far as it is spelt out there."""
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Advice":
                values = [part.value for part in node.args if isinstance(part, ast.Constant)]
                if len(values) == len(node.args) and "." in values[0]:
                    yield Advice(*values)


@pytest.mark.parametrize("advice", sorted(set(advised_in_source()), key=str), ids=str)
def test_every_setting_that_a_message_advises_is_one(advice):
    flag, *rest = shlex.split(_flag(advice))
    fields = {"data": {}, "model": {}, "training": {}}
    if flag == "--set":
        fields = sections(None, fields, rest)
        section, name, *_ = advice.field.split(".")
        value = fields[section][name]
    else:
        section, name, value = "data", advice.field.partition(".")[2], rest[0] if rest else True
        if name in ("lower", "upper"):
            value = Columns(**{name: value}).fields()[name]
    kind = {"data": DataSchema, "training": nd.TrainingConfig, "model": nd.MLP}[section]
    assert name in kind.model_fields or name in FILE_FIELDS
    if advice.value != "..." and name not in FILE_FIELDS:
        given = value | {"kind": "WarmupCosine"} if isinstance(value, dict) else value
        kind.from_dict({name: given} | ({"h": 2, "input_size": 48} if section == "model" else {}))


KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, NeuroDivergentError)]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
@pytest.mark.parametrize("sent", [lambda error: pickle.loads(pickle.dumps(error)), copy.copy], ids=["pickle", "copy"])
def test_an_error_keeps_its_facts_on_its_way_to_another_process(kind, sent):
    error = kind("a text", rule="writable", got="a place", advice=[Advice("data.freq", "1d"), Advice("resume", None)])
    there = sent(error)
    assert type(there) is kind
    assert str(there) == "a text"
    assert there.facts == error.facts == {"rule": "writable", "got": "a place", "advice": error.advice}
    assert there.advice[0].value == "1d"


def test_one_row_is_counted_in_the_singular() -> None:
    report = DataReport(rows_read=9, unsorted_rows=1, gap_rows=1, missing=1, duplicate_rows=1, constant_series=("a",))
    assert [found.what for found in findings(report, {})] == [
        "1 row repeats a series and time",
        "1 row is out of order",
        "1 row is missing between other rows",
        "1 target is empty",
        "1 series never changes",
    ]
    assert findings(DataReport(unsorted_rows=1200), {})[0].what == "1,200 rows are out of order"
