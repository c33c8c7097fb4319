"""Log lines in SGLang's shape: one write of one whole line, whoever else writes to the same file."""

import os
import time


class Log:
    """Lines `[time RANK] text` on standard error, where SGLang's logging goes too."""

    def __init__(self, rank=""):
        self._rank = " " + rank if rank else ""

    def __call__(self, text):
        write("[%s%s] %s\n" % (time.strftime("%Y-%m-%d %H:%M:%S"), self._rank, text))


def write(text):
    """Whole text in one write where the kernel takes it in one."""
    data = text.encode("utf-8", "replace")
    while data:
        data = data[os.write(2, data):]
