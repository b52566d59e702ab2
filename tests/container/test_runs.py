"""Reading the whole content: several chunks in one read, each checked separately."""

import pytest

from bloscpack.container.reader import Container
from bloscpack.exceptions import BloscpackError, ChecksumMismatch
from bloscpack.format.codec import CodecParams, encode

from ..reference.file import assemble, take_apart
from .files import NotingSource

COUNT, SIZE = 64, 1000
CONTENTS = [bytes((index + place) % 256 for place in range(SIZE)) for index in range(COUNT)]
CONTENT = b"".join(CONTENTS)
FILE = assemble([encode(content, CodecParams("lz4", 5, 1, 4)) for content in CONTENTS])


def reads_of_all(data: bytes, nthreads: int) -> int:
    source = NotingSource(data)
    with Container.open(source) as container:
        assert container.read(nthreads=nthreads) == CONTENT
    return len(source.reads)


def test_fewer_reads_than_chunks() -> None:
    # The front, the table and its check, and a quarter of the chunks each; the last one, for which
    # the table does not have its end, may need a read for its header and one for its data.
    assert reads_of_all(FILE, 1) <= 1 + 3 + 4 + 2


def test_chunks_without_a_table_are_read_one_by_one() -> None:
    data = assemble(take_apart(FILE).chunks, offsets=False)
    assert reads_of_all(data, 1) >= COUNT


@pytest.mark.parametrize("index", [0, 1, 31, 62, 63])
@pytest.mark.parametrize("where", ["header", "data", "digest"])
def test_a_damaged_chunk_in_a_run_is_named(index: int, where: str) -> None:
    parts = take_apart(FILE)
    data = bytearray(FILE)
    start = parts.starts[index]
    end = start + len(parts.chunks[index])
    data[{"header": start + 4, "data": end - 1, "digest": end}[where]] ^= 1
    with Container.open(NotingSource(bytes(data))) as container:
        with pytest.raises(BloscpackError, match=f"chunk {index} ") as caught:
            container.read()
        if where != "header":
            assert isinstance(caught.value, ChecksumMismatch)
        others = [one for one in range(COUNT) if one != index]
        if where != "header":
            assert [container.read_chunk(one) for one in others] == [CONTENTS[i] for i in others]


def test_a_truncated_run() -> None:
    end = take_apart(FILE).starts[40]
    with (
        Container.open(NotingSource(FILE[: end + 30])) as container,
        pytest.raises(BloscpackError, match=r"chunk 40 |chunks need"),
    ):
        container.read()


def test_checked_once_with_verify_true_and_each_time_with_always() -> None:
    data = bytearray(FILE)
    for verify in (True, "always", False):
        source = NotingSource(data)
        with Container.open(source, verify=verify) as container:  # type: ignore[arg-type]
            if verify:
                assert container.read() == CONTENT
            place = take_apart(FILE).starts[3] + len(take_apart(FILE).chunks[3])
            data[place] ^= 1  # the digest alone
            if verify == "always":
                with pytest.raises(ChecksumMismatch, match="chunk 3 "):
                    container.read()
            else:
                assert container.read() == CONTENT
            data[place] ^= 1
