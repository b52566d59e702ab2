"""Which threads run: every call ends those that it starts."""

import threading


def running() -> set[threading.Thread]:
    """Return those that run now. Some of servers, left by earlier tests, end when they like."""
    return {thread for thread in threading.enumerate() if thread.is_alive()}
