#!/usr/bin/env python3
"""The built-in client beside "vllm bench serve": the same load on one vLLM server.

    make test-engines                                   installs vLLM, then runs this
    docs/bench/client.py --python ENV/bin/python --model DIR [--url URL --served NAME]

Pairs, until the half-width of the 95 % interval of the ratio (built-in over vllm
bench serve) of output tokens per second is under 5 %, at least 6 and at most 20. In
a pair each client measures --turns times, in turn, and who goes first alternates, so
that what the machine does meanwhile hits both. Without --url a server of its own is
started and ended. Both clients send the same prompts, one at a time, greedy, with a
fixed number of tokens, after one request that is not counted; vllm bench serve stays
loaded from pair to pair, since its imports take longer than what is measured. On a
machine that does other work --core N gives server and clients alike the core N and
real-time priority, which needs root.
"""
import argparse
import json
import math
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FEWEST, MOST, ENOUGH = 6, 20, 0.05

# Student's t at 97.5 % by degrees of freedom.
T = [None, 12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228,
     2.201, 2.179, 2.160, 2.145, 2.131, 2.120, 2.110, 2.101, 2.093]

# Runs vllm bench serve once for each line of arguments.
RESIDENT = """
import contextlib, json, sys
from vllm.benchmarks.serve import add_cli_args, main
from vllm.utils.argparse_utils import FlexibleArgumentParser
parser = FlexibleArgumentParser()
add_cli_args(parser)
print("ready", flush=True)
for line in sys.stdin:
    with contextlib.redirect_stdout(sys.stderr):
        main(parser.parse_args(json.loads(line)))
    print("done", flush=True)
"""


class Server:
    """One vLLM, in a session of its own."""

    def __init__(self, python, model, log):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        self.url = f"http://127.0.0.1:{port}"
        # One thread each: on few cores they would wait for each other.
        env = dict(os.environ, HF_HUB_OFFLINE="1", VLLM_NO_USAGE_STATS="1", VLLM_CPU_KVCACHE_SPACE="1",
                   VLLM_CPU_OMP_THREADS_BIND="nobind", OMP_NUM_THREADS="1", OMP_WAIT_POLICY="passive", NUMBA_NUM_THREADS="1")
        speculation = {"method": "ngram", "num_speculative_tokens": 2, "prompt_lookup_max": 4, "prompt_lookup_min": 2}
        self.process = subprocess.Popen(
            [python, "-m", "vllm.entrypoints.cli.main", "serve", model, "--served-model-name", "tiny", "--host", "127.0.0.1",
             "--port", str(port), "--max-model-len", "1024", "--max-num-seqs", "4", "--enforce-eager", "--no-enable-prefix-caching",
             "--speculative-config", json.dumps(speculation)],
            env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)

    def wait(self, seconds):
        begin = time.monotonic()
        while time.monotonic() < begin + seconds:
            if self.process.poll() is not None:
                sys.exit(f"the server ended with {self.process.returncode}")
            try:
                with urllib.request.urlopen(self.url + "/health", timeout=5):
                    return time.monotonic() - begin
            except (urllib.error.URLError, OSError):
                time.sleep(0.5)
        sys.exit(f"the server did not answer within {seconds} s")

    def end(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        # The engine's processes are in the session; the last one removes the
        # shared memory.
        for patience in range(100):
            try:
                os.killpg(self.process.pid, 0 if patience < 99 else signal.SIGKILL)
            except ProcessLookupError:
                return
            time.sleep(0.1)


class BuiltIn:
    """specrun's client as it runs on a host: the worker, with a job."""

    name = "built-in client"

    def __init__(self, specrun, url, served, load):
        self.specrun = specrun
        self.job = {"base_url": url, "endpoint": "chat", "model": served, "prompts": "pair", "texts": load.prompts,
                    "requests": load.requests, "concurrency": 1, "max_tokens": load.tokens, "warmup": 1, "ignore_eos": True,
                    "temperature": 0, "seed": 1, "stall_ns": 120_000_000_000, "phase": ""}

    def measure(self, folder):
        (folder / "job.json").write_text(json.dumps(self.job))
        subprocess.run([self.specrun, "bench-worker", "--dir", str(folder)], check=True)
        r = json.loads((folder / "report.json").read_text())
        if r["failed"]:
            sys.exit(f"{self.name}: {r['failed']} requests failed")
        done = [q for q in r["requests"] if not q.get("error")]
        seconds = (r["end_us"] - r["start_us"]) / 1e6
        return {"tokens": sum(q["output_tokens"] for q in done), "seconds": seconds,
                "TTFT ms": statistics.fmean((q["first_token_us"] - q["start_us"]) / 1e3 for q in done),
                "TPOT ms": statistics.fmean((q["end_us"] - q["first_token_us"]) / 1e3 / (q["output_tokens"] - 1) for q in done),
                "texts": sorted(q.get("output", "") for q in done)}

    def end(self):
        pass


class VLLMBench:
    """vllm bench serve, loaded once."""

    name = "vllm bench serve"

    def __init__(self, python, url, model, served, load, log):
        data = load.folder / "prompts.jsonl"
        data.write_text("".join(json.dumps({"prompt": p}) + "\n" for p in load.prompts))
        self.argv = ["--backend", "openai-chat", "--base-url", url, "--endpoint", "/v1/chat/completions", "--model", model,
                     "--served-model-name", served, "--dataset-name", "custom", "--dataset-path", str(data), "--skip-chat-template",
                     "--custom-output-len", str(load.tokens), "--num-prompts", str(load.requests), "--max-concurrency", "1",
                     "--ignore-eos", "--temperature", "0", "--disable-tqdm", "--save-result", "--save-detailed",
                     "--result-filename", "result.json", "--result-dir"]
        env = dict(os.environ, HF_HUB_OFFLINE="1", VLLM_NO_USAGE_STATS="1")
        self.process = subprocess.Popen([python, "-c", RESIDENT], env=env, text=True, stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=log)

    def answered(self, word):
        for line in self.process.stdout:
            if line.strip() == word:
                return
        sys.exit(f"vllm bench serve ended with {self.process.wait()}")

    def measure(self, folder):
        print(json.dumps(self.argv + [str(folder)]), file=self.process.stdin, flush=True)
        self.answered("done")
        r = json.loads((folder / "result.json").read_text())
        if r["failed"]:
            sys.exit(f"{self.name}: {r['failed']} requests failed")
        return {"tokens": r["total_output_tokens"], "seconds": r["total_output_tokens"] / r["output_throughput"],
                "TTFT ms": r["mean_ttft_ms"], "TPOT ms": r["mean_tpot_ms"], "texts": sorted(r["generated_texts"])}

    def end(self):
        self.process.stdin.close()
        try:
            self.process.wait(60)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


class Load:
    def __init__(self, folder, requests, tokens):
        text = (ROOT / "experiments" / "bench" / "builtin_chat.txt").read_text()
        prompts = [p for p in text.split("# warm-up")[0].splitlines() if p and not p.startswith("#")]
        self.folder, self.requests, self.tokens, self.prompts = folder, requests, tokens, prompts[:requests]


def interval(ratios):
    """Returns the geometric mean and its 95 % interval."""
    logs = [math.log(r) for r in ratios]
    mean, half = statistics.fmean(logs), math.inf
    if len(logs) > 1:
        half = T[len(logs) - 1] * statistics.stdev(logs) / math.sqrt(len(logs))
    return math.exp(mean), math.exp(mean - half), math.exp(mean + half)


def half_width(ratios):
    ratio, low, high = interval(ratios)
    return (high - low) / 2 / ratio


def together(results):
    """Returns one result of the turns of a pair."""
    tokens, seconds = (sum(r[what] for r in results) for what in ("tokens", "seconds"))
    return {"tok/s": tokens / seconds, "TTFT ms": statistics.fmean(r["TTFT ms"] for r in results),
            "TPOT ms": statistics.fmean(r["TPOT ms"] for r in results),
            "tokens": {r["tokens"] for r in results}, "texts": [r["texts"] for r in results]}


def compare(clients, folder, turns, enough, most):
    """Measures in pairs; returns what each client found, in order."""
    found = {c.name: [] for c in clients}
    print(f"{'pair':>4} {'built-in tok/s':>15} {'vllm tok/s':>11} {'ratio':>7} {'half-width':>10}")
    ratios = []
    while len(ratios) < most and (len(ratios) < FEWEST or half_width(ratios) >= enough):
        n = len(ratios) + 1
        pair = {c.name: [] for c in clients}
        for turn in range(turns):
            for c in clients if (n + turn) % 2 else reversed(clients):
                there = folder / f"{n}-{turn}-{c.name.split()[0]}"
                there.mkdir()
                pair[c.name].append(c.measure(there))
        for name, results in pair.items():
            found[name].append(together(results))
        ours, theirs = (found[c.name][-1]["tok/s"] for c in clients)
        ratios.append(ours / theirs)
        width = f"{half_width(ratios):10.1%}" if n > 1 else f"{'-':>10}"
        print(f"{n:4} {ours:15.2f} {theirs:11.2f} {ratios[-1]:7.3f} {width}", flush=True)
    return [found[c.name] for c in clients]


def conclude(ours, theirs, enough):
    """Prints ratios and intervals; true when the clients agree."""
    print()
    for what in ("tok/s", "TPOT ms", "TTFT ms"):
        ratio, low, high = interval([a[what] / b[what] for a, b in zip(ours, theirs)])
        medians = [statistics.median(r[what] for r in results) for results in (ours, theirs)]
        print(f"{what:8} built-in {medians[0]:8.2f}  vllm bench serve {medians[1]:8.2f}  ratio {ratio:.3f} [{low:.3f}, {high:.3f}]")
    tokens = set().union(*(r["tokens"] for r in ours + theirs))
    same = all(texts == ours[0]["texts"][0] for r in ours + theirs for texts in r["texts"])
    print(f"tokens generated in each turn: {sorted(tokens)}; texts {'the same in all' if same else 'DIFFER'}")
    ratios = [a["tok/s"] / b["tok/s"] for a, b in zip(ours, theirs)]
    _, low, high = interval(ratios)
    narrow, holds = half_width(ratios) < enough, low <= 1 <= high
    print(f"{len(ratios)} pairs, half-width {half_width(ratios):.1%} ({'under' if narrow else 'NOT under'} {enough:.0%}), "
          f"the interval {'includes' if holds else 'DOES NOT include'} 1")
    return narrow and holds and len(tokens) == 1


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--python", required=True, help="interpreter of the environment that has vLLM")
    p.add_argument("--model", required=True, help="folder of the model")
    p.add_argument("--url", help="a server that runs already")
    p.add_argument("--served", default="tiny", help="the model's name there")
    p.add_argument("--core", type=int, help="the core for server and clients, with real-time priority")
    p.add_argument("--specrun", default=str(ROOT / "dist" / "specrun"))
    p.add_argument("--requests", type=int, default=4, help="of one measurement")
    p.add_argument("--tokens", type=int, default=96, help="of one request")
    p.add_argument("--turns", type=int, default=4)
    p.add_argument("--enough", type=float, default=ENOUGH)
    p.add_argument("--most", type=int, default=MOST)
    o = p.parse_args()
    if o.core is not None:  # inherited by all that is started here
        os.sched_setaffinity(0, {o.core})
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    folder = Path(tempfile.mkdtemp(prefix="client-bench-"))
    agreed, ends = False, []
    try:
        with open(folder / "log", "w", encoding="utf-8") as log:
            url = o.url
            if not url:
                server = Server(o.python, o.model, log)
                ends.append(server.end)
                url = server.url
            load = Load(folder, o.requests, o.tokens)
            bench = VLLMBench(o.python, url, o.model, o.served, load, log)
            ends.append(bench.end)
            bench.answered("ready")
            if not o.url:
                print(f"vLLM answers after {server.wait(900):.0f} s more")
            clients = [BuiltIn(o.specrun, url, o.served, load), bench]
            print(f"in each turn {o.requests} requests of {o.tokens} tokens, one at a time\n")
            agreed = conclude(*compare(clients, folder, o.turns, o.enough, o.most), o.enough)
    finally:
        for end in reversed(ends):
            end()
        if agreed:
            shutil.rmtree(folder)
        else:
            print(f"what was measured, and the log: {folder}", file=sys.stderr)
    return 0 if agreed else 1


if __name__ == "__main__":
    sys.exit(main())
