"""Random numbers for samples, which no order of work can change."""

import numpy as np

_WORD = (1 << 64) - 1


class SampleStreams:
    """One stream of random numbers for each sample of each epoch: Philox, which is keyed.

    What is drawn for a sample depends on nothing but (seed, epoch, index, repeat). One thread.

    Parameters
    ----------
    seed : int
        0 to 2 ** 64 - 1.
    """

    def __init__(self, seed: int) -> None:
        self._seed = seed & _WORD
        self._bits = np.random.Philox(key=0)
        self._generator = np.random.Generator(self._bits)

    def at(self, epoch: int, index: int, repeat: int = 0) -> np.random.Generator:
        """Return the stream at its beginning: valid until the next call.

        Parameters
        ----------
        epoch, index : int
            Which sample.
        repeat : int, default 0
            How often the sample has come before in this epoch.
        """
        # A generator costs 10 us to make and 2 us to set. Its counter counts in the lowest of its
        # four words: the others tell streams apart that share a key.
        self._bits.state = {
            "bit_generator": "Philox",
            "state": {
                "counter": np.array([0, 0, repeat, index], np.uint64),
                "key": np.array([self._seed, epoch], np.uint64),
            },
            "buffer": np.zeros(4, np.uint64),
            "buffer_pos": 4,
            "has_uint32": 0,
            "uinteger": 0,
        }
        return self._generator
