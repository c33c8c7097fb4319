# Unpacks and seals staged files: python -I -S -B -c SEAL TXDIR STATE, then
# groups of five: real file, staged file, SHA-256, mtime in ns, check (yes, no,
# or absent: the staged file need not be there). On standard input comes what
# to unpack: base64 of a zlib stream of files, each a line "size mode path" and
# its bytes; nothing when there is nothing.
#
# A staged file gets owner, mode, extended attributes of the real one, and the
# given time; with check "yes" it must compile. All of it, and what the
# transaction keeps, is on the disk when this ends well. Anything else is said
# on standard output and ends with status 1; no real file is touched.
import errno
import gc
import os
import stat
import sys
from binascii import a2b_base64
from hashlib import sha256
from zlib import decompress

gc.disable()  # a short life: collecting costs more than it frees


def stop(kind, *lines):
    sys.stdout.write("\n".join(("error " + kind,) + lines) + "\n")
    sys.stdout.flush()
    os._exit(1)


def sync(path):
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    except OSError as e:
        if e.errno in (errno.ENOSPC, errno.EDQUOT, errno.EIO):
            raise
        sys.stdout.write("note not durable: %s: %s\n" % (path, e.strerror))
    finally:
        os.close(fd)


def unpack(packed):
    data = decompress(a2b_base64(packed)) if packed else b""
    at = 0
    while at < len(data):
        end = data.index(b"\n", at)
        size, mode, path = data[at:end].split(b" ", 2)
        at = end + 1 + int(size)
        write(os.fsdecode(path), data[end + 1:at], int(mode, 8))


def write(path, data, mode):
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        os.fchmod(fd, mode)
        while data:
            data = data[os.write(fd, data):]
    except OSError as e:
        e.filename = path
        raise
    finally:
        os.close(fd)


def seal(real, staged, want, mtime, check):
    if check == "absent" and not os.path.exists(staged):
        return
    st = os.stat(real)
    with open(staged, "rb") as f:
        data = f.read()
    got = sha256(data).hexdigest()
    if got != want:
        stop("stage-differs", "path " + staged, "want " + want, "got " + got)
    if check == "yes":
        try:
            compile(data, real, "exec", dont_inherit=True)
        except (SyntaxError, ValueError) as e:
            line = getattr(e, "lineno", None) or 0
            stop("syntax", "path " + real, "line %d" % line, "detail %s" % getattr(e, "msg", e))
    now = os.stat(staged)
    if (now.st_uid, now.st_gid) != (st.st_uid, st.st_gid):
        try:
            os.chown(staged, st.st_uid, st.st_gid)
        except OSError:
            stop("owner", "path " + real, "uid %d" % st.st_uid, "gid %d" % st.st_gid)
    os.chmod(staged, stat.S_IMODE(st.st_mode))
    attributes(real, staged)
    os.utime(staged, ns=(int(mtime), int(mtime)))
    sync(staged)
    sync(os.path.dirname(staged))


def attributes(real, staged):
    try:
        names = os.listxattr(real)
    except (AttributeError, OSError):
        return
    for name in names:
        try:
            value = os.getxattr(real, name)
            if name not in os.listxattr(staged) or os.getxattr(staged, name) != value:
                os.setxattr(staged, name, value)
        except OSError as e:
            sys.stdout.write("note attribute %s of %s not kept: %s\n" % (name, real, e.strerror))


def main(argv):
    txdir, state = argv[:2]
    try:
        unpack(sys.stdin.buffer.read())
        for i in range(2, len(argv), 5):
            seal(*argv[i:i + 5])
        for folder, _, names in os.walk(txdir):
            for name in names:
                sync(os.path.join(folder, name))
            sync(folder)
        for folder in (os.path.join(state, "tx"), os.path.join(state, "blobs"), os.path.join(state, "files")):
            sync(folder)
    except OSError as e:
        kind = "disk-full" if e.errno in (errno.ENOSPC, errno.EDQUOT) else "unwritable"
        stop(kind, "path %s" % e.filename, "detail %s" % e.strerror, "room %s" % room(e.filename))


def room(path):
    """Free blocks, their size, free inodes, all inodes."""
    try:
        v = os.statvfs(os.path.dirname(path))
    except (OSError, TypeError):
        return ""
    return "%d %d %d %d" % (v.f_bavail, v.f_frsize, v.f_favail, v.f_files)


main(sys.argv[1:])
