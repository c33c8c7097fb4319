

class _SpecrunProfiler:
    """Sits between the engine and _SpecrunCycles: clocks, acceptance, printing.

    Nothing that it does may reach the server: every method that a wrapper calls
    catches what goes wrong in it, says so once and, when it goes on, gives up.
    """

    MAX_ERRORS = 5

    def __init__(self, parts, engine, identity, every, file):
        import os
        import sys
        import threading
        import time

        self.os, self.sys, self.threading, self.time = os, sys, threading, time
        self.cycle_type = parts["cycle"]
        self.engine = engine
        self.identity = identity
        self.file = file
        self.cycles = parts["cycles"](parts["row"], identity, every, self._poll)
        self.current = None  # the decode cycle that runs now
        self.hooked = False  # the engine reports acceptance by itself
        self.counted = 0
        self.errors = 0
        self.announced = False
        self.watch_wanted = None
        # Rows come from the engine's thread and from the one that watches. What
        # belongs together is printed together.
        self.printing = threading.RLock()

    # Called by the wrappers.

    def enter(self, worker, args, kwargs):
        """Begin a call of the worker; gives a token for leave, or None to stay out."""
        if self.current is not None or self.errors >= self.MAX_ERRORS:
            return None
        try:
            batch = self.engine.batch(args, kwargs)
            kind = self.engine.kind(batch)
            prints, rank, dp_rank = self.engine.rank(worker)
            if not prints:
                if self.identity["synchronize"] and kind == "decode":
                    self.current = self.cycle_type(silent=True)
                    return self.current
                return None
            if not self.announced:
                self.announced = True
                self.identity["rank"], self.identity["dp_rank"] = rank, dp_rank
                self.say("specrun-profiler: %s %s %s active in %s" % (
                    self.identity["name"], self.identity["version"], self.identity["hash"], self.file))
            now, at = self.time.perf_counter(), self.time.time()
            cycle = None
            if kind == "decode":
                cycle = self.cycle_type(now, at)
                self.engine.describe(cycle, worker, batch)
            self.show(self.cycles.enter(kind, cycle, now, at))
            self.current = cycle
            return (cycle, now)
        except Exception as fault:
            self.trouble(fault)
            return None

    def leave(self, token, result):
        try:
            self.current = None
            if isinstance(token, self.cycle_type):
                return
            cycle, started = token
            now = self.time.perf_counter()
            if cycle is not None:
                cycle.call = now - started
                self._acceptance(cycle, result)
            self.show(self.cycles.leave(cycle, now))
            if self.cycles.pending():
                self.watch()
        except Exception as fault:
            self.trouble(fault)

    def abandon(self):
        """The wrapped call raised: what it did is not a cycle."""
        try:
            self.current = None
            with self.cycles.lock:
                self.cycles.reset()
        except Exception as fault:
            self.trouble(fault)

    def phase_begin(self, cycle, name, worker):
        """Gives the start of a phase, or None inside another one."""
        if cycle.phase is not None:
            return None
        try:
            cycle.phase = name
            if name == "verify" and not cycle.silent:
                self.engine.shape(cycle, worker)
            self.synchronize()
            return self.time.perf_counter()
        except Exception as fault:
            self.trouble(fault)
            return None

    def phase_end(self, cycle, name, started, result):
        if started is None:
            return
        try:
            self.synchronize()
            cycle.phases[name] = cycle.phases.get(name, 0.0) + self.time.perf_counter() - started
            cycle.phase = None
            if name == "verify" and self.identity["worker"] == "v1":
                drafts = self.engine.drafts_accepted(result)
                if drafts is not None:
                    cycle.tokens = self.tokens(drafts)
        except Exception as fault:
            self.trouble(fault)

    def on_verify_complete(self, args, kwargs):
        """The v2 engine reports the accepted drafts of its oldest open cycle."""
        try:
            drafts = args[0] if args else kwargs["num_correct_drafts_per_req"]
            with self.cycles.lock:
                oldest = self.cycles.awaiting[0] if self.cycles.awaiting else None
            if oldest is not None:
                oldest.finished = self.engine.any_finished(oldest.reqs)
            self.show(self.cycles.accepted(self.tokens(drafts), len(drafts)))
        except Exception as fault:
            self.trouble(fault)

    # Acceptance.

    def tokens(self, drafts):
        """Tokens that a cycle yielded, of the accepted drafts of each request."""
        total = sum(int(n) for n in drafts)
        return total + len(drafts) if self.identity["bonus"] else total

    def _acceptance(self, cycle, result):
        if self.identity["worker"] == "v1":
            cycle.settled = True
            cycle.finished = self.engine.any_finished(cycle.reqs)
            cycle.reqs = ()
        elif not self.hooked:
            cycle.result = result

    def _poll(self, cycle):
        """Whether a v2 cycle's acceptance is final now. Never waits, never reads the device.

        Between two calls the scheduler puts a copy on the CPU in the place of the
        result's tensor, and an event beside it. Only these two are kept.
        """
        if self.hooked:
            return cycle.waited > 4
        if cycle.result is not None:
            cycle.lens = getattr(cycle.result, "accept_lens", None)
            cycle.done = getattr(cycle.result, "copy_done", None)
            cycle.result = None
        if cycle.done is None or not self.engine.lens_on_cpu(cycle.lens):
            return True
        if cycle.done.query():
            lens = cycle.lens if isinstance(cycle.lens, (list, tuple)) else cycle.lens.tolist()
            cycle.tokens = self.tokens([n - 1 for n in lens])
            return True
        return cycle.waited > 4

    # Clock and output.

    def synchronize(self):
        if self.identity["synchronize"]:
            import torch

            torch.cuda.synchronize()

    def show(self, rows):
        for row in rows:
            with self.printing:
                self.counted += row.cycles
                self.say(row.text(self.counted), end="")
                self.say(row.json())

    def say(self, text, end="\n"):
        """One write of whole lines, so that two processes never mix inside one."""
        data = (text + end).encode()
        with self.printing:
            out = self.sys.stdout
            try:
                out.flush()
                fd = out.fileno()
            except (OSError, ValueError, AttributeError):
                out.write(text + end)  # stdout is an object of Python, not a file
                out.flush()
                return
            while data:
                data = data[self.os.write(fd, data):]

    def trouble(self, fault):
        try:
            self.errors += 1
            self.current = None
            with self.cycles.lock:
                self.cycles.reset()
            if self.errors == 1 or self.errors == self.MAX_ERRORS:
                self.say("specrun-profiler: %s%s: %r" % (
                    self.identity["name"], " stops" if self.errors == self.MAX_ERRORS else " lost a row", fault))
        except Exception:
            self.errors = self.MAX_ERRORS  # cannot even say so

    # The thread that prints the last row when the engine goes idle. It starts with
    # the first counted cycle, in the process that counts, and sleeps without rows.

    def watch(self):
        if self.watch_wanted is None:
            self.watch_wanted = self.threading.Event()
            self.threading.Thread(target=self._watch, name="specrun-profiler", daemon=True).start()
        self.watch_wanted.set()

    def _watch(self):
        pause = self.threading.Event()
        while self.errors < self.MAX_ERRORS:
            self.watch_wanted.wait()
            pause.wait(0.25)
            try:
                self.watch_wanted.clear()
                rows = self.cycles.idle(self.time.perf_counter())
                if self.cycles.pending():
                    self.watch_wanted.set()
                self.show(rows)
            except Exception as fault:
                self.trouble(fault)
