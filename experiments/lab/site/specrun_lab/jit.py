"""A kernel that is compiled when it is first needed, in the middle of serving."""

import os
import time

VERSION, ARCH = "0.6.3", "90a"


def folder(name, environ=os.environ):
    """Where the compiled kernel is kept, as FlashInfer lays it out."""
    base = environ.get("FLASHINFER_WORKSPACE_BASE") or os.path.expanduser("~")
    return os.path.join(base, ".cache", "flashinfer", VERSION, ARCH, "cached_ops", name)


def compiled(name):
    return os.path.exists(os.path.join(folder(name), name + ".so"))


def compile(name, write, take):
    """Compile: lines as FlashInfer's logger writes them around `take` (no arguments: the time it takes)."""
    write("%s - INFO - flashinfer.jit: Loading JIT ops: %s\n" % (_now(), name))
    path = folder(name)
    os.makedirs(path, exist_ok=True)
    with open(os.path.join(path, "build.ninja"), "w") as f:
        f.write("# practice: nothing is built\nninja_required_version = 1.3\n")
    take()
    with open(os.path.join(path, name + ".so"), "wb") as f:
        f.write(b"practice kernel " + name.encode() + b"\n")
    write("%s - INFO - flashinfer.jit: Finished loading JIT ops: %s\n" % (_now(), name))


def _now():
    t = time.time()
    return "%s,%03d" % (time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(t)), t % 1 * 1000)
