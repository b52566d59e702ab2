"""How close to bare decoders and encoders Benzina datasets come, and how far from JPEG, in one run.

``make bench-benzina`` runs it. `__main__` picks what to run; `contender` says who takes part; each
``with_`` module is one of them. `targets` holds the figures that are aimed at, `page` writes the
result.
"""
