"""Record types with the names of pyvrs."""

from enum import IntEnum


class RecordType(IntEnum):
    """Type of a record; the numbers are stored on disk."""

    UNDEFINED = 0
    STATE = 1
    CONFIGURATION = 2
    DATA = 3


def type_of(record_type: "RecordType | int | str | None") -> RecordType:
    """Return the record type for a name or number.

    None and ``"any"`` give ``UNDEFINED``, any type.
    """
    if record_type is None:
        return RecordType.UNDEFINED
    if not isinstance(record_type, str):
        return RecordType(record_type)
    name = record_type.upper()
    if name == "ANY":
        return RecordType.UNDEFINED
    if name not in RecordType.__members__:
        listed = ", ".join(kind.name.lower() for kind in RecordType if kind)
        raise ValueError(f"record type {record_type!r}: expected one of {listed}, any")
    return RecordType[name]
