"""The emulated GPU as other programs see it: who holds its memory, and when its clock is held down.

nvidia-smi of the practice host reads what is written here, and works out the same throttling from the time
since boot: the two agree without talking to each other.
"""

import os
import time

# Seconds from one beginning of throttling to the next. Samples that are half a second or a second apart
# fall into every part of it in turn.
PERIOD = 0.7


class Throttle:
    """The clock is held down for `pct` percent of the time, and work then takes `slower_pct` percent longer."""

    def __init__(self, pct, slower_pct):
        self._part = PERIOD * pct / 100.0
        self._slower = 1.0 + slower_pct / 100.0
        self._offset = uptime() - time.perf_counter() if pct else 0.0

    def factor(self, clock):
        """What device work takes at this moment of the wall clock (as time.perf_counter gives it)."""
        if not self._part:
            return 1.0
        return self._slower if (clock + self._offset) % PERIOD < self._part else 1.0


def uptime():
    with open("/proc/uptime") as f:
        return float(f.read().split()[0])


def register(directory, name, mib, cards):
    """Make this process one that holds `mib` on each of the cards; nvidia-smi shows it as long as it lives."""
    if directory is None:
        return
    apps = os.path.join(directory, "gpu", "apps")
    try:
        os.makedirs(apps, exist_ok=True)
        for pid in os.listdir(apps):
            if pid.isdigit() and _start_ticks(pid) is None:
                os.unlink(os.path.join(apps, pid))
    except FileNotFoundError:
        pass  # another launch tidied up at the same time
    path = os.path.join(apps, str(os.getpid()))
    temporary = os.path.join(apps, ".%d" % os.getpid())
    with open(temporary, "w") as f:
        f.write("%s %d %s %s\n" % (_start_ticks("self"), mib, ",".join(map(str, cards)), name))
    os.rename(temporary, path)


def cards(count, environ=os.environ):
    """Indexes of the cards that a process with so many ranks uses."""
    visible = environ.get("CUDA_VISIBLE_DEVICES")
    if visible is None:
        return list(range(count))
    given = [v.strip() for v in visible.split(",") if v.strip()]
    # The last group of a practice card's UUID is its index.
    return [int(v.rsplit("-", 1)[1], 16) if v.startswith("GPU-") else int(v) for v in given][:count]


def _start_ticks(pid):
    try:
        with open("/proc/%s/stat" % pid) as f:
            return f.read().rsplit(")", 1)[1].split()[19]
    except (OSError, IndexError):
        return None
