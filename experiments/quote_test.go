package experiments

import (
	"context"
	"slices"
	"testing"

	"specrun/deploy/server"
	"specrun/experiments/record"
	"specrun/internal/tier"
)

// quotePlan has the baseline and two cells; by fakeCollect the last cell is
// best, and its quote is the second.
func (r *rig) quotePlan(rounds int) *Plan {
	return r.plan(func(s *Spec) { quotable(s); s.Rounds = rounds }, "steps=1..2")
}

// quoted are the runs of the cells that came after the plan, by ord and round.
func (r *rig) quoted(p *Plan) (ords, rounds []int) {
	v := r.view()
	for _, run := range v.Runs {
		i := slices.IndexFunc(v.Slots, func(s record.Slot) bool { return s.ID == run.SlotID })
		c := slices.IndexFunc(v.Cells, func(c record.Cell) bool { return c.ID == v.Slots[i].CellID })
		if v.Cells[c].Ord >= len(p.Cells) && run.State != record.RunCut {
			ords, rounds = append(ords, v.Cells[c].Ord), append(rounds, v.Slots[i].Round)
		}
	}
	return ords, rounds
}

func TestExecute_QuotableRepeatsTheBestCellWithoutItsPatch(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.quotePlan(2)
	var patched []int
	r.w.onStart = func(server.Launch) { patched = append(patched, len(r.w.patches)) }
	sum, err := Execute(context.Background(), r.deps(), p, nil)
	if err != nil || sum.State != record.SweepDone || sum.Done != 8 || sum.Missing != 0 || sum.Launches != 8 {
		t.Fatalf("%+v, %v", sum, err)
	}
	r.settledRuns(8)
	ords, rounds := r.quoted(p)
	if !slices.Equal(ords, []int{4, 4}) || !slices.Equal(rounds, []int{2, 3}) {
		t.Errorf("quoted cells %v in rounds %v", ords, rounds)
	}
	if !slices.Equal(patched, []int{0, 1, 1, 1, 1, 0, 0, 0}) {
		t.Errorf("patches by launch: %v", patched)
	}
	v := r.view()
	if last := v.Cells[len(v.Cells)-1]; len(v.Cells) != 4 || last.Params["patches"] != "none" || last.Params["steps"] != int64(2) || last.Baseline {
		t.Errorf("%+v", v.Cells)
	}
	// Nothing is left to do, also for whoever reads it from the store.
	again, err, _ := r.resume(ResumeOptions{})
	if err != nil || again.Launches != 0 || again.Done != 8 || again.Missing != 0 {
		t.Errorf("%+v, %v", again, err)
	}
}

func TestExecute_QuotableWithTheBaselineBestRepeatsNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.w.ready = func(l server.Launch) error {
		if launchSteps(l) != "none" {
			return &server.ExitedError{Host: "gpu-01", Code: 2}
		}
		return nil
	}
	p := r.quotePlan(2)
	sum, err := Execute(context.Background(), r.deps(), p, nil)
	if err != nil || sum.State != record.SweepIncomplete || sum.Done != 2 || sum.Failed != 4 || sum.Missing != 0 {
		t.Fatalf("%+v, %v", sum, err)
	}
	r.settled(p)
	// Tried again, the cells work, and the best of them is quoted then.
	r.w.ready = nil
	sum, err, _ = r.resume(ResumeOptions{RetryFailed: true})
	if err != nil || sum.State != record.SweepDone || sum.Done != 8 || sum.Missing != 0 {
		t.Fatalf("%+v, %v", sum, err)
	}
	if ords, _ := r.quoted(p); !slices.Equal(ords, []int{4, 4}) {
		t.Errorf("quoted cells %v", ords)
	}
}

func TestResume_QuotableAfterAKillAtEveryEventBoundary(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	count := r.killAt(0)
	if _, err, _ := r.execute(r.quotePlan(1)); err != nil {
		t.Fatal(err)
	}
	boundaries := *count
	// The quote's launch is the last of four; what comes before is as in any sweep.
	for n := boundaries * 7 / 10; n <= boundaries; n += tier.Every(9) {
		r := newRig(t)
		p := r.quotePlan(1)
		r.killAt(n)
		if _, _, lived := r.execute(p); lived {
			t.Fatalf("boundary %d was not reached", n)
		}
		r.hook = nil
		sum, err, _ := r.resume(ResumeOptions{})
		if err != nil || sum.State != record.SweepDone || sum.Done != 4 || sum.Missing != 0 {
			t.Fatalf("killed at boundary %d: %+v, %v", n, sum, err)
		}
		r.settledRuns(4)
		if ords, rounds := r.quoted(p); !slices.Equal(ords, []int{4}) || !slices.Equal(rounds, []int{1}) {
			t.Fatalf("killed at boundary %d: quoted cells %v in rounds %v", n, ords, rounds)
		}
	}
}

// A cell that failed is tried again and becomes the best, when another one's quote
// is half done: what is empty of that is closed, so that nothing is missing.
func TestResume_AnotherBestClosesTheQuoteThatWasBegun(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		broken, begun string // steps of the cell that fails first, and of the one that is best without it
		ord           int    // of the quote that is begun
		quoted        []int  // in the end
	}{
		"with a quote of its own":        {"2", "1", 3, []int{3, 4, 4, 4}},
		"the baseline, which needs none": {"none", "2", 4, []int{4}},
	} {
		r := newRig(t)
		p := r.plan(func(s *Spec) { quotable(s); s.Rounds = 3 }, "steps=1..2")
		deps := func() Deps {
			d := r.deps()
			d.Collect = func(w Window) (record.RunData, error) {
				data, err := fakeCollect(w)
				if w.Cell.Baseline && c.broken == "none" {
					data.Metrics[0].Value = 500
				}
				return data, err
			}
			return d
		}
		r.w.ready = func(l server.Launch) error {
			if launchSteps(l) == c.broken {
				return &server.ExitedError{Host: "gpu-01", Code: 2}
			}
			return nil
		}
		ctx, stop := context.WithCancel(context.Background())
		defer stop()
		unpatched := 0
		r.w.onStart = func(l server.Launch) {
			if len(r.w.patches) == 0 && launchSteps(l) == c.begun {
				if unpatched++; unpatched == 2 {
					stop()
				}
			}
		}
		sum, err := Execute(ctx, deps(), p, nil)
		if err == nil || sum.State != record.SweepInterrupted || sum.Failed != 3 {
			t.Fatalf("%s: %+v, %v", name, sum, err)
		}
		if ords, _ := r.quoted(p); !slices.Equal(ords, []int{c.ord}) {
			t.Fatalf("%s: quoted cells %v before it is stopped", name, ords)
		}
		r.w.onStart, r.w.ready = nil, nil
		for range 2 { // the second time nothing is left to do
			sum, err = Resume(context.Background(), deps(), r.sweep, ResumeOptions{RetryFailed: true})
			if err != nil || sum.State != record.SweepDone || sum.Missing != 0 {
				t.Fatalf("%s: %+v, %v", name, sum, err)
			}
		}
		ords, _ := r.quoted(p)
		if slices.Sort(ords); !slices.Equal(ords, c.quoted) {
			t.Errorf("%s: quoted cells %v", name, ords)
		}
		filled := map[string]bool{}
		for _, run := range r.view().Runs {
			filled[run.SlotID] = filled[run.SlotID] || run.State == record.RunDone
		}
		for _, s := range r.view().Slots {
			if s.Closed == filled[s.ID] {
				t.Errorf("%s: slot %s is closed %v and filled %v", name, s.ID, s.Closed, filled[s.ID])
			}
		}
	}
}
