"""How far ahead of the vrs wheel and of mcap: the same work by everyone, in one run.

``make bench-vrs`` runs it. `__main__` picks what to run; `contender` says who takes part; each
other module is one kind of work. `targets` holds the figures that are aimed at, `page` writes the
result.
"""
