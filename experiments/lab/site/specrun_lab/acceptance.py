"""How many drafts of a cycle are accepted: exact in the mean, without randomness.

Position i is accepted with probability p[i], given that the position before was. Each position carries
its rest from one cycle and request to the next (error diffusion), so that few cycles suffice to see the
mean. Whole parts per million keep long runs free of rounding drift.
"""

_WHOLE = 1000000


class Acceptance:
    """Positions past the end of the list are accepted as the last one of the list is."""

    def __init__(self, probabilities, positions):
        last = probabilities[-1] if probabilities else 0.0
        full = list(probabilities[:positions]) + [last] * (positions - len(probabilities))
        self._parts = [int(round(p * _WHOLE)) for p in full]
        self._rest = [_WHOLE // 2] * positions

    def draw(self):
        """Accepted drafts of one cycle of one request, the bonus token not counted."""
        accepted = 0
        for i, part in enumerate(self._parts):
            self._rest[i] += part
            if self._rest[i] < _WHOLE:
                break
            self._rest[i] -= _WHOLE
            accepted += 1
        return accepted
