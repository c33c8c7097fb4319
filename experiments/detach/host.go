package detach

import (
	"context"
	_ "embed"
	"fmt"
	"io"
	"strings"

	"specrun/remote"
)

// Host is what this package needs of a connection; *remote.Host is one.
type Host interface {
	Name() string
	// Run runs a script to its end; the error is nil only when it exited 0.
	Run(ctx context.Context, s remote.Script) (remote.Result, error)
	// PutVerified writes a new file and compares the host's SHA-256 of it.
	PutVerified(ctx context.Context, f remote.File) (sha string, err error)
	// Stream is Run for output of any length, which goes to w as it comes.
	Stream(ctx context.Context, s remote.Script, w io.Writer) (remote.Result, error)
	// Get copies a file from the host, verified by SHA-256.
	Get(ctx context.Context, path string, w io.Writer) (n int64, sha256 string, err error)
}

var (
	//go:embed scripts/lib.sh
	libText string
	//go:embed scripts/prepare.sh
	prepareText string
	//go:embed scripts/start.sh
	startText string
	//go:embed scripts/look.sh
	lookText string
	//go:embed scripts/list.sh
	listText string
	//go:embed scripts/stop.sh
	stopText string
	//go:embed scripts/remove.sh
	removeText string
	//go:embed scripts/fetch.sh
	fetchText string
)

func script(name, text string, vars ...remote.Var) remote.Script {
	return remote.Script{Name: "detach-" + name, Text: remote.HostLib() + libText + text, Vars: vars}
}

// State is how a sweep stands on its host.
type State string

// States of a sweep on its host.
const (
	Absent  State = "absent"  // nothing of it is there
	Begun   State = "begun"   // its folder is there, and no process ever took it
	Running State = "running" // its process lives
	Ended   State = "ended"   // its process has said how it ended
	Dead    State = "dead"    // its process was killed, or the host went down
)

func parseState(s string) (State, error) {
	switch state := State(s); state {
	case Absent, Begun, Running, Ended, Dead:
		return state, nil
	}
	return "", fmt.Errorf("unexpected state %q", s)
}

// answer is a script's output: the first value of each word that begins a line.
func answer(out []byte) map[string]string {
	a := map[string]string{}
	for line := range strings.Lines(string(out)) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if _, known := a[key]; !known {
			a[key] = value
		}
	}
	return a
}

// NoBuildError says that there is no build of specrun for a host.
type NoBuildError struct {
	Host, OS, Arch string
	Tried          []string // files looked at, with what was wrong
}

func (e *NoBuildError) Error() string {
	return fmt.Sprintf("%s: no specrun for %s/%s to send (looked at: %s)", e.Host, e.OS, e.Arch, strings.Join(e.Tried, "; "))
}

// Hint says what to do.
func (e *NoBuildError) Hint() string {
	if e.OS != "linux" {
		return "a sweep goes on by itself on linux hosts only; leave --detach out"
	}
	return fmt.Sprintf(`"make build" makes dist/specrun-%s-%s; keep it beside specrun, or name it with --worker-binary; without --detach the sweep runs from here`, e.OS, e.Arch)
}

// NoRoomError says that the disk of the host's state folder is too full for a
// sweep. Nothing was sent.
type NoRoomError struct {
	Host, Dir  string
	Free, Need int64 // bytes
}

func (e *NoRoomError) Error() string {
	return fmt.Sprintf("%s: %s has %d MiB free, the sweep needs %d MiB for itself and its results", e.Host, e.Dir, e.Free>>20, e.Need>>20)
}

// Hint says what to do.
func (e *NoRoomError) Hint() string {
	return "free some space there, or set state_dir in hosts.yaml to a folder on another disk"
}

// OthersError says that the folder for sweeps that go on by themselves is another
// user's.
type OthersError struct{ Host, Dir, Owner string }

func (e *OthersError) Error() string {
	return fmt.Sprintf("%s: %s is %s's: sweeps that go on by themselves in that state folder are theirs", e.Host, e.Dir, e.Owner)
}

// Hint says what to do.
func (e *OthersError) Hint() string {
	return fmt.Sprintf("ask %s, who can follow and end them; set state_dir in hosts.yaml to a folder of your own for yours", e.Owner)
}

// RefusedError says that the host did not start the process of a sweep.
type RefusedError struct {
	Host, Dir, Reason string
	Log               string // end of the process's output, "" when it wrote none
}

func (e *RefusedError) Error() string {
	msg := fmt.Sprintf("%s: the sweep in %s was not started: %s", e.Host, e.Dir, e.Reason)
	if log := strings.TrimSpace(e.Log); log != "" {
		msg += ": " + log[strings.LastIndexByte(log, '\n')+1:]
	}
	return msg
}

// Hint says what to do.
func (e *RefusedError) Hint() string {
	if strings.Contains(e.Log, "unknown command") || strings.Contains(e.Log, "was made by specrun") {
		return `the linux build that was sent is not of this specrun: "make build" makes all of them`
	}
	return "specrun.log in that folder has what it said"
}
