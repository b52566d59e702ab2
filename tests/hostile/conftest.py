"""Fixtures of the hostile tests."""

import os
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confined import Confinement, Outcome
from entries import Reader, readers
from store_entries import store_readers

# Memory that any file may cost beyond its actual size.
MAX_EXTRA_NBYTES = 64 << 20
# The shadow memory of the sanitizer also grows with memory that is only reserved.
if os.environ.get("BLOSCPACK_SANITIZE"):
    MAX_EXTRA_NBYTES = 1 << 40
MAX_SECONDS = 60  # a guard against hanging, long enough for busy machines


@pytest.fixture
def every_reader(tmp_path: Path) -> dict[str, Reader]:
    folder = tmp_path / "readers"
    folder.mkdir()
    return readers(folder)


@pytest.fixture(scope="session")
def confinement() -> Iterator[Confinement]:
    made = Confinement()
    yield made
    made.close()


@pytest.fixture
def survive(tmp_path: Path, confinement: Confinement) -> Callable[..., dict[str, Outcome]]:
    """Read a file in every way, under limits; fail on anything but a value or a refusal."""

    def check(
        data: bytes, honest_nbytes: int = 0, *, only: tuple[str, ...] = ()
    ) -> dict[str, Outcome]:
        outcomes = confinement.read({"": data}, tmp_path, only)
        _check_survived(outcomes, honest_nbytes)
        return {one.name: one for one in outcomes}

    return check


def _check_survived(outcomes: list[Outcome], honest_nbytes: int) -> None:
    faults = [
        f"{one.file} {one.name}: {one.what} {one.message}, {one.extra_nbytes >> 20} MiB, "
        f"{one.seconds:.1f} s"
        for one in outcomes
        if one.what not in ("value", "refused")
        or one.extra_nbytes > honest_nbytes + MAX_EXTRA_NBYTES
        or one.seconds > MAX_SECONDS
    ]
    assert not faults, "\n".join(faults)


@pytest.fixture
def survive_store(survive: Callable[..., dict[str, Outcome]]) -> Callable[..., dict[str, Outcome]]:
    """Same as `survive` for a frame store; names are without "store "."""

    def check(data: bytes, honest_nbytes: int = 0) -> dict[str, Outcome]:
        found = survive(data, honest_nbytes, only=tuple(store_readers(Path())))
        return {name.removeprefix("store "): one for name, one in found.items()}

    return check


Survive = Callable[..., dict[str, dict[str, str]]]


@pytest.fixture
def survive_files(tmp_path: Path, confinement: Confinement) -> Callable[..., Survive]:
    """Same as `survive` for the ways `every` of another file type, whose names start with `prefix`.

    The outcomes are returned by the names of file and way, without the prefix.
    """

    def make(prefix: str, every: tuple[str, ...]) -> Survive:
        def check(
            files: dict[str, bytes], honest_nbytes: int = 0, *, only: tuple[str, ...] = ()
        ) -> dict[str, dict[str, str]]:
            ways = tuple(f"{prefix}{name}" for name in only) or every
            outcomes = confinement.read(files, tmp_path, ways)
            _check_survived(outcomes, honest_nbytes)
            found: dict[str, dict[str, str]] = {name: {} for name in files}
            for one in outcomes:
                found[one.file][one.name.removeprefix(prefix)] = one.what
            return found

        return check

    return make


@pytest.fixture
def refuse(survive: Callable[..., dict[str, Outcome]]) -> Callable[..., None]:
    """Same as `survive`, but no way may return a value."""

    def check(data: bytes, honest_nbytes: int = 0, *, but: tuple[str, ...] = ()) -> None:
        given = {
            name
            for name, one in survive(data, honest_nbytes).items()
            if one.what == "value" and name not in but
        }
        assert not given, f"these gave a value: {given}"

    return check
