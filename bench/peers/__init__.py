"""Arrays: the limit of C-Blosc alone, and peers, beside us; ``make bench-peers`` runs it."""
