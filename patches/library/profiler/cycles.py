

class _SpecrunCycles:
    """Decides which intervals between starts of cycles count, and collects rows.

    The engine's thread calls enter, leave, abandon and accepted; a thread of our
    own calls idle. Methods give the rows that are ready to print.
    """

    WARMUP = 8  # first intervals at each batch size: lazy compiles, a server's own warm-up request
    IDLE = 0.5  # seconds without a cycle after which the open row is printed
    GAP = 1.0  # an interval above this and 20 usual ones was a pause
    FIRST_GAP = 10.0  # the same, before anything is usual

    def __init__(self, row_type, identity, every, poll):
        import collections
        import threading

        self.row_type = row_type
        self.identity = identity
        self.every = every
        self.poll = poll  # asks a cycle for its acceptance without waiting
        self.lock = threading.Lock()
        self.awaiting = collections.deque()  # cycles that are not settled, oldest first
        self.closed = collections.deque()  # rows that wait for acceptance
        self.warm = {}
        self.usual = None  # seconds of an interval
        self.last_end = 0.0
        self.running = False
        self.lost = 0  # reports to come for cycles that reset forgot
        self.reset()

    def reset(self):
        """Forget what is open, after something went wrong."""
        self.lost += len(self.awaiting)
        self.previous = None  # decode cycle whose interval is open
        self.row = None
        self.skipped = {}
        self.running = False
        self.awaiting.clear()
        self.closed.clear()

    def pending(self):
        return self.row is not None or bool(self.closed)

    def enter(self, kind, cycle, now, at):
        """A call of the worker begins. cycle is None unless kind is decode."""
        with self.lock:
            self.running = True
            previous, self.previous = self.previous, None
            for c in self.awaiting:
                c.waited += 1
            self._poll()
            if kind != "decode":
                if previous is not None:
                    self._skip(kind)
            elif previous is not None:
                self._interval(previous, cycle, now - previous.start, at)
            if cycle is not None and self.row is not None and self.row.requests != cycle.requests:
                self._close(True)
            return self._ready()

    def leave(self, cycle, now):
        """The call has returned. cycle is None unless it was a decode cycle."""
        with self.lock:
            self.running = False
            self.last_end = now
            if cycle is None:
                return []
            if not cycle.settled:
                self.awaiting.append(cycle)
            if cycle.finished:  # known on the v1 worker: the set is about to change
                self._skip("batch_change")
                self._close(True)
            else:
                self.previous = cycle
            return self._ready()

    def accepted(self, tokens, batch):
        """The engine has the acceptance of its oldest cycle on the CPU."""
        with self.lock:
            if self.lost:
                self.lost -= 1
                return []
            while self.awaiting:
                cycle = self.awaiting.popleft()
                if cycle.batch == batch:
                    self._settle(cycle, tokens)
                    if self.previous is cycle and cycle.finished:
                        self.previous = None
                        self._skip("batch_change")
                        self._close(True)
                    break
                self._settle(cycle, None)  # its result never came
            return self._ready()

    def idle(self, now):
        """Give what is open when no cycle has begun for a while."""
        with self.lock:
            quiet = max(self.IDLE, 5 * (self.usual or 0.0))
            if self.running or now - self.last_end < quiet:
                return []
            self._poll()
            while self.awaiting:
                self._settle(self.awaiting.popleft(), None)
            self.lost = 0
            self._close(True)
            return self._ready()

    def _interval(self, cycle, following, interval, at):
        if cycle.requests != following.requests:
            self._skip("batch_change")
        elif interval > (self.FIRST_GAP if self.usual is None else max(self.GAP, 20 * self.usual)):
            self._skip("gap")
        elif self.warm.get(cycle.batch, 0) < self.WARMUP:
            self.warm[cycle.batch] = self.warm.get(cycle.batch, 0) + 1
            self._skip("warmup")
        else:
            self.usual = interval if self.usual is None else 0.9 * self.usual + 0.1 * interval
            if self.row is not None and self.row.steps != cycle.steps:
                self._close(True)
            if self.row is None:
                self.row = self.row_type(cycle, self.identity)
            self.row.add(cycle, interval, at)
            if self.row.cycles >= self.every:
                self._close(False)

    def _skip(self, why):
        self.skipped[why] = self.skipped.get(why, 0) + 1

    def _close(self, partial):
        row, self.row = self.row, None
        if row is not None:
            row.partial = partial
            for why in ("prefill", "idle", "gap", "batch_change"):
                row.skipped[why] = 0
            row.skipped.update(self.skipped)
            self.skipped = {}
            self.closed.append(row)

    def _poll(self):
        while self.awaiting and self.poll(self.awaiting[0]):
            cycle = self.awaiting.popleft()
            self._settle(cycle, cycle.tokens)

    @staticmethod
    def _settle(cycle, tokens):
        cycle.tokens = tokens
        cycle.settled = True
        cycle.reqs = ()
        cycle.result = cycle.lens = cycle.done = None
        if cycle.row is not None:
            cycle.row.settle(cycle)

    def _ready(self):
        rows = []
        while self.closed and self.closed[0].pending == 0:
            rows.append(self.closed.popleft())
        return rows
