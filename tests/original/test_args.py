"""The argument classes and `calculate_nchunks`; expected values come from bloscpack 0.16."""

import copy
import itertools
import pickle
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from bloscpack import BloscArgs, BloscpackArgs, MetadataArgs
from bloscpack.args import (
    BLOSC_ARGS,
    BLOSCPACK_ARGS,
    DEFAULT_BLOSC_ARGS,
    DEFAULT_BLOSCPACK_ARGS,
    DEFAULT_METADATA_ARGS,
    METADATA_ARGS,
    calculate_nchunks,
    parse_size,
    resolve_max_app_chunks,
)
from bloscpack.exceptions import ChunkingException

CLASSES = [
    (BloscArgs, BLOSC_ARGS, DEFAULT_BLOSC_ARGS),
    (BloscpackArgs, BLOSCPACK_ARGS, DEFAULT_BLOSCPACK_ARGS),
    (MetadataArgs, METADATA_ARGS, DEFAULT_METADATA_ARGS),
]


@pytest.fixture(params=CLASSES, ids=[kind.__name__ for kind, _, _ in CLASSES])
def case(request: pytest.FixtureRequest) -> Any:
    return request.param


class TestAnyArgs:
    def test_keys_and_defaults(self, case: Any) -> None:
        kind, keys, defaults = case
        args = kind()
        assert tuple(args) == tuple(args.keys()) == tuple(args.attributes) == keys
        assert len(args) == len(keys)
        assert args == defaults
        assert defaults == args
        assert dict(args) == {**args} == defaults
        assert args.bytes_attributes == []

    def test_items_are_attributes(self, case: Any) -> None:
        kind, keys, _ = case
        args = kind(**{key: f"value of {key}" for key in keys})
        for key in keys:
            assert args[key] == getattr(args, key) == f"value of {key}"
            args[key] = 1
            assert getattr(args, key) == 1
            setattr(args, key, 2)
            assert args[key] == 2
            assert key in args

    def test_positional(self, case: Any) -> None:
        kind, keys, _ = case
        assert list(kind(*range(len(keys))).values()) == list(range(len(keys)))
        with pytest.raises(TypeError):
            kind(*range(len(keys) + 1))
        with pytest.raises(TypeError):
            kind(nope=1)

    def test_unknown_keys(self, case: Any) -> None:
        kind, _, defaults = case
        args = kind()
        with pytest.raises(KeyError, match=f"nope not in {kind.__name__}"):
            args["nope"]
        with pytest.raises(KeyError, match=f"nope not in {kind.__name__}"):
            args["nope"] = 1
        with pytest.raises(KeyError):
            args.update(nope=1)
        with pytest.raises(AttributeError):
            args.nope  # noqa: B018
        assert "nope" not in args
        assert args.get("nope", 5) == 5
        assert args == defaults

    def test_nothing_can_be_deleted(self, case: Any) -> None:
        kind, keys, defaults = case
        args = kind()
        attempts: list[Callable[[], object]] = [
            lambda: args.__delitem__(keys[0]),
            lambda: args.pop(keys[0]),
            args.popitem,
            args.clear,
        ]
        for attempt in attempts:
            with pytest.raises(NotImplementedError):
                attempt()
        assert args == defaults

    def test_equality_and_hash(self, case: Any) -> None:
        kind, keys, _ = case
        assert kind() == kind()
        assert kind() != kind(**{keys[0]: "other"})
        assert kind() != {}
        assert kind() != 3
        with pytest.raises(TypeError, match="unhashable"):
            hash(kind())

    def test_copies_are_independent(self, case: Any) -> None:
        kind, keys, defaults = case
        for make in (lambda args: args.copy(), copy.copy, copy.deepcopy):
            args = kind()
            args.note = "mine"
            other = make(args)
            assert type(other) is kind
            assert other == args
            assert other.note == "mine"
            other[keys[0]] = "other"
            assert args == defaults

    def test_it_is_a_mapping_and_true(self, case: Any) -> None:
        kind, _, _ = case
        assert isinstance(kind(), Mapping)
        assert kind()

    def test_pickle(self, case: Any) -> None:
        kind, _, _ = case
        assert pickle.loads(pickle.dumps(kind())) == kind()

    def test_nothing_is_checked_when_made(self, case: Any) -> None:
        kind, keys, _ = case
        assert kind(**dict.fromkeys(keys, -1.5))[keys[0]] == -1.5


class TestText:
    def test_repr(self) -> None:
        assert repr(BloscArgs()) == (
            "BloscArgs(typesize=8, clevel=7, shuffle=True, cname='blosclz')"
        )
        assert repr(BloscpackArgs(False, None, 3)) == (
            "BloscpackArgs(offsets=False, checksum='None', max_app_chunks=3)"
        )
        assert repr(MetadataArgs(max_meta_size=3)) == (
            "MetadataArgs(magic_format=b'JSON', meta_checksum='adler32', meta_codec='zlib', "
            "meta_level=6, max_meta_size=3)"
        )

    def test_str(self) -> None:
        assert str(BloscArgs()) == (
            "{'clevel': 7, 'cname': 'blosclz', 'shuffle': True, 'typesize': 8}"
        )
        assert str(MetadataArgs(max_meta_size=3)) == (
            "{'magic_format': b'JSON',\n 'max_meta_size': 3,\n 'meta_checksum': 'adler32',\n"
            " 'meta_codec': 'zlib',\n 'meta_level': 6}"
        )

    def test_pformat(self) -> None:
        assert BloscArgs().pformat() == (
            "BloscArgs:\n    typesize: 8\n    clevel: 7\n    shuffle: True\n    cname: 'blosclz'"
        )
        assert BloscArgs(1).pformat(indent=1).startswith("BloscArgs:\n typesize: 1\n clevel: 7\n")


class TestBloscpackArgs:
    def test_no_checksum_is_the_name_none(self) -> None:
        assert BloscpackArgs(checksum=None).checksum == "None"
        assert BloscpackArgs(checksum="None") == BloscpackArgs(checksum=None)

    def test_default_spare_entries(self) -> None:
        assert callable(BloscpackArgs().max_app_chunks)
        assert BloscpackArgs().max_app_chunks(7) == 70

    @pytest.mark.parametrize(
        ("spare", "nchunks", "expected"),
        [
            (0, 5, 0),
            (3, 5, 3),
            (lambda n: 10 * n, 5, 50),
            (2**63 - 1, 5, 2**63 - 6),
            (lambda n: 2**70, 1, 2**63 - 2),
        ],
    )
    def test_resolve(self, spare: Any, nchunks: int, expected: int) -> None:
        assert resolve_max_app_chunks(BloscpackArgs(max_app_chunks=spare), nchunks) == expected
        without = BloscpackArgs(offsets=False, max_app_chunks=spare)
        assert resolve_max_app_chunks(without, nchunks) == 0

    @pytest.mark.parametrize(
        ("spare", "error"),
        [
            (-1, ValueError),
            (2**63, ValueError),
            (None, TypeError),
            ("3", TypeError),
            (3.0, TypeError),
            (np.int64(3), TypeError),
            (lambda n: -1, ValueError),
            (lambda n: 3.0, ValueError),
            (lambda: 3, TypeError),
        ],
    )
    def test_resolve_refuses(self, spare: Any, error: type[Exception]) -> None:
        with pytest.raises(error):
            resolve_max_app_chunks(BloscpackArgs(max_app_chunks=spare), 5)
        assert resolve_max_app_chunks(BloscpackArgs(False, max_app_chunks=spare), 5) == 0


class TestMetadataArgs:
    def test_codec(self) -> None:
        args = MetadataArgs()
        assert args.should_compress
        assert args.meta_codec_name == "zlib"
        args.nullify_codec()
        assert args.meta_codec == args.meta_codec_name == "None"
        assert not args.should_compress

    @pytest.mark.parametrize(
        ("reserve", "expected"), [(5, 5), (0, 0), (lambda n: n + 1, 8), (lambda n: 10 * n, 70)]
    )
    def test_effective_max_meta_size(self, reserve: Any, expected: int) -> None:
        assert MetadataArgs(max_meta_size=reserve).effective_max_meta_size(7) == expected
        assert MetadataArgs().effective_max_meta_size(7) == 70


class TestParseSize:
    @pytest.mark.parametrize(
        ("text", "nbytes"),
        [
            ("1B", 1),
            ("1K", 1024),
            ("1M", 2**20),
            ("1G", 2**30),
            ("1T", 2**40),
            ("1.5K", 1536),
            ("0.1B", 0),
            ("1e3B", 1000),
            (" 3 B", 3),
            ("-1B", -1),
        ],
    )
    def test_sizes(self, text: str, nbytes: int) -> None:
        assert parse_size(text) == nbytes

    @pytest.mark.parametrize("text", ["", "M", "1", "1m", "1MB", "1 M B", "xM", "infM", "nanM"])
    def test_nonsense(self, text: str) -> None:
        with pytest.raises(ValueError, match=f"size '{text}'"):
            parse_size(text)


class TestCalculateNchunks:
    @pytest.mark.parametrize(
        ("nbytes", "chunk_size", "expected"),
        [
            (0, "1M", (1, 0, 0)),
            (0, "nonsense", (1, 0, 0)),
            (1, "1M", (1, 1, 1)),
            (10, 3, (4, 3, 1)),
            (9, 3, (3, 3, 3)),
            (3, 3, (1, 3, 3)),
            (2, 3, (1, 2, 2)),
            (10, True, (10, 1, 1)),
            (2**20 + 1, "1M", (2, 2**20, 1)),
            (2**31, 2**31 - 17, (2, 2**31 - 17, 17)),
            (2**63 - 1, 1, (2**63 - 1, 1, 1)),
        ],
    )
    def test_known(self, nbytes: int, chunk_size: int | str, expected: tuple[int, ...]) -> None:
        assert calculate_nchunks(nbytes, chunk_size) == expected

    def test_the_default_is_1_mib(self) -> None:
        assert calculate_nchunks(3 * 2**20 + 5) == (4, 2**20, 5)
        assert calculate_nchunks(in_file_size=5, chunk_size=2) == (3, 2, 1)

    def test_the_chunks_hold_the_content(self) -> None:
        for nbytes, size in itertools.product(range(1, 50), range(1, 60)):
            nchunks, chunk_size, last = calculate_nchunks(nbytes, size)
            assert (nchunks - 1) * chunk_size + last == nbytes
            assert 0 < last <= chunk_size <= size

    @pytest.mark.parametrize("chunk_size", [0, -1, 2**31 - 16, 2**31, "0B", "-1B", "3G", "nope"])
    def test_chunk_size_out_of_range(self, chunk_size: int | str) -> None:
        with pytest.raises(ValueError):
            calculate_nchunks(10, chunk_size)

    @pytest.mark.parametrize("chunk_size", [3.0, None, b"1M", np.int64(3)])
    def test_chunk_size_of_another_type(self, chunk_size: Any) -> None:
        with pytest.raises(TypeError, match="chunk_size"):
            calculate_nchunks(10, chunk_size)

    def test_negative_content(self) -> None:
        with pytest.raises(ValueError, match="in_file_size"):
            calculate_nchunks(-1)

    def test_too_many_chunks(self) -> None:
        with pytest.raises(ChunkingException):
            calculate_nchunks(2**63, 1)
