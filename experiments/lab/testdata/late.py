"""A process that stands still in the middle: prints what the clock makes of it, for each pause in ms given."""

import json
import sys

from specrun_lab import device as lab_device


class Wall:
    t = 1000.0

    def now(self):
        return self.t

    def wait_until(self, deadline):
        self.t = max(self.t, deadline)


out = []
for pause in sys.argv[1:]:
    wall = Wall()
    device = lab_device.Device(0.25, 50.0, wall)
    begin = wall.now()
    done = []
    for i in range(10):
        device.launch(10.0)
        if i == 4:
            wall.t += float(pause) / 1000.0
        device.later(lambda: done.append(wall.now()))
        device.read()
    device.catch_up()
    out.append({"total": (wall.now() - begin) * 1000.0, "resets": device.resets, "done": len(done)})
print(json.dumps(out))
