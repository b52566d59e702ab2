"""Ways to keep frames for training beside each other; ``make bench-frames`` runs it."""
