"""Everything a script for 0.16 can observe except bytes: signatures, argument classes, errors.

Each snippet runs with 0.16 and with ours; the fixture `same` states which parts must be equal.
"""

from collections.abc import Callable
from typing import Any

import pytest

import bloscpack

Same = Callable[..., Any]
Oracle = Any

FUNCTIONS = (
    "pack_file_to_file",
    "unpack_file_from_file",
    "pack_bytes_to_file",
    "unpack_bytes_from_file",
    "pack_bytes_to_bytes",
    "unpack_bytes_from_bytes",
    "pack_ndarray_to_file",
    "unpack_ndarray_from_file",
    "pack_ndarray_to_bytes",
    "unpack_ndarray_from_bytes",
)
ALIASES = (
    "pack_file",
    "unpack_file",
    "pack_bytes_file",
    "unpack_bytes_file",
    "pack_ndarray_file",
    "unpack_ndarray_file",
    "pack_ndarray_str",
    "unpack_ndarray_str",
)

SIGNATURE = """
import inspect
parameters = inspect.signature({}).parameters.values()
[(p.name, p.kind.name, 'none' if p.default is p.empty else repr(p.default)) for p in parameters]
"""


@pytest.mark.parametrize(
    "name",
    [
        *(f"bp.{name}" for name in FUNCTIONS + ALIASES),
        "bp.append.append",
        "bp.append.append_fp",
        "bp.append._seek_to_metadata",
        "bp.append._rewrite_metadata_fp",
        "bp.args.calculate_nchunks",
        "bp.BloscArgs",
        "bp.BloscArgs().pformat",
        "bp.BloscArgs().copy",
        "bp.MetadataArgs().effective_max_meta_size",
    ],
)
def test_signatures(same: Same, name: str) -> None:
    assert same(SIGNATURE.format(name)) or name.endswith("copy")


@pytest.mark.parametrize("name", ["BloscpackArgs", "MetadataArgs"])
def test_signatures_with_a_callable_default(same: Same, name: str) -> None:
    same(
        "import inspect\n"
        f"parameters = inspect.signature(bp.{name}).parameters.values()\n"
        "[(p.name, p.default(7) if callable(p.default) else p.default) for p in parameters]"
    )


class TestAliases:
    @pytest.mark.parametrize("name", ALIASES)
    def test_they_warn(self, same: Same, name: str) -> None:
        # Invalid calls: the warning comes before anything is done.
        seen = same(
            "import warnings\n"
            "with warnings.catch_warnings(record=True) as seen:\n"
            "    warnings.simplefilter('always')\n"
            "    try:\n"
            f"        bp.{name}()\n"
            "    except TypeError:\n"
            "        pass\n"
            "[(w.category.__name__, Path(w.filename).name, w.lineno) for w in seen]"
        )
        assert [kind for kind, _, _ in seen] == ["DeprecationWarning"]

    def test_they_work(self, same: Same, tmp_path: Any) -> None:
        path, packed, out = (str(tmp_path / name) for name in ("in", "packed", "out"))
        same(
            "import warnings\n"
            "with warnings.catch_warnings():\n"
            "    warnings.simplefilter('ignore')\n"
            "    Path(path).write_bytes(b'content' * 100)\n"
            "    bp.pack_file(path, packed, chunk_size=300, metadata=[1])\n"
            "    one = Path(packed).read_bytes(), bp.unpack_file(packed, out)\n"
            "    bp.pack_bytes_file(b'other content', packed, metadata=[2])\n"
            "    two = Path(packed).read_bytes(), bp.unpack_bytes_file(packed)\n"
            "    bp.pack_ndarray_file(np.arange(3), packed)\n"
            "    three = Path(packed).read_bytes(), describe(bp.unpack_ndarray_file(packed))\n"
            "    packed = bp.pack_ndarray_str(np.arange(4), chunk_size=16)\n"
            "    four = packed, describe(bp.unpack_ndarray_str(packed))\n"
            "one, two, three, four, Path(out).read_bytes()",
            path=path,
            packed=packed,
            out=out,
        )


@pytest.mark.parametrize(
    "source",
    [
        "repr(bp.BloscArgs())",
        "str(bp.BloscArgs())",
        "str(bp.BloscArgs(cname='a name so long that the text no longer fits on a line of 80'))",
        "bp.BloscArgs().pformat()",
        "bp.BloscArgs().pformat(2)",
        "bp.BloscArgs().pformat(indent=0)",
        "repr(bp.BloscpackArgs(max_app_chunks=3))",
        "str(bp.BloscpackArgs(max_app_chunks=3))",
        "bp.BloscpackArgs(checksum=None, max_app_chunks=3).pformat()",
        "repr(bp.MetadataArgs(max_meta_size=3))",
        "str(bp.MetadataArgs(max_meta_size=3))",
        "bp.MetadataArgs(max_meta_size=3).pformat(3)",
        "bp.BloscArgs() == {'typesize': 8, 'clevel': 7, 'shuffle': True, 'cname': 'blosclz'}",
        "{'typesize': 8, 'clevel': 7, 'shuffle': True, 'cname': 'blosclz'} == bp.BloscArgs()",
        "bp.BloscArgs() == bp.BloscArgs(), bp.BloscArgs() != bp.BloscArgs(typesize=3)",
        "bp.BloscArgs() == bp.BloscArgs(clevel=3), bp.BloscArgs() == 3, bp.BloscArgs() == {}",
        "bp.BloscpackArgs() == bp.BloscpackArgs(), bp.MetadataArgs() == bp.MetadataArgs()",
        "hash(bp.BloscArgs())",
        "a = bp.BloscArgs()\ndel a['typesize']",
        "a = bp.BloscArgs()\ndel a['nope']",
        "bp.BloscArgs().pop('typesize')",
        "bp.BloscArgs().pop('nope')",
        "bp.BloscArgs().pop('nope', 1)",
        "bp.BloscArgs().popitem()",
        "bp.BloscArgs().clear()",
        "bp.BloscArgs()['nope']",
        "bp.BloscArgs()[0]",
        "a = bp.BloscArgs()\na['nope'] = 1",
        "bp.BloscArgs().get('nope', 5)",
        "bp.BloscArgs().nope",
        "bp.BloscArgs(nope=1)",
        "bp.BloscArgs(1, 2, 3, 4, 5)",
        "list(bp.BloscArgs()), len(bp.BloscArgs()), dict(bp.BloscArgs()), {**bp.BloscArgs()}",
        "list(bp.BloscArgs().keys()), list(bp.BloscArgs().values())",
        "list(bp.BloscpackArgs()), len(bp.BloscpackArgs()), list(bp.MetadataArgs())",
        "bp.BloscArgs().attributes, bp.BloscpackArgs().attributes, bp.MetadataArgs().attributes",
        "bp.BloscArgs().bytes_attributes, bp.MetadataArgs().bytes_attributes",
        "a = bp.BloscArgs()\nb = a.copy()\nb.clevel = 3\na.clevel, b.clevel, type(b).__name__",
        "a = bp.BloscArgs()\na.extra = 3\nb = a.copy()\nb.extra, list(b)",
        "a = bp.BloscArgs()\na['clevel'] = 3\na.cname = 'lz4'\na.clevel, a['cname'], repr(a)",
        "a = bp.BloscArgs()\na.update(clevel=2, cname='zlib')\nrepr(a)",
        "bp.BloscArgs().update({'nope': 2})",
        "bp.BloscArgs().setdefault('clevel', 3), bp.BloscArgs() == bp.BloscArgs().copy()",
        "bp.BloscArgs().setdefault('nope', 3)",
        "'clevel' in bp.BloscArgs(), 'nope' in bp.BloscArgs(), bool(bp.BloscArgs())",
        "bp.BloscpackArgs(checksum=None).checksum, bp.BloscpackArgs(checksum=None)['checksum']",
        "bp.BloscpackArgs().max_app_chunks(7), bp.MetadataArgs().max_meta_size(7)",
        "bp.MetadataArgs().should_compress, bp.MetadataArgs(meta_codec='None').should_compress",
        "bp.MetadataArgs().meta_codec_name, bp.MetadataArgs(meta_codec='None').meta_codec_name",
        "bp.MetadataArgs().effective_max_meta_size(7)",
        "bp.MetadataArgs(max_meta_size=5).effective_max_meta_size(7)",
        "bp.MetadataArgs(max_meta_size=lambda n: n + 1).effective_max_meta_size(7)",
        "a = bp.MetadataArgs()\na.nullify_codec()\na.meta_codec, a.should_compress",
        "import copy\ncopy.copy(bp.BloscArgs()) == copy.deepcopy(bp.BloscArgs()) == bp.BloscArgs()",
        "import pickle\npickle.loads(pickle.dumps(bp.BloscArgs(3))) == bp.BloscArgs(3)",
        "from collections.abc import MutableMapping\nisinstance(bp.BloscArgs(), MutableMapping)",
        "bp.args.BLOSC_ARGS, bp.args.BLOSCPACK_ARGS, bp.args.METADATA_ARGS",
        "bp.args.DEFAULT_BLOSC_ARGS, sorted(bp.args.DEFAULT_BLOSCPACK_ARGS)",
        "bp.args.DEFAULT_BLOSC_ARGS == bp.BloscArgs()",
        "bp.args.DEFAULT_BLOSCPACK_ARGS == bp.BloscpackArgs()",
        "bp.args.DEFAULT_METADATA_ARGS == bp.MetadataArgs()",
        "bp.args.DEFAULT_CHUNK_SIZE, bp.args.DEFAULT_TYPESIZE, bp.args.DEFAULT_META_LEVEL",
    ],
)
def test_argument_classes(same: Same, source: str) -> None:
    same(source)


class TestCalculateNchunks:
    def test_grid(self, same: Same) -> None:
        sizes = [0, 1, 2, 3, 7, 8, 9, 1023, 1024, 1025, 2**20 - 1, 2**20, 2**20 + 1, 2**31 - 17]
        sizes += [2**31, 10**10, 2**40 + 1, 2**63 - 1]
        chunks: list[Any] = [1, 2, 3, 7, 8, 1000, 1024, 2**20, 2**31 - 17]
        chunks += ["1B", "3B", "1K", "1.5K", "0.25M", "1M", "1G", "1.9G", "1e3B", " 3 B", "1_0B"]
        found = same(
            "[bp.args.calculate_nchunks(n, size) for n in sizes for size in chunks]",
            sizes=sizes,
            chunks=chunks,
        )
        assert len(found) == len(sizes) * len(chunks)

    @pytest.mark.parametrize(
        "arguments",
        [
            *("-1", "10, 0", "10, -1", "10, 2**31", "10, 2**31 - 16", "0, -5", "0, 'nonsense'"),
            *("10, 'nonsense'", "10, 'M'", "10, '1m'", "10, '1'", "10, '-1B'", "10, '0B'"),
            *("10, '0.1B'", "10, 'nanB'", "10, '1T'", "10, '3G'", "10, 3.0", "10, np.int64(3)"),
            *("10, None", "10, True", "10, b'1M'", "'10', 3", "None, 3"),
            *("2**63, 1", "2**90, '1G'", "in_file_size=10, chunk_size=3"),
        ],
    )
    def test_edges(self, same: Same, arguments: str) -> None:
        same(f"bp.args.calculate_nchunks({arguments})")

    def test_too_many_chunks_is_not_only_an_exception_subclass(self, same: Same) -> None:
        kinds, _ = same("bp.args.calculate_nchunks(2**63, 1)")
        assert kinds[0] == "ChunkingException"


def test_exceptions_keep_their_bases(oracle: Oracle) -> None:
    theirs = oracle(
        "{name: [base.__name__ for base in kind.__mro__]"
        " for name, kind in vars(bp.exceptions).items() if isinstance(kind, type)}"
    )
    assert len(theirs) == 16
    for name, bases in theirs.items():
        ours = [base.__name__ for base in getattr(bloscpack.exceptions, name).__mro__]
        assert set(bases) <= set(ours), name


BLOSC = "bp.pack_bytes_to_bytes(b'abc', blosc_args=bp.BloscArgs({}))"
BLOSCPACK = "bp.pack_bytes_to_bytes(b'abc', bloscpack_args=bp.BloscpackArgs({}))"
METADATA = "bp.pack_bytes_to_bytes(b'abc', metadata={{}}, metadata_args=bp.MetadataArgs({}))"


class TestPackErrors:
    @pytest.mark.parametrize("content", ["'text'", "None", "5", "[1, 2, 3]", ""])
    def test_content(self, same: Same, content: str) -> None:
        same(f"bp.pack_bytes_to_bytes({content})")

    @pytest.mark.parametrize(
        "chunk_size", ["0", "-1", "2**31", "'1'", "'1m'", "1.0", "None", "np.int64(3)", "True"]
    )
    def test_chunk_size(self, same: Same, chunk_size: str) -> None:
        same(f"bp.pack_bytes_to_bytes(b'abc', chunk_size={chunk_size})")
        same(f"bp.pack_ndarray_to_bytes(np.arange(3), chunk_size={chunk_size})")

    @pytest.mark.parametrize(
        "arguments",
        [
            *("typesize=0", "typesize=256", "typesize=-1", "typesize=None", "typesize='8'"),
            *("typesize=8.0", "typesize=np.int64(8)", "clevel=10", "clevel=-1", "clevel='7'"),
            *("clevel=None", "clevel=7.0", "clevel=True", "clevel=np.int64(7)", "shuffle=3"),
            *("shuffle=-1", "shuffle='yes'", "shuffle=None", "shuffle=np.bool_(True)"),
            *("shuffle=np.int64(1)", "cname='nope'", "cname=''", "cname=None", "cname=b'lz4'"),
            *("cname='LZ4'",),
        ],
    )
    def test_blosc_args(self, same: Same, arguments: str) -> None:
        same(BLOSC.format(arguments))

    @pytest.mark.parametrize("arguments", ["5.0, 3", "5, 3.0", "5, 3, 'no'"])
    def test_what_was_packed_before_does_not_matter(self, same: Same, arguments: str) -> None:
        same(BLOSC.format("5, 3"))
        same(BLOSC.format(arguments))

    @pytest.mark.parametrize("given", ["{}", "dict(typesize=8)", "dict(bp.BloscArgs())", "5"])
    def test_blosc_args_of_another_type(self, same: Same, given: str) -> None:
        same(f"bp.pack_bytes_to_bytes(b'abc', blosc_args={given})")

    @pytest.mark.parametrize(
        "arguments",
        [
            *("checksum='nope'", "checksum=''", "checksum='ADLER32'", "checksum=1"),
            *("max_app_chunks=-1", "max_app_chunks='3'", "max_app_chunks=3.0"),
            *("max_app_chunks=None", "max_app_chunks=np.int64(3)", "max_app_chunks=2**63"),
            *("max_app_chunks=lambda n: -1", "max_app_chunks=lambda n: 3.0"),
            *("max_app_chunks=lambda n: '3'", "max_app_chunks=lambda n: True"),
            *("max_app_chunks=lambda: 1", "max_app_chunks=lambda n: 1 / 0"),
            *("offsets=0", "offsets=1"),
        ],
    )
    def test_bloscpack_args(self, same: Same, arguments: str) -> None:
        same(BLOSCPACK.format(arguments))

    @pytest.mark.parametrize("given", ["{}", "dict(bp.BloscpackArgs())", "5"])
    def test_bloscpack_args_of_another_type(self, same: Same, given: str) -> None:
        same(f"bp.pack_bytes_to_bytes(b'abc', bloscpack_args={given})")

    @pytest.mark.parametrize(
        "arguments",
        [
            *("meta_checksum='nope'", "meta_level=-1", "meta_level='6'", "meta_level=True"),
            *("max_meta_size=-1", "max_meta_size=0", "max_meta_size=1", "max_meta_size=2"),
            *("max_meta_size=2**32", "max_meta_size=lambda n: 3.5"),
            *("max_meta_size=lambda n: 'x'", "max_meta_size=lambda n: -3"),
        ],
    )
    def test_metadata_args(self, same: Same, arguments: str) -> None:
        same(METADATA.format(arguments))

    @pytest.mark.parametrize("given", ["{}", "dict(bp.MetadataArgs())", "5"])
    def test_metadata_args_of_another_type(self, same: Same, given: str) -> None:
        same(f"bp.pack_bytes_to_bytes(b'abc', metadata=[], metadata_args={given})")

    @pytest.mark.parametrize(
        "metadata",
        [
            *("object()", "b'bytes'", "{(1, 2): 3}", "{'a': {1, 2}}", "np.float64(3)"),
            *("np.int64(3)", "(a := [], a.append(a))[0]", "'\\ud800'"),
        ],
    )
    def test_metadata(self, same: Same, metadata: str) -> None:
        same(f"bp.pack_bytes_to_bytes(b'abc', metadata={metadata})")

    @pytest.mark.parametrize(
        "arguments",
        [
            *("[1, 2, 3]", "b'abc'", "None", "3.5", "np.dtype('f8')", "np.array([None])"),
            *("np.zeros(3, [('a', 'O')])", "np.arange(10), chunk_size=12"),
            *("np.arange(10), chunk_size=81", "np.arange(10), chunk_size=79"),
            *("np.arange(10), chunk_size=7", "np.zeros(0), chunk_size=7"),
            *("np.arange(10), metadata={}", "np.arange(10), blosc_args=bp.BloscArgs(cname='no')"),
            "np.arange(10), metadata_args=bp.MetadataArgs(max_meta_size=3)",
        ],
    )
    def test_arrays(self, same: Same, arguments: str) -> None:
        same(f"bp.pack_ndarray_to_bytes({arguments})")

    @pytest.mark.parametrize("typesize", ["0", "1000", "'nonsense'", "None"])
    def test_typesize_is_ignored_for_arrays(self, same: Same, typesize: str) -> None:
        args = f"bp.BloscArgs(typesize={typesize})"
        same(f"bp.pack_ndarray_to_bytes(np.arange(10), blosc_args={args})")


class TestUnpackErrors:
    @pytest.mark.parametrize(
        "content",
        [
            *("b''", "b'bl'", "b'blpk'", "b'blpk' + bytes(10)", "b'blpk\\3' + bytes(26)", "b'no'"),
            *("b'nope' + bytes(28)", "b'BLPK' + bytes(100)", "bytes(100)", "'text'", "5"),
        ],
    )
    def test_foreign_and_short(self, same: Same, content: str) -> None:
        same(f"bp.unpack_bytes_from_bytes({content})")
        same(f"bp.unpack_ndarray_from_bytes({content})")

    def test_header_fields(self, oracle: Oracle) -> None:
        packed = bytearray(bloscpack.pack_bytes_to_bytes(bytes(range(256)) * 40, 3000))
        refused = 0
        for position in range(32):
            for value in (*range(10), 127, 128, 255):
                # From 16 on, the value would make the original read gigabytes.
                if position > 17 and value > 0 and position not in (23, 31):
                    continue
                damaged = packed.copy()
                damaged[position] = value
                kind, theirs = oracle.outcome("bp.unpack_bytes_from_bytes(d)", d=bytes(damaged))
                if kind == "value" or theirs[0][0] != "ValueError":
                    continue
                refused += 1
                with pytest.raises(ValueError):
                    bloscpack.unpack_bytes_from_bytes(damaged)
        assert refused > 90

    @pytest.mark.parametrize("version", [0, 5, 6, 100, 255])
    def test_versions(self, same: Same, version: int) -> None:
        packed = bytearray(bloscpack.pack_bytes_to_bytes(b"abc"))
        packed[4] = version
        kinds, _ = same("bp.unpack_bytes_from_bytes(data)", data=bytes(packed))
        assert kinds[0] == "FormatVersionMismatch"

    def test_damage(self, same: Same) -> None:
        packed = bloscpack.pack_bytes_to_bytes(b"content" * 1000, 3000, metadata={"a": 1})
        in_metadata = packed.index(b'{"a":1}')
        for position in (in_metadata, len(packed) - 1, len(packed) - 10, len(packed) // 2 + 400):
            damaged = bytearray(packed)
            damaged[position] ^= 1
            kinds, _ = same("bp.unpack_bytes_from_bytes(data)", data=bytes(damaged))
            assert kinds[0] == "ChecksumMismatch"

    @pytest.mark.parametrize("metadata", ["None", "{'container': 'x'}"])
    def test_no_array(self, same: Same, metadata: str) -> None:
        same(f"bp.unpack_ndarray_from_bytes(bp.pack_bytes_to_bytes(b'abc', metadata={metadata}))")

    @pytest.mark.parametrize(
        "source",
        [
            "bp.unpack_bytes_from_file(folder / 'absent')",
            "bp.unpack_ndarray_from_file(folder / 'absent')",
            "bp.unpack_file_from_file(folder / 'absent', folder / 'out')",
            "bp.pack_file_to_file(folder / 'absent', folder / 'out')",
            "bp.pack_bytes_to_file(b'abc', folder / 'absent' / 'out')",
            "bp.pack_ndarray_to_file(np.arange(3), folder / 'absent' / 'out')",
            "bp.unpack_bytes_from_file(folder)",
            "bp.pack_bytes_to_file(b'abc', folder)",
            "bp.append.append(folder / 'absent', folder / 'absent')",
            "bp.unpack_bytes_from_file(bytes(folder / 'absent'))",
            "bp.pack_bytes_to_file(b'abc', bytes(folder / 'out'))\n(folder / 'out').read_bytes()",
        ],
    )
    def test_paths(self, same: Same, tmp_path: Any, source: str) -> None:
        same(source, folder=tmp_path)


# Intended differences: the snippet, the error of 0.16, our error.
DIFFERENCES = [
    ("bp.args.calculate_nchunks(10, '')", "IndexError", "ValueError"),
    ("bp.args.calculate_nchunks(10, 'infB')", "OverflowError", "ValueError"),
    (METADATA.format("b'NOPE'"), "KeyError", "NoSuchSerializer"),
    (METADATA.format("meta_codec='nope'"), "KeyError", "NoSuchCodec"),
    (METADATA.format("meta_level=10"), "error", "ValueError"),
    (METADATA.format("max_meta_size='x'"), "UnboundLocalError", "TypeError"),
    ("bp.unpack_bytes_from_bytes(None)", "ValueError", "TypeError"),
    (
        "bp.unpack_ndarray_from_bytes(bp.pack_bytes_to_bytes(b'', metadata={}))",
        "KeyError",
        "NotANumpyArray",
    ),
    (
        "bp.unpack_ndarray_from_bytes(bp.pack_bytes_to_bytes(b'', metadata=[]))",
        "TypeError",
        "NotANumpyArray",
    ),
    (
        "bp.unpack_bytes_from_bytes(b'blpk' + bytes([3, 0, 9]) + bytes(25))",
        "IndexError",
        "ValueError",
    ),
]


@pytest.mark.parametrize(("source", "theirs", "ours"), DIFFERENCES)
def test_differences(oracle: Oracle, outcome: Any, source: str, theirs: str, ours: str) -> None:
    kind, (kinds, _) = oracle.outcome(source)
    assert (kind, kinds[0]) == ("error", theirs)
    kind, (kinds, _) = outcome(source)
    assert kind == "error"
    assert ours in kinds
