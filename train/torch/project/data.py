"""The tokens of the run and the order of their windows, as mm wrote them."""

import numpy as np
import torch


class Text:
    """Tokens, the starts of documents, and spans [from, to, end] that are not learned."""

    def __init__(self, folder, name):
        def load(part):
            return np.load(folder / f"{name}_{part}.npy", mmap_mode="r", allow_pickle=False)

        self.tokens, self.documents, self.context = load("tokens"), load("documents"), load("context").reshape(-1, 3)

    def __len__(self):
        return len(self.tokens)

    def window(self, at, size):
        """The ids, targets and starts of documents of size positions from at."""
        have = max(min(size + 1, len(self) - at), 0)
        ids = np.zeros(size + 1, np.int64)
        ids[:have] = self.tokens[at : at + have]
        targets = np.full(size, -1, np.int64)
        targets[: max(have - 1, 0)] = ids[1:have]
        starts = np.zeros(size, np.int64)
        lo, hi = np.searchsorted(self.documents, (at, at + size), side="right")
        for begin in self.documents[lo:hi] - at:
            starts[begin:] = begin
            targets[begin - 1] = -1  # the next token begins another document
        self.silence(targets, at, have)
        if have <= size:
            ids[have:] = 0
        return ids[:size], targets, starts

    def silence(self, targets, at, have):
        """Removes context from the targets; the target before it is its end token."""
        first = np.searchsorted(self.context[:, 1], at + 1, side="right")
        last = np.searchsorted(self.context[:, 0], at + have, side="left")
        for begin, end, stop in self.context[first:last] - np.array([at, at, 0]):
            lo, hi = max(begin, 1), min(end, have)
            if hi > lo:
                targets[lo - 1 : hi - 1] = -1
            if begin >= 1:
                targets[begin - 1] = stop

    def batch(self, windows, size, device):
        rows = [self.window(int(at), size) for at in windows]
        return [torch.from_numpy(np.stack(part)).to(device) for part in zip(*rows)]

    def held_out(self, size, limit):
        """The starts of windows that contain every token once."""
        n = (len(self) - 2 + size) // size
        return [i * size for i in range(min(n, limit) if limit else n)]
