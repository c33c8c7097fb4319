package main

import (
	"context"
	"errors"
	"math"

	"specrun/experiments/record"
	"specrun/experiments/report"
	"specrun/experiments/stats"
	"specrun/experiments/store"
)

// remembering reads from the store what is remembered of the noise of an
// experiment's launches before a time (microseconds since the epoch), each number
// once. Reading may fail in the middle of a report: then there is no memory, and
// fail takes the error.
func remembering(ctx context.Context, s *store.Store, experiment string, beforeUs int64, fail func(error)) func(host, metric string) *stats.Noise {
	noises := map[[2]string]*stats.Noise{}
	return func(host, metric string) *stats.Noise {
		key := [2]string{host, metric}
		if n, read := noises[key]; read {
			return n
		}
		noises[key] = nil
		cells, err := s.LaunchNoise(ctx, host, experiment, metric, beforeUs)
		if err != nil {
			fail(err)
		}
		var groups [][]float64
		for _, launches := range cells {
			var group []float64
			for _, runs := range launches {
				group = append(group, stats.Median(runs))
			}
			groups = append(groups, group)
		}
		if len(groups) > 0 {
			n := stats.PoolNoise(groups)
			noises[key] = &n
		}
		return noises[key]
	}
}

// knownOfBoth gives the noise that a comparison may rest on: what was remembered
// of the experiments of both sides before the earlier of the two, the larger
// where they differ. Files have no memory.
func knownOfBoth(ctx context.Context, s *store.Store, sides []report.Side) (noise func(host, metric string) *stats.Noise, failed func() error) {
	var errs []error
	var stored []record.Sweep
	for _, side := range sides {
		if side.Kind != report.SideFile {
			stored = append(stored, side.View.Sweep)
		}
	}
	before := int64(math.MaxInt64)
	for _, sweep := range stored {
		before = min(before, sweep.CreatedUs)
	}
	var memories []func(host, metric string) *stats.Noise
	for i, sweep := range stored {
		if i == 0 || sweep.Name != stored[0].Name {
			memories = append(memories, remembering(ctx, s, sweep.Name, before, func(err error) { errs = append(errs, err) }))
		}
	}
	noise = func(host, metric string) (most *stats.Noise) {
		for _, memory := range memories {
			if n := memory(host, metric); n != nil && (most == nil || n.SD > most.SD) {
				most = n
			}
		}
		return most
	}
	return noise, func() error { return errors.Join(errs...) }
}

// known adds to the options of a report what the store remembers beside the
// sweep: noise between launches before it, and what its patches cost. Reading may
// fail in the middle of a report; failed says so, and is asked when the report is
// made.
func (a *app) known(ctx context.Context, s *store.Store, v record.SweepView) (o report.Options, failed func() error) {
	var errs []error
	fail := func(err error) { errs = append(errs, err) }
	o = a.reportOptions()
	o.Noise = remembering(ctx, s, v.Sweep.Name, v.Sweep.CreatedUs, fail)
	probes := map[[2]string]*report.ProbeLine{}
	o.Probe = func(patch, host string) *report.ProbeLine {
		key := [2]string{patch, host}
		if p, read := probes[key]; read {
			return p
		}
		probes[key] = nil
		line, err := bestProbe(ctx, s, patch, host, fail)
		if err != nil {
			fail(err)
		}
		probes[key] = line
		return probes[key]
	}
	return o, func() error { return errors.Join(errs...) }
}

// recentProbes of a patch are looked at for one that found something out.
const recentProbes = 5

// bestProbe gives the probe of a patch to be quoted, nil when there is none.
func bestProbe(ctx context.Context, s *store.Store, patch, host string, fail func(error)) (*report.ProbeLine, error) {
	ids, err := s.ProbesOf(ctx, patch, host, recentProbes)
	if err != nil {
		return nil, err
	}
	var lines []report.ProbeLine
	for _, id := range ids {
		v, err := s.View(ctx, id)
		if err != nil {
			return nil, err
		}
		before := remembering(ctx, s, v.Sweep.Name, v.Sweep.CreatedUs, fail)
		line, err := report.Probe(v, before(host, "tpot"))
		if err != nil {
			return nil, err
		}
		if lines = append(lines, line); report.BestProbe(lines).Conclusive() {
			break
		}
	}
	return report.BestProbe(lines), nil
}
