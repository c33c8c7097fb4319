#!/usr/bin/env python3
"""specrun apply against scp + ssh doing the same edit: prints ratios from one run.

    make quick && python3 docs/bench/apply.py [--runs 15] [--rtt-ms 50]

Starts one OpenSSH sshd on loopback (own keys, empty HOME, Debian's default
settings otherwise) and a package laid out like SGLang's whose eagle_worker.py
has 60 kB. The peer is what people type by hand,

    scp patch.py host:/tmp && ssh host 'python3 /tmp/patch.py'

with the patch script appending the very block that specrun appends. Each
command is a whole process, timed from outside on a cold connection; the two
alternate, and the ratio is the median of the ratios pair by pair. Three rows:
OpenSSH's default key exchange, the same one that specrun negotiates, and the
default again through a proxy that adds a round-trip time (the TCP handshake
included). specrun's time covers its checks: facts, hashes, compile, fsync,
transaction, ledger, re-hash.
"""
import argparse
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PYTHON = "/usr/bin/python3"
CURVE = ["-o", "KexAlgorithms=curve25519-sha256"]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


class DelayProxy:
    """A TCP relay in front of target that adds delay seconds in each direction
    and one round trip before the first byte, as a real connect would."""

    def __init__(self, target, delay):
        self.target, self.delay = target, delay
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            near, _ = self.listener.accept()
            threading.Thread(target=self.serve, args=(near,), daemon=True).start()

    def serve(self, near):
        time.sleep(2 * self.delay)
        far = socket.create_connection(self.target)
        for s in (near, far):
            s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for src, dst in ((near, far), (far, near)):
            threading.Thread(target=self.pump, args=(src, dst), daemon=True).start()

    def pump(self, src, dst):
        queue, ready = [], threading.Condition()

        def send():
            while True:
                with ready:
                    while not queue:
                        ready.wait()
                    due, data = queue.pop(0)
                time.sleep(max(0.0, due - time.monotonic()))
                try:
                    if not data:
                        dst.shutdown(socket.SHUT_WR)
                        return
                    dst.sendall(data)
                except OSError:
                    return

        threading.Thread(target=send, daemon=True).start()
        while True:
            try:
                data = src.recv(65536)
            except OSError:
                data = b""
            with ready:
                queue.append((time.monotonic() + self.delay, data))
                ready.notify()
            if not data:
                return


def start_sshd(work):
    home = work / "home"
    home.mkdir()
    for key in ("host", "id"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", work / key], check=True)
    shutil.copy(work / "id.pub", work / "authorized_keys")
    port = free_port()
    (work / "sshd_config").write_text(
        f"ListenAddress 127.0.0.1:{port}\nHostKey {work}/host\nPidFile {work}/pid\n"
        f"AuthorizedKeysFile {work}/authorized_keys\nStrictModes no\nUsePAM no\nUseDNS no\n"
        f"Subsystem sftp internal-sftp\nSetEnv HOME={home}\n")
    os.makedirs("/run/sshd", exist_ok=True)
    sshd = subprocess.Popen(["/usr/sbin/sshd", "-D", "-f", work / "sshd_config", "-E", work / "sshd.log"])
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
            return sshd, port
        except OSError:
            if sshd.poll() is not None:
                sys.exit("sshd did not start: " + (work / "sshd.log").read_text())
            time.sleep(0.02)


WORKER = '''\
class EAGLEWorker:
    def __init__(self):
        self.tp_rank = 0
        self.speculative_num_steps = 3

    def draft(self, batch):
        return batch

    def verify(self, batch, spec_info=None):
        return batch

    def forward_draft_extend_after_decode(self, batch):
        return None

    def forward_batch_generation(self, batch):
        self.draft(batch)
        self.verify(batch)
        self.forward_draft_extend_after_decode(batch)


'''


def make_package(work):
    """Returns the interpreter of a venv and the 60 kB target in it."""
    subprocess.run([PYTHON, "-m", "venv", "--without-pip", work / "venv"], check=True)
    site = next((work / "venv" / "lib").glob("python3*")) / "site-packages"
    folder = site / "sglang" / "srt" / "speculative"
    folder.mkdir(parents=True)
    for d in (site / "sglang", site / "sglang" / "srt", folder):
        (d / "__init__.py").write_text("")
    target = folder / "eagle_worker.py"
    lines, size = [WORKER], len(WORKER)
    n = 0
    while size < 60_000:
        line = f"def helper_{n}(a, b):\n    return (a + {n}) * b\n\n\n"
        lines.append(line)
        size += len(line)
        n += 1
    target.write_text("".join(lines))
    return work / "venv" / "bin" / "python3", target


class Bench:
    def __init__(self, work, specrun):
        self.work, self.specrun = work, specrun
        self.python, self.target = make_package(work)
        self.pristine = self.target.read_bytes()
        self.sshd, self.port = start_sshd(work)
        self.env = {"PATH": os.environ["PATH"], "HOME": str(work / "home"), "LC_ALL": "C"}
        self.empty_home = work / "client"
        self.empty_home.mkdir()
        self.env["HOME"] = str(self.empty_home)
        self.patch = None

    def known_hosts(self, port):
        key = " ".join((self.work / "host.pub").read_text().split()[:2])
        file = self.work / f"known_hosts.{port}"
        file.write_text(f"[127.0.0.1]:{port} {key}\n")
        return file

    def hosts(self, port):
        file = self.work / f"hosts.{port}.yaml"
        file.write_text(
            f"hosts:\n  bench:\n    address: root@127.0.0.1:{port}\n    identity_file: {self.work}/id\n"
            f"    known_hosts: {self.known_hosts(port)}\n    python: {self.python}\n    state_dir: {self.work}/state\n")
        return file

    def apply(self, port, command="apply", *args):
        return [self.specrun, command, *args, "--host", "bench", "--hosts-file", self.hosts(port), "--quiet"]

    def peer(self, port, options):
        common = ["-F", "none", "-i", str(self.work / "id"), "-o", f"UserKnownHostsFile={self.known_hosts(port)}",
                  "-o", "IdentitiesOnly=yes", "-o", "LogLevel=ERROR", *options]
        scp = ["scp", "-q", *common, "-P", str(port), str(self.patch), "root@127.0.0.1:/tmp/specrun-bench-patch.py"]
        ssh = ["ssh", *common, "-p", str(port), "root@127.0.0.1", f"{self.python} /tmp/specrun-bench-patch.py"]
        return scp, ssh

    def call(self, argv):
        argv = [str(a) for a in argv]
        r = subprocess.run(argv, env=self.env, capture_output=True, text=True)
        if r.returncode:
            sys.exit(f"{' '.join(argv)}: exit {r.returncode}\n{r.stdout}{r.stderr}")

    def prepare(self):
        """Learns from specrun what the edit is, so that the peer does the same."""
        self.call(self.apply(self.port, "apply", "profiling-v4"))
        patched = self.target.read_bytes()
        self.call(self.apply(self.port, "rollback"))
        assert self.target.read_bytes() == self.pristine and patched.startswith(self.pristine)
        self.patched = patched
        self.patch = self.work / "patch.py"
        self.patch.write_text(
            "import importlib.util, os\n"
            "root = os.path.dirname(importlib.util.find_spec('sglang').origin)\n"
            f"block = {patched[len(self.pristine):]!r}\n"
            "with open(os.path.join(root, 'srt/speculative/eagle_worker.py'), 'ab') as f:\n"
            "    f.write(block)\n")

    def pair(self, port, options):
        start = time.perf_counter()
        for argv in self.peer(port, options):
            self.call(argv)
        peer = time.perf_counter() - start
        assert self.target.read_bytes() == self.patched, "the peer did another edit"
        self.target.write_bytes(self.pristine)
        ours_argv = self.apply(port, "apply", "profiling-v4")
        start = time.perf_counter()
        self.call(ours_argv)
        ours = time.perf_counter() - start
        assert self.target.read_bytes() == self.patched, "specrun did another edit"
        self.call(self.apply(self.port, "rollback"))
        assert self.target.read_bytes() == self.pristine
        return ours, peer

    def row(self, name, limit, runs, port, options):
        self.pair(port, options)  # warm caches, not counted
        pairs = [self.pair(port, options) for _ in range(runs)]
        ratio = statistics.median(o / p for o, p in pairs)
        ours, peer = (statistics.median(x) * 1e3 for x in zip(*pairs))
        low, high = min(o / p for o, p in pairs), max(o / p for o, p in pairs)
        print(f"{name:34} {ours:8.0f} ms {peer:8.0f} ms   {ratio:.2f} ({low:.2f}..{high:.2f})   wanted <= {limit}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--rtt-ms", type=float, default=50)
    parser.add_argument("--specrun", default=str(ROOT / "dist" / "specrun"))
    o = parser.parse_args()
    if not os.path.exists(o.specrun):
        sys.exit(f"{o.specrun} not found: run make quick first")
    work = Path(tempfile.mkdtemp(prefix="specrun-bench-"))
    bench = None
    try:
        bench = Bench(work, o.specrun)
        bench.prepare()
        print(f"{'apply of a 60 kB file, cold':34} {'specrun':>11} {'scp && ssh':>11}   ratio (min..max), {o.runs} pairs")
        bench.row("loopback, default key exchange", 0.5, o.runs, bench.port, [])
        bench.row("loopback, equal key exchange", 0.75, o.runs, bench.port, CURVE)
        proxy = DelayProxy(("127.0.0.1", bench.port), o.rtt_ms / 2e3)
        bench.row(f"{o.rtt_ms:.0f} ms round trip, default", 0.65, o.runs, proxy.port, [])
    finally:
        if bench:
            bench.sshd.terminate()
            bench.sshd.wait()
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main()
