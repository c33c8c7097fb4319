"""Runs a worker's outer body with timed phases and a profiler appended.

Reads one JSON object from its first argument, prints what the profiler prints to
standard output, and writes what really happened, one JSON object a call of the
worker, to the file named by "truth".
"""

import contextlib
import json
import os
import random
import sys
import threading
import time
import types

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import engine
import permissive

config = json.loads(sys.argv[1])
rng = random.Random(config["seed"])
clock = engine.Clock()
truth = open(config["truth"], "w")
is_v2 = config["worker"] == "v2"
fault = config.get("fault", "")


def record(**what):
    truth.write(json.dumps(what) + "\n")
    truth.flush()


def draw(name):
    low, high = config["phases"][name]
    return rng.uniform(low, high) / 1e3


class Torch(permissive.PermissiveModule):
    """Counts what a profiler does to the device."""

    synchronized = 0

    @staticmethod
    def synchronize():
        Torch.synchronized += 1
        clock.advance(config.get("sync_ms", 0) / 1e3)
        if fault == "synchronize":
            raise RuntimeError("synchronize fails")


torch = Torch("torch")
torch.__path__ = []
torch.cuda = permissive.PermissiveModule("torch.cuda")
torch.cuda.__path__ = []
torch.cuda.synchronize = Torch.synchronize
sys.modules.update({"torch": torch, "torch.cuda": torch.cuda})
permissive.install()
if config.get("lab"):
    sys.modules["specrun_lab"] = types.ModuleType("specrun_lab")

source = open(config["file"], "rb").read()
marker = source.find(b"# >>> specrun ")
own, block = source[:marker], source[marker:]
scope = {"__name__": config["module"], "__file__": config["file"]}
module = types.ModuleType(config["module"])
module.__dict__.update(scope)
sys.modules[config["module"]] = module
scope = module.__dict__
exec(compile(own, config["file"], "exec"), scope)

# Phases: only these are replaced. What a phase takes and yields is drawn here.
now = types.SimpleNamespace(cycle=None, worker=None)


def phase(name, then):
    def stub(self, *args, **kwargs):
        spent = draw(name)
        clock.advance(spent)
        now.cycle["phases"][name] = now.cycle["phases"].get(name, 0) + 1e3 * spent
        return then(self, *args, **kwargs)

    return stub


def v1_verify(self, batch, *args):
    accepted = now.cycle["accepted"]
    for r, n in zip(now.cycle["reqs"], accepted):
        r.output_ids += [1] * (n + 1)
        if r.rid in now.cycle["finish"]:
            r.finished_reason = "length"
    alive = len([r for r in now.cycle["reqs"] if not r.finished()])
    batch.spec_info = engine.spec_info(False, alive)
    out = types.SimpleNamespace(
        verified_id=engine.Shape(alive), draft_extend_input=engine.spec_info(False, alive), accept_tokens=None)
    values = FaultyList(accepted) if fault == "acceptance" else accepted
    out.accept_length_per_req_cpu = out.num_correct_drafts_per_req_cpu = values
    logits = object()
    if config["verify_parts"] == 3:
        return logits, out, True
    return logits, out, types.SimpleNamespace(bid=1), True


class FaultyList(list):
    """The server sums it; whoever else walks it fails."""

    def __len__(self):
        raise RuntimeError("len fails")


def v2_verify(self, batch, *args, **kwargs):
    lens = [n + 1 for n in now.cycle["accepted"]]
    return types.SimpleNamespace(
        accept_lens=engine.DeviceTensor(lens), next_draft_input=engine.spec_info(False), new_seq_lens=None,
        copy_done=None, delay_sample_func=None)


def nothing(self, *args, **kwargs):
    return None


worker_class = scope["EAGLEWorkerV2" if is_v2 else "EAGLEWorker"]
drafter = scope.get("EagleDraftWorker", worker_class) if is_v2 else worker_class
worker_class.verify = phase("verify", v2_verify if is_v2 else v1_verify)
drafter.draft = phase("draft", lambda self, *a, **k: engine.spec_info(True))
if not is_v2:
    worker_class.forward_draft_extend_after_decode = phase("extend", lambda self, b: engine.spec_info(False))
    worker_class._draft_preprocess_idle = nothing
    worker_class.forward_target_extend = lambda self, b: (
        types.SimpleNamespace(hidden_states=None, mm_input_embeds=None), None, 1, True)[: config["target_extend_parts"]]
    worker_class.forward_draft_extend = nothing
elif drafter is worker_class:  # 0.5.3.post2: the extend is part of verify
    worker_class.forward_draft_extend = nothing
else:
    drafter._draft_extend_for_decode = phase("extend", nothing)
    drafter._draft_extend_for_prefill = nothing
for name in config.get("renamed", []):  # a doctored copy calls this instead of a phase
    setattr(drafter, name, phase("draft", lambda self, *a, **k: engine.spec_info(True)))
before = {(c.__name__, n): v for c in (worker_class, drafter) for n, v in vars(c).items()}

time.perf_counter = clock.read
writes = []
os_write = os.write
os.write = lambda fd, data: writes.append(len(data)) or os_write(fd, data)
exec(compile(b"\n" * own.count(b"\n") + block, config["file"], "exec"), scope)
record(event="wrapped", names=sorted(
    "%s.%s" % k for c in (worker_class, drafter) for k, v in
    {(c.__name__, n): v for n, v in vars(c).items()}.items() if before.get(k) is not v))

# Objects without their __init__, with what the outer body and the profiler read.


def new_worker(rank):
    w = object.__new__(worker_class)
    shared = dict(
        speculative_num_steps=config["steps"], speculative_num_draft_tokens=config["steps"] + 1, topk=1, device="cuda",
        adaptive_controller=None, plan_stream=None, enable_dp_spec_prefill_coordination=False,
        server_args=types.SimpleNamespace(enable_dp_attention="dp_size" in config, tp_size=4, dp_size=config.get("dp_size", 1)),
        draft_tp_context=lambda group: contextlib.nullcontext(),
        draft_model_runner=types.SimpleNamespace(tp_group=None), draft_runner=types.SimpleNamespace(tp_group=None),
        speculative_algorithm=types.SimpleNamespace(is_standalone=lambda: False), parallel_layout=None)
    target = types.SimpleNamespace(
        tp_rank=rank, model_config=types.SimpleNamespace(hidden_size=1, dtype=None),
        forward_batch_generation=lambda *a, **k: types.SimpleNamespace(
            logits_output=types.SimpleNamespace(hidden_states=None, mm_input_embeds=None), next_token_ids=None,
            next_draft_input=None, new_seq_lens=None, kv_loc_plan=None))
    if "get_parallel" in scope:
        scope["get_parallel"] = lambda: types.SimpleNamespace(tp_rank=rank, pp_size=1, attn_tp_rank=0)
        target.tp_rank = None
    else:
        shared["tp_rank"] = rank
    d = w
    if drafter is not worker_class:
        d = object.__new__(drafter)
        d.__dict__.update(shared)
    w.__dict__.update(shared)
    for name, value in (("target_worker", target), ("draft_worker", d)):
        w.__dict__["_" + name] = value
        if not isinstance(getattr(worker_class, name, None), property):
            setattr(w, name, value)
    return w


class BadReq(engine.Req):
    @property
    def rid(self):
        if fault == "rid" and sys._getframe(1).f_code.co_filename == config["file"]:
            raise RuntimeError("rid fails")
        return self._rid

    @rid.setter
    def rid(self, value):
        self._rid = value


entry = next(n for n in ("forward_batch_generation", "forward_batch_speculative_generation") if n in vars(worker_class))
workers = [new_worker(rank) for rank in config.get("ranks", [0])]
requests = {}
launched = []  # v2 results that the scheduler has not processed yet
if fault == "stdout":
    os.close(1)


def call(worker, b, cycle):
    now.cycle = cycle
    rank = config.get("ranks", [0])[workers.index(worker)]
    if "get_parallel" in scope:
        scope["get_parallel"] = lambda: types.SimpleNamespace(tp_rank=rank, pp_size=1, attn_tp_rank=0)
    started = clock.now
    if fault == "clock" and cycle["n"] % 7 == 3:
        time.perf_counter = lambda: 1 / 0
    kwargs = {"on_publish": lambda lens: cycle.update(published=True)} if config.get("on_publish") else {}
    result = getattr(worker, entry)(b, **kwargs)
    time.perf_counter = clock.read
    cycle["call"] = 1e3 * (clock.now - started)
    return result


def process(cycle, result):
    """What the v2 scheduler does with a result, one call later."""
    cycle_lens = [n + 1 for n in cycle["accepted"]]
    result.accept_lens.ready = True
    for r, n in zip(cycle["reqs"], cycle_lens):
        if not r.finished():
            r.output_ids += [1] * n
    report = getattr(workers[0], "on_verify_complete_cpu", None)
    if callable(report):
        if config.get("on_publish"):
            report(num_correct_drafts_per_req=list(cycle["accepted"]), batch_size=len(cycle["reqs"]))
        else:
            report(list(cycle["accepted"]))
    for r in cycle["reqs"]:
        if r.rid in cycle["finish"]:
            r.finished_reason = "length"


count = 0


def one(kind, rids, finish=()):
    global count
    count += 1
    make = BadReq if fault == "rid" else engine.Req
    for rid in rids:
        if rid not in requests:
            requests[rid] = make(rid, rng.randint(5, 400))
    reqs = [requests[rid] for rid in rids]
    accepted = [rng.randint(0, config["steps"]) for _ in rids] if kind == "decode" else []
    b0 = clock.now
    for worker in workers:
        cycle = dict(n=count, kind=kind, rids=list(rids), finish=list(finish), accepted=accepted, phases={}, reqs=reqs,
                     context=sum(len(r.origin_input_ids) + len(r.output_ids) for r in reqs))
        b = engine.batch(kind, reqs, config.get("with_reqs", True))
        saved = clock.now
        result = call(worker, b, cycle)
        if worker is workers[0]:
            end = clock.now
            public = {k: v for k, v in cycle.items() if k != "reqs"}
            first, first_result = cycle, result
            syncs = Torch.synchronized
        elif not config.get("sync_ms"):
            clock.now = saved  # ranks run side by side
    public.update(event="call", start=1e3 * b0, batch=len(rids), syncs=syncs)
    if is_v2:
        if kind == "decode":
            first_result.accept_lens = first_result.accept_lens.on_cpu()
            first_result.copy_done = engine.CopyDone(first_result.accept_lens)
        if launched:
            process(*launched.pop())
        if kind == "decode":
            launched.append((first, first_result))
    elif kind == "decode":
        total = first_result[3] if isinstance(first_result, tuple) else None
        public["returned"] = total
    # The host's or the device's rest of the cycle: on v2 it is nearly all of it.
    clock.advance(draw("rest"))
    record(**public)


for op in config["plan"]:
    kind = op["op"]
    if kind == "pause":
        clock.advance(op["s"])
    elif kind == "raise":
        original = worker_class.__dict__[entry]
        saved, now.cycle = worker_class.verify, None
        worker_class.verify = lambda self, *a, **k: 1 / 0
        try:
            one("decode", op["rids"])
            raise SystemExit("the engine's own error was swallowed")
        except ZeroDivisionError:
            pass
        worker_class.verify = saved
    elif kind == "flush":
        # The engine is idle; the profiler's own thread must print what is open.
        if launched:
            process(*launched.pop())
        clock.advance(op.get("s", 30))
        size = os.fstat(1).st_size
        deadline = time.monotonic() + 20
        while os.fstat(1).st_size == size and time.monotonic() < deadline:
            time.sleep(0.01)
    else:
        n = op.get("n", 1)
        for i in range(n):
            one(kind, op["rids"] or [], op.get("finish", []) if i == n - 1 else ())
if launched:
    process(*launched.pop())
record(event="end", threads=[t.name for t in threading.enumerate()], writes=writes, syncs=Torch.synchronized)
