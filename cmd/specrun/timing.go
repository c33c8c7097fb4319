package main

import (
	"context"

	"specrun/configs"
	"specrun/experiments"
	"specrun/experiments/lab"
)

// timing is what launches and runs of the experiment took on the host before,
// according to the store that its results go to; zero when nothing is known.
func (a *app) timing(ctx context.Context, specPath, experiment string, e configs.Host) (experiments.Timing, error) {
	usual := experiments.Timing{}
	if e.Kind == configs.Lab {
		usual = experiments.Timing{Launch: lab.UsualLaunch, Run: lab.UsualRun, Basis: "usual on the practice host"}
	}
	s, err := a.existingStore(ctx, specPath)
	if s == nil || err != nil {
		return usual, err
	}
	defer s.Close()
	took, err := s.Durations(ctx, experiment, e.Name)
	if err != nil || took.Launches == 0 || took.Runs == 0 {
		return usual, err
	}
	return experiments.Timing{Launch: took.Launch, Run: took.Run}, nil
}
