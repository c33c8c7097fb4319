package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Options are what Run needs beside the job.
type Options struct {
	// Dial connects to Job.BaseURL's host and port, nil is the plain network.
	// With the controller as client it goes through the host's connection.
	Dial func(ctx context.Context, network, addr string) (net.Conn, error)
	// LogSize reads the server log's size in bytes, nil reads Job.LogPath here.
	LogSize func(ctx context.Context) (int64, error)
	// OnProgress is called about four times a second and at the end, from one
	// goroutine at a time; it must not block for long. nil = nobody asks.
	OnProgress func(Progress)
}

// errStalled is why requests end when no token has come for Job.Stall.
var errStalled = errors.New("stalled: no token came for the stall time")

// Run does the load from this process. It blocks until all requests have ended,
// ctx ends or the server stalls. Failed requests are no error; the error says
// that no benchmark took place: a wrong job, or ctx.
func Run(ctx context.Context, j Job, o Options) (Report, error) {
	if err := j.Check(); err != nil {
		return Report{}, err
	}
	prompts, err := j.prompts()
	if err != nil {
		return Report{}, err
	}
	transport := &http.Transport{
		Proxy:               nil, // the environment's proxy is not between us and the server
		DialContext:         o.Dial,
		MaxIdleConnsPerHost: j.Concurrency,
		DisableCompression:  true,
	}
	defer transport.CloseIdleConnections()
	b := &benchmark{job: j, options: o}
	b.client = &client{job: j, http: &http.Client{Transport: transport}, clock: newClock(), token: b.beat}
	if o.LogSize == nil && j.LogPath != "" {
		b.options.LogSize = func(context.Context) (int64, error) {
			st, err := os.Stat(j.LogPath)
			if err != nil {
				return 0, err
			}
			return st.Size(), nil
		}
	}
	return b.run(ctx, prompts)
}

// benchmark is one job being done.
type benchmark struct {
	job     Job
	options Options
	client  *client
	phase   string
	total   int
	earlier int // requests of earlier rounds of this phase
	notes   []string

	lastUs            atomic.Int64 // newest token
	done, bad, chunks atomic.Int64
}

// beat notes that a token came.
func (b *benchmark) beat() {
	b.chunks.Add(1)
	b.lastUs.Store(b.client.clock.us())
}

func (b *benchmark) run(ctx context.Context, prompts promptSet) (Report, error) {
	r := Report{Schema: Schema, Job: b.job, LogStart: -1, LogEnd: -1}
	if b.job.Phase == PhaseWarm {
		return b.runWarm(ctx, r, prompts)
	}
	if n := b.job.warmupMost(); b.job.Phase == PhaseBoth && n > 0 {
		w, warm, stalled := b.warm(ctx, take(prompts.warm, n))
		r.Warmup = &w
		for _, q := range warm {
			if !q.ok() {
				r.WarmupFailed++
				r.WarmupError = q.Error
			}
		}
		if err := ctx.Err(); err != nil {
			return r, fmt.Errorf("benchmark stopped: %w", context.Cause(ctx))
		}
		if stalled {
			r.Stalled = true
			return r, nil
		}
		if b.job.LogEvery > 0 {
			b.logPrinted(ctx)
		}
	}
	texts := take(prompts.measured, b.job.Requests)
	r.PromptsSHA = hashTexts(texts)
	before := b.counters(ctx)
	watch := startWatch(ctx, b.job.Watch, b.client.clock.us)
	r.LogStart = b.logSize(ctx)
	r.StartUs = b.client.clock.us()
	pulse := startPulse(b.client.clock.us)
	r.Requests, r.Stalled = b.load(ctx, PhaseMeasure, texts)
	r.ClientWatched, r.ClientStalledMs = true, pulse.stop()
	watch.stop()
	if ctx.Err() != nil {
		return r, fmt.Errorf("benchmark stopped: %w", context.Cause(ctx))
	}
	r.LogEnd = b.logQuiet(ctx)
	if before != nil && !r.Stalled {
		b.count(&r, before, b.counters(ctx))
	}
	if b.job.LogEvery > 0 && !r.Stalled {
		r.LogEnd = b.logPrinted(ctx)
	}
	b.finish(&r)
	watch.report(&r)
	r.steady()
	return r, nil
}

// runWarm is a job that only warms up.
func (b *benchmark) runWarm(ctx context.Context, r Report, prompts promptSet) (Report, error) {
	r.LogStart = b.logSize(ctx)
	r.StartUs = b.client.clock.us()
	w, sent, stalled := b.warm(ctx, take(prompts.warm, b.job.warmupMost()))
	if ctx.Err() != nil {
		return r, fmt.Errorf("benchmark stopped: %w", context.Cause(ctx))
	}
	r.Warmup, r.Requests, r.Stalled = &w, sent, stalled
	r.LogEnd = b.logSize(ctx)
	if b.job.LogEvery > 0 && !stalled {
		r.LogEnd = b.logPrinted(ctx) // so that it is not printed with what is measured next
	}
	b.finish(&r)
	return r, nil
}

// counters are the server's, nil when it has none.
func (b *benchmark) counters(ctx context.Context) map[string]float64 {
	c, err := b.client.readCounters(ctx)
	if err != nil {
		b.notes = append(b.notes, "the server's counters: "+err.Error())
	}
	return c
}

// count notes what the counters rose by.
func (b *benchmark) count(r *Report, before, after map[string]float64) {
	if after == nil {
		return
	}
	delta, restarted := counted(before, after)
	if restarted != nil {
		r.Restarted = true
		b.notes = append(b.notes, restarted.Error())
	}
	r.ServerCounters = delta
}

// finish counts and hashes.
func (b *benchmark) finish(r *Report) {
	outputs := make([]string, 0, len(r.Requests))
	for _, q := range r.Requests {
		r.EndUs = max(r.EndUs, q.EndUs)
		if q.ok() {
			r.Completed++
			outputs = append(outputs, q.OutputSHA)
		} else {
			r.Failed++
		}
	}
	if r.Failed == 0 {
		r.OutputsSHA = hashTexts(outputs)
	}
	if b.client.refused.Load() {
		b.notes = append(b.notes, "the server refuses running token counts in a stream: positions are spread evenly over its chunks")
	}
	r.Duration = time.Duration(max(r.EndUs-r.StartUs, 0)) * time.Microsecond
	r.Notes = b.notes
}

// load sends the prompts in a closed loop: each worker sends its next request
// when its last one has ended.
func (b *benchmark) load(ctx context.Context, phase string, texts []string) (out []Request, stalled bool) {
	b.phase, b.total = phase, b.earlier+len(texts)
	b.done.Store(0)
	b.bad.Store(0)
	b.lastUs.Store(b.client.clock.us())
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		b.watch(ctx, cancel)
	}()
	out = make([]Request, len(texts))
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(b.job.Concurrency, len(texts)) {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(texts) {
					return
				}
				if cause := context.Cause(ctx); cause != nil {
					out[i] = unsent(i, texts[i], cause)
				} else {
					out[i] = b.client.do(ctx, i, texts[i])
				}
				if !out[i].ok() {
					b.bad.Add(1)
				}
				b.done.Add(1)
			}
		})
	}
	wg.Wait()
	stalled = errors.Is(context.Cause(ctx), errStalled)
	cancel(nil)
	<-watched
	b.progress(StateRunning)
	return out, stalled
}

// unsent is a request that was never sent because the benchmark was over.
func unsent(i int, prompt string, cause error) Request {
	return Request{Index: i, OutputTokens: -1, PromptTokens: -1, CachedTokens: -1, ReasoningTokens: -1, VerifyCalls: -1,
		PromptSHA: hashTexts([]string{prompt}), Error: "not sent: " + cause.Error()}
}

// watch tells about progress and ends the load when no token of any request has
// come for the stall time: one that waits in the server's queue is not stalled
// while others get tokens.
func (b *benchmark) watch(ctx context.Context, cancel context.CancelCauseFunc) {
	every := 250 * time.Millisecond
	if b.job.Stall > 0 {
		every = min(every, max(b.job.Stall/4, time.Millisecond))
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		b.progress(StateRunning)
		if b.job.Stall > 0 && time.Duration(b.client.clock.us()-b.lastUs.Load())*time.Microsecond > b.job.Stall {
			cancel(errStalled)
			return
		}
	}
}

func (b *benchmark) progress(state State) {
	if b.options.OnProgress == nil {
		return
	}
	b.options.OnProgress(Progress{State: state, Phase: b.phase, Total: b.total, Done: b.earlier + int(b.done.Load()), Failed: int(b.bad.Load()),
		Chunks: b.chunks.Load(), LastUs: b.lastUs.Load(), AtUs: b.client.clock.us()})
}

// A server's last rows come after its last response; the log counts as ended
// when it did not grow for logStill, and in any case after logWait.
const (
	logStill = 150 * time.Millisecond
	logWait  = 2 * time.Second
	logPoll  = 25 * time.Millisecond
)

func (b *benchmark) logSize(ctx context.Context) int64 {
	if b.options.LogSize == nil {
		return -1
	}
	n, err := b.options.LogSize(ctx)
	if err != nil {
		b.notes = append(b.notes, "size of the server log: "+err.Error())
		return -1
	}
	return n
}

func (b *benchmark) logQuiet(ctx context.Context) int64 {
	size := b.logSize(ctx)
	if size < 0 {
		return -1
	}
	began := time.Now()
	still := began
	tick := time.NewTicker(logPoll)
	defer tick.Stop()
	for time.Since(still) < logStill && time.Since(began) < logWait {
		select {
		case <-ctx.Done():
			return size
		case <-tick.C:
		}
		n := b.logSize(ctx)
		if n < 0 {
			return size
		}
		if n != size {
			size, still = n, time.Now()
		}
	}
	return size
}

// logPrinted waits for as long as the server may take to print its next interval,
// and gives the log's size. That the log grew is no sign that it has: a server also
// prints each request, and does so late when it has no CPU.
func (b *benchmark) logPrinted(ctx context.Context) int64 {
	if b.logSize(ctx) < 0 {
		return -1
	}
	printed := time.NewTimer(b.job.LogEvery + logWait/2)
	defer printed.Stop()
	select {
	case <-ctx.Done():
	case <-printed.C:
	}
	return b.logQuiet(ctx)
}
