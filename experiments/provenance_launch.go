package experiments

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"strings"

	"specrun/experiments/bench"
	"specrun/experiments/record"
)

// found is what was read of a host for one launch.
type found struct {
	host   []record.Fact
	launch LaunchProbe
	err    error // of what must be known
}

// probing is such a reading in progress.
type probing struct {
	stop context.CancelFunc
	done chan struct{}
	out  found
}

// beginProbe reads the facts of the launch beside whatever its caller does.
func (a *attempt) beginProbe(ctx context.Context) *probing {
	ctx, stop := context.WithCancel(ctx)
	where := a.where()
	p := &probing{stop: stop, done: make(chan struct{})}
	prober := a.x.host.Prober
	q := LaunchQuery{Where: where, Engine: a.cfg.Engine, Patched: a.patches.Files, Models: modelsOf(a.cfg), PID: a.state.Identity.PID, Session: a.state.Identity.SID}
	if a.cfg.Engine == "command" {
		q.Engine = ""
	}
	go func() {
		defer close(p.done)
		defer stop()
		if p.out.host, p.out.err = a.x.hostFacts(ctx, where); p.out.err != nil {
			return
		}
		var err error
		if p.out.launch, err = prober.Launch(ctx, q); err == nil {
			return
		}
		if hostLost(err) || ctx.Err() != nil {
			p.out.err = err
			return
		}
		// A measurement is worth more than all that could explain it.
		p.out.launch = LaunchProbe{Facts: []record.Fact{{Group: "code", Key: "note", Value: "provenance is incomplete: " + oneLine(err.Error())}}}
	}()
	return p
}

// wait blocks until the facts are there.
func (p *probing) wait() *found {
	<-p.done
	return &p.out
}

// cancel ends the reading and waits for its end.
func (p *probing) cancel() {
	p.stop()
	<-p.done
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// hostFacts asks the host once for each interpreter. It is safe for concurrent
// use; who asks while another is asking waits for the same answer.
func (x *execution) hostFacts(ctx context.Context, w Where) ([]record.Fact, error) {
	x.hostInfo.Lock()
	defer x.hostInfo.Unlock()
	if known, ok := x.hostInfo.by[w.key()]; ok {
		return known, nil
	}
	found, err := x.host.Prober.Facts(ctx, w)
	if err != nil {
		return nil, fmt.Errorf("facts of the host: %w", err)
	}
	x.hostInfo.by[w.key()] = found
	return found, nil
}

// modelsOf are the models that a server is told to load.
func modelsOf(c ServerConfig) []ModelFiles {
	value := func(names ...string) string {
		for _, name := range names {
			for _, f := range c.Flags {
				if f.Name == name && len(f.Values) == 1 {
					return f.Values[0]
				}
			}
		}
		return ""
	}
	var out []ModelFiles
	if path := value("model-path", "model"); path != "" {
		out = append(out, ModelFiles{"model", path, value("revision")})
	}
	if path := value("speculative-draft-model-path", "speculative-draft-model", "speculative-model"); path != "" {
		out = append(out, ModelFiles{"draft", path, value("speculative-draft-model-revision")})
	}
	return out
}

// hider hides the sweep's secrets: those that the spec names or holds are known
// to it from the beginning, those of a server's environment once it was read.
func (x *execution) hider() *redactor {
	if x.secrets != nil {
		return x.secrets
	}
	named := map[string]string{}
	for _, c := range x.plan.Cells {
		maps.Copy(named, c.Server.Secrets)
	}
	x.secrets = newRedactor(x.plan.Host.Name, named)
	for _, name := range sortedKeys(named) {
		if value, ok := x.deps.Getenv(named[name]); ok && value != "" {
			x.secrets.hide(value)
		}
	}
	for _, s := range literalSecrets(x.plan.Cells) {
		x.secrets.hide(s.value)
	}
	return x.secrets
}

func (a *attempt) hider() *redactor { return a.x.hider() }

// facts hides in the values of facts.
func (r *redactor) facts(list []record.Fact) []record.Fact {
	out := make([]record.Fact, len(list))
	for i, f := range list {
		f.Value = r.text(f.Value)
		out[i] = f
	}
	return out
}

// diffName is the artifact that holds what an editable engine's working copy has
// changed.
const diffName = "engine.diff"

func (a *attempt) keepDiff(ctx context.Context, hide *redactor, diff []byte) error {
	if len(diff) == 0 {
		return nil
	}
	_, err := a.x.deps.Recorder.Attach(context.WithoutCancel(ctx), record.Artifact{LaunchID: a.rec.ID, Name: diffName}, bytes.NewReader([]byte(hide.text(string(diff)))))
	if err != nil {
		return &fatalError{fmt.Errorf("keep the engine's diff: %w", err)}
	}
	return nil
}

// watch is what the benchmark's worker looks at on the host.
func (a *attempt) watch() *bench.Watch {
	return &bench.Watch{Session: a.state.Identity.SID, GPUs: a.gpus(), Caches: a.facts.Caches}
}

// surroundings are the facts of a report about what went on beside the load.
// The clock is rounded: two measurements of one that is held should agree.
func surroundings(s bench.Surroundings) []record.Fact {
	var f facts
	for _, m := range s.GPUMetrics() {
		if m.Name == "gpu_clock_mean" {
			f.add("gpu", "measured_clock", fmt.Sprintf("%.0f MHz", roundTo(m.Value, 45)))
		}
	}
	if len(s.GPU) > 0 {
		f.add("gpu", "throttle_reasons", firstOf(s.ThrottleReasons(), "none"))
	}
	var names []string
	for _, n := range s.Neighbours {
		names = append(names, n.String())
	}
	f.add("gpu", "neighbours", strings.Join(names, "; "))
	for _, c := range s.Caches {
		if c.Before.Files == 0 && c.After.Files == 0 {
			continue
		}
		text := fmt.Sprintf("%d files", c.Before.Files)
		if c.Before.Cut { // how far the look came says nothing of the cache
			text = "many files"
		}
		if changed, _ := c.Changed(); changed && !c.Before.Cut {
			text += fmt.Sprintf(", %d after the benchmark", c.After.Files)
		}
		f.add("host", "compile_cache "+c.Path, text)
	}
	return f.list
}

func roundTo(v, step float64) float64 { return step * float64(int64(v/step+0.5)) }
