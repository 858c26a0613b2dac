"""Every registered model, the plugin's included, against every check of the shipped matrix."""

from __future__ import annotations

import importlib
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

from neuro_divergent.conformance import EXPORT_EXCEPTIONS, MODEL_CHECKS, check_model
from neuro_divergent.core import registry
from neuro_divergent.forecasting.model.model import Model

# Models that other tests define on the spot are theirs to check; the library's and the plugin's are checked here.
MODELS = {
    kind: cls
    for kind, cls in registry.members("model").items()
    if cls.__module__.startswith(("neuro_divergent.models.", "drift_forecaster"))
}
if importlib.util.find_spec("transformers") is None:
    MODELS.pop("TimeLLM", None)  # it needs an extra; without it there is nothing to build


@pytest.fixture(scope="session")
def language_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a language model of one narrow layer, its weights random."""
    transformers = importlib.import_module("transformers")
    directory = tmp_path_factory.mktemp("llm")
    sizes = transformers.GPT2Config(vocab_size=40, n_positions=64, n_embd=16, n_layer=1, n_head=2)
    transformers.GPT2LMHeadModel(sizes).save_pretrained(directory)
    return directory


@pytest.mark.parametrize("kind", MODELS)
@pytest.mark.parametrize("check", MODEL_CHECKS)
def test_model(kind: str, check: str, request: pytest.FixtureRequest) -> None:
    cls = MODELS[kind]
    assert issubclass(cls, Model)
    if kind == "TimeLLM":
        llm = str(request.getfixturevalue("language_model"))
        check_model(cls(h=4, input_size=12, llm=llm, heads=2, key_size=8, prototypes=12, read_size=16), check)
    else:
        check_model(cls, check)


def test_the_plugins_model_is_in_the_matrix() -> None:
    assert "Drift" in MODELS


def test_export_exceptions_are_few_and_name_models_with_reasons() -> None:
    assert len(EXPORT_EXCEPTIONS) <= 3
    assert set(EXPORT_EXCEPTIONS) <= set(MODELS)
    assert all(len(reason) > 20 for reason in EXPORT_EXCEPTIONS.values())


def test_a_fresh_process_finds_the_plugin_by_its_entry_point() -> None:
    """Nothing imports the package here but the registry, through the metadata beside it."""
    script = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parent / 'plugin_package')!r})\n"
        "from neuro_divergent.core import registry\n"
        "print(registry.resolve('model', 'drift').__module__)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "drift_forecaster"
