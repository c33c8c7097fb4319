"""The processes of one server: this one speaks HTTP, a forked child runs the scheduler."""

import gc
import os
import signal
import socket
import sys
import time
import traceback

from sglang import __version__
from sglang.srt import log as log_module
from sglang.srt.log import Log, write
from sglang.srt.server_args import ServerArgs
from specrun_lab import gpu, launches, misbehave
from specrun_lab import settings as lab_settings

_MIB = 61470  # of each card: what the lines about memory below come to
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT)


def launch(server_args):
    """Load, serve until told to stop, drain, exit. Never returns."""
    log = Log()
    try:
        settings = lab_settings.load()
        told, done = resolve(server_args, settings, log)
        before = launches.count(settings.directory)
    except (OSError, ValueError, AssertionError) as e:
        write("%s: %s\n" % (type(e).__name__, e))
        sys.exit(1)
    log("server_args=%r" % told)
    misbehave.begin(settings, log_module)
    log("Practice host: sglang %s is a stand-in on an emulated device, its results are simulated." % __version__)
    signal.signal(signal.SIGQUIT, lambda *_: _child_failed(log))
    ours, theirs = socket.socketpair()
    pid = os.fork()
    if pid == 0:
        ours.close()
        _run_scheduler(done, settings, theirs, before)
    theirs.close()
    # Imported while the child loads: readiness waits for the slower of the two.
    from sglang.srt.entrypoints import http_server, protocol

    engine = protocol.Engine(told, settings, done.draft_steps)
    # At once: there is nothing to tear down, and the next start may be waiting for this end.
    status = http_server.serve(engine, ours, pid, log)
    log_module.flush()
    os._exit(status)


def resolve(server_args, settings, log):
    """Resolve the flags as they were given, or go wrong with them as the settings say.

    Returns what the server says of itself and what it does: one object, but for a server that lies.
    """
    settings.steps = server_args.draft_steps
    ignored = settings.failure("flag-ignored")
    if ignored:
        server_args.ignore(ignored["flag"])
    more = settings.failure("still-speculates") if not settings.steps else None
    if not more:
        server_args.resolve(log)
        return server_args, server_args
    speculating = ServerArgs(dict(vars(server_args), speculative_algorithm="EAGLE3"))
    if more.get("lies"):
        server_args.resolve(log)
        speculating.resolve(lambda text: None)
        return server_args, speculating
    speculating.resolve(log)
    return speculating, speculating


def _child_failed(log):
    log("Received sigquit from a child process. It usually means the child failed.")
    os.kill(os.getpid(), signal.SIGKILL)


def _run_scheduler(server_args, settings, sock, before):
    """The child: load the worker, say ready, run. The launcher's signals are not for it: it ends with its socket."""
    for s in _SIGNALS:
        signal.signal(s, signal.SIG_IGN)
    _set_title("sglang::scheduler" if server_args.tp_size == 1 else "sglang::scheduler_TP0")
    log = Log("TP0" if server_args.tp_size > 1 else "")
    try:
        scheduler, link = _load(server_args, settings, sock, log, before)
        link.send({"ready": True})
        # A collection in the middle of a cycle would show as a slow one; what loading made is there for good.
        gc.collect()
        gc.freeze()
        gc.disable()
        scheduler.run()
    except Exception:
        log("Scheduler hit an exception: " + traceback.format_exc())
        os.kill(os.getppid(), signal.SIGQUIT)
        os._exit(1)
    os._exit(0)


def _load(server_args, settings, sock, log, before):
    if settings.failure("stale-code"):
        _use_second_copy()
    from sglang.srt.managers.scheduler import MAX_TOTAL_TOKENS, Link, Scheduler

    log("Init torch distributed begin.")
    log("Init torch distributed ends. mem usage=0.00 GB")
    log("Load weight begin. avail mem=139.13 GB")
    gpu.register(settings.directory, "sglang::scheduler", _MIB, gpu.cards(server_args.tp_size * server_args.dp_size))
    time.sleep(settings.load_ms * settings.scale / 1000.0)
    misbehave.load_slowly(settings)
    crash = settings.failure("crash")
    if crash:
        raise RuntimeError(crash.get("message") or "CUDA out of memory. Tried to allocate 2.00 GiB (practice)")
    log("Load weight end. elapsed=0.00 s, type=PracticeForCausalLM, avail mem=132.12 GB, mem usage=7.01 GB.")
    if settings.failure("never-ready") or misbehave.out_of_memory(settings, log, None):
        while sock.recv(1):  # until the launcher is gone
            pass
        os._exit(1)
    log("KV Cache is allocated. #tokens: %d, K size: 24.30 GB, V size: 24.30 GB" % MAX_TOTAL_TOKENS)
    log("Memory pool end. avail mem=83.40 GB")
    log("Capture cuda graph begin. This can take up to several minutes. avail mem=83.40 GB")
    log("Capture cuda graph bs [1, 2, 4, 8]")
    log("Capture cuda graph end. Time elapsed: 0.00 s. mem usage=0.04 GB. avail mem=83.36 GB.")
    if server_args.draft_steps:
        log("Load weight begin. avail mem=83.36 GB")
        log("Load weight end. elapsed=0.00 s, type=PracticeForCausalLMEagle3, avail mem=81.95 GB, mem usage=1.41 GB.")
        log("Capture draft cuda graph begin. This can take up to several minutes. avail mem=79.15 GB")
        log("Capture draft cuda graph end. Time elapsed: 0.00 s. mem usage=0.02 GB. avail mem=79.13 GB.")
        log("Capture draft extend cuda graph begin. This can take up to several minutes. avail mem=79.13 GB")
        log("Capture draft extend cuda graph end. Time elapsed: 0.00 s. mem usage=0.03 GB. avail mem=79.10 GB.")
    link = Link(sock)
    scheduler = Scheduler(server_args, settings, link, log, before)
    log(
        "max_total_num_tokens=%d, chunked_prefill_size=%d, max_prefill_tokens=%d, max_running_requests=%d,"
        " context_len=%d, available_gpu_mem=79.10 GB"
        % (
            MAX_TOTAL_TOKENS,
            server_args.chunked_prefill_size,
            server_args.max_prefill_tokens,
            server_args.max_running_requests,
            server_args.context_length,
        )
    )
    return scheduler, link


def _use_second_copy():
    """From here on modules of the engine come from another copy, which nobody looks at, as after a second install."""
    import sglang

    copy = os.path.join(sys.prefix, "second", "sglang")
    if not os.path.isdir(copy):
        raise FileNotFoundError("the practice environment has no second copy of the engine: %s" % copy)
    for name, module in sorted(sys.modules.items()):
        if name.split(".")[0] == "sglang" and hasattr(module, "__path__"):
            module.__path__ = [os.path.join(copy, *name.split(".")[1:])]


def _set_title(title):
    try:
        with open("/proc/self/comm", "w") as f:
            f.write(title)
    except OSError:
        pass  # only a name for ps; there is no such file off Linux
