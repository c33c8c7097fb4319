"""The numbers of the practice host, read once per server start.

default.json beside this file holds every setting with its default; the file named by
SPECRUN_LAB_SETTINGS replaces what it names. Times are nominal milliseconds, before `scale`.
"""

import json
import os

ENV = "SPECRUN_LAB_SETTINGS"


class Settings:
    """One attribute per key of default.json; an unknown key is an error."""

    def __init__(self, values):
        self.__dict__.update(values)

    def failure(self, kind, steps):
        """The failure of this kind that concerns a launch with so many draft steps, or None.

        `steps` is 0 for a launch without speculation; a failure that names no steps concerns all.
        """
        for f in self.failures:
            if f["kind"] == kind and f.get("steps") in (None, steps):
                return f
        return None


def load(environ=os.environ):
    """Defaults with the file of SPECRUN_LAB_SETTINGS over them; ValueError names the key that is wrong."""
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "default.json")) as f:
        values = json.load(f)
    path = environ.get(ENV)
    if path:
        with open(path) as f:
            given = json.load(f)
        for key in given:
            if key not in values:
                raise ValueError("%s: unknown setting %r" % (path, key))
        values.update(given)
    return Settings(values)
