import subprocess
import sys
from typing import ClassVar

import pytest

from neuro_divergent.core import registry
from neuro_divergent.core.config import Description
from neuro_divergent.core.errors import RegistryError, UnknownNameError


class Fruit(Description):
    family: ClassVar[str] = "fruit-of-tests"


class RedApple(Fruit):
    pass


def test_case_dashes_and_underscores_do_not_matter():
    for name in ("RedApple", "redapple", "red_apple", "red-apple", "RED APPLE"):
        assert registry.resolve("fruit-of-tests", name) is RedApple


def test_a_name_is_given_once():
    with pytest.raises(RegistryError, match="a fruit-of-tests is named once"):

        class Other(Fruit):
            kind: ClassVar[str] = "Red_Apple"


def test_the_same_class_defined_again_replaces_itself():
    def define():
        class Pear(Fruit):
            pass

        return Pear

    define()
    newest = define()
    assert registry.resolve("fruit-of-tests", "pear") is newest


def test_unknown_names_list_what_is_known_when_nothing_is_close():
    with pytest.raises(UnknownNameError, match=r"known are: .*RedApple"):
        registry.resolve("fruit-of-tests", "zzz")


def test_models_are_found_by_name_without_importing_them_first():
    code = "from neuro_divergent.core import registry; print(registry.resolve('model', 'nhits').__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "NHITS"


def test_a_plugin_package_joins_by_its_entry_point(tmp_path):
    """A real distribution on the path, with the metadata that an installer would write."""
    (tmp_path / "plugin_of_tests.py").write_text(
        "from neuro_divergent.models.dlinear import DLinear\nclass Plugged(DLinear):\n    '''A plugged model.'''\n"
    )
    info = tmp_path / "plugin_of_tests-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: plugin-of-tests\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[neuro_divergent.plugins]\ngood = plugin_of_tests\nbroken = no_such_module_of_tests\n"
    )
    code = (
        "import logging; logging.disable(logging.CRITICAL)\n"
        "from neuro_divergent.core import registry\n"
        "print(registry.resolve('model', 'plugged').__doc__)\n"
        "try:\n    registry.resolve('model', 'nhist')\n"
        "except Exception as error:\n    print(error)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONPATH": str(tmp_path)}
    )
    found, error = done.stdout.strip().splitlines()
    assert found == "A plugged model."
    assert "did you mean NHITS" in error
    assert "'broken' could not be loaded" in error
