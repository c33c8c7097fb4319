"""Runs the worker against a wall clock that jumps to each deadline, and prints exact times of its cycles.

Usage: cycles.py STEPS PROBE CYCLES; PROBE is light (wall times, no synchronize), sync (a synchronize before
and after each phase) or events. Prints the means as one JSON object, in ms.
"""

import json
import sys

import torch
from sglang.srt.managers.schedule_batch import Req, ScheduleBatch
from sglang.srt.managers.tp_worker import TpModelWorker
from sglang.srt.model_executor.forward_batch_info import ForwardMode
from sglang.srt.server_args import prepare_server_args
from sglang.srt.speculative.eagle_worker import EAGLEWorker
from specrun_lab import device as lab_device
from specrun_lab import settings as lab_settings
from specrun_lab.timing import Timing

steps, probe, cycles = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])


class Wall:
    t = 1000.0

    def now(self):
        return self.t

    def wait_until(self, deadline):
        self.t = max(self.t, deadline)


wall = Wall()
settings = lab_settings.load()
timing = Timing(settings)
device = lab_device.Device(timing.sync_cost, settings.behind_ms, wall)
lab_device.use(device)
args = prepare_server_args(
    "--model-path m --speculative-algorithm EAGLE3 --speculative-eagle-topk 1 --speculative-num-steps".split() + [str(steps)]
)
args.resolve(lambda text: None)
worker = EAGLEWorker(args, 0, 0, device, timing, settings.acceptance, TpModelWorker(args, 0, 0, device, timing))
phases = {"draft": [], "verify": [], "forward_draft_extend_after_decode": []}


def wrap(name):
    body = getattr(EAGLEWorker, name)

    def wrapped(self, *a, **k):
        if probe == "events":
            begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            begin.record()
            result = body(self, *a, **k)
            end.record()
            phases[name].append((begin, end))
            return result
        if probe == "sync":
            torch.cuda.synchronize()
        begin = wall.now()
        result = body(self, *a, **k)
        if probe == "sync":
            torch.cuda.synchronize()
        phases[name].append((wall.now() - begin) * 1000.0)
        return result

    setattr(EAGLEWorker, name, wrapped)


for name in phases:
    wrap(name)
req = Req("r", 1, 10, 100000, None)
worker.forward_batch_generation(ScheduleBatch([req], ForwardMode.EXTEND))
batch = ScheduleBatch([req], ForwardMode.DECODE)
worker.forward_batch_generation(batch)  # the first has no re-extend before it
for spans in phases.values():
    spans.clear()
begin, tokens = wall.now(), len(req.output_ids)
for _ in range(cycles):
    timing.begin_cycle()
    worker.forward_batch_generation(batch)
total = (wall.now() - begin) * 1000.0 / cycles
tokens = len(req.output_ids) - tokens
torch.cuda.synchronize()
mean = {
    name: sum(s if isinstance(s, float) else s[0].elapsed_time(s[1]) for s in spans) / len(spans)
    for name, spans in phases.items()
}
print(
    json.dumps(
        {
            "total": total,
            "draft": mean["draft"],
            "verify": mean["verify"],
            "extend": mean["forward_draft_extend_after_decode"],
            "other": total - sum(mean.values()),
            "tokens": tokens,
            "resets": device.resets,
        }
    )
)
