import json
import math
from pathlib import Path
from typing import Annotated, ClassVar, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import Field

from neuro_divergent.core.config import Description, Function, field_docs
from neuro_divergent.core.errors import ConfigError, UnknownNameError


class Animal(Description):
    """Base of a family made for these tests."""

    family: ClassVar[str] = "animal-of-tests"


class Cat(Animal):
    lives: Annotated[int, Field(ge=1)] = 9
    """How many lives."""


class Dog(Animal):
    positional: ClassVar[tuple[str, ...]] = ("size",)
    size: float = 1.0


class House(Description):
    rooms: Annotated[int, Field(ge=1)]
    """How many rooms."""
    pet: Animal | Literal["auto"] | None = "auto"
    """Who lives there."""
    door: Function | None = None
    name: str = "hut"
    weights: tuple[float, ...] = ()
    place: Path | None = None


def knock(times):
    return times


def test_json_carries_the_kind_and_every_default():
    assert json.loads(House(rooms=2, pet=Cat()).to_json()) == {
        "schema": 1,
        "kind": "House",
        "rooms": 2,
        "pet": {"kind": "Cat", "lives": 9},
        "door": None,
        "name": "hut",
        "weights": [],
        "place": None,
    }


@given(
    rooms=st.integers(1, 10**9),
    lives=st.integers(1, 9),
    name=st.text(),
    weights=st.lists(st.floats(allow_nan=False)),
    pet=st.sampled_from(["cat", "auto", None]),
)
def test_json_and_yaml_round_trip(rooms, lives, name, weights, pet):
    house = House(rooms=rooms, name=name, weights=weights, pet=Cat(lives=lives) if pet == "cat" else pet)
    assert House.from_json(house.to_json()) == house
    if name.isprintable():  # YAML cannot hold every control character
        assert House.from_yaml(house.to_yaml()) == house


def test_equal_when_fields_are_equal_and_usable_as_a_key():
    assert House(rooms=1, pet=Cat()) == House(rooms=1, pet="cat")
    assert len({House(rooms=1), House(rooms=1), House(rooms=2)}) == 2


def test_infinity_survives_json():
    assert Dog.from_json(Dog(size=math.inf).to_json()).size == math.inf


def test_positional_fields_are_declared():
    assert Dog(3.0) == Dog(size=3.0)
    with pytest.raises(ConfigError, match="Cat takes its fields by name"):
        Cat(3)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: House(rooms=0), "rooms must be at least 1, but got rooms=0"),
        (lambda: House(), "House needs the field 'rooms', but it was not given"),
        (lambda: House(rooms=1, pett=Cat()), "House has no field 'pett'; did you mean pet?"),
        (lambda: House(rooms="many"), "rooms must be a whole number, but got rooms='many'"),
        (lambda: House(rooms=1, door="oak"), "door must be a callable, but got 'oak'"),
        (lambda: House(rooms=1, pet={"kind": "cat", "lives": 0}), "lives must be at least 1, but got lives=0"),
        (lambda: House.from_json("[]"), "must be one object with named fields"),
        (lambda: House.from_json("{"), "must be valid JSON"),
        (lambda: House.from_yaml("a: [1"), "must be valid YAML"),
        (lambda: House.from_json('{"schema": 99, "rooms": 1}'), "reads schema 1 and older, but got schema=99"),
        (lambda: House.from_json('{"kind": "Castle", "rooms": 1}'), "expected a House, but got kind='Castle'"),
        (lambda: Animal.from_dict({"kind": 3}), "kind must be a name"),
    ],
)
def test_each_mistake_has_its_sentence(make, sentence):
    with pytest.raises(ConfigError) as caught:
        make()
    assert sentence in str(caught.value)


def test_an_unknown_kind_is_answered_with_the_closest():
    with pytest.raises(UnknownNameError, match="there is no animal-of-tests named 'catt'; did you mean Cat"):
        House(rooms=1, pet="catt")


def test_a_description_does_not_change_in_place():
    house = House(rooms=1)
    with pytest.raises(ConfigError, match=r"Make a new one: .replace\(rooms=2\)"):
        house.rooms = 2
    assert house.replace(rooms=2).rooms == 2
    assert house.rooms == 1
    with pytest.raises(ConfigError, match="rooms must be at least 1"):
        house.replace(rooms=0)


def test_a_callable_is_kept_by_reference_and_given_back_by_the_user():
    text = House(rooms=1, door=knock).to_json()
    assert json.loads(text)["door"] == {"reference": f"{__name__}:knock"}
    with pytest.raises(ConfigError, match="never imported from a file"):
        House.from_json(text)
    assert House.from_json(text, using={"knock": knock}).door is knock


def test_field_docs_are_the_sentences_under_the_fields():
    assert field_docs(House)["rooms"] == "How many rooms."
    assert field_docs(Cat) == {"lives": "How many lives."}
