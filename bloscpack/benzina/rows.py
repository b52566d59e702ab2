"""Rows of Benzina datasets in the tables of file types and commands."""

from ..plugin import DATASET, VIDEO, Command, FileType, Group, Target, on_use, verbs

FILETYPES = (
    FileType(
        "bzna",
        (DATASET, VIDEO),
        matches=on_use("benzina.datasetfile", "is_dataset"),
        open_frames=on_use("benzina.dataset", "open"),
        verify=on_use("benzina.verify", "verify"),
        recover=on_use("benzina.recover", "recover_dataset"),
        repair="recover writes a new dataset of the whole samples",
        has_decode=True,
        unit="sample",
        suffixes=(".bzna",),
        dtypes={"dataset": "samples"},
        **verbs("benzina.cli", "about", "entry", "open_part", "open_tiles"),
        views={
            "dataset": on_use("benzina.page", "describe"),
            "samples": on_use("benzina.page", "samples"),
            "sample": on_use("benzina.page", "sample"),
        },
    ),
)
TARGETS = (
    Target(
        "benzina",
        on_use("benzina.convert", "copy_to_dataset"),
        (".bzna",),
        options={
            "crf": "for a Benzina dataset: encode lossily, from 0 (best) to 51 or 63 (default: "
            "lossless)",
            "codec": "for a Benzina dataset: hevc (default), h264 or av1",
            "tile": "for a Benzina dataset (default: 512)",
        },
    ),
)
COMMANDS = (
    Group(
        "bzna",
        "list, check, extract and make Benzina datasets",
        "Work with Benzina datasets: pictures, targets and names in one mp4.",
        ("bzna",),
        (
            Command("info", "describe datasets", "cli.info"),
            Command("ls", "list samples", "benzina.cli.ls"),
            Command("verify", "check datasets for damage", "cli.verify"),
            Command("extract", "write samples into files", "benzina.cli.extract"),
            Command("pack", "make a dataset from pictures", "benzina.cli.pack"),
            Command(
                "sheet",
                "make one picture of many thumbnails",
                "cli.sheet",
                options="benzina.cli.sheet",
            ),
        ),
    ),
)
