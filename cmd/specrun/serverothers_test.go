package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"specrun/deploy/server"
	"specrun/experiments"
)

// A host as it is found: a server of ours with a worker that set itself a title, a
// colleague's in a container, one that a timeout runs, and a training.
func TestOccupy_WhoseProcessesAndMemoryAre(t *testing.T) {
	proc := func(pid, uid int, command string, above ...int) server.Occupant {
		return server.Occupant{PID: pid, UID: uid, User: map[int]string{7: "anna", 8: "ben"}[uid], Argv: strings.Fields(command), Ancestors: above, Age: time.Hour}
	}
	const serve = "python3 -m sglang.launch_server --port 30000"
	ours, lost, box := proc(100, 7, serve, 1), proc(400, 7, "sglang::scheduler_TP0", 1), proc(300, 8, "vllm serve M --port=8000", 290, 1)
	box.Container, lost.Launch = strings.Repeat("ab", 32), "old"
	mine := proc(201, 7, serve, 200, 1)
	mine.Listens = []int{29999, 30000}
	found := server.Occupants{UID: 7,
		Processes: []server.Occupant{ours, proc(101, 7, "sglang::scheduler_TP0", 100, 1), proc(200, 7, "timeout 9h "+serve, 1), mine, proc(202, 7, serve, 201, 200, 1), box, lost,
			proc(500, 8, "python3 train.py", 1), proc(600, 8, "vim /src/vllm/x.py", 1)},
		Cards: []server.Card{{Index: 0, UUID: "A", MiB: 9000}, {Index: 1, UUID: "B", MiB: 5000}, {Index: 2, UUID: "C", MiB: 900}, {Index: 3, UUID: "D", MiB: -1}},
		Holders: []server.GPUHolder{{GPU: "B", PID: 101, MiB: "100"}, {GPU: "A", PID: 101, MiB: "8500"}, {GPU: "B", PID: 202, MiB: "200"}, {GPU: "B", PID: 201, MiB: "300"},
			{GPU: "C", PID: 400, MiB: "[N/A]"}, {GPU: "D", PID: 500, MiB: "5"}, {GPU: "B", PID: 999, MiB: "1", Command: "/there"}}}
	o := occupy("h", found, []experiments.RunningServer{{Launch: "k3v7", Identity: server.Identity{PID: 100}}})
	if got := memoryText(o.ours["k3v7"]); len(o.ours) != 1 || got != "8600 MiB of GPU 0-1" {
		t.Errorf("ours: %+v (%s)", o.ours, got)
	}
	var text strings.Builder
	for _, l := range o.foreign {
		text.WriteString(l.text())
	}
	want := `h: not ours: sglang server, process 201 of user anna, running for 1h0m0s, port 30000, 500 MiB of GPU 1
  command  python3 -m sglang.launch_server --port 30000
  next     specrun watch --pid 201 --host h
           specrun init --from-pid 201 --host h
           specrun server stop --pid 201 --host h
h: not ours: vllm server, process 300 of user ben, running for 1h0m0s, port 8000
  in container abababababab
  command  vllm serve M --port=8000
  next     specrun init --from-container abababababab --host h
           only ben or root can stop it
h: no server: process 400 of user anna, running for 1h0m0s, holds GPU 2
  of launch old, which a specrun with another state folder started, or whose server has ended
  command  sglang::scheduler_TP0
  next     specrun server stop --pid 400 --host h
h: no server: process 500 of user ben, running for 1h0m0s, holds 5 MiB of GPU 3
  command  python3 train.py
  next     only ben or root can stop it
h: process 999, which cannot be seen from here, holds 1 MiB of GPU 1 (/there)
h: 4399 MiB of GPU 1 is held by no process that can be seen from here: by one in another container, or the driver has not got it back
`
	if got := text.String(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	// For root all may be stopped; what specrun runs in a container is its own.
	found.UID = 0
	o = occupy("h", found, []experiments.RunningServer{{Launch: "k3v7", InID: strings.Repeat("ab", 32), Identity: server.Identity{PID: 100}}})
	if slices.ContainsFunc(o.foreign, func(l foreignLine) bool { return l.PID == 300 }) {
		t.Error("the launch in the container is listed as somebody else's")
	}
	if i := slices.IndexFunc(o.foreign, func(l foreignLine) bool { return l.PID == 100 }); i < 0 {
		t.Error("a process that has the number of one in the container is taken for it")
	}
	if i := slices.IndexFunc(o.foreign, func(l foreignLine) bool { return l.PID == 500 }); i < 0 || !slices.Equal(o.foreign[i].Next, []string{"specrun server stop --pid 500 --host h"}) {
		t.Errorf("%+v", o.foreign)
	}
}

func TestOccupy_NothingThere(t *testing.T) {
	if o := occupy("h", server.Occupants{}, nil); len(o.foreign)+len(o.ours) != 0 {
		t.Errorf("%+v", o)
	}
}
