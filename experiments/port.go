package experiments

import (
	"hash/fnv"
	"strconv"

	"specrun/deploy/server"
	"specrun/experiments/record"
)

// Ports of port: auto. Each launch begins to look at a place of its own, so that
// controllers which do not know of each other's leases (other state folders on
// one machine, other users) seldom try the same one. All of them, with the room
// behind, end below the ports that the system gives to outgoing connections (from
// 32768 on).
const (
	shownPort     = 30000 // what a printed command shows
	firstAutoPort = 20000
	autoPortStep  = 10
	autoPorts     = 1170 // how many places there are
)

// autoPort is where a launch begins to look for a free port.
func autoPort(launch string) int {
	h := fnv.New32a()
	h.Write([]byte(launch)) // a hash never fails to take bytes
	return firstAutoPort + autoPortStep*int(h.Sum32()%autoPorts)
}

// sglangRoom is how far from its own port SGLang looks for one for NCCL, up to
// 0.5.9: no other launch's server must come up there meanwhile.
const sglangRoom = 1001

// sglangDelta is where the ports begin that SGLang derives from its own one when
// attention runs data-parallel.
const sglangDelta = 233

// portRoom says which ports beside its own a server needs: how many from its own
// on no other launch may use, and at which distances it surely listens.
func portRoom(cfg ServerConfig) (room int, derived []int) {
	if cfg.Engine != "sglang" {
		return 1, nil
	}
	on := func(names ...string) (string, bool) {
		for _, f := range cfg.Flags {
			for _, n := range names {
				if f.Name == n && f.Kind != flagOmitted {
					if len(f.Values) == 0 {
						return "", true
					}
					return f.Values[0], true
				}
			}
		}
		return "", false
	}
	if _, dp := on("enable-dp-attention"); !dp {
		return sglangRoom, nil
	}
	if _, elsewhere := on("dist-init-addr", "nccl-init-addr"); elsewhere {
		return sglangRoom, nil // then they are derived from that
	}
	ranks := 1
	if text, ok := on("dp-size", "data-parallel-size", "dp"); ok {
		if n, err := strconv.Atoi(text); err == nil {
			ranks = n
		}
	}
	// The group's own, then tokenizer, detokenizer, rpc and metrics, and each rank.
	for d := range 5 + ranks {
		derived = append(derived, sglangDelta+d)
	}
	return sglangRoom, derived
}

// portRequest asks for a launch's port; port is the one that it has to be, 0 for
// any.
func portRequest(cfg ServerConfig, launch string, port int) server.PortRequest {
	q := server.PortRequest{From: port, Count: 1}
	if port == 0 {
		q = server.PortRequest{From: autoPort(launch), Count: autoPorts, Step: autoPortStep, First: firstAutoPort, Span: autoPorts * autoPortStep}
	}
	q.Room, q.Derived = portRoom(cfg)
	return q
}

const anotherPort = "somebody took the port meanwhile: trying once more with another one"

// portWasTaken says that a launch failed only because somebody took the port
// that was free when it was chosen, so that another launch, which begins to look
// elsewhere, is worth a try. It says so once for each launch of a plan.
func (a *attempt) portWasTaken(f *failure) bool {
	if f.class != record.ClassPortInUse || a.cfg.Port != 0 || len(a.planned.Runs) == 0 {
		return false
	}
	slot := a.slot(a.planned.Runs[0])
	if a.x.moved[slot] {
		return false
	}
	a.x.moved[slot] = true
	return true
}
