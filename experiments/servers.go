package experiments

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"time"

	"specrun/deploy/server"
	"specrun/experiments/record"
	"specrun/remote"
)

// launchAbout is what a launch's folder on the host says of its server, for
// whoever finds it there later, from any machine and without a store.
type launchAbout struct {
	Experiment string        `json:"experiment"`
	Sweep      string        `json:"sweep,omitempty"` // "" = started by hand
	Saved      string        `json:"saved,omitempty"` // id of the saved server that it is again
	Params     record.Params `json:"params,omitempty"`
	Baseline   bool          `json:"baseline,omitempty"`
	Patches    []PatchRef    `json:"patches,omitempty"`
	// Files are those that patches change or could change, as they were when the
	// process was started: path -> SHA-256.
	Files map[string]string `json:"files,omitempty"`
}

func (a *attempt) about() (string, error) {
	about := launchAbout{Experiment: a.x.plan.Name, Sweep: a.x.sweepID, Patches: a.cfg.Patches, Files: map[string]string{}}
	ord := a.best
	if len(a.planned.Runs) > 0 {
		ord = &a.planned.Runs[0].Cell
	}
	if ord != nil {
		cell := a.x.plan.Cells[*ord]
		about.Baseline, about.Params = cell.Baseline, maps.Clone(cell.Params)
		maps.DeleteFunc(about.Params, func(key string, _ any) bool { return strings.HasPrefix(key, "bench.") })
	}
	for _, f := range a.patches.Files {
		about.Files[f.Path] = f.SHA256
	}
	text, err := plainJSON(about)
	if err != nil {
		return "", fmt.Errorf("what is kept about launch %s: %w", a.rec.ID, err)
	}
	return string(text), nil
}

// leaveLeases gives the leases of a server that is left running over to it.
func (a *attempt) leaveLeases(ctx context.Context) error {
	ctx, cancel := a.x.cleaning(ctx)
	defer cancel()
	return a.x.patiently(ctx, func() error {
		return a.x.host.Leases.Leave(ctx, a.leases.Names, a.owner())
	})
}

// ServerState is how far a server that lives is.
type ServerState string

// States of a server that lives.
const (
	ServerStarting ServerState = "starting" // nobody listens on its port yet
	ServerRunning  ServerState = "running"
	ServerStopping ServerState = "stopping" // a stop was begun
)

// RunningServer is a server on a host that some specrun started there, for a
// sweep or by hand, and whose process lives.
type RunningServer struct {
	Launch     string
	Identity   server.Identity
	URL        string // as seen from the host; "" when its port is not known
	Port       int
	Started    time.Time // host's clock
	Age        time.Duration
	State      ServerState
	LogPath    string
	LogSize    int64 // bytes
	Experiment string
	Sweep      string // "" = started by hand
	Saved      string // id of the saved server that it is again, of which no cell is known; "" else
	Params     record.Params
	Baseline   bool
	Patches    []PatchRef // deployed when it was started
	Container  string     // that it lives in; "" = none
	InID       string     // id of that container
	// PatchLive says whether the process has loaded the files as they are now: it
	// was started after the last change to them. nil: not known.
	PatchLive *bool
	// Attached tells that somebody else runs it, see server.Attach.
	Attached bool
	// Controller is the one that starts or measures the server now, "" when none
	// is known to.
	Controller string
}

// Servers finds every server on a host that was started with this state folder
// and lives. It changes nothing.
func Servers(ctx context.Context, h RemoteHost, stateDir string) ([]RunningServer, error) {
	listed, err := server.List(ctx, h, stateDir)
	if err != nil || len(listed) == 0 {
		return nil, err
	}
	leases, err := server.Leases(ctx, h, stateDir)
	if err != nil {
		return nil, err
	}
	var all []RunningServer
	for _, l := range listed {
		s := RunningServer{Launch: l.Launch, Identity: l.Identity, Port: l.Port, Started: l.Started, Age: l.Age, State: ServerRunning,
			LogPath: l.LogPath, LogSize: l.LogSize}
		switch {
		case l.Stopped:
			s.State = ServerStopping
		case l.Port != 0 && !l.Listens:
			s.State = ServerStarting
		}
		if l.Port != 0 {
			s.URL = fmt.Sprintf("http://127.0.0.1:%d", l.Port)
		}
		files, err := s.lookInside(ctx, h, stateDir, l.In)
		if err != nil {
			return nil, err
		}
		for _, lease := range leases {
			if lease.Owner.Launch == l.Launch && !lease.Expired && !ControllerGone(lease.Owner.Controller) {
				s.Controller = lease.Owner.Controller
			}
		}
		if l.About != "" {
			var about launchAbout
			if err := json.Unmarshal([]byte(l.About), &about); err != nil {
				return nil, fmt.Errorf("%s: what is kept about launch %s: %w", h.Name(), l.Launch, err)
			}
			s.Experiment, s.Sweep, s.Saved, s.Params, s.Baseline, s.Patches = about.Experiment, about.Sweep, about.Saved, typedParams(about.Params), about.Baseline, about.Patches
			if s.PatchLive, err = filesAre(ctx, files, about.Files); err != nil {
				return nil, err
			}
		}
		if files != h {
			if err := files.Close(); err != nil {
				return nil, err
			}
		}
		all = append(all, s)
	}
	return all, nil
}

// lookInside completes what the host knows of a server that lives in a container,
// and returns where its files are: the container, to be closed, or h itself.
func (s *RunningServer) lookInside(ctx context.Context, h RemoteHost, stateDir string, at *server.Place) (RemoteHost, error) {
	if at == nil {
		return h, nil
	}
	s.Container, s.InID = at.Name, at.ID
	st, err := server.Look(ctx, h, stateDir, s.Launch)
	if err != nil {
		return nil, err
	}
	s.LogPath, s.LogSize = st.LogPath, st.LogSize
	inner, err := server.Enter(ctx, h, *at)
	if containerGone(err) {
		return h, nil
	}
	return inner, err
}

// filesAre says whether files still have the content that a process found when
// it was started; nil when that cannot be known.
func filesAre(ctx context.Context, h RemoteHost, files map[string]string) (*bool, error) {
	var sums strings.Builder
	for _, path := range sortedKeys(files) {
		if files[path] == "" || strings.ContainsAny(path, "\\\n\r") {
			return nil, nil
		}
		fmt.Fprintf(&sums, "%s  %s\n", files[path], path)
	}
	if sums.Len() == 0 {
		return nil, nil
	}
	same, err := contentIs(ctx, h, sums.String(), "")
	return &same, err
}

// contentIs runs the script that compares files with sums, lines of
// "sha256  path"; with a folder of transactions also none may be open.
func contentIs(ctx context.Context, h RemoteHost, sums, transactions string) (bool, error) {
	res, err := h.Run(ctx, remote.Script{Name: "unchanged", Text: unchangedText, Vars: []remote.Var{
		{Name: "SUMS", Value: strings.TrimSuffix(sums, "\n")}, {Name: "TX", Value: transactions}}})
	if err != nil {
		return false, err
	}
	return strings.TrimSpace(string(res.Stdout)) == "unchanged", nil
}

// StopServer ends one launch's server with proof, as server.Stop does, and gives
// back the ports and GPUs that were leased for it. Patches stay as they are.
func StopServer(ctx context.Context, h RemoteHost, stateDir, launch string, grace time.Duration) (server.Proof, error) {
	return server.Stop(ctx, h, stateDir, launch, server.StopOptions{Grace: grace, Release: true})
}

// ReleaseDeadLeases releases the leases that nothing stands behind any more:
// expired or of a controller that is known to have ended, and without a server
// process. It returns those it released, also with an error.
func ReleaseDeadLeases(ctx context.Context, h RemoteHost, stateDir string) ([]server.Lease, error) {
	leases, err := server.Leases(ctx, h, stateDir)
	if err != nil {
		return nil, err
	}
	var released []server.Lease
	for _, l := range leases {
		if l.Alive || !l.Expired && !ControllerGone(l.Owner.Controller) || l.Owner.Launch == "" {
			continue
		}
		if !l.Expired { // whether its launch lives was not looked at
			st, err := server.Look(ctx, h, stateDir, l.Owner.Launch)
			if err != nil {
				return released, err
			}
			if st.Phase == server.Running {
				continue
			}
		}
		if err := server.ReleaseLease(ctx, h, stateDir, []string{l.Name}, l.Owner); err != nil {
			return released, err
		}
		released = append(released, l)
	}
	return released, nil
}
