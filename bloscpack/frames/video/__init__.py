"""Video in frame stores: coded packets, kept as they are, in closed groups of pictures."""
