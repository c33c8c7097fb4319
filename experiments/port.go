package experiments

import (
	"hash/fnv"

	"specrun/experiments/record"
)

// Ports of port: auto. Each launch begins to look at a place of its own, so that
// controllers which do not know of each other's leases (other state folders on
// one machine, other users) seldom try the same one. Places are apart, since
// engines open ports of their own beside the one they serve on, and end well
// below the ports that the system gives to outgoing connections (from 32768 on).
const (
	firstAutoPort  = 30000 // also what a printed command shows
	autoPortPlaces = 200
	autoPortStep   = 10
	autoPorts      = 200 // how many are tried from a launch's place on
)

// autoPort is where a launch begins to look for a free port.
func autoPort(launch string) int {
	h := fnv.New32a()
	h.Write([]byte(launch)) // a hash never fails to take bytes
	return firstAutoPort + autoPortStep*int(h.Sum32()%autoPortPlaces)
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
