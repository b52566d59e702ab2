"""What was just opened is closed if it is of another kind, and the error says which file it was."""

import io

import pytest

from bloscpack.exceptions import FormatError, closed_on_error


@pytest.mark.parametrize("path", [None, "inner"])
def test_errors_of_ours_learn_the_name(path: str | None) -> None:
    opened, error = io.BytesIO(), FormatError("no such thing")
    error.path = path
    with pytest.raises(FormatError) as caught, closed_on_error(opened, "outer"):
        raise error
    assert opened.closed
    assert caught.value.path == (path or "outer")


def test_any_error_closes() -> None:
    opened = io.BytesIO()
    with pytest.raises(KeyboardInterrupt), closed_on_error(opened):
        raise KeyboardInterrupt
    assert opened.closed


def test_what_is_right_stays_open() -> None:
    opened = io.BytesIO()
    with closed_on_error(opened):
        pass
    assert not opened.closed
