package main

import (
	"context"
	"errors"

	"specrun/experiments/record"
	"specrun/experiments/report"
	"specrun/experiments/stats"
	"specrun/experiments/store"
)

// known adds to the options of a report what the store remembers beside the
// sweep: noise between launches, and what its patches cost. Reading may fail in
// the middle of a report; failed says so, and is asked when the report is made.
func (a *app) known(ctx context.Context, s *store.Store, v record.SweepView) (o report.Options, failed func() error) {
	var errs []error
	o = a.reportOptions()
	noises := map[[2]string]*stats.Noise{}
	o.Noise = func(host, metric string) *stats.Noise {
		key := [2]string{host, metric}
		if n, read := noises[key]; read {
			return n
		}
		groups, err := s.LaunchNoise(ctx, host, v.Sweep.Name, metric)
		if err != nil {
			errs = append(errs, err)
		}
		noises[key] = nil
		if len(groups) > 0 {
			n := stats.PoolNoise(groups)
			noises[key] = &n
		}
		return noises[key]
	}
	probes := map[[2]string]*report.ProbeLine{}
	o.Probe = func(patch, host string) *report.ProbeLine {
		key := [2]string{patch, host}
		if p, read := probes[key]; read {
			return p
		}
		probes[key] = nil
		probe, ok, err := s.LatestProbe(ctx, patch, host)
		if err == nil && ok {
			var line report.ProbeLine
			if line, err = report.Probe(probe, o.Noise(host, "tpot")); err == nil {
				probes[key] = &line
			}
		}
		if err != nil {
			errs = append(errs, err)
		}
		return probes[key]
	}
	return o, func() error { return errors.Join(errs...) }
}
