"""Ways to go wrong that concern a process, its port and its log, not the model. See failure.go."""

import hashlib
import os
import signal
import threading
import time

from specrun_lab import gpu

_BLOCK = 8192
_OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 139.81 GiB"
    " of which 1.19 GiB is free. (practice)"
)
# No orphan of a test that failed stays for ever.
_ORPHAN_S = 600.0


def begin(settings, log_module):
    """Before anything else of a launch is done; returns in the process that is to serve."""
    if settings.failure("buffered"):
        log_module.hold(_BLOCK)
    leave = settings.failure("exit")
    if leave:
        time.sleep((leave.get("ms") or 2000.0) / 1000.0)
        log_module.write("RuntimeError: %s\n" % (leave.get("message") or "nothing will come of this (practice)"))
        log_module.flush()
        os._exit(1)
    if settings.failure("restarts"):
        _supervise(settings, log_module.Log())


def _supervise(settings, log):
    """Starts the server anew in its place whenever it ends, as some launchers do. The first one is the one that fails."""
    for life in range(100):
        child = os.fork()
        if child == 0:
            if life:
                settings.failures = [f for f in settings.failures if f["kind"] != "restarts"]
            return

        def stop(signum, frame):
            os.kill(child, signal.SIGTERM)
            os.waitpid(child, 0)
            os._exit(0)

        signal.signal(signal.SIGTERM, stop)
        _, status = os.waitpid(child, 0)
        log("Worker (pid=%d) ended with status %d, starting another one." % (child, status))
    os._exit(1)


def load_slowly(settings):
    """Work without a word: reads and computes, as the loading of weights from a slow disk does."""
    slow = settings.failure("slow-load")
    if not slow:
        return
    end = time.monotonic() + (slow.get("ms") or 5000.0) / 1000.0
    digest = hashlib.sha256()
    while time.monotonic() < end:
        with open("/proc/self/exe", "rb") as f:
            digest.update(f.read(1 << 20))
        time.sleep(0.02)


def out_of_memory(settings, log, tokens):
    """True when the process is to hang now, with the words of one that has no memory: behind so many tokens, None while
    it loads."""
    oom = settings.failure("oom")
    if not oom:
        return False
    after = oom.get("after_tokens", 0)
    if (tokens is None) != (after == 0) or tokens is not None and tokens < after:
        return False
    log(_OOM)
    return True


def after_tokens(settings, log_module, tokens):
    """In the scheduler, when tokens have gone out."""

    def due(kind):
        f = settings.failure(kind)
        return f is not None and tokens >= f.get("after_tokens", 0)

    if due("cut-log"):
        settings.failures = [f for f in settings.failures if f["kind"] != "cut-log"]
        os.ftruncate(2, 0)
    if due("dead-health"):
        os._exit(1)
    if due("restarts"):
        log_module.flush()
        os.kill(os.getppid(), signal.SIGKILL)
        os._exit(1)


def leave_orphan(settings, listening):
    """A worker in a session of its own, with the port and the card, that nobody is the parent of."""
    if not settings.failure("orphan"):
        return
    child = os.fork()
    if child:
        os.waitpid(child, 0)
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    for s in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(s, signal.SIG_IGN)
    listening.set_inheritable(True)
    gpu.register(settings.directory, "sglang::orphan", 1024, gpu.cards(1))
    time.sleep(_ORPHAN_S)
    os._exit(0)


def crash_late(settings, server):
    """Ends the process with a fault once its last response has gone out."""
    late = settings.failure("late-crash")
    if not late:
        return
    rest = (late.get("ms") or 50.0) / 1000.0

    def watch():
        idle = None
        while True:
            time.sleep(0.005)
            if server.client.in_flight() or server.tokens < late.get("after_tokens", 0):
                idle = None
            elif idle is None:
                idle = time.monotonic()
            elif time.monotonic() - idle >= rest:
                os.kill(os.getpid(), signal.SIGSEGV)

    threading.Thread(target=watch, name="late", daemon=True).start()


def drain_slowly(settings, quit_signal):
    """Takes its time behind SIGTERM, whatever is running. Returns whether quit_signal came meanwhile."""
    slow = settings.failure("slow-drain")
    if not slow:
        return False
    end = time.monotonic() + (slow.get("ms") or 300000.0) / 1000.0
    while time.monotonic() < end:
        if signal.sigtimedwait({quit_signal}, 0.05) is not None:
            return True
    return False
