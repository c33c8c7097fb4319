package experiments

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"specrun/deploy/server"
)

// Foreign deals with servers that specrun did not start. Calls block until done
// or until ctx ends.
type Foreign interface {
	// Attach binds a launch to a server that somebody else runs, see
	// server.Attach.
	Attach(ctx context.Context, to server.AttachTo) (server.Attachment, error)
	// Leases lists who holds GPUs and ports of the host.
	Leases(ctx context.Context) ([]server.Lease, error)
	// Saved lists the servers that are kept to be started again.
	Saved(ctx context.Context) ([]server.Saved, error)
	// Restart starts one of them again, see RestartSaved.
	Restart(ctx context.Context, id string, o RestartOptions) (*Restarted, error)
}

type remoteForeign struct {
	h     RemoteHost
	state string
}

func (f remoteForeign) Attach(ctx context.Context, to server.AttachTo) (server.Attachment, error) {
	to.StateDir = f.state
	return server.Attach(ctx, f.h, to)
}

func (f remoteForeign) Leases(ctx context.Context) ([]server.Lease, error) {
	return server.Leases(ctx, f.h, f.state)
}

func (f remoteForeign) Saved(ctx context.Context) ([]server.Saved, error) {
	return server.SavedServers(ctx, f.h, f.state)
}

func (f remoteForeign) Restart(ctx context.Context, id string, o RestartOptions) (*Restarted, error) {
	return RestartSaved(ctx, f.h, f.state, id, o)
}

// HideArgv hides the secrets in a command line that is to be shown: values of
// flags that are named like secrets, and what looks like one.
func HideArgv(host string, argv []string) []string { return newRedactor(host, nil).argv(argv) }

// RestartOptions is what a start of a saved server needs from outside.
type RestartOptions struct {
	Launch     string        // id for it, should no launch have been begun for it before
	Controller string        // who holds its leases while it starts
	Parent     string        // the sweep whose place in the queue for GPUs it has; "" for none
	LeaseTTL   time.Duration // 0 = 60 s
	Timeout    time.Duration // until its port answers; 0 = 60 min
	Poll       time.Duration // between looks; 0 = 500 ms
}

func (o RestartOptions) withDefaults() RestartOptions {
	o.LeaseTTL = orDefault(o.LeaseTTL, time.Minute)
	o.Timeout = orDefault(o.Timeout, time.Hour)
	o.Poll = orDefault(o.Poll, 500*time.Millisecond)
	return o
}

// Restarted is a saved server that serves again.
type Restarted struct {
	Saved    server.Saved
	Launch   string
	Identity server.Identity
	URL      string // as seen from the host; "" when it listens on no port
	LogPath  string
	Already  bool // it was running: nothing was started
}

// RestartSaved starts a server again that was stopped and is kept on the host:
// its command line, folder and environment as they were, as a launch of ours
// which status, logs and stop know, with a log of its own. It returns when a
// process of it listens on the port and answers HTTP there (without a port: when
// it runs), and is then left running with leases on its port and GPUs. A start
// that fails is undone. Of several who want the same one, or one who was killed
// in between, one launch comes out: called again it goes on with that. Errors are
// those of package server: *server.NotSavedError, *server.PortError,
// *server.HeldError, *server.ExitedError, *server.NotReadyError.
func RestartSaved(ctx context.Context, h RemoteHost, stateDir, id string, o RestartOptions) (*Restarted, error) {
	o = o.withDefaults()
	saved, environ, err := server.ReadSaved(ctx, h, stateDir, id)
	if err != nil {
		return nil, err
	}
	r := &restart{h: h, state: stateDir, o: o, saved: saved}
	if err := r.claim(ctx); err != nil {
		return nil, err
	}
	if r.st.Phase == server.Running {
		if err := r.wait(ctx); err != nil {
			return nil, err
		}
		return r.done(ctx, saved.Restored != "")
	}
	owner := r.owner()
	if _, err := server.Acquire(ctx, h, stateDir, server.LeaseRequest{Names: r.leases(environ), Owner: owner, Parent: o.Parent, TTL: o.LeaseTTL}); err != nil {
		return nil, err
	}
	err = r.start(ctx, environ)
	if err == nil {
		err = r.wait(ctx)
	}
	if err != nil {
		if hostLost(err) {
			return nil, err // whoever calls again goes on with the launch
		}
		undo, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Minute)
		defer cancel()
		if _, stopErr := StopServer(undo, h, stateDir, r.launch, 0); stopErr != nil {
			return nil, fmt.Errorf("%w; and it was not stopped: %v", err, stopErr)
		}
		return nil, err
	}
	return r.done(ctx, false)
}

// restart is one start of a saved server.
type restart struct {
	h      RemoteHost
	state  string
	o      RestartOptions
	saved  server.Saved
	launch string
	names  []string // of leases
	st     server.State
}

func (r *restart) owner() server.Owner {
	return server.Owner{Launch: r.launch, Controller: r.o.Controller, What: "saved server " + r.saved.ID}
}

// claim finds the launch that is to start it: one that was begun before, unless
// that has ended.
func (r *restart) claim(ctx context.Context) error {
	instead := ""
	for {
		launch, err := server.ClaimSaved(ctx, r.h, r.state, r.saved.ID, r.o.Launch, instead)
		if err != nil {
			return err
		}
		if r.st, err = server.Look(ctx, r.h, r.state, launch); err != nil {
			return err
		}
		r.launch = launch
		over := r.st.Stopped || r.st.Phase == server.Exited
		if !over || launch == instead || launch == r.o.Launch {
			return nil
		}
		instead = launch
	}
}

// leases are those a server of ours has. Its GPUs are known only by its
// environment; without it, it may use all.
func (r *restart) leases(environ map[string]string) []string {
	r.names = server.GPULeases(r.saved.GPUs(environ["CUDA_VISIBLE_DEVICES"])) // one card has one name for everybody
	if r.saved.Port != 0 {
		r.names = append(r.names, server.PortLease(r.saved.Port))
	}
	return r.names
}

func (r *restart) start(ctx context.Context, environ map[string]string) error {
	about, err := plainJSON(launchAbout{Experiment: "saved " + r.saved.ID, Saved: r.saved.ID})
	if err != nil {
		return fmt.Errorf("what is kept about launch %s: %w", r.launch, err)
	}
	_, err = server.Start(ctx, r.h, server.Launch{ID: r.launch, StateDir: r.state, Argv: r.saved.Argv, Base: environ, Cwd: r.saved.Cwd,
		Port: r.saved.Port, About: string(about)})
	if err != nil {
		return err
	}
	r.st, err = server.Look(ctx, r.h, r.state, r.launch)
	return err
}

// wait blocks until the server answers on its port.
func (r *restart) wait(ctx context.Context) error {
	began, renewed := time.Now(), time.Now()
	client := server.Client(r.h)
	defer client.CloseIdleConnections()
	for {
		st, err := server.LookClosely(ctx, r.h, r.state, r.launch, r.saved.Port, false)
		if err != nil {
			return err
		}
		r.st = st
		switch {
		case st.Phase != server.Running:
			return &server.ExitedError{Host: r.h.Name(), Code: st.ExitCode, Signal: st.Signal, LogPath: st.LogPath, Tail: lastOfLog(ctx, r.h, st)}
		case r.saved.Port == 0:
			return nil
		case st.Listener != nil && answers(ctx, client, r.url()):
			return nil
		case st.Stranger != nil:
			return &server.PortError{Host: r.h.Name(), Holder: *st.Stranger}
		case time.Since(began) > r.o.Timeout:
			return &server.NotReadyError{Host: r.h.Name(), After: r.o.Timeout, LogPath: st.LogPath, Tail: lastOfLog(ctx, r.h, st)}
		}
		if len(r.names) > 0 && time.Since(renewed) > r.o.LeaseTTL/3 {
			if err := server.RefreshLease(ctx, r.h, r.state, r.names, r.owner(), r.o.LeaseTTL); err != nil {
				return err
			}
			renewed = time.Now()
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(r.o.Poll):
		}
	}
}

func (r *restart) url() string {
	if r.saved.Port == 0 {
		return ""
	}
	return fmt.Sprintf("http://127.0.0.1:%d", r.saved.Port)
}

func (r *restart) done(ctx context.Context, already bool) (*Restarted, error) {
	if len(r.names) > 0 {
		if err := server.LeaveLease(ctx, r.h, r.state, r.names, r.owner()); err != nil {
			return nil, err
		}
	}
	if err := server.SavedRestored(ctx, r.h, r.state, r.saved.ID, r.launch); err != nil {
		return nil, err
	}
	return &Restarted{Saved: r.saved, Launch: r.launch, Identity: r.st.Identity, URL: r.url(), LogPath: r.st.LogPath, Already: already}, nil
}

// answers says that a server gives an answer which is no complaint of its own.
// While a model loads, engines answer 503 or nothing at all.
func answers(ctx context.Context, client *http.Client, base string) bool {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for _, path := range []string{"/health", "/"} {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+path, nil)
		if err != nil {
			return false
		}
		resp, err := client.Do(req)
		if err != nil {
			return false
		}
		resp.Body.Close()
		if resp.StatusCode >= 500 {
			return false
		}
		if resp.StatusCode == http.StatusOK {
			return true
		}
	}
	return true // it has other paths
}

// lastOfLog is the end of a launch's log, "" when it cannot be read: it only adds
// to an error.
func lastOfLog(ctx context.Context, h RemoteHost, st server.State) string {
	const most = 4096
	buf := make([]byte, most)
	n, _, err := h.ReadAt(ctx, st.LogPath, buf, max(0, st.LogSize-most))
	if err != nil {
		return ""
	}
	return string(buf[:n])
}
