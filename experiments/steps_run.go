package experiments

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"specrun/deploy/server"
	"specrun/experiments/bench"
	"specrun/experiments/record"
	"specrun/experiments/trust"
)

// measure fills one slot. The error is a *failure when the run failed, which
// has been recorded then; anything else ends the launch.
func (a *attempt) measure(ctx context.Context, r PlannedRun, adopted *record.Run) error {
	a.runNow = r
	if adopted != nil {
		run := *adopted
		a.run = &run
	} else {
		run := a.newRun(r)
		c := record.Change{Run: &run, Supersede: a.x.supersede[run.SlotID]}
		ev := map[string]int{"cell": r.Cell, "round": a.planned.Round, "repeat": r.Repeat, "attempt": run.Attempt}
		if err := a.record(ctx, run.ID, stepRun, record.EventIntent, ev, c); err != nil {
			return err
		}
		a.x.attempts[run.SlotID] = run.Attempt
		delete(a.x.supersede, run.SlotID)
		a.run = &run
	}
	mark := len(a.undo)
	err := a.measureSteps(ctx, r)
	if err == nil {
		a.undo = a.undo[:mark] // the benchmark has ended by itself
		a.run = nil
		return nil
	}
	var f *failure
	if !errors.As(err, &f) {
		return err // the run is cut by whoever ends the launch
	}
	a.progress(stepRun, PhaseFailed, f.Error())
	cleaning, cancel := a.x.cleaning(ctx)
	defer cancel()
	if err := a.undoTo(cleaning, mark); err != nil {
		return &fatalError{err}
	}
	run := *a.run
	run.State, run.Class, run.Reason, run.EndUs = record.RunFailed, f.class, a.hider().text(f.reason()), a.x.nowUs()
	ev := failureEvidence{Class: f.class, Reason: run.Reason}
	if err := a.endRun(ctx, stepRun, record.EventFailed, ev, r, run, &record.RunData{Provenance: a.provenance(r)}); err != nil {
		return err
	}
	a.run = nil
	a.attachTail(cleaning, run.ID)
	return f
}

func (a *attempt) measureSteps(ctx context.Context, r PlannedRun) error {
	limit := time.Duration(a.x.plan.RunLimit)
	if limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, limit, &failure{class: record.ClassBenchFailed, ends: true,
			err: fmt.Errorf("the run took longer than limits.run, %v", limit)})
		defer cancel()
	}
	if a.death != nil {
		return &failure{class: a.death.class, ends: true, err: fmt.Errorf("before this run began: %w", a.death.err)}
	}
	m := &measurement{a: a, planned: r, cell: a.x.plan.Cells[r.Cell]}
	steps := []Step{m.load(stepWarm, true), m.load(stepBench, false),
		{Name: stepCollect, Run: a.run.ID, Look: m.lookCollect, Do: m.doCollect}}
	if m.cell.Bench.Warmup == 0 {
		steps = steps[1:]
	}
	for _, s := range steps {
		if err := a.do(ctx, s); err != nil {
			return judge(ctx, s.Name, err)
		}
	}
	return nil
}

// measurement is one run in progress.
type measurement struct {
	a       *attempt
	planned PlannedRun
	cell    Cell
	report  BenchReport
	warmup  *bench.Warmup // of the run; nil: none, or a worker that does not tell
}

func (m *measurement) job(warm bool) BenchJob {
	a := m.a
	dir := a.run.ID
	if warm {
		dir += "-warm"
	}
	j := BenchJob{Launch: a.rec.ID, Dir: dir, BaseURL: a.ready.BaseURL, Model: a.facts.Checked.Model, LogPath: a.state.LogPath, Warm: warm, Plan: m.cell.Bench}
	if p, ok := a.x.engine.(periodic); ok {
		j.LogEvery = p.LogEvery(a.cfg)
	}
	if !warm && m.cell.Bench.Where == "host" { // elsewhere the worker sees another machine
		j.Watch = a.watch()
	}
	return j
}

// load is the step that warms the server up, or measures it. One that is
// running already, begun by a controller that is gone, is waited for.
func (m *measurement) load(name string, warm bool) Step {
	host := func() Bench { return m.a.x.host.Bench }
	j := m.job(warm)
	return Step{Name: name, Run: m.a.run.ID,
		Look: func(ctx context.Context) (Found, any, error) {
			p, err := host().Poll(ctx, j)
			if err != nil {
				return Absent, nil, err
			}
			switch p.State {
			case BenchDone:
				return Done, m.evidence(p.Report), m.keep(ctx, p.Report, warm)
			case BenchRunning:
				return Partial, nil, nil
			case BenchDead:
				return Absent, nil, m.died(ctx, p)
			}
			return Absent, nil, nil
		},
		Do: func(ctx context.Context) (any, error) {
			if err := host().Start(ctx, j); err != nil {
				return nil, err
			}
			report, err := m.wait(ctx, j)
			if err != nil {
				return nil, err
			}
			return m.evidence(report), m.keep(ctx, report, warm)
		},
		Undo: func(ctx context.Context) (any, error) { return nil, host().Stop(ctx, j) },
	}
}

// deadError says that a benchmark ended without a report.
type deadError struct{ detail string }

func (e *deadError) Error() string {
	return "the benchmark program ended without a report: " + e.detail
}

// died is the failure of a load that ended without a report: the server's, when
// that has ended too.
func (m *measurement) died(ctx context.Context, p BenchProgress) error {
	if err := m.a.watching().blame(ctx, "the benchmark program ended without a report"); err != nil {
		return err
	}
	return &failure{class: record.ClassBenchFailed, err: &deadError{p.Detail}}
}

// lookEvery is how many polls of the benchmark go by between looks at the
// server.
const lookEvery = 5

// endPoll is the time between polls of a benchmark that is about to end. Before
// that they are rarer: each of them is work for the host that is measured.
const endPoll = 25 * time.Millisecond

// wait polls until the benchmark has ended, watching the server meanwhile.
func (m *measurement) wait(ctx context.Context, j BenchJob) (*BenchReport, error) {
	a := m.a
	timer := time.NewTimer(0)
	defer timer.Stop()
	detail := ""
	for n := 1; ; n++ {
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-timer.C:
		}
		p, err := a.x.host.Bench.Poll(ctx, j)
		if err != nil {
			return nil, err
		}
		switch p.State {
		case BenchDone:
			return p.Report, nil
		case BenchDead, BenchAbsent:
			return nil, m.died(ctx, p)
		}
		if p.Detail != detail {
			detail = p.Detail
			a.progress(stepBench, PhaseNote, detail)
		}
		if n%lookEvery == 0 && !p.Ending {
			if err := m.watch(ctx, j, p); err != nil {
				return nil, err
			}
		}
		pause := a.x.deps.Poll
		if p.Ending {
			pause = min(pause, endPoll)
		}
		timer.Reset(pause)
	}
}

// watch is a *failure when the server cannot go on with a load. A server that
// ended behind the last response did what it had to.
func (m *measurement) watch(ctx context.Context, j BenchJob, p BenchProgress) error {
	err := m.a.watching().look(ctx, p.Silent, time.Duration(m.cell.Bench.Stall))
	if !isFailure(err) {
		return err
	}
	now, pollErr := m.a.x.host.Bench.Poll(ctx, j)
	switch {
	case pollErr != nil:
		return pollErr
	case now.Ending, now.State == BenchDone:
		return nil // whoever collects judges it
	}
	return err
}

// keep judges a load that has ended. Requests that failed are counted, and are
// a label; none that worked is a failed run.
func (m *measurement) keep(ctx context.Context, r *BenchReport, warm bool) error {
	what := "benchmark"
	if warm {
		what = "warm-up"
	}
	if r.Stalled {
		if err := m.a.watching().blame(ctx, fmt.Sprintf("the %s got no token for %v", what, time.Duration(m.cell.Bench.Stall))); err != nil {
			return err
		}
		return &failure{class: record.ClassBenchStalled, ends: true, err: &diedError{
			fmt.Sprintf("%s: the %s got no token for %v; %d requests were complete", m.a.x.host.Name, what, time.Duration(m.cell.Bench.Stall), r.Completed),
			"see the end of the server's log; raise bench.stall when the server was only slow"}}
	}
	if r.Completed == 0 {
		if err := m.a.watching().blame(ctx, fmt.Sprintf("no request of the %s was answered (%s)", what, r.FirstError)); err != nil {
			return err
		}
		return &failure{class: record.ClassBenchFailed, err: fmt.Errorf("%s: no request of the %s was answered, %d failed: %s",
			m.a.x.host.Name, what, r.Failed, r.FirstError)}
	}
	if warm {
		m.warmup = r.Warmup
	} else {
		m.report = *r
	}
	return nil
}

func (m *measurement) evidence(r *BenchReport) any {
	ev := map[string]any{"completed": r.Completed, "failed": r.Failed, "log_start": r.LogStart, "log_end": r.LogEnd,
		"start_us": r.StartUs, "end_us": r.EndUs}
	if r.Warmup != nil {
		ev["warmup"] = r.Warmup
	}
	return ev
}

// atEnd looks at the server when the load has ended. One that has ended since the
// last response takes nothing from the numbers, and its end is returned; any
// other trouble is a *failure.
func (m *measurement) atEnd(ctx context.Context) (diedAfter string, err error) {
	a := m.a
	var st server.State
	if a.death != nil {
		err = a.death
	} else if st, err = a.x.host.Server.LookClosely(ctx, a.rec.ID, a.leases.Port, false); err == nil {
		err = a.livesBy(ctx, st)
	}
	if isFailure(err) && m.report.Failed == 0 {
		a.x.note(fmt.Sprintf("launch %s ended behind the last response of run %s, which keeps its numbers, labelled %s: %v", a.rec.ID, a.run.ID, trust.DiedAfter, a.death.err))
		return a.death.err.Error(), nil
	}
	if err != nil {
		return "", err
	}
	if err := a.watching().port(ctx, st); err != nil {
		return "", err
	}
	return "", a.watching().read(ctx) // what it wrote since, for whoever asks later why it ended
}

// lookCollect never finds a collected run: that one would be done.
func (m *measurement) lookCollect(context.Context) (Found, any, error) { return Absent, nil, nil }

// doCollect turns log and report into a result, in one transaction with the
// state of the run.
func (m *measurement) doCollect(ctx context.Context) (any, error) {
	a := m.a
	beside := a.beside(ctx)
	defer beside() // what goes wrong in between must not leave it behind
	diedAfter, err := m.atEnd(ctx)
	if err != nil {
		return nil, err
	}
	log, start, cut, err := a.window(ctx, m.report.LogStart, m.report.LogEnd)
	var gone *unreadableError
	if err != nil && !errors.As(err, &gone) {
		return nil, err // without its log the client's numbers are left
	}
	if gone != nil {
		cut = gone.Error()
	}
	w := Window{Cell: m.cell, Report: m.report, Log: log, LogStart: start, LogCut: cut, DiedAfter: diedAfter, Checked: a.facts.Checked, Patches: a.patches, Announced: a.facts.Announced, Alive: true, Warmup: m.warmup}
	if w.Beside, err = beside(); err != nil {
		return nil, err
	}
	a.x.firsts.fill(&w)
	data, err := a.x.deps.Collect(w)
	if err != nil {
		return nil, fmt.Errorf("read the measurements: %w", err)
	}
	data.Provenance = append(a.provenance(m.planned), data.Provenance...)
	data.Provenance = append(data.Provenance, m.report.facts()...)
	if len(w.Beside) > 0 {
		data.Provenance = append(data.Provenance, record.Fact{Group: "host", Key: "launches_beside", Value: strings.Join(w.Beside, "; ")})
	}
	if cut != "" {
		a.progress(stepCollect, PhaseNote, cut)
		data.Provenance = append(data.Provenance, record.Fact{Group: "workload", Key: "note", Value: cut})
	}
	a.hider().data(&data)
	if len(m.report.Raw) > 0 {
		if _, err := a.x.deps.Recorder.Attach(ctx, record.Artifact{RunID: a.run.ID, LaunchID: a.rec.ID, Name: reportName}, bytes.NewReader(a.hider().json(m.report.Raw))); err != nil {
			return nil, &fatalError{fmt.Errorf("keep the benchmark's report: %w", err)}
		}
	}
	run := *a.run
	run.State, run.EndUs = record.RunDone, a.x.nowUs()
	if err := a.endRun(ctx, stepRun, record.EventDone, nil, m.planned, run, &data); err != nil {
		return nil, err
	}
	a.x.firsts.note(m.cell, m.report)
	return map[string]int{"metrics": len(data.Metrics), "samples": len(data.Samples), "labels": len(data.Labels)}, nil
}
