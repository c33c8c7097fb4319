"""Prints what the timing model makes of a launch: nominal times, exact where there is no noise."""

import json

from specrun_lab import gpu, launches
from specrun_lab import settings as lab_settings
from specrun_lab.prefix import PrefixCache, chain
from specrun_lab.timing import Timing

settings = lab_settings.load()
counted = [launches.count(settings.directory) for _ in range(3)]


def times(launch):
    t = Timing(settings, launch=launch)
    return {
        "verify": t.verify(3, 0),
        "verify_long": t.verify(3, 1000),
        "verify_four": t.verify(3, 0, 4),
        "plain": t.plain_host() + t.plain_device(),
        "plain_long": t.plain_host() + t.plain_device(1000),
        "plain_four": t.plain_host() + t.plain_device(0, 4),
        "prefill_half": t.prefill(0.5),
        "host": t.host_extend(),
    }


def throttled(pct):
    throttle = gpu.Throttle(pct, 50)
    return sum(throttle.factor(i * 0.01) > 1 for i in range(7000)) / 7000.0


cache = PrefixCache()
prompts = [chain(p) for p in ("a b c d", "a b c d", "a b x y", "b c d")]
matches = []
for p in prompts:
    matches.append(cache.match(p))
    cache.add(p)
cache.flush()
matches.append(cache.match(prompts[0]))
print(
    json.dumps(
        {
            "counted": counted,
            "launch": [times(i) for i in range(4)],
            "throttled": [throttled(p) for p in (0, 30, 100)],
            "matches": matches,
        }
    )
)
