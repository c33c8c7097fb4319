"""Log lines in SGLang's shape: one write of one whole line, whoever else writes to the same file."""

import os
import time

# What is held back until it fills a block: 0 bytes, for a log that is written line by line.
_held = bytearray()
_block = 0


class Log:
    """Lines `[time RANK] text` on standard error, where SGLang's logging goes too."""

    def __init__(self, rank=""):
        self._rank = " " + rank if rank else ""

    def __call__(self, text):
        write("[%s%s] %s\n" % (time.strftime("%Y-%m-%d %H:%M:%S"), self._rank, text))


def hold(size):
    """From here on write in blocks of so many bytes, as a program does whose output is no terminal."""
    global _block
    _block = size


def write(text):
    """Whole text in one write where the kernel takes it in one."""
    data = text.encode("utf-8", "replace")
    if _block:
        _held.extend(data)
        while len(_held) >= _block:
            _put(bytes(_held[:_block]))
            del _held[:_block]
        return
    _put(data)


def flush():
    """What is held back, too: a program does so when it ends by itself."""
    _put(bytes(_held))
    del _held[:]


def _put(data):
    while data:
        data = data[os.write(2, data):]
