"""Telling what is not an error, but should be known: through the logger ``bloscpack``."""


def notice(text: str, *values: object) -> None:
    """Log a warning; nothing is printed where the program has not set up logging."""
    import logging  # on use: it takes milliseconds to load

    logger = logging.getLogger("bloscpack")
    if not logger.handlers:  # else logging would print it to standard error
        logger.addHandler(logging.NullHandler())
    logger.warning(text, *values)
