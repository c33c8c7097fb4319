"""How many servers of one practice host were started before this one."""

import fcntl
import os


def count(directory):
    """Count this launch; returns how many went before. New settings begin at 0 again, and so does no directory."""
    if directory is None:
        return 0
    fd = os.open(os.path.join(directory, "launches"), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)  # two may start at the same time
        before = int(os.read(fd, 32) or b"0")
        os.lseek(fd, 0, os.SEEK_SET)
        os.write(fd, b"%d\n" % (before + 1))
    finally:
        os.close(fd)
    return before
