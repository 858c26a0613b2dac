"""What help() shows of a description."""

import inspect
import pydoc
import subprocess
import sys
from typing import Annotated, ClassVar, Literal

from pydantic import Field

import neuro_divergent as nd
from neuro_divergent.core.config import Description
from neuro_divergent.core.field_docs import own_doc, type_text


class Kettle(Description):
    """Boils water."""

    litres: Annotated[float, Field(gt=0)] = Field(default=1.5, kw_only=False)
    """How much it holds."""
    colour: Literal["red", "blue"] | None = None
    """How it looks;
    None is plain steel."""
    name: str


class Urn(Kettle):
    lid: bool = True
    """Whether it has a lid."""
    made_in: ClassVar[str] = "Jena"


def test_the_docstring_lists_the_fields():
    assert inspect.getdoc(Kettle) == (
        "Boils water.\n\nFields:\n"
        "    litres (float, default 1.5):\n        How much it holds.\n"
        "    colour ('red' | 'blue' | None, default None):\n        How it looks;\n        None is plain steel.\n"
        "    name (str, required)"
    )
    assert own_doc(Kettle) == "Boils water."


def test_a_class_without_a_docstring_shows_that_of_its_base():
    assert inspect.getdoc(Urn).startswith("Boils water.\n\nFields:\n    litres")
    assert "lid (bool, default True):\n        Whether it has a lid." in Urn.__doc__


def test_the_signature_has_types_defaults_and_what_goes_by_position():
    assert str(inspect.signature(Kettle)) == (
        "(litres: float = 1.5, *, colour: 'red' | 'blue' | None = None, name: str)"
    )
    assert Kettle(2.0, name="a").litres == 2.0
    assert str(inspect.signature(nd.MQLoss)).startswith("(*, point: 'auto' | 'mean' | 'median' = 'auto', level: tuple[")


def test_help_of_a_model_and_of_the_training():
    shown = pydoc.plain(pydoc.render_doc(nd.NHITS))
    assert "The horizon: how many steps ahead are forecast." in shown
    assert "pooling_mode ('max' | 'average', default 'max')" in shown
    assert "early_stopping" in nd.TrainingConfig.__doc__


def test_types_in_words():
    assert type_text(dict[str, tuple[int, ...]] | Literal["auto", 3]) == "dict[str, tuple[int, ...]] | 'auto' | 3"


def test_nothing_is_read_from_the_source_before_somebody_asks():
    code = (
        "import neuro_divergent.core.field_docs as docs; docs.field_docs = docs.type_text = None\n"
        "import neuro_divergent as nd; nd.NHITS(h=2, input_size=4); nd.TrainingConfig(early_stopping=3)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
