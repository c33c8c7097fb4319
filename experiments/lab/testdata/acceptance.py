"""Prints, for each number of steps, the mean acceptance and the worst deviations of 25 and of 100 cycles in a row."""

import json

from specrun_lab import settings as lab_settings
from specrun_lab.acceptance import Acceptance

probabilities = lab_settings.load().acceptance
out = {}
for steps in range(1, len(probabilities) + 1):
    a = Acceptance(probabilities, steps)
    lengths = [a.draw() + 1 for _ in range(2000)]
    mean = sum(lengths) / float(len(lengths))

    def worst(n):
        return max(abs(sum(lengths[i : i + n]) / n / mean - 1) for i in range(len(lengths) - n))

    out[steps] = {"mean": mean, "worst100": worst(100), "worst25": worst(25)}
print(json.dumps(out))
