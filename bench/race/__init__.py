"""Harness of all benchmarks: contenders race at the same work, round by round, in one run.

``python -m race core`` runs the cases of bench/core, and in the same way those of the other
folders. Each has a module ``cases`` with a `Benchmark`, a module ``contenders`` with the table of
contenders, and a module ``figures`` with the pages, whose text is in ``page.md``.
"""
