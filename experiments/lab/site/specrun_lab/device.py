"""An emulated asynchronous device, driven by one clock of deadlines.

The clock says when the host is, in seconds of the wall clock: work of the host, reads and synchronizes
move it by their nominal time, and only then the process waits until the wall clock gets there. So late
wake-ups and Python's own time add no error: the next deadline counts from the last deadline, not from
the moment the process woke. What a patch costs is what its device calls cost.
"""

import time

# The last stretch of a wait is spun: a sleep may end late by more than this stretch takes.
SPIN = 0.0003
# A wait that leaves this much is long enough to do what was put off until the device works.
ROOM = 0.0005


class Wall:
    """The real clock."""

    now = staticmethod(time.perf_counter)

    def wait_until(self, deadline):
        now = time.perf_counter
        left = deadline - now()
        if left > SPIN:
            time.sleep(left - SPIN)
        while now() < deadline:
            pass


class Device:
    """One stream of device work and the host that feeds it. One thread uses it; times are milliseconds.

    sync_cost is what a synchronize costs on top of waiting for the device. When the process is further
    behind than `behind`, it was stopped or starved, and the clock is set anew: catching up would squeeze
    the cycles that follow.
    """

    def __init__(self, sync_cost=0.0, behind=50.0, wall=None):
        self.wall = wall or Wall()
        self.sync_cost = sync_cost
        self._behind = behind / 1000.0
        self.clock = self.tail = self.wall.now()
        self.resets = 0
        self.behind_ms = 0.0  # how far behind at the last reset
        self._later = []

    def launch(self, ms):
        """Queue work: it starts when the device has finished what it has, and the host goes on at once."""
        self.tail = max(self.clock, self.tail) + ms / 1000.0

    def host(self, ms):
        """Work of the host: the device goes on with what it has.

        It takes its time on the wall clock also when the process is late; the next read makes up for that.
        """
        end = self.wall.now() + ms / 1000.0
        self._advance(self.clock + ms / 1000.0)
        self.wall.wait_until(end)

    def read(self):
        """A read of a device value: waits for all that is queued."""
        self._advance(max(self.clock, self.tail))

    def synchronize(self):
        self._advance(max(self.clock, self.tail) + self.sync_cost / 1000.0)

    def wait_for(self, moment):
        """Wait for one moment of the device, as a synchronize on an event does."""
        self._advance(max(self.clock, moment) + self.sync_cost / 1000.0)

    def mark(self):
        """When the device gets to what would be queued now."""
        return max(self.clock, self.tail)

    def reached(self, moment):
        return self.clock >= moment

    def later(self, work):
        """Put off `work` (no arguments) until the host waits for the device; `catch_up` does it now."""
        self._later.append(work)

    def catch_up(self):
        while self._later:
            self._later.pop(0)()

    def wake(self):
        """Work arrives after idling: the clock starts from the wall clock."""
        self.clock = max(self.clock, self.wall.now())

    def _advance(self, deadline):
        self.clock = deadline
        behind = self.wall.now() - deadline
        if behind > self._behind:
            self.resets += 1
            self.behind_ms = behind * 1000.0
            self.clock += behind
        elif behind < 0:
            if self._later and behind < -ROOM:
                self.catch_up()
            self.wall.wait_until(deadline)


_current = None


def current():
    """The device of this process; one without costs where no server has set its own."""
    global _current
    if _current is None:
        _current = Device()
    return _current


def use(device):
    """Make this the device that `torch.cuda` acts on; called once, when a scheduler starts."""
    global _current
    _current = device
