"""xarray's own tests of backends, on datasets that are written by their accessor."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

xr = pytest.importorskip("xarray")
pytestmark = pytest.mark.usefixtures("_expected")
kit = pytest.importorskip("xarray.tests.test_backends", exc_type=ImportError)
xr.set_options(warn_for_unclosed_files=False)  # the kit sets it, for all tests of this process
pytest.importorskip("dask.array")
BloscpackBackend = pytest.importorskip("bloscpack.integrations.xarray").BloscpackBackend

# Tests that do not pass, and why.
REASONS = {
    "test_write_store": "it writes through a store, which only formats have that xarray writes",
    "test_roundtrip_None_variable": "names are text",
    "test_roundtrip_stringdtype_nulls": "missing text is expected to become empty text",
    "test_roundtrip_coordinates_with_space": "it expects a warning that the coordinate is lost",
}


@pytest.mark.filterwarnings("ignore")
class TestDatasets(kit.DatasetIOBase):  # type: ignore[misc]
    engine = "bloscpack"

    @pytest.fixture(params=["s", "ns"])
    def time_unit(self, request: pytest.FixtureRequest) -> Any:
        return request.param

    @pytest.fixture(params=[True, False])
    def use_dask(self, request: pytest.FixtureRequest) -> Any:
        return request.param

    @pytest.fixture
    def _expected(self, request: pytest.FixtureRequest) -> None:
        reason = REASONS.get(request.function.__name__)
        if reason:
            request.applymarker(pytest.mark.xfail(reason=reason, strict=True))

    def test_load_async(self) -> None:
        asyncio.run(super().test_load_async())

    @contextmanager
    def create_store(self) -> Iterator[Any]:
        yield None

    def save(self, dataset: Any, path: Any, encoding: Any = None, **options: Any) -> Any:
        for name, each in (encoding or {}).items():
            dataset[name].encoding = each
        return dataset.blp.save(path, **options)

    @contextmanager
    def open(self, path: Any, **options: Any) -> Iterator[Any]:
        with xr.open_dataset(path, engine=BloscpackBackend, **options) as dataset:
            yield dataset

    @contextmanager
    def roundtrip(
        self,
        data: Any,
        save_kwargs: Any = None,
        open_kwargs: Any = None,
        allow_cleanup_failure: bool = False,
    ) -> Iterator[Any]:
        with TemporaryDirectory() as folder:
            path = Path(folder, "a.blp")
            self.save(data, path, **(save_kwargs or {}))
            with self.open(path, **(open_kwargs or {})) as dataset:
                yield dataset
