"""Seeded faults and healthy runs: the right cause among the first two verdicts, and few false alarms.

The sample runs on the built-in panel. The whole suite (benchmarks/doctor.py) runs under stress, where real data is.
"""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from fault_tools import record

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from benchmarks import _doctor_cases as cases
from benchmarks import doctor

from neuro_divergent.diagnostics.doctor.diagnose import judged

needs_data = pytest.mark.skipif(not doctor.SHARED.is_dir(), reason="needs the folder of real data")
SAMPLE = ("hourly_panel",)


def test_a_sample_of_faults_is_found() -> None:
    frame, h, lookback = cases.table("hourly_panel", doctor.SHARED)
    model = cases.models(h, lookback)["MLP"]
    wrong = {}
    for name, make in cases.FAULTS.items():
        case = make(cases.base(model, frame, 1))
        told = [verdict.cause for verdict in judged(cases.evidence_of(case)).verdicts]
        if case.cause not in told[:2]:
            wrong[name] = told
    assert len(wrong) <= 1, wrong


@pytest.mark.stress
@needs_data
def test_all_faults_are_found() -> None:
    found = doctor.faults(doctor.SHARED, 3, print)
    good, tried = (sum(row[place] for row in found.values()) for place in (0, 1))
    record("causes found", good, tried)
    assert good >= 0.95 * tried, found


@pytest.mark.stress
@needs_data
def test_healthy_runs_raise_no_alarm() -> None:
    alarms, tried = doctor.healthy(doctor.SHARED, 100, print)
    record("healthy runs without alarm", tried - alarms, tried)
    assert tried == 100
    assert alarms <= 2


@pytest.mark.stress
@needs_data
def test_treated_trainings_are_mended() -> None:
    good, tried = doctor.treated(doctor.SHARED, 1, print)
    record("trainings mended by treat", good, tried)
    assert good >= 0.85 * tried
