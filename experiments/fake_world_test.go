package experiments

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"specrun/deploy/server"
	"specrun/experiments/bench"
	"specrun/experiments/record"
	"specrun/remote"
)

// world is a host that outlives its controllers: what a controller started goes
// on when the controller is gone.
type world struct {
	mu          sync.Mutex
	patches     []PatchRef
	engines     *fakeEngines // nil: one interpreter, whose files nobody knows
	open        bool         // a change of patches was cut off half way
	recovers    int
	cards       []string // UUIDs by index; nil where nvidia-smi is missing
	servers     map[string]*fakeServer
	leases      map[string]string // name -> launch
	controllers map[string]string // name -> who took it
	sharedFound map[string]string // by lease on a patch set
	parents     map[string]string // sweeps by launch
	met         map[int][]string  // by port
	left        []string          // leases that nobody renews any more
	benches     map[string]*fakeBench
	starts      int
	foreign     map[int]server.Holder // strangers on ports
	onStart     func(l server.Launch) // nil
	onLook      func(launch string)   // nil; without the lock
	beforeStop  func(s *fakeServer)   // nil
	ready       func(l server.Launch) error
	bench       func(l server.Launch, j BenchJob) string // "" works; stall, fail, die, server-dies
	lost        int                                      // connections to lose from now on
	dials       int
	polls       int
	disturbs    []string // what touched a server while it was measured
	patchErr    func(set []PatchRef) error
	stopErr     error
	marks       []server.Mark
	environ     map[string]string // added to what a server process has
	probes      []LaunchQuery     // that were asked
	probe       func(q LaunchQuery) (LaunchProbe, error)
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
	return &world{servers: map[string]*fakeServer{}, leases: map[string]string{}, sharedFound: map[string]string{}, parents: map[string]string{}, controllers: map[string]string{}, benches: map[string]*fakeBench{}, foreign: map[int]server.Holder{}}
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
	report := &BenchReport{StartUs: 1, EndUs: 2, Completed: b.job.Plan.Requests, Raw: []byte(`{"dir":"` + j.Dir + `","requests":[{"output":"of ` + j.Dir + `"}]}`)}
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

func (fakeEngine) Readiness(ServerConfig) server.Readiness { return nil }

func (fakeEngine) Check(_ context.Context, _ *http.Client, base string, _ ServerConfig, _ StartLog) (Checked, error) {
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
