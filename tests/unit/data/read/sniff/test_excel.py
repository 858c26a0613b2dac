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


def test_without_the_extra_a_sentence_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fastexcel", None)
    with pytest.raises(nd.MissingExtraError, match=r"pip install 'neuro-divergent\[excel\]'"):
        nd.TimeSeriesDataFrame.from_csv(io.BytesIO(BOOK))
