# Reads what a plan needs to know and prints it as one JSON line. Writes nothing.
#
# Runs under the target's own interpreter with the server's environment and
# folder, as "python -B -c PROBE MARK REQUEST STATE HOME", so that
# modules are found where the server would import them. Python 3.8 or newer,
# standard library only.
import sys

if sys.version_info < (3, 8):
    sys.stdout.write("\n%s old %s\n" % (sys.argv[1], sys.version.split()[0]))
    sys.exit(0)

import gc
import json
import os
import stat
import time
from binascii import a2b_base64, b2a_base64
from hashlib import sha256

gc.disable()  # a short life: collecting costs more than it frees

MARK, REQUEST, STATE, HOME = sys.argv[1:5]
ASK = json.loads(REQUEST)
FULL = ASK["full"]


def pack(data):
    import zlib

    return b2a_base64(zlib.compress(data, 6), newline=False).decode("ascii")


def read(path):
    # A pipe in a file's place would be waited for without end.
    with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK), "rb") as f:
        if not stat.S_ISREG(os.fstat(f.fileno()).st_mode):
            raise OSError("%s is not a regular file" % path)
        return f.read()


def text(path):
    try:
        return read(path).decode("utf-8", "surrogateescape").rstrip("\n")
    except OSError:
        return ""


def owner(uid):
    try:
        import pwd

        return pwd.getpwuid(uid).pw_name
    except (ImportError, KeyError):
        return str(uid)


def can_write(folder):
    try:
        return os.access(folder, os.W_OK | os.X_OK, effective_ids=True)
    except NotImplementedError:
        return os.access(folder, os.W_OK | os.X_OK)


def host_id():
    """Machine and PID namespace, as host_identity of remote.HostLib has it."""
    if os.environ.get("SPECRUN_CONTAINER"):
        return "container/" + os.environ["SPECRUN_CONTAINER"]
    machine = ""
    for path in ("/etc/machine-id", "/var/lib/dbus/machine-id", "/proc/sys/kernel/hostname"):
        machine = machine or text(path).split("\n")[0].strip()
    try:
        return machine + "/" + os.readlink("/proc/self/ns/pid")
    except OSError:
        return machine + "/"
