"""The numbers of the practice host, read once per server start.

default.json beside this file holds every setting with its default; the file named by
SPECRUN_LAB_SETTINGS replaces what it names. Times are nominal milliseconds, before `scale`.
"""

import json
import os

ENV = "SPECRUN_LAB_SETTINGS"


class Settings:
    """One attribute per key of default.json; an unknown key is an error.

    changed: the settings that are not as default.json has them, as text for people.
    directory: where the settings file lies, and with it what launches of one practice host share; None without.
    steps: draft steps that the flags of this launch ask for, 0 without speculation; set when they are read.
    """

    def __init__(self, values, directory=None, changed=""):
        self.__dict__.update(values)
        self.changed = changed
        self.directory = directory
        self.steps = 0

    def failure(self, kind):
        """The failure of this kind that concerns this launch, or None; one that names no steps concerns all."""
        for f in self.failures:
            if f["kind"] == kind and f.get("steps") in (None, self.steps):
                return f
        return None

    def stop_at(self):
        """Tokens after which every answer of this launch ends; None where none does before its time."""
        for s in self.stops:
            if s.get("steps") in (None, self.steps):
                return s["tokens"]
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
        changed = ", ".join("%s=%s" % (k, json.dumps(given[k])) for k in sorted(given) if given[k] != values[k])
        values.update(given)
        return Settings(values, os.path.dirname(os.path.abspath(path)), changed)
    return Settings(values)
