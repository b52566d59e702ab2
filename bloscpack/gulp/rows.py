"""Rows of Gulp directories in the tables of file types and commands."""

from ..plugin import GULP_DIRECTORY, Command, FileType, Group, Target, on_use, verbs

FILETYPES = (
    FileType(
        "gulp",
        (GULP_DIRECTORY,),
        open_frames=on_use("gulp.clipsource", "GulpSource"),
        verify=on_use("gulp.verify", "verify"),
        recover=on_use("gulp.convert", "recover_directory"),
        repair="recover writes a new directory of the whole items",
        has_decode=True,
        unit="item",
        needs_path=True,
        is_folder=True,
        suffixes=(".gulp", ".gmeta"),
        dtypes={"gulp": "jpeg"},
        **verbs("gulp.cli", "about", "entry"),
    ),
)
TARGETS = (
    Target(
        "gulp",
        on_use("gulp.convert", "copy_to_gulp"),
        ("",),
        accepts=on_use("filetypes.clipcopy", "is_store"),
        options={
            "quality": "for a gulp directory: encode clips of arrays as JPEG of this quality, 1 to "
            "100; without it, they are refused",
            "videos_per_chunk": "clips in each pair of files of a gulp directory (default: "
            "%(default)s)",
        },
        is_folder=True,
    ),
)
COMMANDS = (
    Group(
        "gulp",
        "make, check and describe gulp directories",
        "Work on gulp directories, as GulpIO2 writes them.",
        ("gulp",),
        (
            Command(
                "ingest",
                "make a gulp directory from images or videos, or add to one",
                "gulp.cli.ingest",
            ),
            Command("verify", "check directories for damage", "cli.verify", ("check",)),
            Command("info", "describe directories", "cli.info"),
        ),
    ),
)
