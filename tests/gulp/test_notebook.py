"""Cards of Gulp directories in notebooks."""

from bloscpack import gulp

from ..conftest import SMALL_FORMATS
from ..display.test_notebook import check_clips, checked


def test_directories() -> None:
    assert "<td>0</td>" in checked(gulp.GulpDirectory(SMALL_FORMATS / "gulp"))


def test_clips() -> None:
    check_clips(SMALL_FORMATS / "gulp")
