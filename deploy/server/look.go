package server

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"specrun/remote"
)

// Phase is how far a launch is.
type Phase string

// Phases of a launch.
const (
	Absent  Phase = "absent"  // no server process was started
	Running Phase = "running" // the process lives, ready or not
	Exited  Phase = "exited"  // it has ended; processes that it left may live
)

// State is how a launch stands on the host.
type State struct {
	Launch   string
	StateDir string
	Dir      string // of the launch on the host, absolute; made by whoever starts it
	Phase    Phase
	Identity Identity // zero when absent
	// ExitCode is the process's exit status, -1 when it runs, was ended by a
	// signal, or nobody saw its end (the host was restarted).
	ExitCode int
	// Signal ended the process; 0 when none did. A status above 128 is taken for
	// one, as shells report it.
	Signal  int
	Stopped bool // Stop was called for it
	LogPath string
	LogSize int64 // bytes
	// LogFile names the file behind LogPath (device and inode), "-" when there is
	// none: another one under the same path is another log.
	LogFile string
	// Used is what its processes have used so far; nil when LookClosely was not
	// asked, or nothing of it lives.
	Used *Used
	// Ended are children of its processes that have ended and that their parents
	// have not asked for: in a server that goes on, workers that it misses.
	Ended []EndedChild
	// Listener is the process of this launch that listens on the port LookClosely
	// was asked about, Stranger one that is not of this launch; nil for none.
	Listener, Stranger *Holder

	// Attached tells that somebody else runs the server, see Attach. Its LogPath is
	// "" when there is none that can be read.
	Attached bool
	LogFrom  int64   // length of an attached server's log when the launch began
	Replaced *Holder // who listens where an attached server did that has ended; nil: nobody

	// In is the container that the launch lives in, where its folder and its log
	// are; nil when it lives on the host itself.
	In *Place

	listeners []listener
}

// Used is what the processes of a launch have used since each of them began.
type Used struct {
	Processes int
	CPU       time.Duration // of all cores together
	Read      int64         // bytes through read(2), those from caches too
	Disk      int64         // bytes from storage, those of mapped files too
	Written   int64         // bytes
	GPUMiB    int64         // memory held on GPUs; 0 also where no nvidia-smi tells
}

// EndedChild is one that nobody has waited for.
type EndedChild struct {
	PID  int
	Name string // as /proc/PID/stat has it
}

type listener struct {
	Holder
	ours bool
}

// Look says how a launch stands. It changes nothing. A *ElsewhereError says that
// the launch belongs to another machine or container with the same state folder.
func Look(ctx context.Context, h Host, stateDir, launch string) (State, error) {
	return look(ctx, h, stateDir, launch, 0, false)
}

// LookClosely is Look with who listens on port, when it is not 0, and with used
// also what the launch's processes have used and which of them have ended. It
// costs the host some ten milliseconds of one core, more where nvidia-smi is slow.
func LookClosely(ctx context.Context, h Host, stateDir, launch string, port int, used bool) (State, error) {
	return look(ctx, h, stateDir, launch, port, used)
}

// Listens says whether a process of the launch listens through this very socket,
// as LookClosely saw it. A server that was started anew in its place does not.
func (st State) Listens(socket string) bool {
	for _, l := range st.listeners {
		if l.ours && l.Socket == socket {
			return true
		}
	}
	return false
}

// look says who listens on port, when it is not 0.
func look(ctx context.Context, h Host, stateDir, launch string, port int, closely bool) (State, error) {
	if err := checkID(launch); err != nil {
		return State{}, err
	}
	res, err := h.Run(ctx, script("look", unitText+attachedText+lookText,
		remote.Var{Name: "STATE", Value: stateDir},
		remote.Var{Name: "ID", Value: launch},
		remote.Var{Name: "PORT", Value: strconv.Itoa(port)},
		remote.Var{Name: "CLOSE", Value: flag(closely)},
	))
	if err != nil {
		return State{}, fmt.Errorf("look at launch %s: %w", launch, err)
	}
	st, err := parseState(h.Name(), stateDir, launch, port, remote.Lines(res.Stdout))
	if err != nil || st.In == nil {
		return st, err
	}
	return st.within(ctx, h, port, closely)
}

func parseState(host, stateDir, launch string, port int, answer []remote.Line) (State, error) {
	st := State{Launch: launch, StateDir: stateDir, ExitCode: -1}
	var atPort int // of an attached server
	var here string
	var ours bool
	var err error
	for _, f := range answer {
		switch f.Key {
		case "dir":
			st.Dir, st.LogPath = f.Value, f.Value+"/server.log"
		case "container":
			var p Place
			p, err = parsePlace(f.Value)
			st.In = &p
		case "attached":
			st.Attached, st.LogPath = true, ""
		case "port":
			atPort, err = strconv.Atoi(f.Value)
		case "log":
			st.LogPath = f.Value
		case "log_from":
			st.LogFrom, err = strconv.ParseInt(f.Value, 10, 64)
		case "replaced":
			var holder Holder
			holder, err = parseHolder(atPort, f.Value)
			st.Replaced = &holder
		case "stopped":
			st.Stopped = true
		case "phase":
			st.Phase = Phase(f.Value)
		case "identity":
			st.Identity, err = parseIdentity(f.Value)
		case "here":
			here = f.Value
		case "status":
			st.ExitCode, st.Signal, err = parseStatus(f.Value)
		case "log_size":
			st.LogSize, err = strconv.ParseInt(f.Value, 10, 64)
		case "log_file":
			st.LogFile = f.Value
		case "used":
			st.Used, err = parseUsed(f.Value)
		case "gpu_mib":
			if st.Used != nil {
				st.Used.GPUMiB, err = strconv.ParseInt(f.Value, 10, 64)
			}
		case "ended":
			pid, name, _ := strings.Cut(f.Value, " ")
			e := EndedChild{Name: name}
			e.PID, err = strconv.Atoi(pid)
			st.Ended = append(st.Ended, e)
		case "whose":
			ours = f.Value == "ours"
		case "listener":
			var holder Holder
			holder, err = parseHolder(port, f.Value)
			st.listeners = append(st.listeners, listener{holder, ours})
			switch {
			case ours && st.Listener == nil:
				st.Listener = &holder
			case !ours && st.Stranger == nil:
				st.Stranger = &holder
			}
		}
		if err != nil {
			return State{}, fmt.Errorf("%s: look at launch %s: %w", host, launch, err)
		}
	}
	switch st.Phase {
	case Absent, Running, Exited:
		return st, nil
	case "elsewhere":
		return State{}, &ElsewhereError{Host: host, Launch: launch, Identity: st.Identity, HereID: here}
	}
	return State{}, fmt.Errorf("%s: look at launch %s: unexpected answer %v", host, launch, answer)
}

// ticksPerSecond is USER_HZ, in which /proc counts CPU time; it is 100 on every
// machine that has GPUs.
const ticksPerSecond = 100

// parseUsed reads "processes ticks read disk written".
func parseUsed(s string) (*Used, error) {
	var u Used
	var ticks int64
	if _, err := fmt.Sscanf(s, "%d %d %d %d %d", &u.Processes, &ticks, &u.Read, &u.Disk, &u.Written); err != nil {
		return nil, fmt.Errorf("used %q: %w", s, err)
	}
	u.CPU = time.Duration(ticks) * time.Second / ticksPerSecond
	return &u, nil
}

func flag(on bool) string {
	if on {
		return "1"
	}
	return "0"
}

// parseStatus splits what a shell's $? says into exit code and signal.
func parseStatus(s string) (code, signal int, err error) {
	n, err := strconv.Atoi(s)
	if err != nil {
		return -1, 0, fmt.Errorf("exit status %q: %w", s, err)
	}
	if n > 128 && n <= 128+64 {
		return -1, n - 128, nil
	}
	return n, 0, nil
}
