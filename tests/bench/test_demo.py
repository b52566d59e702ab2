"""The demo runs to its end, and fails when anything is wrong."""

import pytest

from tests.bench.conftest import BENCH


@pytest.mark.slow
def test_demo_checks_and_reports(run, tmp_path):
    user_file = tmp_path / "notes.txt"
    user_file.write_bytes(b"a line of notes\n" * 9999)

    result = run(BENCH / "demo.py", user_file, cwd=tmp_path)

    assert result.returncode == 0, result.stderr
    for said in (
        "chunk     4 read at byte",
        "slice     a[3:90:2, 60:180, ::4] -> (44, 120, 64): equals numpy's",
        "chunks, 23592960 bytes: no damage",
        "refused, chunk 4 fails its crc32",
        "savez_compressed",
        "frame store, small",
        "unpacked  equal to the file, byte for byte",
        "Everything came back as it went in.",
    ):
        assert said in result.stdout
    assert [entry.name for entry in tmp_path.iterdir()] == ["notes.txt"]


def test_demo_fails_without_the_file_named(run, tmp_path):
    result = run(BENCH / "demo.py", tmp_path / "absent", cwd=tmp_path)

    assert result.returncode == 1
    assert "FAILED" in result.stderr
    assert "Everything came back" not in result.stdout


@pytest.mark.slow
def test_demo_fails_when_data_come_back_wrong(run, tmp_path):
    # The package as it is, but for one slice that comes back with a wrong pixel.
    script = tmp_path / "broken.py"
    script.write_text(
        "import sys\n"
        f"sys.path.insert(0, {str(BENCH)!r})\n"
        "import bloscpack, demo\n"
        "honest = bloscpack.Array.__getitem__\n"
        "bloscpack.Array.__getitem__ = lambda self, index: -honest(self, index)\n"
        "sys.exit(demo.main([]))\n"
    )

    result = run(script, cwd=tmp_path)

    assert result.returncode == 1
    assert "the slice differs" in result.stderr
