package experiments

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"specrun/experiments/bench"
)

// benches runs loads where the plan says: on the host, detached, or from here
// through the connection.
type benches struct {
	h       RemoteHost
	servers remoteServer
	find    bench.Finder

	mu      sync.Mutex
	worker  string            // path on the host, once it is there
	folders map[string]string // of launches
	here    map[string]*localLoad
}

func newBenches(h RemoteHost, s remoteServer, find bench.Finder) *benches {
	return &benches{h: h, servers: s, find: find, folders: map[string]string{}, here: map[string]*localLoad{}}
}

// Prepare implements Bench.
func (b *benches) Prepare(ctx context.Context, p BenchPlan) error {
	if err := benchJob(BenchJob{BaseURL: "http://127.0.0.1:1", Plan: p}).Check(); err != nil {
		return err
	}
	if p.Where == "controller" {
		return nil
	}
	_, err := b.ensureWorker(ctx)
	return err
}

// Start implements Bench.
func (b *benches) Start(ctx context.Context, j BenchJob) error {
	if j.Plan.Where == "controller" {
		return b.startHere(j)
	}
	worker, err := b.ensureWorker(ctx)
	if err != nil {
		return err
	}
	dir, err := b.folder(ctx, j)
	if err != nil {
		return err
	}
	return bench.Start(ctx, b.h, worker, dir, benchJob(j))
}

func (b *benches) ensureWorker(ctx context.Context) (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.worker != "" {
		return b.worker, nil
	}
	worker, err := bench.EnsureWorker(ctx, b.h, b.servers.o.StateDir, b.find)
	if err != nil {
		return "", err
	}
	b.worker = worker
	return worker, nil
}

// folder is the job's own, beside the server's log.
func (b *benches) folder(ctx context.Context, j BenchJob) (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	dir, ok := b.folders[j.Launch]
	if !ok {
		st, err := b.servers.Look(ctx, j.Launch)
		if err != nil {
			return "", err
		}
		if st.Dir == "" {
			return "", fmt.Errorf("%s: launch %s has no folder", b.h.Name(), j.Launch)
		}
		dir = st.Dir // the log may be elsewhere
		b.folders[j.Launch] = dir
	}
	return dir + "/bench-" + j.Dir, nil
}

// Poll implements Bench.
func (b *benches) Poll(ctx context.Context, j BenchJob) (BenchProgress, error) {
	if l := b.loadHere(j); l != nil {
		return l.progress(), nil
	}
	dir, err := b.folder(ctx, j)
	if err != nil {
		return BenchProgress{}, err
	}
	p, err := bench.Poll(ctx, b.h, dir)
	if err != nil {
		return BenchProgress{}, err
	}
	out := BenchProgress{State: BenchState(p.State), Detail: describe(p), Ending: ending(p), Silent: silent(p)}
	if p.State == bench.StateDead {
		out.Detail = firstOf(strings.TrimSpace(p.Log), "it left no message")
	}
	if p.Report != nil {
		out.Report, err = benchReport(*p.Report)
	}
	return out, err
}

// silent is for how long no token has come to requests that run.
func silent(p bench.Progress) time.Duration {
	if p.State != bench.StateRunning || p.LastUs == 0 || p.Total == 0 || p.Done >= p.Total {
		return 0
	}
	return max(0, time.Duration(p.AtUs-p.LastUs)*time.Microsecond)
}

// ending says that a load only waits for the end of the log and for counters.
func ending(p bench.Progress) bool {
	return p.State == bench.StateRunning && p.Phase == bench.PhaseMeasure && p.Total > 0 && p.Done >= p.Total
}

// describe is one line about a load in progress.
func describe(p bench.Progress) string {
	if p.Total == 0 {
		return ""
	}
	text := fmt.Sprintf("%d of %d requests", p.Done, p.Total)
	if p.Failed > 0 {
		text += fmt.Sprintf(", %d failed", p.Failed)
	}
	return text
}

// Stop implements Bench.
func (b *benches) Stop(ctx context.Context, j BenchJob) error {
	if l := b.loadHere(j); l != nil {
		l.stop()
		return nil
	}
	dir, err := b.folder(ctx, j)
	if err != nil {
		return err
	}
	return bench.Stop(ctx, b.h, dir)
}

func benchJob(j BenchJob) bench.Job {
	p := j.Plan
	phase := bench.PhaseMeasure
	if j.Warm {
		phase = bench.PhaseWarm
	}
	job := bench.Job{BaseURL: j.BaseURL, Endpoint: p.Endpoint, Model: j.Model, Prompts: p.Prompts, Requests: p.Requests, Concurrency: p.Concurrency,
		MaxTokens: p.MaxTokens, WarmupAuto: p.Warmup == WarmupAuto, IgnoreEOS: p.IgnoreEOS, Temperature: p.Temperature, Seed: p.Seed, Stall: time.Duration(p.Stall),
		Phase: phase, LogPath: j.LogPath, LogEvery: j.LogEvery, Watch: j.Watch}
	if !job.WarmupAuto {
		job.Warmup = int(p.Warmup)
	}
	return job
}

func benchReport(r bench.Report) (*BenchReport, error) {
	raw, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("benchmark report: %w", err)
	}
	out := &BenchReport{StartUs: r.StartUs, EndUs: r.EndUs, LogStart: r.LogStart, LogEnd: r.LogEnd, Completed: r.Completed, Failed: r.Failed,
		Stalled: r.Stalled, PromptsSHA: r.PromptsSHA, OutputsSHA: r.OutputsSHA, Warmup: r.Warmup, Raw: raw}
	for _, q := range r.Requests {
		if q.Error != "" {
			out.FirstError = q.Error
			break
		}
	}
	return out, nil
}

// localLoad is a load that runs in this process. It ends with it.
type localLoad struct {
	cancel context.CancelFunc
	ended  chan struct{}

	mu  sync.Mutex
	now BenchProgress
}

func (b *benches) loadHere(j BenchJob) *localLoad {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.here[j.Launch+"/"+j.Dir]
}

func (b *benches) startHere(j BenchJob) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	key := j.Launch + "/" + j.Dir
	if b.here[key] != nil {
		return nil
	}
	job := benchJob(j)
	if err := job.Check(); err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	l := &localLoad{cancel: cancel, ended: make(chan struct{}), now: BenchProgress{State: BenchRunning}}
	b.here[key] = l
	go func() {
		defer close(l.ended)
		defer cancel()
		r, err := bench.Run(ctx, job, bench.Options{Dial: b.h.DialContext,
			LogSize: func(ctx context.Context) (int64, error) {
				_, size, err := b.h.ReadAt(ctx, j.LogPath, make([]byte, 1), 0)
				return size, err
			},
			OnProgress: func(p bench.Progress) {
				l.set(BenchProgress{State: BenchRunning, Detail: describe(p), Ending: ending(p), Silent: silent(p)})
			}})
		var report *BenchReport
		if err == nil {
			report, err = benchReport(r)
		}
		if err != nil {
			l.set(BenchProgress{State: BenchDead, Detail: err.Error()})
			return
		}
		l.set(BenchProgress{State: BenchDone, Report: report})
	}()
	return nil
}

func (l *localLoad) set(p BenchProgress) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now = p
}

func (l *localLoad) progress() BenchProgress {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now
}

func (l *localLoad) stop() {
	l.cancel()
	<-l.ended
}
