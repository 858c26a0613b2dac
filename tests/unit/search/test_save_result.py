"""A SearchResult is copied by save, and nd.load reads it."""

import neuro_divergent as nd
from neuro_divergent.cli.main import main


def test_a_saved_search_has_the_same_trials_and_the_same_best_model(tmp_path):
    space = nd.SearchSpace(learning_rate=nd.choice(1e-3, 1e-2))
    config = nd.TrainingConfig(max_steps=5, progress=False)
    search = nd.GridSearch(space, model=nd.NLinear(h=12, input_size=12), config=config, directory=tmp_path / "study")
    result = search.fit(nd.samples.air_passengers())
    result.save(tmp_path / "copy")
    loaded = nd.load(tmp_path / "copy")
    assert isinstance(loaded, nd.SearchResult)
    assert loaded.table.equals(result.table)
    assert loaded.best == result.best
    assert loaded.nested == result.nested
    again = loaded.best_forecaster(refit=False).predict()
    assert again.equals(result.best_forecaster(refit=False).predict())
    assert sorted(path.name for path in (tmp_path / "copy").iterdir()) == [
        "all_rows",
        "study.db",
        "study.json",
        "table",
        "trials",
    ]


def test_a_saved_search_of_a_database_has_its_trials_in_its_own_file(tmp_path, capsys):
    url = f"sqlite:///{tmp_path}/elsewhere.db"
    space = nd.SearchSpace(learning_rate=nd.choice(1e-3, 1e-2))
    config = nd.TrainingConfig(max_steps=2, progress=False)
    model = nd.NLinear(h=12, input_size=12)
    search = nd.GridSearch(space, model=model, config=config, directory=tmp_path / "study", storage=url)
    result = search.fit(nd.samples.air_passengers())
    assert main(["inspect", str(tmp_path / "study")]) != 0
    assert "--storage URL" in capsys.readouterr().err
    assert main(["inspect", str(tmp_path / "study"), "--storage", url]) == 0
    assert "2 complete" in capsys.readouterr().out
    result.save(tmp_path / "copy")
    (tmp_path / "elsewhere.db").rename(tmp_path / "away.db")
    loaded = nd.load(tmp_path / "copy")
    assert loaded.table.equals(result.table)
    assert loaded.document["search"]["storage"] is None
    assert main(["inspect", str(tmp_path / "copy")]) == 0
