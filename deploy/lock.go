package deploy

import (
	"context"
	"strconv"

	"specrun/remote"
)

// Lock is the newest generation of one lock on a host.
type Lock struct {
	Name       string `json:"name"` // install-<folder key>
	Generation int    `json:"generation"`
	Held       bool   `json:"held"`
	Reason     string `json:"reason"` // released, dead, rebooted, unowned; running, child, hidden, other-host
	PID        int    `json:"pid"`
	User       string `json:"user"`
	What       string `json:"what"` // the folder that is locked
	HostID     string `json:"host_id"`
}

var lockScripts = []string{"common.sh", "lock.sh", "locks.sh"}

// LockStatus lists the install locks of a state folder ("" = the default). It
// changes nothing.
func LockStatus(ctx context.Context, t Target, stateDir string) ([]Lock, error) {
	return locks(ctx, t, stateDir, "", 0)
}

// ReleaseLock gives back the generation of a lock that the caller has looked
// at. One whose script is running is a *LockedError: use ApplyOptions.Take.
// It returns the locks as they are afterwards.
func ReleaseLock(ctx context.Context, t Target, stateDir string, l Lock) ([]Lock, error) {
	return locks(ctx, t, stateDir, l.Name, l.Generation)
}

func locks(ctx context.Context, t Target, stateDir, release string, generation int) ([]Lock, error) {
	res, err := t.Run(ctx, remote.Script{Name: "locks", Text: shell(lockScripts...), Vars: []remote.Var{
		{Name: "state_dir", Value: stateDir}, {Name: "release", Value: release}, {Name: "generation", Value: strconv.Itoa(generation)}}})
	if err != nil {
		return nil, scriptError(t.Name(), res, err)
	}
	var ls []Lock
	for _, l := range remote.Lines(res.Stdout) {
		if l.Key == "lock" {
			ls = append(ls, Lock{Name: l.Value})
			continue
		}
		if len(ls) == 0 {
			continue
		}
		at := &ls[len(ls)-1]
		switch l.Key {
		case "generation":
			at.Generation, _ = strconv.Atoi(l.Value)
		case "verdict":
			at.Held = l.Value == "held"
		case "reason":
			at.Reason = l.Value
		case "pid":
			at.PID, _ = strconv.Atoi(l.Value) // 0: not named yet
		case "user":
			at.User = l.Value
		case "what":
			at.What = l.Value
		case "host":
			at.HostID = l.Value
		}
	}
	return ls, nil
}
