"""netCDF files of version 3, built field by field, and copied to our files."""

import struct
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import bloscpack as bp
from bloscpack.exceptions import BloscpackWarning, FormatError

# Types of items by their numbers in the format.
TYPES = ("i1", "S1", ">i2", ">i4", ">f4", ">f8", "u1", ">u2", ">u4", ">i8", ">u8")
ABSENT = (0, [])


def padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)


class Packer:
    """Packs a file of one version; its variables have (name, dimensions, attributes, items)."""

    def __init__(self, version: int = 1) -> None:
        self.version = version
        self.wide = ">q" if version == 5 else ">i"
        self.place = ">i" if version == 1 else ">q"

    def number(self, value: int) -> bytes:
        return struct.pack(self.wide, value)

    def text(self, text: str | bytes) -> bytes:
        data = text if isinstance(text, bytes) else text.encode()
        return self.number(len(data)) + padded(data)

    def entries(self, tag: int, packed: list[bytes]) -> bytes:
        tag = tag if packed else 0
        return struct.pack(">i", tag) + self.number(len(packed)) + b"".join(packed)

    def attributes(self, attrs: dict[Any, Any]) -> bytes:
        packed = []
        for key, value in attrs.items():
            items = value if isinstance(value, np.ndarray) else np.frombuffer(value, "S1")
            head = struct.pack(">i", TYPES.index(items.dtype.str.lstrip("|")) + 1)
            packed.append(self.text(key) + head + self.number(items.size) + padded(items.tobytes()))
        return self.entries(12, packed)

    def file(
        self,
        dims: dict[Any, int],
        variables: list[tuple[Any, tuple[int, ...], dict[Any, Any], Any]],
        attrs: dict[Any, Any] | None = None,
        *,
        order: list[int] | None = None,
    ) -> bytes:
        """Return a file whose records have the rows of its variables in `order`."""
        lengths = list(dims.values())
        order = list(range(len(variables))) if order is None else order
        is_record = [bool(axes) and not lengths[axes[0]] for _, axes, _, _ in variables]
        nrecords = max(
            (len(v[3]) for v, it in zip(variables, is_record, strict=True) if it), default=0
        )
        rows = [b"".join([]) for _ in range(nrecords)]
        records = [k for k in order if is_record[k]]

        def row(k: int, at: int) -> bytes:
            data = variables[k][3][at].tobytes()
            return data if len(records) == 1 else padded(data)

        rows = [b"".join(row(k, at) for k in records) for at in range(nrecords)]
        starts = dict.fromkeys(range(len(variables)), 0)

        def head() -> bytes:
            packed = [
                self.text(name)
                + self.number(len(axes))
                + b"".join(map(self.number, axes))
                + self.attributes(own)
                + struct.pack(">i", TYPES.index(items.dtype.str.lstrip("|")) + 1)
                + self.number(0)
                + struct.pack(self.place, starts[k])
                for k, (name, axes, own, items) in enumerate(variables)
            ]
            named = [self.text(name) + self.number(length) for name, length in dims.items()]
            return (
                b"CDF"
                + bytes((self.version,))
                + self.number(nrecords)
                + self.entries(10, named)
                + self.attributes(attrs or {})
                + self.entries(11, packed)
            )

        body, at = b"", len(head())
        for k, (_, _, _, items) in enumerate(variables):
            if not is_record[k]:
                starts[k] = at + len(body)
                body += padded(items.tobytes())
        steps = [len(row(k, 0)) for k in records] if nrecords else [0] * len(records)
        places = accumulate([at + len(body), *steps])
        starts.update(zip(records, places, strict=False))
        return head() + body + b"".join(rows)


def copied(data: bytes, folder: Path, **options: Any) -> Any:
    (folder / "a.nc").write_bytes(data)
    bp.convert(folder / "a.nc", folder / "a.blp", to="archive", overwrite=True, **options)
    return bp.open(folder / "a.blp")


def climate(version: int = 1, order: list[int] | None = None) -> tuple[bytes, dict[str, Any]]:
    kinds = TYPES if version == 5 else TYPES[:6]
    arrays = {
        f"v{number}": np.frombuffer(bytes(range(0, 240, 2)), kind)[:15].reshape(5, -1)[:, :1]
        if number == 3
        else np.resize(np.arange(65, 80).astype("u1"), 30 * np.dtype(kind).itemsize)
        .view(kind)
        .reshape(5, 3, 2)
        for number, kind in enumerate(kinds)
    }
    arrays["fixed"] = np.arange(3, dtype=">i2")
    axes = {3: (1, 3), 6: (1, 0, 2)}
    dims = {"x": 3, "time": 0, "y": 2, "one": 1}
    variables: list[Any] = [
        (name, (0,) if name == "fixed" else axes.get(number, (1, 0, 2)), {}, each)
        for number, (name, each) in enumerate(arrays.items())
    ]
    return Packer(version).file(dims, variables, order=order), arrays


@pytest.mark.parametrize("version", [1, 2, 5])
@pytest.mark.parametrize("is_reversed", [False, True])
@pytest.mark.parametrize("nbytes", [1, 200, 1 << 20])
def test_variables_share_records(
    version: int, is_reversed: bool, nbytes: int, tmp_path: Path, monkeypatch: Any
) -> None:
    monkeypatch.setattr("bloscpack.exchange.netcdf3._BLOCK_NBYTES", nbytes)
    ncopied = len(climate(version)[1])
    data, arrays = climate(version, [*range(ncopied)][:: -1 if is_reversed else 1])
    with copied(data, tmp_path, strict=True) as found:
        assert set(found) == set(arrays)
        for name, array in arrays.items():
            native = array.astype(array.dtype.newbyteorder("="))
            np.testing.assert_array_equal(found[name][...], native)
            assert found[name].dtype == native.dtype
    for part in (np.s_[1:3], np.s_[4:], np.s_[:0]):
        bp.convert(f"{tmp_path}/a.nc::/v2", tmp_path / "b.blp", overwrite=True)
        np.testing.assert_array_equal(bp.open(tmp_path / "b.blp")[part], arrays["v2"][part])


@pytest.mark.parametrize("kind", ["S1", ">i2", ">i4"])
def test_rows_of_a_single_variable_are_adjacent(kind: str, tmp_path: Path) -> None:
    array = np.frombuffer(b"abcdefghijkl" * 3, kind).reshape(-1, 3)
    data = Packer().file({"t": 0, "x": 3}, [("v", (0, 1), {}, array)])
    with copied(data, tmp_path, strict=True) as found:
        np.testing.assert_array_equal(found["v"][...], array)


def test_any_name_and_attribute(tmp_path: Path) -> None:
    """Names are UTF-8, and those that libraries use for themselves are names like others."""
    attrs = dict.fromkeys(("dimensions", "variables", "mode", "fp", "_recs"), b"mine")
    own = dict.fromkeys(("data", "dimensions", "_shape", "température"), b"own")
    variables = [
        ("größe", (0,), own, np.arange(2, dtype=">i4")),
        (b"caf\xe9", (0,), {}, np.arange(2, dtype=">i2")),
    ]
    with copied(Packer().file({"länge": 2}, variables, attrs), tmp_path, strict=True) as found:
        assert set(found) == {"größe", "café"}
        assert found["größe"].attrs["dims"] == ["länge"]
        assert found["größe"][...].tolist() == [0, 1]
        assert {key: found["größe"].attrs[key] for key in own} == dict.fromkeys(own, "own")
        assert {key: found.attrs[key] for key in attrs} == dict.fromkeys(attrs, "mine")


def test_every_cut_is_an_error(tmp_path: Path) -> None:
    data, _ = climate()
    for end in range(4, len(data) - 3):  # the padding of the last row may be missing
        with pytest.raises(FormatError, match=r"a\.nc"):
            copied(data[:end], tmp_path)


def test_any_number_in_a_header(tmp_path: Path) -> None:
    """A number that leads nowhere is an error, and never an empty or another array."""
    data, arrays = climate()
    end = data.index(b"fixed") + 12
    for at in range(8, end, 4):
        for new in (-1, -(2**31), 2**31 - 1):
            damaged = data[:at] + struct.pack(">i", new) + data[at + 4 :]
            try:
                with copied(damaged, tmp_path) as found:
                    for name in set(found) & set(arrays):
                        same = np.array_equal(found[name][...], arrays[name])
                        assert same or found[name].shape == arrays[name].shape, (at, new)
                        # Two bytes more or less are a place inside of the file.
                        assert same or new != -1, (at, new)
            except FormatError as err:
                assert "a.nc" in str(err)  # noqa: PT017


@pytest.mark.parametrize("nbytes", [1, 4, 100])
def test_bytes_behind_the_records_are_listed(nbytes: int, tmp_path: Path) -> None:
    """A writer that was killed may have added records, and not counted them."""
    data, _ = climate()
    (tmp_path / "a.nc").write_bytes(data + bytes(nbytes))
    with pytest.warns(BloscpackWarning, match=f"{nbytes} bytes behind the end"):
        done = bp.convert(tmp_path / "a.nc", tmp_path / "a.blp", to="archive")
    assert done.left_out == (f"{nbytes} bytes behind the end of the file",)


@pytest.mark.parametrize("version", [1, 2, 5])
@pytest.mark.parametrize("nbytes", [0, 7])
def test_records_that_the_header_does_not_count(version: int, nbytes: int, tmp_path: Path) -> None:
    """A writer that cannot go back leaves -1, and there are as many as the file has room for."""
    data, arrays = climate(version)
    counted = Packer(version).number(max(map(len, arrays.values())))
    assert data[4:].startswith(counted)
    (tmp_path / "a.nc").write_bytes(data[:4] + b"\xff" * len(counted) + data[4 + len(counted) :])
    with (tmp_path / "a.nc").open("ab") as file:
        file.write(bytes(nbytes))
    done = bp.convert(tmp_path / "a.nc", tmp_path / "a.blp", to="archive")
    assert done.left_out == ((f"{nbytes} bytes behind the end of the file",) if nbytes else ())
    with bp.open(tmp_path / "a.blp") as found:
        for name, array in arrays.items():
            np.testing.assert_array_equal(found[name][...], array)
    for end in (4 + len(counted), len(data) // 2):
        with pytest.raises(FormatError, match=r"a\.nc"):
            copied((tmp_path / "a.nc").read_bytes()[:end], tmp_path)


@pytest.mark.parametrize(
    ("old", "new", "what"),
    [
        (struct.pack(">ii", 10, 4), struct.pack(">ii", 0, 4), "tag 0 of a list of 4"),
        (struct.pack(">ii", 10, 4), struct.pack(">ii", 11, 4), "tag 11 of a list"),
        (b"\0\0\0\2v1", b"\0\0\0\2v0", "same name"),
        (
            b"\0\0\0\5fixed\0\0\0" + struct.pack(">ii", 1, 0),
            b"\0\0\0\5fixed\0\0\0" + struct.pack(">ii", 1, 9),
            "dimension 9 of 4",
        ),
        (
            b"\0\0\0\2v2\0\0" + struct.pack(">iii", 3, 1, 0),
            b"\0\0\0\2v2\0\0" + struct.pack(">iii", 3, 0, 1),
            "not the first",
        ),
    ],
)
def test_headers_that_contradict_themselves(
    old: bytes, new: bytes, what: str, tmp_path: Path
) -> None:
    data, _ = climate()
    assert data.count(old) == 1
    with pytest.raises(FormatError, match=rf"a\.nc: .*{what}"):
        copied(data.replace(old, new), tmp_path)
