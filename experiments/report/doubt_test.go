package report

import (
	"fmt"
	"strings"
	"testing"

	"specrun/experiments/record"
	"specrun/experiments/stats"
)

// Nineteen cells that do not differ from the baseline, and one P just below 5 %:
// asked alone it is a finding, among many it is not.
func TestSummarize_VsBaselineIsJudgedTogether(t *testing.T) {
	const speed = 700.0 / 7.01 // with all digits, as it is measured
	noise := []float64{1, 1.004, 0.996}
	few, many := newBuilder(2, 3, "interleave"), newBuilder(5, 3, "interleave")
	for round := range 3 {
		for _, b := range []*builder{few, many} {
			b.run(0, round, 1)
			b.set(0, round, speed)
			for cell := 1; cell < len(b.v.Cells); cell++ {
				b.run(cell, round, 1)
				b.set(cell, round, speed*noise[(cell+round)%3])
			}
			b.set(1, round, 1.012*speed*noise[round])
		}
	}
	alone, among := Summarize(few.v, options()).Cells[1].Doubt["output_throughput"], Summarize(many.v, options())
	d := among.Cells[1].Doubt["output_throughput"]
	if alone.Separable == nil || !*alone.Separable || *alone.P != *alone.PHolm {
		t.Fatalf("alone: %+v", alone)
	}
	if *d.P != *alone.P || *d.PHolm < 3.9**d.P || *d.Separable {
		t.Errorf("among four: p %v, %v by Holm, separable %v", *d.P, *d.PHolm, *d.Separable)
	}
	if got := table(t, among); !strings.Contains(got, "1.012 ~") || !strings.Contains(got, "vs baseline: ratio of the medians of tok/s, judged by means, 4 cells judged together (Holm);") {
		t.Errorf("%s", got)
	}
	if d.Method != "paired t on logs, n=3 rounds" || d.TooFew != "" {
		t.Errorf("%+v", d)
	}
}

// set makes the throughput of a run what a test needs.
func (b *builder) set(cell, round int, tps float64) {
	id := fmt.Sprint("r", cell, "-", round)
	d := b.v.Data[id]
	d.Metrics = []record.Metric{{Name: "output_throughput", Unit: "tok/s", Value: tps, Source: "client"}}
	b.v.Data[id] = d
}

func remembering(n stats.Noise) Options {
	o := options()
	o.Noise = func(host, metric string) *stats.Noise {
		if host != "lab" {
			return nil
		}
		return &n
	}
	return o
}

func TestSummarize_OneLaunchAndWhatTheHostTaught(t *testing.T) {
	n := stats.Noise{SD: 0.03, DF: 12, Basis: "18 launches of 6 cells"}
	s := Summarize(newBuilder(3, 1, "interleave").rounds(1).v, remembering(n))
	want := fmt.Sprintf("? unknown: a side has one launch, so the noise between launches is not known; two launches of one cell commonly differ by up to %s here (18 launches of 6 cells); --rounds 3 would find %s",
		percent(n.Ordinary()), percent(n.MinEffect(3)))
	if got := joined(table(t, s)); !strings.Contains(got, want) {
		t.Errorf("no %q in\n%s", want, got)
	}
	if d := s.Cells[1].Doubt["output_throughput"]; d.Separable != nil || !strings.Contains(d.TooFew, "one launch") {
		t.Errorf("%+v", d)
	}
	// Two launches find with memory what they cannot find alone.
	b := newBuilder(2, 2, "interleave")
	for round, v := range []float64{100, 101} {
		b.run(0, round, 1).run(1, round, 1)
		b.set(0, round, v)
		b.set(1, round, 60+2*float64(round))
	}
	if d := Summarize(b.v, remembering(stats.Noise{SD: 0.003, DF: 30, Basis: "x"})).Cells[1].Doubt["output_throughput"]; !strings.Contains(d.Method, "remembered noise") {
		t.Errorf("%+v", d)
	}
}

func TestSummarize_VerdictSaysWhatSpeaksAgainstTheBest(t *testing.T) {
	clean := newBuilder(3, 3, "interleave").rounds(3)
	if s := Summarize(clean.v, options()); strings.Contains(s.Verdict, "but") {
		t.Errorf("nothing speaks against it: %s", s.Verdict)
	}
	for want, edit := range map[string]func(*record.RunData){
		"best, but noisy: steps=2 with": func(d *record.RunData) {
			d.Labels = append(d.Labels, record.Label{Name: "noisy", Reason: "4 %"})
		},
		"best, but disagree and partial: steps=2 with": func(d *record.RunData) {
			d.Labels = append(d.Labels, record.Label{Name: "partial"}, record.Label{Name: "disagree"})
			d.Checks = []record.TrustCheck{{Name: "tpot-against-cycle", Outcome: record.Fail}}
		},
		"best, but check server-alive failed: steps=2 with": func(d *record.RunData) {
			d.Checks = []record.TrustCheck{{Name: "server-alive", Outcome: record.Fail}}
		},
		"best is steps=2 with": func(d *record.RunData) {
			d.Labels = append(d.Labels, record.Label{Name: "sync-probe"})
			d.Checks = []record.TrustCheck{{Name: "server-alive", Outcome: record.NotCheckable}}
		},
	} {
		b := newBuilder(3, 3, "interleave").rounds(3)
		d := b.v.Data["r2-1"]
		edit(&d)
		b.v.Data["r2-1"] = d
		if s := Summarize(b.v, options()); !strings.HasPrefix(s.Verdict, want) {
			t.Errorf("no %q: %s", want, s.Verdict)
		}
	}
}

func TestDecision_NoiseCountsWhereEnoughWouldHaveBeenFound(t *testing.T) {
	sweep := func(apart, noise float64) *Summary {
		b := newBuilder(3, 6, "interleave")
		for round := range 6 {
			wobble := 1 + noise*[...]float64{1, -1, 0.5, -0.5, 0.8, -0.8}[round]
			for cell, v := range []float64{60, 100, 100 * apart * wobble} {
				b.run(cell, round, 1)
				b.set(cell, round, v)
			}
		}
		return Summarize(b.v, options())
	}
	for _, c := range []struct {
		apart, noise float64
		want         string
	}{
		{1.015, 0.02, "steps=2 best; steps=1 1.5 % behind, not more than noise: take steps=1"},
		{1.015, 0.001, "steps=2 best; none within 1 %: take steps=2"},
		{1.05, 0.08, "steps=2 best; none within 1 %: take steps=2, or find out by more rounds whether steps=1 is as good"}, // so noisy that it would have found nothing
		{1.005, 0.001, "steps=2 best; steps=1 within 1 %: take steps=1"},
	} {
		s := sweep(c.apart, c.noise)
		if got := s.decision(); got != c.want {
			t.Errorf("%v apart, noise %v: %q, want %q (%s)", c.apart, c.noise, got, c.want, s.Verdict)
		}
		if advises := strings.HasSuffix(strings.TrimSpace(table(t, s)), "take steps=1"); advises != strings.HasSuffix(c.want, "take steps=1") {
			t.Errorf("%v: last sentence of\n%s", c, table(t, s))
		}
		take := s.decide()
		if take.Text != c.want || take.Best["steps"] != int64(2) || !strings.Contains(c.want, "take steps="+fmt.Sprint(take.Take["steps"])) {
			t.Errorf("%+v", take)
		}
	}
}

// A label whose reason is another in another cell does not lend it its own, and
// of equal reasons the worst is told.
func TestTable_ReasonsOfALabelAreNotMixed(t *testing.T) {
	for want, reasons := range map[string][]string{
		"  noisy: 9 % (steps=3; less in steps=1..2)\n":                {"4 %", "4 %", "9 %"},
		"  noisy: 42.1 % apart (steps=1; less in steps=2)\n":          {"42.1 % apart", "4.5 % apart", ""},
		"  noisy: 4 % (steps=2); check b (steps=3)\n":                 {"", "4 %", "check b"},
		"  noisy: check a (steps=1, steps=3); check b (steps=2..3)\n": {"check a", "check b", "check a|check b"},
	} {
		b := newBuilder(4, 1, "grid").run(0, 0, 1)
		for i, reason := range reasons {
			var labels []record.Label
			for one := range strings.SplitSeq(reason, "|") {
				if one != "" {
					labels = append(labels, record.Label{Name: "noisy", Reason: one})
				}
			}
			b.run(i+1, 0, 1, labels...)
		}
		if got := table(t, Summarize(b.v, options())); !strings.Contains(got, want) || !strings.Contains(got, "simulated: practice host (all cells)") {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

// A check that fails everywhere is told once, and not again where a label has it.
func TestTable_FailedChecksAreToldOnce(t *testing.T) {
	b := newBuilder(4, 1, "grid").rounds(1)
	for cell, why := range map[int]string{1: "4.7 % apart", 2: "5.1 % apart"} {
		id := fmt.Sprint("r", cell, "-0")
		d := b.v.Data[id]
		d.Labels = append(d.Labels, record.Label{Name: "short", Reason: "49 cycles counted"})
		d.Checks = []record.TrustCheck{{Name: "tpot-against-cycle", Outcome: record.Fail, Explanation: why},
			{Name: "enough-cycles", Outcome: record.Fail, Explanation: "49 decode cycles counted, 100 wanted"}}
		b.v.Data[id] = d
	}
	d := b.v.Data["r3-0"] // without the label
	d.Checks = []record.TrustCheck{{Name: "enough-cycles", Outcome: record.Fail, Explanation: "49 decode cycles counted, 100 wanted"}}
	b.v.Data["r3-0"] = d
	got := table(t, Summarize(b.v, options()))
	for _, want := range []string{"  check failed: steps=1: tpot-against-cycle: 4.7 % apart (also steps=2)\n",
		"  check failed: steps=3: enough-cycles: 49 decode cycles counted, 100 wanted\n", "  short: 49 cycles counted (steps=1..2)\n"} {
		if strings.Count(got, want) != 1 {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

// From six launches on the test by ranks stands beside, in JSON and with -v.
func TestSummarize_RanksStandBeside(t *testing.T) {
	for rounds, want := range map[int]bool{3: false, 6: true} {
		v := newBuilder(3, rounds, "interleave").rounds(rounds).v
		o := options()
		s := Summarize(v, o)
		if d := s.Cells[1].Doubt["output_throughput"]; (d.RankP != nil) != want {
			t.Errorf("%d rounds: %v", rounds, d.RankP)
		}
		if strings.Contains(table(t, s), "p by ranks") {
			t.Errorf("%d rounds: told without -v", rounds)
		}
		o.All = true
		if got := table(t, Summarize(v, o)); strings.Contains(got, "p by ranks, beside that by t: steps=1 0.031 (") != want {
			t.Errorf("%d rounds, -v:\n%s", rounds, got)
		}
	}
}
