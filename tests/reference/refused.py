"""Error of the reference readers."""


class RefusedError(ValueError):
    """Refusal of a file that a reader must not read.

    Attributes
    ----------
    kind : str
        One of the kinds of errors that tests/conformance/README.md lists.
    """

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(f"{kind}: {text}")
        self.kind = kind


def need(condition: object, kind: str, text: str) -> None:
    if not condition:
        raise RefusedError(kind, text)
