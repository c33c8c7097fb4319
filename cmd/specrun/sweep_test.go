package main

import (
	"errors"
	"testing"
	"time"

	"specrun/configs"
	"specrun/experiments"
	"specrun/experiments/record"
)

func TestClosing_NamesWhereAndWhatNext(t *testing.T) {
	done := experiments.Summary{SweepID: "k3v7", State: record.SweepDone, Done: 15, Launches: 15}
	one := experiments.Summary{SweepID: "k3v7", State: record.SweepDone, Done: 1, Launches: 1}
	before := experiments.Summary{SweepID: "k3v7", State: record.SweepDone, Done: 15}
	failed := experiments.Summary{SweepID: "k3v7", State: record.SweepIncomplete, Done: 14, Failed: 1, Launches: 15}
	for name, c := range map[string]struct {
		s       experiments.Summary
		err     error
		passing bool
		want    string
	}{
		"done":                 {done, nil, false, "sweep k3v7 done: 15 runs done, 0 failed, 0 missing, 15 launches in 42s; stored in ~/r.db; next: N"},
		"one run":              {one, nil, false, "sweep k3v7 done: 1 run done, 0 failed, 0 missing, 1 launch in 42s; stored in ~/r.db; next: N"},
		"resumed for nothing":  {before, nil, false, "sweep k3v7 done: 15 runs done, 0 failed, 0 missing; nothing is left to do; stored in ~/r.db; next: N"},
		"an error says more":   {before, errors.New("x"), false, "sweep k3v7 done: 15 runs done, 0 failed, 0 missing, 0 launches in 42s; stored in ~/r.db"},
		"failed: a hint comes": {failed, nil, false, "sweep k3v7 incomplete: 14 runs done, 1 failed, 0 missing, 15 launches in 42s; stored in ~/r.db"},
		"of the demo":          {done, nil, true, "sweep k3v7 done: 15 runs done, 0 failed, 0 missing, 15 launches in 42s"},
	} {
		a := &app{env: &env{home: "/home/u"}, passing: c.passing}
		if got := a.closing(&c.s, c.err, 42*time.Second, "/home/u/r.db", "N"); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, c.want)
		}
	}
}

func TestNext_IsWhatUndoes(t *testing.T) {
	for _, c := range []struct {
		after   experiments.After
		patched bool
		want    string
	}{
		{experiments.AfterKeep, true, "specrun server stop --host h"},
		{experiments.AfterRestore, true, "specrun rollback --host h"},
		{experiments.AfterRestore, false, "specrun list --runs"},
	} {
		s := hostSweep{entry: configs.Host{Name: "h"}, plan: &experiments.Plan{After: c.after}, patched: c.patched}
		if got := s.next(); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
}
