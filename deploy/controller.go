package deploy

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// leftoverAge is when staged content that no transaction names is taken away
// whoever left it, in seconds of the host's clock.
const leftoverAge = 3600

// namelessAge is the same for a transaction that was cut off before it could
// say whose it is; that takes microseconds.
const namelessAge = 10

// machine names this computer.
func machine() string {
	name, err := os.Hostname()
	if err != nil {
		return "unknown"
	}
	return strings.ReplaceAll(name, "/", "_")
}

// startOf tells a process from a later one of the same pid; "0" where that
// cannot be had.
func startOf(pid int) string {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "0"
	}
	_, rest, _ := strings.Cut(string(data[strings.LastIndexByte(string(data), ')')+1:]), " ")
	fields := strings.Fields(rest)
	if len(fields) < 20 {
		return "0"
	}
	return fields[19]
}

// controllerDead says for certain that a controller of this machine has ended.
func controllerDead(name string) bool {
	_, at, _ := strings.Cut(name, "@")
	parts := strings.Split(at, "/")
	if len(parts) != 3 || parts[0] != machine() {
		return false
	}
	pid, err := strconv.Atoi(parts[1])
	if err != nil || pid <= 0 {
		return false
	}
	if err := syscall.Kill(pid, 0); errors.Is(err, syscall.ESRCH) {
		return true
	}
	start := startOf(pid)
	return start != "0" && parts[2] != "0" && start != parts[2]
}

// leftovers is what earlier commands left and no transaction names.
type leftovers struct {
	ids     []string
	folders []string
}

func (l leftovers) empty() bool { return len(l.ids) == 0 && len(l.folders) == 0 }

// leftovers finds staged content of commands that have ended, transactions
// that were done but not cleared away, and claims of folders without patches.
func (f *Facts) leftovers(stateDir, controller string) leftovers {
	var l leftovers
	state := f.state(stateDir)
	if state == nil || !state.Exists || !state.Writable {
		return l
	}
	phase := map[string]string{}
	for _, t := range state.Transactions {
		phase[t.ID] = t.Phase
		dead := controllerDead(t.Controller)
		if t.Phase == "done" || t.Phase == "staged" && (dead || t.Age > leftoverAge || t.Controller == "" && t.Age > namelessAge) {
			phase[t.ID] = "over"
			l.ids = append(l.ids, t.ID)
		}
	}
	for folder, here := range f.Folders {
		junk := false
		for _, s := range here.Stages {
			switch p := phase[s.ID]; {
			case p == "over":
				junk = true
			case p == "" && (s.Mine || s.Age > leftoverAge):
				junk = true
				l.ids = append(l.ids, s.ID)
			}
		}
		idle := here.Claim != nil && here.Claim.StateDir == stateDir && !f.patchedIn(folder) && len(f.open(state)) == 0
		if junk || idle {
			l.folders = append(l.folders, folder)
		}
	}
	return l
}

func (f *Facts) patchedIn(folder string) bool {
	for _, file := range f.Files {
		if !strings.HasPrefix(file.Path, folder+"/") {
			continue
		}
		if k, err := f.know(file.Path); err != nil || k.ledger != nil && len(k.ledger.Stack) > 0 {
			return true
		}
	}
	return false
}
