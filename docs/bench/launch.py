#!/usr/bin/env python3
"""Where the time of a launch goes, and what is between two launches.

    make quick && python3 docs/bench/launch.py [--db FILE | --runs 1] [--launches 8] [--rtt-ms 50] [--no-demo]

Runs specrun demo --keep (its practice host starts a server in a fraction of a
second, so what is left is specrun's own) and reads the journal of its results;
with --db it reads a results file that there is. A row is the time from the event
before to this one: "start done" is what starting took. "of it measuring" is the
benchmark by its own clock, and "overhead" what a launch takes beyond it.

Then a sweep of one cell in --launches rounds with the patches unchanged, on a
practice host that is as fast as it can be (--scale 0.02), once directly and once
through a proxy that adds a round-trip time. "stop to start" is from the proof that
one server is gone to the answer that the next one's process exists: so the way back
of that answer counts too. Their difference over the round-trip time is the number
of round trips. Exit status 1: more than 400 ms, or 14 round trips or more.
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

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.dont_write_bytecode = True
from apply import DelayProxy  # noqa: E402

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


def gaps_in(db):
    """Returns the milliseconds from each stop's proof to the next start, and the
    medians of the steps in between."""
    with sqlite3.connect(f"file:{db}?mode=ro", uri=True) as conn:
        rows = conn.execute("SELECT event.launch_id, at_us, step, kind FROM event JOIN launch ON launch.id = launch_id"
                            " WHERE launch.state = 'done' ORDER BY launch.ord, event.seq").fetchall()
    gaps, steps, stopped, before, since = [], {}, None, None, []
    for _, at, step, kind in rows:
        since.append((f"{step} {kind}", at - before if before else 0))
        if (step, kind) == ("stop", "undone"):
            stopped, since = at, []
        elif (step, kind) == ("start", "done") and stopped is not None:
            gaps.append((at - stopped) / 1000)
            for name, took in since:
                steps.setdefault(name, []).append(took / 1000)
            stopped = None
        before = at
    return gaps, {name: statistics.median(values) for name, values in steps.items()}


class Practice:
    """A practice host in a home of its own, and hosts that lead to it."""

    def __init__(self, binary):
        self.binary, self.home = binary, tempfile.mkdtemp(prefix="launch-bench-")
        self.env = {"HOME": self.home, "PATH": os.environ["PATH"], "TMPDIR": self.home, "LC_ALL": "C"}
        line = self.call("lab", "start", "--scale", "0.02", "--json").splitlines()[0]
        self.host = json.loads(line)["host"]

    def call(self, *argv):
        done = subprocess.run([self.binary, *argv], env=self.env, cwd=self.home, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit(f"specrun {' '.join(argv)}: exit {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def sweep(self, name, port, launches):
        """Returns the results file of a sweep over the connection to port."""
        h, home = self.host, Path(self.home)
        key = " ".join(Path(h["known_hosts"]).read_text().split()[-2:])
        (home / f"{name}.known").write_text(f"[127.0.0.1]:{port} {key}\n")
        env = json.dumps(h["env"])
        (home / f"{name}.yaml").write_text(
            f"hosts:\n  {name}:\n    address: {h['user']}@127.0.0.1:{port}\n    identity_file: {h['identity_file']}\n"
            f"    known_hosts: {home}/{name}.known\n    python: {h['python']}\n    cwd: {h['cwd']}\n"
            f"    state_dir: {h['state_dir']}\n    env: {env}\n")
        db = home / f"{name}.db"
        self.call("sweep", "steps=2", "--no-baseline", "--rounds", str(launches), "--host", name, "--hosts-file", str(home / f"{name}.yaml"),
                  "-f", str(ROOT / "experiments" / "lab" / "practice.yaml"), "--store", str(db), "--quiet")
        return db

    def close(self):
        self.call("lab", "stop")
        shutil.rmtree(self.home)


def orchestration(binary, launches, rtt_ms):
    """Prints what is between a stop and the next start; true when it is little enough."""
    practice = Practice(binary)
    try:
        port = practice.host["port"]
        near, steps = gaps_in(practice.sweep("near", port, launches))
        proxy = DelayProxy(("127.0.0.1", port), rtt_ms / 2000)
        far, far_steps = gaps_in(practice.sweep("far", proxy.port, launches))
    finally:
        practice.close()
    for name, ms in steps.items():
        print(f"{name:<20} {ms:8.0f} ms   at {rtt_ms} ms {far_steps.get(name, float('nan')):8.0f} ms")
    direct, slow = statistics.median(near), statistics.median(far)
    trips = (slow - direct) / rtt_ms
    fits = direct < 400 and trips < 14
    print(f"{'stop to start':<20} {direct:8.0f} ms   {min(near):.0f} to {max(near):.0f}, {len(near)} times; less than 400 ms wanted")
    print(f"{f'  at {rtt_ms} ms':<20} {slow:8.0f} ms   {min(far):.0f} to {max(far):.0f}")
    print(f"{'  round trips':<20} {trips:8.1f}      fewer than 14 wanted")
    print("verdict: " + ("within both" if fits else "too slow"))
    return fits


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("--db", help="a results file instead of a demo")
    p.add_argument("--runs", type=int, default=1, help="demos one after another")
    p.add_argument("--no-demo", action="store_true", help="only what is between two launches")
    p.add_argument("--launches", type=int, default=8, help="of the sweep whose gaps are measured")
    p.add_argument("--rtt-ms", type=int, default=50)
    p.add_argument("--specrun", default=str(ROOT / "dist" / "specrun"))
    args = p.parse_args()
    runs = 0 if args.no_demo else args.runs
    for _ in range(1 if args.db else runs):
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
    if not args.db and not orchestration(args.specrun, args.launches, args.rtt_ms):
        sys.exit(1)


if __name__ == "__main__":
    main()
