"""Free space of a log, against a string of the bytes that are free."""

import random
import re

from bloscpack.container.freespace import FreeSpace


def test_free_space_is_that_of_a_string() -> None:
    rng = random.Random(1)
    for _ in range(50):
        free = FreeSpace([(3, 9), (20, 30)])
        model = bytearray(b"---ffffff-----------ffffffffff----------")
        used = [(0, 3), (9, 20), (30, 40)]
        for _ in range(60):
            holes = [each.span() for each in re.finditer(b"f+", model)]
            if used and rng.random() < 0.5:
                start, stop = used.pop(rng.randrange(len(used)))
                free.add(start, stop)
                model[start:stop] = b"f" * (stop - start)
            else:
                nbytes = rng.randint(1, 8)
                fits = [hole for hole in holes if hole[1] - hole[0] >= nbytes]
                start = min(fits, key=lambda hole: hole[1] - hole[0])[0] if fits else None
                assert free.take(nbytes) == start
                if start is not None:
                    used.append((start, start + nbytes))
                    model[start : start + nbytes] = b"-" * nbytes
            holes = [each.span() for each in re.finditer(b"f+", model)]
            assert sorted(free.stops.items()) == holes
        ends = {stop: start for start, stop in holes}
        assert free.cut(40) == ends.get(40, 40)
        assert sorted(free.stops.items()) == [hole for hole in holes if hole[1] != 40]
