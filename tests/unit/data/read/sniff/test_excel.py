"""Workbooks: one sheet as a table, and a sentence where the extra is missing."""

from __future__ import annotations

import importlib.util
import io
import sys
from datetime import date, timedelta
from pathlib import Path

import pytest

import neuro_divergent as nd

sys.path.insert(0, str(Path(__file__).parent))
from workbook import workbook

ROWS = [["Sales", None, None], [], ["Day", "Shop", "Sold"]]
ROWS += [[date(2024, 1, 1) + timedelta(days=number), "north", 1.125 + number] for number in range(10)]
BOOK = workbook({"Facts": [*ROWS, ["Total", None, 56.25]], "Notes": [["nothing"]]})
installed = importlib.util.find_spec("fastexcel") is not None


@pytest.mark.skipif(not installed, reason="the extra excel is not installed")
def test_a_sheet_is_read_with_its_title_and_sum_left_out() -> None:
    table = nd.TimeSeriesDataFrame.from_csv(io.BytesIO(BOOK), dtype="float64")
    rows = table.to_polars()
    assert rows["Day"].to_list() == [date(2024, 1, 1) + timedelta(days=number) for number in range(10)]
    assert rows["Sold"].to_list() == [1.125 + number for number in range(10)]  # 1.125 is no 1125 here
    said = str(table.report())
    for part in ("sheet 'Facts'", "line 3 names the columns", "'Total'"):
        assert part in said
    with pytest.raises(nd.DataError, match="must have the sheet 'Fact', but has 'Facts', 'Notes'"):
        nd.TimeSeriesDataFrame.from_csv(io.BytesIO(BOOK), sheet="Fact")


@pytest.mark.skipif(not installed, reason="the extra excel is not installed")
def test_a_sheet_of_notes_is_passed_over_and_a_sum_below_series_in_rows_is_left_out() -> None:
    quarters = [f"{2020 + n // 4}-Q{n % 4 + 1}" for n in range(8)]
    series = [["NSW", "Sydney", *range(8)], ["NSW", "Bega", *range(10, 18)]]
    facts = [["Trips", None], [], ["State", "Region", *quarters], *series, ["Grand Total", None, *range(10, 26, 2)]]
    book = workbook({"Notes": [["see the other sheet"], ["made in May"]], "Trips": facts})
    table = nd.TimeSeriesDataFrame.from_csv(io.BytesIO(book))
    assert table.ids.tolist() == ["Bega", "Sydney"]
    assert table.to_polars()["y"].to_list() == [*map(float, range(10, 18)), *map(float, range(8))]
    said = str(table.report())
    assert "sheet 'Trips' of 'Notes', 'Trips'" in said
    assert "the last row is no row of the table: 'Grand Total'" in said


@pytest.mark.skipif(not installed, reason="the extra excel is not installed")
def test_a_workbook_without_a_table_says_where_it_looked() -> None:
    book = workbook({"Notes": [["a"], ["b"]]})
    with pytest.raises(
        nd.DataError, match=r"two columns, but got a single column in its sheet 'Notes'. .*sheet="
    ) as raised:
        nd.TimeSeriesDataFrame.from_csv(io.BytesIO(book))
    assert raised.value.advice


def test_without_the_extra_a_sentence_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fastexcel", None)
    with pytest.raises(nd.MissingExtraError, match=r"pip install 'neuro-divergent\[excel\]'"):
        nd.TimeSeriesDataFrame.from_csv(io.BytesIO(BOOK))
