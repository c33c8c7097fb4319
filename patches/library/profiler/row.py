# specrun profiler: shared by its versions. Each class reaches the others through
# its own attributes, so that the names can be deleted at the end of the block and
# two profilers can stand in one file.


class _SpecrunCycle:
    """One decode cycle on the rank that prints. Times are seconds."""

    __slots__ = (
        "start", "at", "call", "phases", "phase", "batch", "requests", "context",
        "steps", "proposed", "tokens", "settled", "row", "finished", "reqs",
        "result", "lens", "done", "waited", "silent",
    )

    def __init__(self, start=0.0, at=0.0, silent=False):
        self.start = start  # of the outer call, by the monotonic clock
        self.at = at  # the same, Unix time
        self.call = 0.0  # inside the outer call
        self.phases = {}
        self.phase = None  # the one that runs now
        self.batch = 0
        self.requests = None  # identity of the set of requests
        self.context = None  # sum of the sequence lengths, None = unknown
        self.steps = -1
        self.proposed = 0  # draft tokens over all requests
        self.tokens = None  # tokens yielded, None = cannot be had
        self.settled = False  # whether tokens is final
        self.row = None  # the row that waits for tokens
        self.finished = False  # a request ended in it
        self.reqs = ()
        self.result = self.lens = self.done = None  # acceptance on its way to the CPU
        self.waited = 0  # starts of later cycles meanwhile
        self.silent = silent  # another rank's: synchronized, not counted


class _SpecrunRow:
    """Sums over the counted cycles of one row, and the two forms it is printed in."""

    LABELS = (("draft", "draft steps:"), ("verify", "target verify:"), ("extend", "draft re-extend:"))

    def __init__(self, cycle, identity):
        self.identity = identity
        self.requests = cycle.requests
        self.steps = cycle.steps
        self.t_start = self.t_end = cycle.at
        self.cycles = self.pending = self.request_cycles = self.proposed = 0
        self.wall = self.call = 0.0
        self.phases = {name: 0.0 for name in identity["found"]}
        self.batch_min = self.batch_max = cycle.batch
        self.tokens = self.context = 0
        self.skipped = {}
        self.partial = False

    def add(self, cycle, interval, at):
        """Count a cycle whose interval, in seconds, is known. at is its end, Unix time."""
        self.cycles += 1
        self.wall += interval
        self.call += cycle.call
        self.t_end = at
        for name, spent in cycle.phases.items():
            self.phases[name] = self.phases.get(name, 0.0) + spent
        self.request_cycles += cycle.batch
        self.batch_min = min(self.batch_min, cycle.batch)
        self.batch_max = max(self.batch_max, cycle.batch)
        self.proposed += cycle.proposed
        if cycle.context is None:
            self.context = None
        elif self.context is not None:
            self.context += cycle.context
        if cycle.settled:
            self._accept(cycle.tokens)
        else:
            cycle.row = self
            self.pending += 1

    def settle(self, cycle):
        """A counted cycle's tokens have come, or never will."""
        cycle.row = None
        self.pending -= 1
        self._accept(cycle.tokens)

    def _accept(self, tokens):
        if tokens is None:
            self.tokens = None
        elif self.tokens is not None:
            self.tokens += tokens

    def accept_length(self):
        if self.tokens is None or self.request_cycles == 0:
            return None
        return self.tokens / self.request_cycles

    def text(self, last):
        """The block. last is the number of the row's last cycle since the start."""
        who = self.identity
        total = 1e3 * self.wall / self.cycles
        lines = ["[specrun %s] cycles %d-%d (last %d cycles, batch %d)" % (
            who["name"], last - self.cycles + 1, last, self.cycles, self.batch_max)]
        measured = 0.0
        for name, label in self.LABELS:
            if name in self.phases:
                spent = 1e3 * self.phases[name] / self.cycles
                measured += spent
                lines.append(self._time(label, spent, total))
        lines.append(self._time("other:", total - measured, total))
        lines.append(self._value("TOTAL:", total) + " ms/cyc")
        accept = self.accept_length()
        if accept is None:
            lines.append("  accept length:" + "n/a".rjust(10))
        else:
            lines.append(self._value("accept length:", accept))
            if who["show_rate"]:
                lines.append(self._value("rate:", 1e3 * self.tokens / self.cycles / total) + " tok/s")
        return "\n".join(lines) + "\n"

    def _time(self, label, spent, total):
        note = "launch" if self.identity["phases"] == "launch" else "%4.1f%%" % (100 * spent / total if total else 0)
        return "%s ms/cyc  (%s)" % (self._value(label, spent), note)

    @staticmethod
    def _value(label, value):
        return "  %s%*.2f" % (label, 24 - len(label), value)

    def json(self):
        """The line of sums, without its newline."""
        import json

        who = self.identity
        accepted = self.tokens
        if accepted is not None and who["bonus"]:
            accepted -= self.request_cycles
        context = None
        if self.context is not None and self.request_cycles:
            context = round(self.context / self.request_cycles, 2)
        record = {
            "specrun": "profile", "schema": 1,
            "profiler": who["name"], "version": who["version"], "hash": who["hash"],
            "worker": who["worker"], "rank": who["rank"],
            "t_start": round(self.t_start, 6), "t_end": round(self.t_end, 6),
            "cycles": self.cycles,
            "wall_ms": round(1e3 * self.wall, 6), "call_ms": round(1e3 * self.call, 6),
            "phases": who["phases"],
            "phases_ms": {name: round(1e3 * spent, 6) for name, spent in self.phases.items()},
            "batch_sum": self.request_cycles, "batch_min": self.batch_min, "batch_max": self.batch_max,
            "tokens": self.tokens, "accepted": accepted, "proposed": self.proposed,
            "bonus": who["bonus"], "steps": self.steps, "request_cycles": self.request_cycles,
            "context": context, "skipped": self.skipped, "partial": self.partial,
        }
        if who["dp_rank"] is not None:
            record["dp_rank"] = who["dp_rank"]
        return json.dumps(record, separators=(",", ":"))
