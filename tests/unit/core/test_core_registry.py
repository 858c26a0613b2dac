import os
import subprocess
import sys
from typing import ClassVar

import pytest

from neuro_divergent.core import registry
from neuro_divergent.core.config import Description
from neuro_divergent.core.errors import ConfigError, RegistryError, UnknownNameError
from neuro_divergent.forecasting.model.model import Model


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


def installed(folder, module, source, entries):
    """A real distribution on the path, with the metadata that an installer would write."""
    (folder / f"{module}.py").write_text(source)
    info = folder / f"{module}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(entries)


def answer(folder, code):
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=os.environ | {"PYTHONPATH": path}
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip().splitlines()


def test_a_plugin_package_joins_by_its_entry_point(tmp_path):
    installed(
        tmp_path,
        "plugin_of_tests",
        "from neuro_divergent.models.dlinear import DLinear\nclass Plugged(DLinear):\n    '''A plugged model.'''\n",
        "[neuro_divergent.plugins]\ngood = plugin_of_tests\nbroken = no_such_module_of_tests\n",
    )
    code = (
        "import logging; logging.disable(logging.CRITICAL)\n"
        "from neuro_divergent.core import registry\n"
        "print(registry.resolve('model', 'plugged').__doc__.splitlines()[0])\n"
        "try:\n    registry.resolve('model', 'nhist')\n"
        "except Exception as error:\n    print(error)\n"
    )
    found, error = answer(tmp_path, code)
    assert found == "A plugged model."
    assert "did you mean NHITS" in error
    assert "'broken' could not be loaded" in error


def test_a_name_of_the_library_does_not_wait_for_plugins(tmp_path):
    installed(tmp_path, "slow_plugin", "print('imported')\n", "[neuro_divergent.plugins]\nslow = slow_plugin\n")
    code = "from neuro_divergent.core import registry; print(registry.resolve('loss', 'mae').kind)"
    assert answer(tmp_path, code) == ["MAE"]


def test_a_plugin_cannot_take_the_name_of_a_model_that_is_not_imported_yet(tmp_path):
    """The plugin is the one that fails, not the library's own model later."""
    installed(
        tmp_path,
        "taking_plugin",
        "from neuro_divergent.models.dlinear import DLinear\nclass NHITS(DLinear):\n    '''Not ours.'''\n",
        "[neuro_divergent.plugins]\ntaking = taking_plugin\n",
    )
    code = (
        "import logging; logging.disable(logging.CRITICAL)\n"
        "from neuro_divergent.core import registry\n"
        "try: registry.resolve('model', 'no such model')\n"
        "except Exception as error: print(error)\n"
        "print(registry.resolve('model', 'nhits').__module__)\n"
    )
    error, module = answer(tmp_path, code)
    assert "'taking' could not be loaded: RegistryError: a model is named once, but 'NHITS' is both" in error
    assert module == "neuro_divergent.models.nhits"


BROKEN = "import sys\nsys.exit('this plugin wants other packages')\n"


def test_a_plugin_that_ends_the_process_is_named_in_one_warning(tmp_path):
    installed(tmp_path, "ending_plugin", BROKEN, "[neuro_divergent.plugins]\nending = ending_plugin\n")
    code = (
        "import logging; logging.basicConfig(stream=__import__('sys').stdout, format='%(message)s')\n"
        "import neuro_divergent as nd\n"
        "from neuro_divergent.core import registry\n"
        "for _ in range(2): print(registry.find('model', 'no such model'), len(registry.members('model')) > 30)\n"
    )
    warning, *rest = answer(tmp_path, code)
    assert "the plugin 'ending' could not be loaded: SystemExit: this plugin wants other packages" in warning
    assert "NEURO_DIVERGENT_WITHOUT=ending_plugin" in warning
    assert rest == ["None True", "None True"]


def test_packages_can_be_left_out(tmp_path, monkeypatch):
    installed(tmp_path, "loud_plugin", "print('imported')\n", "[neuro_divergent.plugins]\nloud = loud_plugin\n")
    code = "from neuro_divergent.core import registry; print(registry.find('model', 'no such model'))"
    assert answer(tmp_path, code) == ["imported", "None"]
    for left_out in ("other, Loud-Plugin", "*"):
        monkeypatch.setenv("NEURO_DIVERGENT_WITHOUT", left_out)
        assert answer(tmp_path, code) == ["None"]


def test_a_network_that_cannot_be_built_does_not_break_the_list_of_models(tmp_path):
    source = (
        "from neuro_divergent import Model\n"
        "class Clumsy(Model):\n    '''A clumsy model.'''\n    def build(self, spec):\n        return {}['no']\n"
    )
    installed(tmp_path, "clumsy_plugin", source, "[neuro_divergent.plugins]\nclumsy = clumsy_plugin\n")
    code = (
        "from neuro_divergent.forecasting.model.catalogue import catalogue\n"
        "print([(entry.name, entry.parameters) for entry in catalogue() if entry.name in ('Clumsy', 'NLinear')])"
    )
    assert answer(tmp_path, code) == ["[('Clumsy', None), ('NLinear', 2328)]"]


def test_an_unknown_group_is_refused_with_the_known_ones():
    with pytest.raises(ConfigError, match=r"one of mlp, recurrent, .* but Grouped has group='perceptrons'"):

        class Grouped(Model):
            group = "perceptrons"
