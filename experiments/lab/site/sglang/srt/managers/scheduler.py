"""The scheduler: one process, one thread, which forms batches and runs them through a worker."""

import json
import select
import time

from sglang.srt import log as log_module
from sglang.srt.log import write
from sglang.srt.managers.schedule_batch import Req, ScheduleBatch
from sglang.srt.managers.tp_worker import TpModelWorker
from sglang.srt.model_executor.forward_batch_info import ForwardMode
from specrun_lab import device as lab_device
from specrun_lab import jit, misbehave, text
from specrun_lab.prefix import PrefixCache
from specrun_lab.timing import Timing

MAX_TOTAL_TOKENS = 796283
_JIT_MS = 300.0  # where the failure does not say how long the compiler takes
OWN = "HEALTH_CHECK_"  # begins the ids of requests that nobody sent


class Closed(Exception):
    """The process that feeds this one is gone."""


class Link:
    """Messages to and from the HTTP process: one JSON text a line over a socket."""

    def __init__(self, sock):
        self._sock = sock
        self._rest = b""

    def send(self, message):
        try:
            self._sock.sendall(json.dumps(message, separators=(",", ":")).encode() + b"\n")
        except OSError:
            raise Closed()

    def receive(self, wait):
        """Messages that have come; with `wait`, blocks until there is one. Raises Closed."""
        messages = []
        while select.select([self._sock], [], [], None if wait and not messages else 0)[0]:
            try:
                data = self._sock.recv(65536)
            except OSError:
                data = b""
            if not data:
                raise Closed()
            *lines, self._rest = (self._rest + data).split(b"\n")
            messages.extend(json.loads(line) for line in lines)
        return messages


class Scheduler:
    """Prefills first, then decodes all running requests together.

    launch: how many launches of this practice host went before.
    """

    def __init__(self, server_args, settings, link, log, launch=0):
        self.server_args = server_args
        self.settings = settings
        self.link = link
        self.log = log
        self.timing = Timing(settings, launch=launch)
        self.device = lab_device.Device(self.timing.sync_cost, settings.behind_ms)
        lab_device.use(self.device)
        self.tp_worker = TpModelWorker(server_args, 0, 0, self.device, self.timing)
        self.draft_worker = None
        if server_args.speculative:
            # Imported here, as the engine does: only this process ever loads the worker's file.
            from sglang.srt.speculative.eagle_worker import EAGLEWorker

            self.draft_worker = EAGLEWorker(
                server_args, 0, 0, self.device, self.timing, settings.acceptance, self.tp_worker
            )
        self.worker = self.draft_worker or self.tp_worker
        self.model = text.of_launch(settings)
        self.prefix_cache = None
        if settings.prefix_cache and not server_args.disable_radix_cache:
            self.prefix_cache = PrefixCache()
        self._jit = settings.failure("jit")
        self.waiting = []
        self.batch = ScheduleBatch([], ForwardMode.DECODE)  # the running requests
        self._aborted = set()
        self.cycles = 0
        self.cycle_clock = 0.0  # the device's clock at the end of the last cycle
        self.cycle_resets = 0  # and how often it had been set anew until then
        self.tokens = 0
        self._logged_resets = 0
        self.reset_metrics()
        self._interval()

    def reset_metrics(self):
        self.spec_tokens = self.spec_verifies = 0  # up to the last decode line
        self.spec_interval = None  # accept length and rate of the last decode line

    def _interval(self):
        """Counters of the decode line start again."""
        self._since = time.perf_counter()
        self._new_tokens = self._tokens_in = self._verifies_in = self._cycles_in = 0
        self.last_gen_throughput = getattr(self, "last_gen_throughput", 0.0)

    def run(self):
        """Until the other process is gone."""
        try:
            while True:
                if not (self.waiting or self.batch.reqs):
                    self._receive(wait=True)
                    self.device.wake()
                self.step()
        except Closed:
            return

    def _receive(self, wait=False):
        for m in self.link.receive(wait):
            op = m["op"]
            if op == "add":
                self.waiting.append(self._request(m))
            elif op == "abort":
                self.waiting = [r for r in self.waiting if r.rid != m["rid"]]
                self._aborted.add(m["rid"])
            elif op == "flush":
                self.reset_metrics()
                if self.prefix_cache is not None:
                    self.prefix_cache.flush()
                self.link.send({"reply": m["id"]})
            elif op == "info":
                self.link.send({"reply": m["id"], "info": self.info()})

    def _request(self, m):
        req = Req(m["rid"], m["seed"], m["prompt_tokens"], m["max_new_tokens"], m["eos"], self.model)
        req.prefix = m["prefix"]
        return req

    def step(self):
        """One forward: the waiting requests' prefill, else a decode of the running ones."""
        if self._aborted:
            self.batch.reqs = [r for r in self.batch.reqs if r.rid not in self._aborted]
            self._aborted.clear()
        room = self.server_args.max_running_requests - self.batch.batch_size()
        if self.waiting and room > 0:
            new, self.waiting = self.waiting[:room], self.waiting[room:]
            self._prefill(new)
        elif self.batch.reqs:
            if self._jit is not None and self.tokens >= self._jit.get("after_tokens", 0):
                self._compile()
            self._decode()
        if self.device.resets != self._logged_resets:
            self._logged_resets = self.device.resets
            self.log(
                "Practice device: %.0f ms behind the wall clock, clock set anew (%d times so far)."
                % (self.device.behind_ms, self.device.resets)
            )

    def _prefill(self, reqs):
        self.device.catch_up()
        batch = ScheduleBatch(reqs, ForwardMode.EXTEND)
        if self.prefix_cache is not None:
            for r in reqs:
                r.cached_tokens = self.prefix_cache.match(r.prefix)
                self.prefix_cache.add(r.prefix)
        cached = sum(r.cached_tokens for r in reqs)
        tokens = batch.seq_lens_sum - cached
        self.worker.forward_batch_generation(batch)
        self.log(
            "Prefill batch, #new-seq: %d, #new-token: %d, #cached-token: %d, token usage: %.2f, #running-req: %d,"
            " #queue-req: %d, cuda graph: False, input throughput (token/s): 0.00"
            % (len(reqs), tokens, cached, self._usage(), self.batch.batch_size(), len(self.waiting))
        )
        self._publish(self._outputs(reqs, [1] * len(reqs)))
        self.batch.reqs = self.batch.reqs + [r for r in reqs if not r.finished()]

    def _decode(self):
        reqs = self.batch.reqs
        before = [len(r.output_ids) for r in reqs]
        self.timing.begin_cycle(self.device.clock)
        self.worker.forward_batch_generation(self.batch)
        self.device.catch_up()  # nothing, unless the cycle had no wait long enough for what was put off
        new = [len(r.output_ids) - n for r, n in zip(reqs, before)]
        out = self._outputs(reqs, new)
        going_on = [r for r in reqs if not r.finished()]
        self.cycles += 1
        self.cycle_clock = self.device.clock
        self.cycle_resets = self.device.resets
        # What came out is sent while the device runs the next cycle, so that sending costs no time between
        # cycles; but nobody waits for a last token.
        self.device.later(lambda: self._after_decode(out, new))
        if len(going_on) != len(reqs):
            self.device.catch_up()
            self.batch.reqs = going_on

    def _after_decode(self, out, new):
        self._cycles_in += 1
        self._new_tokens += sum(new)
        if self.draft_worker is not None:
            self._tokens_in += sum(new)
            self._verifies_in += len(new)
        if self._cycles_in >= self.server_args.decode_log_interval:
            self._log_decode()
        self._publish(out)
        self._receive()

    def _outputs(self, reqs, new):
        return [
            [r.rid, n, r.finished_reason, r.spec_verify_ct, r.spec_accepted_tokens, r.cached_tokens]
            for r, n in zip(reqs, new)
        ]

    def _publish(self, out):
        """Send what came out, then imitate the failures that come with tokens."""
        self.link.send({"out": out})
        self.tokens += sum(o[1] for o in out if not o[0].startswith(OWN))
        self._fail_by_tokens()

    def _fail_by_tokens(self):
        stall = self.settings.failure("stall")
        misbehave.after_tokens(self.settings, log_module, self.tokens)
        hangs = stall and self.tokens >= stall.get("after_tokens", 0)
        if hangs or misbehave.out_of_memory(self.settings, self.log, self.tokens):
            while True:  # hung: neither tokens nor log lines, until the other process is gone
                self.link.receive(wait=True)
        die = self.settings.failure("die")
        if die and self.tokens >= die.get("after_tokens", 0):
            raise RuntimeError(die.get("message") or "CUDA error: an illegal memory access was encountered (practice)")

    def _compile(self):
        """A kernel that this launch needs now for the first time; the next launch finds it compiled."""
        ms, self._jit = (self._jit.get("ms") or _JIT_MS) * self.settings.scale, None
        name = "practice_decode_steps_%d" % self.server_args.draft_steps
        if not jit.compiled(name):
            self.device.catch_up()
            jit.compile(name, write, lambda: self.device.host(ms))

    def _usage(self):
        return sum(r.seqlen for r in self.batch.reqs) / float(MAX_TOTAL_TOKENS)

    def _log_decode(self):
        now = time.perf_counter()
        self.last_gen_throughput = self._new_tokens / max(1e-9, now - self._since)
        spec = ""
        if self.draft_worker is not None:
            self.spec_tokens += self._tokens_in
            self.spec_verifies += self._verifies_in
            accept = self._tokens_in / float(self._verifies_in)
            rate = accept / self.server_args.speculative_num_draft_tokens
            self.spec_interval = accept, rate
            spec = "accept len: %.2f, accept rate: %.2f, " % (accept, rate)
        self.log(
            "Decode batch, #running-req: %d, #token: %d, token usage: %.2f, %scuda graph: %s,"
            " gen throughput (token/s): %.2f, #queue-req: %d"
            % (
                self.batch.batch_size(),
                sum(r.seqlen for r in self.batch.reqs),
                self._usage(),
                spec,
                not self.server_args.disable_cuda_graph,
                self.last_gen_throughput,
                len(self.waiting),
            )
        )
        self._interval()

    def info(self):
        """State for /get_server_info; acceptance moves with the decode lines only, as the engine's does."""
        reqs = self.batch.reqs
        state = {
            "last_gen_throughput": self.last_gen_throughput,
            "memory_usage": {"weight": 0.0, "kvcache": 0.0, "graph": 0.0, "token_capacity": MAX_TOTAL_TOKENS},
        }
        if self.spec_verifies:
            state["avg_spec_accept_length"] = self.spec_tokens / float(self.spec_verifies)
        info = {
            "internal_states": [state],
            "load": {"running": len(reqs), "waiting": len(self.waiting), "tokens": sum(r.seqlen for r in reqs)},
            "specrun_lab": {
                "simulated": True,
                "cycles": self.cycles,
                "cycle_clock_ms": self.cycle_clock * 1000.0,
                "clock_resets": self.cycle_resets,
            },
        }
        if self.spec_interval is not None:
            info["spec_interval"] = self.spec_interval
        return info
