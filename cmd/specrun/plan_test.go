package main

import (
	"testing"

	"specrun/experiments"
	"specrun/experiments/record"
)

// A command is shown once, however many rounds repeat it, and each cell of a
// launch is named.
func TestLaunchesText_ShowsACommandOnce(t *testing.T) {
	profiling := experiments.ServerConfig{Patches: []experiments.PatchRef{{Name: "profiling-v4"}}}
	p := &experiments.Plan{Cells: []experiments.Cell{
		{Ord: 0, Baseline: true, Params: record.Params{"mode": "prefill"}},
		{Ord: 1, Params: record.Params{"steps": int64(1), "mode": "prefill"}, Server: profiling},
		{Ord: 2, Params: record.Params{"steps": int64(2), "mode": "prefill"}, Server: profiling},
	}}
	for round := range 2 {
		p.Launches = append(p.Launches,
			experiments.PlannedLaunch{Round: round, Command: "serve", Placeholder: 30000, Runs: []experiments.PlannedRun{{Cell: 0}}},
			experiments.PlannedLaunch{Round: round, Command: "serve --steps", Placeholder: 30000,
				Runs: []experiments.PlannedRun{{Cell: 1}, {Cell: 1, Repeat: 1}, {Cell: 2}}})
	}
	const want = "port 30000 stands for one that is free then\n" +
		"\nbaseline, patches none, x 2 rounds\nserve\n" +
		"\nsteps=1, steps=2, patches profiling-v4, 3 runs in each launch, x 2 rounds\nserve --steps\n"
	if got := launchesText(p); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
}
