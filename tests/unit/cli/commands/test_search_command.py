"""`neuro-divergent search`: a study on the shell, gone on with, looked at, and its winner trained."""

import contextlib
import io
import json
import re
import shlex

import optuna
import pytest

import neuro_divergent as nd
from neuro_divergent.cli.main import main
from neuro_divergent.report import search_report
from neuro_divergent.search.result import SearchResult

SMALL = ["--model", "dlinear", "--h", "6", "--max-epochs", "1", "--batch-size", "64"]


def call(*arguments):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main([str(argument) for argument in arguments])
    return code, out.getvalue(), err.getvalue()


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """A directory with a table, a space, and a study of five trials."""
    folder = tmp_path_factory.mktemp("search")
    with contextlib.chdir(folder):
        nd.samples.air_passengers().write_csv("my air.csv")
        (folder / "space.yaml").write_text(
            "learning_rate: {kind: loguniform, low: 1.0e-4, high: 0.1}\nmoving_average: [5, 25]\n"
        )
        code, out, err = call("search", "my air.csv", *SMALL, "--trials", "5", "--space", "space.yaml")
        assert code == 0, err
    return folder, out


def test_the_summary_has_the_winner_and_its_score_on_unseen_rows(study):
    folder, out = study
    found = SearchResult.load(folder / "study")
    assert "5 complete" in out
    assert f"trial {found.best.number} has mae {found.nested.nested:.4g}" in out
    assert "the naive forecast has" in out
    assert set(found.best.point) == {"learning_rate", "moving_average"}


def test_the_printed_command_trains_the_winner(study):
    folder, out = study
    best = SearchResult.load(folder / "study").best
    line = re.search(r"train it on all rows with: neuro-divergent (.*)", out)[1]
    with contextlib.chdir(folder):
        code, _, err = call(*shlex.split(line), "--out", "winner", "--no-report")
        assert code == 0, err
        fitted = nd.load("winner/model")
    assert fitted.model.moving_average == best.model.moving_average
    assert fitted.config.optimizer.learning_rate == pytest.approx(best.config.learning_rate)


def test_the_report_is_one_file_with_its_pictures(study):
    folder, _ = study
    page = (folder / "study" / "report.html").read_text(encoding="utf-8")
    for heading in ("Result", "Trials over time", "What mattered", "Trials"):
        assert f">{heading}</h2>" in page
    assert page.count("data:image/png") == 2
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert search_report(SearchResult.load(folder / "study")).title == "Search"


def test_inspect_shows_the_study(study):
    folder, _ = study
    code, out, _ = call("inspect", folder / "study")
    assert code == 0
    assert "5 complete" in out
    code, out, _ = call("inspect", folder / "study", "--json")
    facts = json.loads(out)
    assert facts["states"] == {"complete": 5}
    assert len(facts["trials"]) == 5
    assert facts["best"]["trial"] in range(5)


def test_a_study_goes_on_with_more_trials(study):
    folder, _ = study
    with contextlib.chdir(folder):
        again = ["search", "my air.csv", *SMALL, "--space", "space.yaml"]
        code, _, err = call(*again, "--trials", "6")
        assert code == 2
        assert "--resume" in err
        code, out, err = call(*again, "--trials", "6", "--resume", "--json", "--no-report")
    assert code == 0, err
    assert json.loads(out)["states"] == {"complete": 6}


def test_pictures_are_written(study, tmp_path):
    found = SearchResult.load(study[0] / "study")
    for draw in (found.plot_convergence, found.plot_partial_dependence, found.plot_parallel):
        draw(tmp_path / "picture.png")
        assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")
        (tmp_path / "picture.png").unlink()
    with pytest.raises(nd.ConfigError, match="two objectives"):
        found.plot_pareto()
    best = found.plot_convergence().axes[0].get_lines()[0].get_ydata()
    assert list(best) == sorted(best, reverse=True)
    assert best[-1] == found.best.value


def test_the_database_is_one_of_optuna(study):
    """Optuna's own loader, which optuna-dashboard uses, reads the study."""
    url = f"sqlite:///{study[0] / 'study' / 'study.db'}"
    names = optuna.get_all_study_names(url)
    assert len(optuna.load_study(study_name=names[0], storage=url).trials) >= 5


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--model", "dlinear"], "--h is missing"),
        ([*SMALL, "--method", "rnadom"], "rnadom"),
        ([*SMALL, "--set", "search.space={hiden_size: [1, 2]}"], "no field of DLinear"),
        ([*SMALL, "--pruner", "medain"], "Did you mean median"),
        ([*SMALL, "--metric", "maee"], "maee"),
        ([*SMALL, "--timeout", "soon"], "soon"),
        ([*SMALL, "--space", "nowhere.yaml"], "the space nowhere.yaml could not be read"),
    ],
)
def test_a_wrong_request_is_one_sentence_before_the_work(study, arguments, words, tmp_path):
    with contextlib.chdir(study[0]):
        code, _, err = call("search", "my air.csv", *arguments, "--out", tmp_path / "new")
    assert code == 2
    assert words in err
    assert not (tmp_path / "new").exists()


def test_the_default_space_of_a_model_is_shown():
    code, out, _ = call("models", "--space", "nhits", "--h", "10")
    assert code == 0
    assert "learning_rate=nd.loguniform(0.0001, 0.01)" in out
    space = eval(out, {"nd": nd})
    assert space == nd.NHITS(h=10, input_size=40).search_space()
    code, out, _ = call("models", "--space", "nhits", "--h", "10", "--json")
    assert nd.SearchSpace.from_dict(json.loads(out)) == space
