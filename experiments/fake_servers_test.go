package experiments

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"time"

	"specrun/deploy/server"
)

type fakeLeases struct{ w *world }

func (f fakeLeases) FreePort(_ context.Context, first, count int) (int, error) {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	if err := f.w.enter(); err != nil {
		return 0, err
	}
	for p := first; p < first+count; p++ {
		_, leased := f.w.leases[server.PortLease(p)]
		if _, taken := f.w.foreign[p]; !taken && !leased {
			return p, nil
		}
	}
	return 0, errors.New("no free port")
}

func (f fakeLeases) PortHolder(_ context.Context, port int) (*server.Holder, error) {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	if err := f.w.enter(); err != nil {
		return nil, err
	}
	if h, ok := f.w.foreign[port]; ok {
		return &h, nil
	}
	return nil, nil
}

func (f fakeLeases) Acquire(_ context.Context, names []string, o server.Owner, _ time.Duration) error {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	if err := f.w.enter(); err != nil {
		return err
	}
	for _, n := range names {
		if by, ok := f.w.leases[n]; ok && by != o.Launch {
			return &server.HeldError{Host: "gpu-01", Lease: server.Lease{Name: n, Owner: server.Owner{Launch: by, Controller: f.w.controllers[n]}}}
		}
	}
	for _, n := range names {
		f.w.leases[n], f.w.controllers[n] = o.Launch, o.Controller
	}
	return nil
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
	for _, n := range names {
		if f.w.leases[n] == o.Launch {
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
	if h, ok := w.foreign[l.Port]; ok {
		return server.Identity{}, &server.PortError{Host: "gpu-01", Holder: h}
	}
	for _, s := range w.servers {
		if s.phase == server.Running {
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
	s.stopped = true
	if s.phase == server.Running {
		s.phase = server.Exited
	}
	return server.Proof{Launch: id}, nil
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
