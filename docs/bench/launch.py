#!/usr/bin/env python3
"""Where the time of a launch goes: the median of each step over all launches of a sweep.

    make quick && python3 docs/bench/launch.py [--db FILE | --runs 1]

Runs specrun demo --keep (its practice host starts a server in a fraction of a
second, so what is left is specrun's own) and reads the journal of its results;
with --db it reads a results file that there is. A row is the time from the event
before to this one: "start done" is what starting took. "of it measuring" is the
benchmark by its own clock, and "overhead" what a launch takes beyond it.
"""
import argparse
import json
import os
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def demo(binary):
    """Runs the demo in a home of its own; returns seconds, folder and results file."""
    home = tempfile.mkdtemp(prefix="launch-bench-")
    env = {"HOME": home, "PATH": os.environ["PATH"], "TMPDIR": home}
    begin = time.monotonic()
    done = subprocess.run([binary, "demo", "--keep"], env=env, cwd=home, capture_output=True, text=True)
    seconds = time.monotonic() - begin
    found = list(Path(home).glob("specrun-demo-*/results.db"))
    if done.returncode != 0 or len(found) != 1:
        sys.exit(f"demo ended with {done.returncode}; its folder is {home}\n{done.stderr}")
    return seconds, home, found[0]


def read(db):
    """Returns the milliseconds of each step, of measuring and of whole launches."""
    steps, measuring, whole, between = {}, [], [], []
    with sqlite3.connect(f"file:{db}?mode=ro", uri=True) as conn:
        rows = conn.execute(
            "SELECT event.launch_id, at_us, step, kind, evidence FROM event JOIN launch ON launch.id = launch_id"
            " WHERE launch.state = 'done' ORDER BY launch.ord, event.seq").fetchall()
    launches = {}
    for launch, at, step, kind, evidence in rows:
        launches.setdefault(launch, []).append((at, step, kind, json.loads(evidence) if evidence else {}))
    ended = None
    for events in launches.values():
        if ended is not None:
            between.append((events[0][0] - ended) / 1000)
        ended = events[-1][0]
        whole.append((ended - events[0][0]) / 1000)
        inside = 0
        for (before, *_), (at, step, kind, evidence) in zip(events, events[1:]):
            steps.setdefault((step, kind), []).append((at - before) / 1000)
            if step == "bench" and kind == "done":
                inside += (evidence["end_us"] - evidence["start_us"]) / 1000
        measuring.append(inside)
    return steps, measuring, whole, between


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--db", help="a results file instead of a demo")
    p.add_argument("--runs", type=int, default=1, help="demos one after another")
    p.add_argument("--specrun", default=str(ROOT / "dist" / "specrun"))
    args = p.parse_args()
    for _ in range(1 if args.db else args.runs):
        seconds, home, db = (None, None, args.db) if args.db else demo(args.specrun)
        try:
            steps, measuring, whole, between = read(db)
        finally:
            if home:
                shutil.rmtree(home)
        if not whole:
            sys.exit(f"{db}: no launch that is done")
        middle = statistics.median
        for (step, kind), values in steps.items():
            print(f"{step + ' ' + kind:<20} {middle(values):8.0f} ms")
        over = [w - m for w, m in zip(whole, measuring)]
        print(f"{'launch':<20} {middle(whole):8.0f} ms   over {len(whole)} launches")
        print(f"{'  of it measuring':<20} {middle(measuring):8.0f} ms")
        print(f"{'  overhead':<20} {middle(over):8.0f} ms   {min(over):.0f} to {max(over):.0f}")
        if between:
            print(f"{'between launches':<20} {middle(between):8.0f} ms")
        if seconds:
            print(f"{'demo':<20} {seconds:8.1f} s")


if __name__ == "__main__":
    main()
