"""Size and speed of array chunks beside other formats and codecs; ``make bench-arrays`` runs it."""
