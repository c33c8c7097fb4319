#!/usr/bin/env python3
"""specrun import of a log on a host against scp -C of the same file: bytes and time, from one run.

    make quick && python3 docs/bench/import.py [--mib 1024] [--rtt-ms 50]

Starts one OpenSSH sshd on loopback behind a proxy that adds a round-trip time and
counts the bytes that come from the server. Two logs: one line in 200 is a decode
line and the rest an access log; and all lines are decode lines. The same 8 MiB of
them are repeated, which no compressor here notices: its window is 32 KiB. Both
commands are whole processes on a cold connection; specrun's includes reading the
rows and storing the runs, scp's writing the file.
"""
import argparse
import os
import random
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
sys.dont_write_bytecode = True
from apply import ROOT, DelayProxy, start_sshd  # noqa: E402


class CountingProxy(DelayProxy):
    """Counts what the server sends."""

    received = 0

    def pump(self, src, dst):
        if src.getpeername()[1] == self.target[1]:
            plain = src.recv

            class Counted:
                def recv(_, n):
                    data = plain(n)
                    self.received += len(data)
                    return data
            src = Counted()
        super().pump(src, dst)


def decode_line(r, at, tokens):
    stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(at))
    return (f"[{stamp} TP0] Decode batch, #running-req: {r.randint(1, 4)}, #token: {tokens}, token usage: {tokens / 30000:.2f}, "
            f"accept len: {r.gauss(1.87, 0.1):.2f}, accept rate: {r.gauss(0.6, 0.05):.2f}, cuda graph: True, "
            f"gen throughput (token/s): {r.gauss(93, 3):.2f}, #queue-req: 0, \n")


def access_line(r):
    return (f'INFO:     127.0.0.1:{r.randint(30000, 60000)} - "POST /v1/chat/completions HTTP/1.1" 200 OK '
            f"request={r.getrandbits(64):016x} tokens={r.randint(0, 4000)} ms={r.random() * 1000:.3f}\n")


def write_log(path, size, every):
    r, at, tokens = random.Random(7), 1767261600, 100
    lines, n, i = [], 0, 0
    while n < 8 << 20:
        if i % every == 0:
            at += r.randint(0, 1)
            tokens = 100 if tokens > 4000 else tokens + r.randint(70, 90)
            lines.append(decode_line(r, at, tokens))
        else:
            lines.append(access_line(r))
        n += len(lines[-1])
        i += 1
    block = "".join(lines).encode()
    with open(path, "wb") as f:
        while f.tell() < size:
            f.write(block)


def timed(argv, env):
    start = time.perf_counter()
    done = subprocess.run([str(a) for a in argv], env=env, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{' '.join(map(str, argv))}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--rtt-ms", type=float, default=50)
    parser.add_argument("--specrun", default=str(ROOT / "dist" / "specrun"))
    o = parser.parse_args()
    if not os.path.exists(o.specrun):
        sys.exit(f"{o.specrun} not found: run make quick first")
    work = Path(tempfile.mkdtemp(prefix="specrun-bench-"))
    sshd = None
    try:
        sshd, port = start_sshd(work)
        proxy = CountingProxy(("127.0.0.1", port), o.rtt_ms / 2000)
        key = " ".join((work / "host.pub").read_text().split()[:2])
        (work / "known_hosts").write_text(f"[127.0.0.1]:{proxy.port} {key}\n")
        (work / "hosts.yaml").write_text(
            f"hosts:\n  bench:\n    address: root@127.0.0.1:{proxy.port}\n    identity_file: {work}/id\n    known_hosts: {work}/known_hosts\n")
        (work / "client").mkdir()
        env = {"PATH": os.environ["PATH"], "HOME": str(work / "client"), "LC_ALL": "C"}
        print(f"{o.mib} MiB, round trip {o.rtt_ms:.0f} ms; of the file's bytes on the wire")
        print(f"{'log':24} {'specrun import':>24} {'scp -C':>24}   bytes, time: specrun / scp")
        for name, every, limit in (("0.5 % decode lines", 200, 0.01), ("all decode lines", 1, 0.10)):
            log = work / "server.log"
            write_log(log, o.mib << 20, every)
            size = log.stat().st_size
            before = proxy.received
            ours = timed([o.specrun, "import", "--host", "bench", "--hosts-file", work / "hosts.yaml", "--store", work / "results.db", log], env)
            ours_bytes, before = proxy.received - before, proxy.received
            peer = timed(["scp", "-q", "-C", "-F", "none", "-i", work / "id", "-o", f"UserKnownHostsFile={work}/known_hosts",
                          "-o", "IdentitiesOnly=yes", "-P", proxy.port, f"root@127.0.0.1:{log}", work / "copy.log"], env)
            peer_bytes = proxy.received - before
            share = ours_bytes / size
            print(f"{name:24} {100 * share:9.3f} % {ours:9.1f} s {100 * peer_bytes / size:11.3f} % {peer:7.1f} s   "
                  f"{ours_bytes / peer_bytes:.3f}, {ours / peer:.2f}   wanted < {100 * limit:.0f} %: {'yes' if share < limit else 'NO'}", flush=True)
            log.unlink()
            (work / "copy.log").unlink()
    finally:
        if sshd:
            sshd.terminate()
            sshd.wait()
        shutil.rmtree(work)


if __name__ == "__main__":
    main()
