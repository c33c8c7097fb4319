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
	"sync"
	"time"

	"specrun/deploy/server"
	"specrun/experiments/bench"
	"specrun/experiments/record"
	"specrun/remote"
)

// world is a host that outlives its controllers: what a controller started goes
// on when the controller is gone.
type world struct {
	mu       sync.Mutex
	patches  []PatchRef
	engines  *fakeEngines // nil: one interpreter, whose files nobody knows
	open     bool         // a change of patches was cut off half way
	recovers int
	cards    []string // UUIDs by index; nil where nvidia-smi is missing
	servers  map[string]*fakeServer
	leases   map[string]string // name -> launch
	left     []string          // leases that nobody renews any more
	benches  map[string]*fakeBench
	starts   int
	foreign  map[int]server.Holder // strangers on ports
	onStart  func(l server.Launch) // nil
	ready    func(l server.Launch) error
	bench    func(l server.Launch, j BenchJob) string // "" works; stall, fail, die, server-dies
	lost     int                                      // connections to lose from now on
	dials    int
	polls    int
	disturbs []string // what touched a server while it was measured
	patchErr func(set []PatchRef) error
	stopErr  error
	environ  map[string]string // added to what a server process has
	probes   []LaunchQuery     // that were asked
	probe    func(q LaunchQuery) (LaunchProbe, error)
}

type fakeServer struct {
	launch   server.Launch
	phase    server.Phase
	identity server.Identity
	stopped  bool
	log      strings.Builder
	noLog    bool // somebody deleted it
	code     int
}

type fakeBench struct {
	job   BenchJob
	polls int
	state BenchState
}

func newWorld() *world {
	return &world{servers: map[string]*fakeServer{}, leases: map[string]string{}, benches: map[string]*fakeBench{}, foreign: map[int]server.Holder{}}
}

func (w *world) host() *Host {
	return &Host{Name: "gpu-01", Leases: fakeLeases{w}, Patcher: fakePatcher{w}, Server: fakeServers{w}, Bench: fakeBenches{w}, Prober: fakeProber{w}}
}

func (w *world) dial(context.Context, string) (*Host, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dials++
	return w.host(), nil
}

// enter loses the connection when that was asked for.
func (w *world) enter() error {
	if w.lost > 0 {
		w.lost--
		return fmt.Errorf("gpu-01: %w", remote.ErrLost)
	}
	return nil
}

// leftovers names what runs or is held.
func (w *world) leftovers() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out []string
	for id, s := range w.servers {
		if s.phase == server.Running {
			out = append(out, "server "+id)
		}
	}
	for name, l := range w.leases {
		out = append(out, "lease "+name+" of "+l)
	}
	for dir, b := range w.benches {
		if b.state == BenchRunning {
			out = append(out, "bench "+dir)
		}
	}
	slices.Sort(out)
	return out
}

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
			return &server.HeldError{Host: "gpu-01", Lease: server.Lease{Name: n, Owner: server.Owner{Launch: by}}}
		}
	}
	for _, n := range names {
		f.w.leases[n] = o.Launch
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

type fakeBenches struct{ w *world }

// pollsToRun is how many looks a fake benchmark lasts.
const pollsToRun = 3

func (f fakeBenches) Prepare(_ context.Context, p BenchPlan) error {
	if p.Prompts == "missing" {
		return errors.New("no such prompts")
	}
	return nil
}

func (f fakeBenches) Start(_ context.Context, j BenchJob) error {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	if err := f.w.enter(); err != nil {
		return err
	}
	if _, ok := f.w.benches[j.Dir]; ok {
		return nil
	}
	s, ok := f.w.servers[j.Launch]
	if !ok || s.phase != server.Running {
		return errors.New("no server to load")
	}
	for dir, b := range f.w.benches {
		if b.state == BenchRunning {
			f.w.disturbs = append(f.w.disturbs, j.Dir+" during "+dir)
		}
	}
	if j.Model != "model" || j.BaseURL == "" || j.LogPath == "" {
		return fmt.Errorf("incomplete job %+v", j)
	}
	f.w.benches[j.Dir] = &fakeBench{job: j, state: BenchRunning}
	return nil
}

func (f fakeBenches) Poll(_ context.Context, j BenchJob) (BenchProgress, error) {
	w := f.w
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.enter(); err != nil {
		return BenchProgress{}, err
	}
	w.polls++
	b, ok := w.benches[j.Dir]
	if !ok {
		return BenchProgress{State: BenchAbsent}, nil
	}
	if b.state == BenchDead {
		return BenchProgress{State: BenchDead, Detail: "killed"}, nil
	}
	s := w.servers[b.job.Launch]
	report := &BenchReport{StartUs: 1, EndUs: 2, Completed: b.job.Plan.Requests, Raw: []byte(`{"dir":"` + j.Dir + `"}`)}
	if b.job.Warm {
		report.Warmup = &bench.Warmup{Sent: b.job.Plan.Warmup.Requests(b.job.Plan.Concurrency)}
	}
	if b.state == BenchDone {
		return BenchProgress{State: BenchDone, Report: report}, nil
	}
	b.polls++
	how := ""
	if w.bench != nil && !b.job.Warm {
		how = w.bench(s.launch, b.job)
	}
	switch {
	case how == "server-dies":
		s.phase, s.code = server.Exited, 139
		s.log.WriteString("segfault\n")
		return BenchProgress{State: BenchRunning}, nil
	case b.polls < pollsToRun || how == "hang":
		return BenchProgress{State: BenchRunning, Detail: fmt.Sprintf("%d of %d requests", b.polls, b.job.Plan.Requests)}, nil
	case how == "die":
		b.state = BenchDead
		return BenchProgress{State: BenchDead, Detail: "killed"}, nil
	}
	b.state = BenchDone
	if how == "stall" {
		report.Stalled, report.Completed = true, 0
	}
	if how == "fail" {
		report.Completed, report.Failed, report.FirstError = 0, 3, "HTTP 400"
	}
	report.LogStart = int64(s.log.Len())
	fmt.Fprintf(&s.log, "row of %s\n", j.Dir)
	report.LogEnd = int64(s.log.Len())
	s.log.WriteString("after the window\n")
	return BenchProgress{State: BenchDone, Report: report}, nil
}

func (f fakeBenches) Stop(_ context.Context, j BenchJob) error {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	if b, ok := f.w.benches[j.Dir]; ok && b.state == BenchRunning {
		b.state = BenchDead
	}
	return nil
}

type fakeProber struct{ w *world }

func (f fakeProber) Facts(context.Context, Where) ([]record.Fact, error) {
	facts := []record.Fact{{Group: "host", Key: "kernel", Value: "Linux 6.1"}}
	for index, uuid := range f.w.cards {
		facts = append(facts, record.Fact{Group: "gpu", Key: fmt.Sprintf("%d uuid", index), Value: uuid})
	}
	return facts, nil
}

func (f fakeProber) Launch(_ context.Context, q LaunchQuery) (LaunchProbe, error) {
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	f.w.probes = append(f.w.probes, q)
	if f.w.probe != nil {
		return f.w.probe(q)
	}
	return LaunchProbe{Facts: []record.Fact{{Group: "packages", Key: "torch", Value: "2.9.1"}}}, nil
}

type fakeEngine struct{ fakeRenderer }

func (fakeEngine) Readiness() server.Readiness { return nil }

func (fakeEngine) Check(_ context.Context, _ *http.Client, base string, _ ServerConfig) (Checked, error) {
	if base == "" {
		return Checked{}, errors.New("no address")
	}
	return Checked{Model: "model", Version: "0.5.6", Effective: map[string]string{"tp_size": "8"}}, nil
}

func (fakeEngine) CrashIn(tail []byte) *server.Crash {
	if strings.Contains(string(tail), "segfault") {
		return &server.Crash{Kind: "segfault", Evidence: "segfault", Advice: "file a bug"}
	}
	return nil
}
