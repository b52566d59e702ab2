"""xarray's own tests of backends, on datasets that are written by their accessor.

Two of them expect that something is lost, which is kept here.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest

xr = pytest.importorskip("xarray")
kit = pytest.importorskip("xarray.tests.test_backends", exc_type=ImportError)
xr.set_options(warn_for_unclosed_files=False)  # the kit sets it, for all tests of this process
pytest.importorskip("dask.array")
BloscpackBackend = pytest.importorskip("bloscpack.integrations.xarray").BloscpackBackend


class Store(xr.backends.common.AbstractWritableDataStore):  # type: ignore[misc]
    """File with variables as formats that xarray writes have them: raw, to be decoded by CF."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def store(self, variables: Any, attributes: Any, *args: Any, **options: Any) -> None:
        variables, attrs = xr.conventions.cf_encoder(variables, attributes)
        xr.Dataset(variables, attrs=attrs).blp.save(self._path)

    def load(self) -> Any:
        with xr.open_dataset(self._path, engine=BloscpackBackend, decode_cf=False) as dataset:
            return dataset.variables, dataset.load().attrs


@pytest.mark.filterwarnings("ignore")
class TestDatasets(kit.DatasetIOBase):  # type: ignore[misc]
    engine = "bloscpack"

    @pytest.fixture(params=["s", "ns"])
    def time_unit(self, request: pytest.FixtureRequest) -> Any:
        return request.param

    @pytest.fixture(params=[True, False])
    def use_dask(self, request: pytest.FixtureRequest) -> Any:
        return request.param

    @pytest.mark.skipif(
        not hasattr(kit.DatasetIOBase, "test_load_async"), reason="xarray before 2025.9 has none"
    )
    def test_load_async(self) -> None:
        asyncio.run(super().test_load_async())

    def test_roundtrip_example_1_netcdf(self) -> None:
        # xarray skips it unless there is a module "netcdf".
        super().test_roundtrip_example_1_netcdf()

    @pytest.mark.skipif(
        not hasattr(np.dtypes, "StringDType")
        or not hasattr(kit.DatasetIOBase, "test_roundtrip_stringdtype_nulls"),
        reason="NumPy 1 and older xarray have no such type",
    )
    def test_roundtrip_stringdtype_nulls(self) -> None:
        data = np.array(["ab", None], dtype=np.dtypes.StringDType(na_object=None))
        with self.roundtrip(xr.Dataset({"x": ("t", data)})) as actual:
            assert actual["x"].isnull().values.tolist() == [False, True]  # not empty text
            assert actual["x"].values[0] == "ab"

    def test_roundtrip_coordinates_with_space(self) -> None:
        original = xr.Dataset(coords={"x": 0, "y z": 1})
        with self.roundtrip(original) as actual:
            xr.testing.assert_identical(actual, original)  # "y z" is a coordinate

    @contextmanager
    def create_store(self) -> Iterator[Any]:
        with TemporaryDirectory() as folder:
            yield Store(Path(folder, "a.blp"))

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
