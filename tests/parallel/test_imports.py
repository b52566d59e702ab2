"""Imports of optional libraries and of kernels: what an error advises."""

import sys

import pytest

from bloscpack.parallel.imports import compiled_kernels, import_av, optional_library


def test_a_missing_library_is_named_with_its_extra() -> None:
    advice = r"No module named 'no_such_library': pip install some \(or 'bloscpack\[hdf5\]'\)"
    with pytest.raises(ImportError, match=advice) as caught, optional_library("some", "hdf5"):
        import no_such_library  # noqa: F401
    assert caught.value.name == "no_such_library"
    assert isinstance(caught.value.__cause__, ModuleNotFoundError)


def test_what_needs_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(
        ImportError, match=r'need PyAV: install av, or "bloscpack\[video\]"'
    ) as caught:
        import_av()
    assert caught.value.name == "av"


def test_other_errors_of_an_import_pass() -> None:
    with pytest.raises(ZeroDivisionError), optional_library("some", "hdf5"):
        _ = 1 / 0


def test_a_missing_kernel_is_to_be_built() -> None:
    with pytest.raises(ImportError, match="build it with 'pip install"), compiled_kernels():
        from bloscpack._ext import no_such_kernel  # noqa: F401
