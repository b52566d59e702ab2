"""How far from the limit, and how far ahead of peers: the same work by everyone, in one run.

``make bench-peers`` runs it. `__main__` picks what to run, `work` says what is timed, `contender`
who takes part; `targets` holds the figures that are aimed at, `page` writes the result.
"""
