"""The helper of the benchmarks, and the page that is made of its files."""

import importlib.util
import json
import math
import subprocess
import sys
from datetime import date
from pathlib import Path

import pytest

import neuro_divergent as nd

ROOT = Path(__file__).parents[3]


def module(path):
    """A script of the repository as a module; neither folder is on the path of an installed package."""
    spec = importlib.util.spec_from_file_location(f"loaded_{path.stem}", path)
    loaded = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = loaded
    spec.loader.exec_module(loaded)
    return loaded


harness = module(ROOT / "benchmarks" / "harness.py")
benchmark_page = module(ROOT / "tools" / "benchmark_page.py")


@pytest.mark.parametrize(
    ("figure", "bound", "ok", "target"),
    [
        (1.8, {"at_most": 2}, True, "<= 2"),
        (2.0, {"at_most": 2}, True, "<= 2"),
        (2.1, {"at_most": 2}, False, "<= 2"),
        (2.1, {"at_least": 2.05}, True, ">= 2.05"),
        (1.0, {"at_least": 2.05}, False, ">= 2.05"),
        (1.0, {}, None, ""),
        (math.nan, {"at_most": 2}, False, "<= 2"),
        (math.nan, {"at_least": 2}, False, ">= 2"),
    ],
)
def test_a_bound_makes_the_verdict(figure, bound, ok, target):
    made = harness.line("ratio", figure, unit="x", **bound)
    assert made["ok"] is ok
    assert made["target"] == target
    assert made["figure"] == (None if math.isnan(figure) else figure)


def test_a_text_of_its_own_names_the_target_and_two_bounds_are_refused():
    assert harness.line("ratio", 1, "half of the peer", at_most=2)["target"] == "half of the peer"
    with pytest.raises(ValueError, match="one bound"):
        harness.line("ratio", 1, at_most=2, at_least=0)


def test_a_file_says_when_where_and_with_what(tmp_path):
    lines = [harness.line("ratio", 1.8, at_most=2, unit="x", note="best of 3"), harness.line("nothing", math.inf)]
    path = harness.write(
        "windows", lines, "python benchmarks/windows.py", tmp_path / "new", packages=("pytest", "nope")
    )
    assert path == tmp_path / "new" / "windows.json"
    found = json.loads(path.read_text(encoding="utf-8"))
    assert found["benchmark"] == "windows"
    assert found["command"] == "python benchmarks/windows.py"
    date.fromisoformat(found["date"])
    assert found["machine"]["cores"] >= 1
    assert found["machine"]["cpu"]
    assert found["versions"]["neuro_divergent"] == nd.__version__
    assert found["versions"]["pytest"] == pytest.__version__
    assert "nope" not in found["versions"]
    assert found["lines"][0] == lines[0]
    assert found["lines"][1]["figure"] is None
    assert "plots" not in found


def test_a_partial_run_keeps_the_lines_that_it_did_not_measure(tmp_path):
    lines = [harness.line("one", 1), harness.line("two", 2)]
    harness.write("peers", lines, "python p.py", tmp_path, more_versions={"darts": "1"})
    changed = [harness.line("one", 3)]
    path = harness.write("peers", changed, "python p.py", tmp_path, more_versions={"gluonts": "2"}, partial=True)
    document = json.loads(path.read_text(encoding="utf-8"))
    assert {item["what"]: item["figure"] for item in document["lines"]} == {"one": 3, "two": 2}
    assert (document["versions"]["darts"], document["versions"]["gluonts"]) == ("1", "2")
    path = harness.write("peers", changed, "python p.py", tmp_path)
    assert [item["what"] for item in json.loads(path.read_text(encoding="utf-8"))["lines"]] == ["one"]


def test_the_printed_table_is_aligned(capsys):
    harness.print_table(
        [
            harness.line("a", 1.8, at_most=2, unit="x", note="best of 3"),
            harness.line("much longer", 123456.7, at_least=2e6),
            harness.line("free", 0.5),
        ]
    )
    assert capsys.readouterr().out.splitlines() == [
        "what          figure  target",
        "a              1.8 x  <= 2      met     best of 3",
        "much longer  123,457  >= 2e+06  missed",
        "free             0.5  -",
    ]


def test_the_summary_has_every_line_with_its_benchmark_and_verdict(capsys):
    harness.print_summary(
        {
            "windows": [harness.line("a", 1.8, at_most=2, unit="x"), harness.line("b", 3, at_most=2)],
            "many": [harness.line("free", 0.5)],
        }
    )
    assert capsys.readouterr().out.splitlines() == [
        "benchmark  what  figure  target  verdict",
        "windows    a      1.8 x  <= 2    met",
        "windows    b          3  <= 2    missed",
        "many       free     0.5  -       -",
        "1 of 2 targets met",
    ]


RUNS = """
import sys
from pathlib import Path
sys.path.insert(0, {root!r})
from benchmarks import __main__ as runner
runner.HERE = Path({here!r})
runner.RESULTS = Path({kept!r})
sys.argv = ["benchmarks", *{arguments!r}]
sys.exit(runner.main())
"""
FIGURES = """
import sys
from harness import line, write
assert "--write" in sys.argv
write({name!r}, [line("ratio", 3, at_most=2)], "python benchmarks/{name}.py")
sys.exit({code})
"""


@pytest.fixture
def runner(tmp_path):
    """`python -m benchmarks` over a folder of small benchmarks instead of ours."""
    here, kept = tmp_path / "benchmarks", tmp_path / "kept"
    here.mkdir()
    (here / "harness.py").write_bytes((ROOT / "benchmarks" / "harness.py").read_bytes())
    for name, code in (("missed", 1), ("peers", 0)):
        (here / f"{name}.py").write_text(FIGURES.format(name=name, code=code), encoding="utf-8")
    (here / "broken.py").write_text("raise SystemExit('no data')", encoding="utf-8")
    (here / "quiet.py").write_text("print('skipped')", encoding="utf-8")

    def call(*arguments):
        given = RUNS.format(root=str(ROOT), here=str(here), kept=str(kept), arguments=arguments)
        return subprocess.run([sys.executable, "-c", given], capture_output=True, text=True, cwd=tmp_path), kept

    return call


def test_a_missed_target_is_shown_and_is_no_error(runner):
    done, kept = runner("missed", "quiet")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-4:] == [
        "benchmark  what   figure  target  verdict",
        "missed     ratio       3  <= 2    missed",
        "0 of 1 targets met",
        "without figures, as said above: quiet",
    ]
    assert not kept.exists()


def test_a_benchmark_that_cannot_run_is_an_error_and_the_others_run(runner):
    done, _ = runner("broken", "missed")
    assert done.returncode == 1
    assert "could not run: broken" in done.stderr
    assert "0 of 1 targets met" in done.stdout


def test_results_are_kept_when_asked_for_but_not_those_of_a_short_form(runner):
    """`peers` has a short form, `missed` has none."""
    done, kept = runner("--write", "missed", "peers")
    assert done.returncode == 0, done.stderr
    assert [path.name for path in kept.iterdir()] == ["missed.json"]
    assert "peers      ratio" in done.stdout
    runner("--write", "--full", "peers")
    assert sorted(path.name for path in kept.iterdir()) == ["missed.json", "peers.json"]


def test_an_unknown_benchmark_is_refused_with_the_known_ones(runner):
    done, _ = runner("window")
    assert done.returncode == 2
    assert "known are: broken, missed, peers, quiet" in done.stderr


def test_the_page_has_a_section_for_each_file(tmp_path):
    lines = [harness.line("a | b", 1.8, at_most=2, unit="x"), harness.line("rows", 2.5e6, at_least=3e6, note="slow")]
    harness.write("out_of_core", lines, "python benchmarks/out_of_core.py", tmp_path, plots=["growth.svg"])
    text = benchmark_page.page(tmp_path)
    assert "## Out of core" in text
    assert "| [Out of core](#out-of-core) | 1 of 2 |" in text
    assert "```\npython benchmarks/out_of_core.py\n```" in text
    assert "| a \\| b | 1.8 x | &lt;= 2 | met | - |" in text
    assert "| rows | 2,500,000 | >= 3e+06 | **missed** | slow |" in text
    assert "![Growth](images/benchmarks/growth.svg)" in text
    assert benchmark_page.pictures(tmp_path) == {"growth.svg": tmp_path / "growth.svg"}
    assert f"torch {harness.versions()['torch']}" in text


@pytest.mark.parametrize("lost", ["benchmark", "command", "date", "machine", "versions", "lines", "all"])
def test_a_key_that_lacks_is_left_out(tmp_path, lost):
    path = harness.write("windows", [harness.line("ratio", 1.8, at_most=2)], "python w.py", tmp_path)
    document = json.loads(path.read_text(encoding="utf-8"))
    kept = {} if lost == "all" else {name: value for name, value in document.items() if name != lost}
    path.write_text(json.dumps(kept), encoding="utf-8")
    text = benchmark_page.page(tmp_path)
    assert "## Windows" in text
    assert "None" not in text
    assert ("| ratio | 1.8 |" in text) is (lost not in ("lines", "all"))


def test_a_line_needs_no_more_than_a_name(tmp_path):
    (tmp_path / "x.json").write_text(json.dumps({"lines": [{"what": "only this"}]}), encoding="utf-8")
    assert "| only this | - | - | - |" in benchmark_page.page(tmp_path)


def test_no_results_and_no_json(tmp_path):
    assert "Nothing was measured yet" in benchmark_page.page(tmp_path)
    (tmp_path / "x.json").write_text("{", encoding="utf-8")
    with pytest.raises(SystemExit, match="must be JSON"):
        benchmark_page.page(tmp_path)
