"""Values of the fields that others have."""

from dataclasses import dataclass
from typing import NamedTuple

import pytest
from pydantic import BaseModel, ValidationError

from aggregator.model.alike import made_of


class Place(NamedTuple):
    cluster: str
    number: int = 0


@dataclass
class Found:
    cluster: str = "other"
    size: int = 7
    unasked: str = "left out"


class Row(BaseModel, extra="forbid"):
    cluster: str
    size: int
    note: str = "none"


def test_each_field_is_given_or_of_the_first_that_has_it_or_its_default() -> None:
    assert made_of(Row, Place("a"), Found()) == Row(cluster="a", size=7, note="none")
    assert made_of(Row, Found(), size=8) == Row(cluster="other", size=8)
    assert made_of(Found, Row(cluster="a", size=1)) == Found("a", 1)
    assert made_of(Place, Found(), number=2) == Place("other", 2)


def test_a_field_that_nothing_gives_is_an_error() -> None:
    with pytest.raises(ValidationError):
        made_of(Row, Place("a"))
    with pytest.raises(TypeError):
        made_of(Place)
