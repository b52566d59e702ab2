"""Running threads, to check that every call ends those that it starts."""

import threading


def running() -> set[threading.Thread]:
    """Return the running threads. Some may belong to servers of earlier tests, and end later."""
    return {thread for thread in threading.enumerate() if thread.is_alive()}
