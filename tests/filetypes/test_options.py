"""Options of `convert`: the rows of the tables name those that each type of copy takes."""

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.filetypes.copyjob import COPY_DEFAULTS, CopyOptions
from bloscpack.filetypes.table import FILETYPES, GUESTS, TARGETS

from ..conftest import PACKAGE, needs_exchange

# One value of each option that is not its default.
GIVEN: dict[str, Any] = {
    "quality": 90,
    "preset": "small",
    "videos_per_chunk": 7,
    "verbatim": True,
    "crf": 20,
    "codec": "lz4",
    "tile": 16,
    "chunks": 2,
    "access": "rows",
    "clevel": 1,
    "shuffle": "bit",
    "keepbits": 3,
    "stats": True,
}
ROWS = [*TARGETS, *(each for each in FILETYPES if each.copy)]


def test_every_option_is_that_of_a_row() -> None:
    taken = {name for row in ROWS for name in row.options}
    assert taken <= {*CopyOptions.__annotations__} == {*GIVEN}
    if all((PACKAGE / guest).is_dir() for guest in GUESTS):
        assert taken == {*GIVEN}


def test_the_signature_lists_them() -> None:
    parameters = inspect.signature(bp.convert).parameters
    assert parameters["videos_per_chunk"].default == 100
    assert {name: parameters[name].default for name in GIVEN} == dict.fromkeys(
        GIVEN
    ) | COPY_DEFAULTS
    assert parameters["verbatim"].annotation is bool


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_other_types_refuse_an_option(target: Any, tmp_path: Path) -> None:
    if target.is_array:
        bp.save(tmp_path / "a.blp", np.zeros((2, 4, 4), "f4"))
    else:
        with bp.frames.create(tmp_path / "a.blp") as store:
            store.append("walk", np.zeros((2, 4, 4), "u1"))
    for name in GIVEN.keys() - set(target.options):
        message = f"^{name} is for .*, not of type '{target.name}'$"
        with pytest.raises(ValueError, match=message) as error:
            bp.convert(tmp_path / "a.blp", tmp_path / "x", to=target.name, **{name: GIVEN[name]})
        takers = str(error.value).partition(", not")[0]
        for row in TARGETS:
            assert (f"of type {row.name!r}" in takers) == (name in row.options)
    assert [each.name for each in tmp_path.iterdir()] == ["a.blp"]


@needs_exchange
def test_a_default_is_as_good_as_nothing(tmp_path: Path) -> None:
    bp.save(tmp_path / "a.blp", np.zeros((2, 4, 4), "f4"))
    defaults = {**dict.fromkeys(GIVEN), **COPY_DEFAULTS}
    assert bp.convert(tmp_path / "a.blp", tmp_path / "a.npy", **defaults).kind == "npy"
