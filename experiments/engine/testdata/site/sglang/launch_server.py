"""Records what it was started with, as JSON, in the file named by RECORD."""

import json
import os
import sys

with open(os.environ["RECORD"] + ".new", "w") as f:
    json.dump({"argv": sys.argv[1:], "env": dict(os.environ), "cwd": os.getcwd()}, f)
os.rename(os.environ["RECORD"] + ".new", os.environ["RECORD"])
