"""Core figures: a chunk by its index, packing and unpacking; ``make bench`` runs it."""
