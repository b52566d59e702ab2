"""Datasets of pictures beside bare decoders, encoders and JPEG; ``make bench-benzina`` runs it."""
