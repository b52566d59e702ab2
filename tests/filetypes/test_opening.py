"""A file of another type is closed after opening, and the error has its name."""

import io

import pytest

from bloscpack.exceptions import FormatError
from bloscpack.storage.protocol import ErrorsAt, closed_on_error, errors_at


@pytest.mark.parametrize("path", [None, "inner"])
def test_our_errors_get_the_name(path: str | None) -> None:
    opened, error = io.BytesIO(), FormatError("no such thing")
    error.path = path
    with pytest.raises(FormatError) as caught, closed_on_error(opened, "outer"):
        raise error
    assert opened.closed
    assert caught.value.path == (path or "outer")


def test_an_open_file_gives_its_name_to_errors_without_one() -> None:
    with pytest.raises(FormatError) as caught, errors_at("name"):
        raise FormatError("no such thing") from KeyError("cause")
    assert str(caught.value) == "name: no such thing"
    assert isinstance(caught.value.__cause__, KeyError)
    with pytest.raises(OSError, match=r"^full$"), errors_at("name"):
        raise OSError("full")


def test_a_place_is_computed_for_errors_of_ours_only() -> None:
    asked: list[int] = []

    def place(number: int) -> tuple[str, str]:
        asked.append(number)
        return f"frame {number}", "name"

    with ErrorsAt(place, 1):
        pass
    with pytest.raises(OSError, match=r"^full$"), ErrorsAt(place, 2):
        raise OSError("full")
    with pytest.raises(FormatError, match=r"^name: frame 3: no such thing"), ErrorsAt(place, 3):
        raise FormatError("no such thing")
    assert asked == [3]


def test_any_error_closes() -> None:
    opened = io.BytesIO()
    with pytest.raises(KeyboardInterrupt), closed_on_error(opened):
        raise KeyboardInterrupt
    assert opened.closed


def test_a_valid_file_stays_open() -> None:
    opened = io.BytesIO()
    with closed_on_error(opened):
        pass
    assert not opened.closed
