package experiments

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"

	"specrun/deploy/server"
)

type fakeLeases struct{ w *world }

// Acquire is like the real one, but that its queue has one place and no wish is
// kept when it is refused.
func (f fakeLeases) Acquire(_ context.Context, q server.LeaseRequest) (server.Grant, error) {
	w, o := f.w, q.Owner
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.enter(); err != nil {
		return server.Grant{}, err
	}
	var g server.Grant
	names := slices.Clone(q.Names)
	if len(q.Queue) > 0 {
		g.Ticket = "queue-" + strings.Join(q.Queue, "+")
		names = append(names, g.Ticket)
	}
	for _, n := range append(slices.Clone(names), q.Queue...) {
		for _, other := range slices.Backward(sortedKeys(w.leases)) { // the queue first
			by := w.leases[other]
			if by != o.Launch && (q.Parent == "" || by != q.Parent) && !w.launchOf(by, o.Launch) && clash(n, other) {
				return server.Grant{}, &server.HeldError{Host: "gpu-01", Lease: server.Lease{Name: other, Parent: w.parents[by], Owner: server.Owner{Launch: by, Controller: w.controllers[other]}}}
			}
		}
	}
	if p := q.Port; p.From != 0 {
		for i := range max(p.Count, 1) {
			port := p.From
			if p.Count > 1 {
				port = p.First + (p.From-p.First+i*p.Step)%p.Span
			}
			by, leased := w.leases[server.PortLease(port)]
			own := w.servers[o.Launch]
			_, taken := w.foreign[port]
			if !taken && (!leased || by == o.Launch) || own != nil && own.launch.Port == port {
				g.Port = port
				names = append(names, server.PortLease(port))
				break
			}
		}
		if h, taken := w.foreign[p.From]; g.Port == 0 && taken {
			return server.Grant{}, &server.PortError{Host: "gpu-01", Holder: h}
		}
		if g.Port == 0 {
			return server.Grant{}, &server.NoPortError{Host: "gpu-01"}
		}
	}
	for _, n := range names {
		w.leases[n], w.controllers[n] = o.Launch, o.Controller
		if strings.HasPrefix(n, "patches-") {
			for other, by := range w.leases {
				if by != o.Launch && !clash(n, other) && strings.HasPrefix(other, n[:strings.LastIndexByte(n, '.')+1]) {
					g.Sharers = append(g.Sharers, server.Sharer{Launch: by, Found: w.sharedFound[other]})
				}
			}
			w.sharedFound[n] = q.Found
		}
	}
	w.parents[o.Launch] = q.Parent
	return g, nil
}

// launchOf says that one launch belongs to a sweep.
func (w *world) launchOf(launch, sweep string) bool {
	return launch != sweep && w.parents[launch] == sweep
}

// clash says that two leases stand for something of the same.
func clash(a, b string) bool {
	a, b = strings.TrimPrefix(a, "queue-"), strings.TrimPrefix(b, "queue-")
	for _, x := range strings.Split(a, "+") {
		for _, y := range strings.Split(b, "+") {
			folder := func(n string) string { f, _, _ := strings.Cut(n, "."); return f }
			switch {
			case x == y, x == "gpu-all" && strings.HasPrefix(y, "gpu-"), y == "gpu-all" && strings.HasPrefix(x, "gpu-"):
				return true
			case strings.HasPrefix(x, "patches-") && folder(x) == folder(y):
				sx, sy := strings.Split(x, "."), strings.Split(y, ".")
				if len(sx) < 3 || len(sy) < 3 || sx[1] != sy[1] {
					return true
				}
			}
		}
	}
	return false
}

func (f fakeLeases) Last(_ context.Context, names []string, o server.Owner, _ time.Duration) (*server.Lease, error) {
	w := f.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.enter(); err != nil {
		return nil, err
	}
	for _, n := range names {
		for other, by := range w.leases {
			if by != o.Launch && clash(n, other) {
				for share, by := range w.leases {
					if by == o.Launch && strings.HasPrefix(share, n+".") {
						delete(w.leases, share)
					}
				}
				return &server.Lease{Name: other, Owner: server.Owner{Launch: by, Controller: w.controllers[other], What: "sweep " + by}}, nil
			}
		}
	}
	for _, n := range names {
		w.leases[n] = o.Launch
	}
	return nil, nil
}

func (f fakeLeases) Met(_ context.Context, port int) ([]string, error) {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	return f.w.met[port], nil
}

func (f fakeLeases) Refresh(context.Context, []string, server.Owner, time.Duration) error { return nil }

func (f fakeLeases) Leave(_ context.Context, names []string, o server.Owner) error {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	for _, n := range names {
		if f.w.leases[n] != o.Launch {
			return &server.LeaseLostError{Host: "gpu-01", Name: n}
		}
	}
	f.w.left = append(f.w.left, names...)
	return nil
}

func (f fakeLeases) Release(_ context.Context, names []string, o server.Owner) error {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	for n, by := range f.w.leases {
		if by == o.Launch && (names == nil || slices.Contains(names, n)) {
			delete(f.w.leases, n)
		}
	}
	return nil
}

func (f fakeLeases) Reclaim(_ context.Context, names []string, o server.Owner) error {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	for _, n := range names {
		if f.w.leases[n] == o.Launch && f.w.controllers[n] == o.Controller {
			delete(f.w.leases, n)
		}
	}
	return nil
}

type fakeServers struct{ w *world }

func (f fakeServers) Start(_ context.Context, l server.Launch) (server.Identity, error) {
	w := f.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.enter(); err != nil {
		return server.Identity{}, err
	}
	if s, ok := w.servers[l.ID]; ok {
		if s.stopped {
			return server.Identity{}, &server.StoppedError{Host: "gpu-01", Launch: l.ID}
		}
		return s.identity, nil
	}
	if len(w.marks) > 0 {
		return server.Identity{}, &server.MarkedError{Host: "gpu-01", Marks: w.marks}
	}
	if h, ok := w.foreign[l.Port]; ok {
		return server.Identity{}, &server.PortError{Host: "gpu-01", Holder: h}
	}
	for _, s := range w.servers {
		apart := !slices.Contains(l.GPUs, "all") && !slices.ContainsFunc(s.launch.GPUs, func(g string) bool { return g == "all" || slices.Contains(l.GPUs, g) })
		if s.phase == server.Running && !apart {
			return server.Identity{}, fmt.Errorf("two servers at once: %s and %s", s.launch.ID, l.ID)
		}
	}
	w.starts++
	s := &fakeServer{launch: l, phase: server.Running, identity: server.Identity{BootID: "b", PID: 1000 + w.starts, StartTicks: uint64(w.starts)}}
	s.log.WriteString("starting\n")
	w.servers[l.ID] = s
	if w.onStart != nil {
		w.onStart(l)
	}
	return s.identity, nil
}

func (f fakeServers) Marks(context.Context) ([]server.Mark, error) {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	return f.w.marks, f.w.enter()
}

func (f fakeServers) Look(_ context.Context, id string) (server.State, error) {
	if f.w.onLook != nil {
		f.w.onLook(id)
	}
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	if err := f.w.enter(); err != nil {
		return server.State{}, err
	}
	s, ok := f.w.servers[id]
	if !ok {
		return server.State{Launch: id, Phase: server.Absent, ExitCode: -1, LogPath: path.Join("/state/runs", id, "server.log")}, nil
	}
	return server.State{Launch: id, Phase: s.phase, Identity: s.identity, Stopped: s.stopped, ExitCode: s.code, LogPath: path.Join("/state/runs", id, "server.log"), LogSize: int64(s.log.Len())}, nil
}

func (f fakeServers) LookClosely(ctx context.Context, id string, _ int, _ bool) (server.State, error) {
	return f.Look(ctx, id)
}

func (f fakeServers) Autopsy(context.Context, string) (server.Death, error) {
	return server.Death{}, nil
}

func (f fakeServers) WaitReady(ctx context.Context, st server.State, port int, _ server.Readiness, o server.ReadyOptions) (server.Ready, error) {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	if err := f.w.enter(); err != nil {
		return server.Ready{}, err
	}
	s := f.w.servers[st.Launch]
	for dir, b := range f.w.benches {
		if b.state == BenchRunning && b.job.Launch == st.Launch {
			f.w.disturbs = append(f.w.disturbs, "probe during "+dir)
		}
	}
	if f.w.ready != nil {
		if err := f.w.ready(s.launch); err != nil {
			var exited *server.ExitedError
			if errors.As(err, &exited) {
				s.phase, s.code = server.Exited, exited.Code
			}
			s.log.WriteString("Traceback: it broke\n")
			return server.Ready{}, err
		}
	}
	s.log.WriteString("ready\n")
	if o.OnProgress != nil {
		o.OnProgress(server.Progress{Milestone: "ready"})
	}
	return server.Ready{BaseURL: fmt.Sprintf("http://127.0.0.1:%d", port)}, nil
}

func (f fakeServers) Stop(_ context.Context, id string) (server.Proof, error) {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	if f.w.stopErr != nil {
		return server.Proof{}, f.w.stopErr
	}
	s, ok := f.w.servers[id]
	if !ok {
		s = &fakeServer{phase: server.Absent}
		f.w.servers[id] = s
	}
	if f.w.beforeStop != nil {
		f.w.beforeStop(s)
	}
	proof := server.Proof{Launch: id, Identity: s.identity, Terminated: s.phase == server.Running, ExitCode: s.code}
	s.stopped = true
	if s.phase == server.Running {
		s.phase = server.Exited
	}
	return proof, nil
}

func (f fakeServers) Environ(_ context.Context, id server.Identity) (map[string]string, error) {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	for _, s := range f.w.servers {
		if s.identity == id {
			out := map[string]string{"SPECRUN_RUN_ID": s.launch.ID}
			for k, v := range s.launch.Env {
				out[k] = v
			}
			for k, v := range f.w.environ {
				out[k] = v
			}
			return out, nil
		}
	}
	return nil, server.ErrGone
}

func (f fakeServers) ReadAt(_ context.Context, file string, p []byte, off int64) (int, int64, error) {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	s, ok := f.w.servers[path.Base(path.Dir(file))]
	if !ok || s.noLog || s.phase == server.Absent {
		return 0, 0, fs.ErrNotExist
	}
	text := s.log.String()
	if off >= int64(len(text)) {
		return 0, int64(len(text)), nil
	}
	return copy(p, text[off:]), int64(len(text)), nil
}

func (f fakeServers) Client() *http.Client { return http.DefaultClient }
