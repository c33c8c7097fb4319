package report

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"specrun/experiments/record"
)

// added gives each run of a side a further metric: values by round, again from the
// first when there are more rounds.
func added(s Side, name, unit, source string, values ...float64) Side {
	round := map[string]int{}
	for _, sl := range s.View.Slots {
		round[sl.ID] = sl.Round
	}
	for _, r := range s.View.Runs {
		d := s.View.Data[r.ID]
		d.Metrics = append(d.Metrics[:len(d.Metrics):len(d.Metrics)], record.Metric{Name: name, Unit: unit, Value: values[round[r.SlotID]%len(values)], Source: source})
		s.View.Data[r.ID] = d
	}
	return s
}

// Fewer tokens, a longer benchmark and a hotter GPU are differences, not speeds.
func TestCompare_OnlyASpeedIsFasterOrSlower(t *testing.T) {
	for _, metric := range []string{"total_output_tokens", "context_mean", "completed", "gpu_temp_max", "duration", "gap_ratio", "cached_tokens", "accept_len"} {
		a, b := only(t, sitting("x", 3, 3, 1, 1), "steps=1"), only(t, sitting("yy", 3, 3, 1, 1), "steps=1")
		if metric != "accept_len" {
			a, b = added(a, metric, "", "client", 100.123, 100.217, 99.871), added(b, metric, "", "client", 89.871, 90.123, 90.217)
		}
		c := mustCompare(t, a, b, CompareOptions{Metrics: []string{metric}, Limit: 0.03})
		if strings.Contains(c.Decision, "faster than") || strings.Contains(c.Decision, "slower than") || len(c.Regressions) > 0 {
			t.Errorf("%s: %s; %q", metric, c.Decision, c.Regressions)
		}
		if found := strings.HasPrefix(c.Decision, "b differs from a: "); found != (metric != "accept_len") {
			t.Errorf("%s: %s", metric, c.Decision)
		}
		// A limit that could never be broken is no limit.
		var none *NothingError
		if err := c.Regression(); !errors.As(err, &none) || !strings.Contains(none.Next, "--metric") {
			t.Errorf("%s: %v", metric, err)
		}
	}
	a, b := sitting("x", 3, 3, 1, 1), sitting("yy", 3, 3, 1.2, 1)
	if c := mustCompare(t, a, b, CompareOptions{Metrics: []string{"accept_len", "cycle_total"}, Limit: 0.03}); !errors.As(c.Regression(), new(*RegressionError)) {
		t.Errorf("with a speed beside it: %v; %s", c.Regression(), c.Decision)
	}
}

// The time of a token and the rate change by different fractions: the decision has
// the number of the table too.
func TestCompare_TheDecisionHasTheNumbersOfTheTable(t *testing.T) {
	c := mustCompare(t, only(t, sitting("x", 3, 6, 1, 1), "steps=1"), only(t, sitting("yy", 3, 6, 1.111, 1), "steps=1"), CompareOptions{})
	l := lineOf(t, c, "steps=1", "output_throughput")
	want := "b is 11 % slower than a (tok/s " + l.change(map[string]bool{}) + "): "
	if !strings.HasPrefix(c.Decision, want) {
		t.Errorf("%s; want %s", c.Decision, want)
	}
	c = mustCompare(t, only(t, sitting("x", 3, 6, 1, 1), "steps=1"), only(t, sitting("yy", 3, 6, 1.111, 1), "steps=1"), CompareOptions{Metrics: []string{"tpot_mean"}})
	if !strings.HasPrefix(c.Decision, "b is 11 % slower than a: ") {
		t.Errorf("%s", c.Decision)
	}
}

// Only what has a p-value is adjusted: the baseline has no TOTAL.
func TestCompare_SaysHowManyCellsWereJudgedTogether(t *testing.T) {
	a, b := theRegression(3)
	for want, metrics := range map[string][]string{"adjusted for 2 cells (Holm)": {"cycle_total"}, "adjusted for 3 cells (Holm)": {"output_throughput"},
		"adjusted for 2 to 3 cells (Holm)": {"cycle_total", "output_throughput"}} {
		var text bytes.Buffer
		if err := mustCompare(t, a, b, CompareOptions{Metrics: metrics}).WriteText(&text, options()); err != nil || !strings.Contains(text.String(), want) {
			t.Errorf("%v: %v, no %q in\n%s", metrics, err, want, text.String())
		}
	}
}

// What an import and the client call by one name was not measured in one way.
func TestCompare_MeasuredInTwoWaysIsNotCompared(t *testing.T) {
	a := only(t, added(sitting("x", 3, 3, 1, 1), "tpot", "ms", "import", 10.123, 10.217, 10.171), "steps=1")
	b := only(t, added(sitting("yy", 3, 3, 1, 1), "tpot", "ms", "client", 12.123, 12.217, 12.171), "steps=1")
	c := mustCompare(t, a, b, CompareOptions{Metrics: []string{"tpot"}, Limit: 0.03})
	l := lineOf(t, c, "steps=1", "tpot")
	if l.Ratio != nil || l.P != nil || l.Separable != nil || l.A.Median == nil || l.B.Median == nil || l.Note == "" {
		t.Errorf("%+v", l)
	}
	if len(c.Regressions) > 0 || strings.Contains(c.Decision, "slower") {
		t.Errorf("%s; %q", c.Decision, c.Regressions)
	}
	var text bytes.Buffer
	if err := c.WriteText(&text, options()); err != nil || !strings.Contains(text.String(), "-  TPOT is not compared: a and b measured it in two ways") || strings.Contains(text.String(), "different steps") {
		t.Errorf("%v\n%s", err, text.String())
	}
}

// One wild launch of six makes P large and moves the ranks little: both are there.
func TestCompare_RanksStandBeside(t *testing.T) {
	a := only(t, added(sitting("x", 3, 6, 1, 1), "tpot", "ms", "client", 10.11, 10.22, 10.17, 10.14, 10.19, 10.12), "steps=1")
	b := only(t, added(sitting("yy", 3, 6, 1, 1), "tpot", "ms", "client", 10.61, 10.72, 10.67, 10.64, 10.69, 31.62), "steps=1")
	c := mustCompare(t, a, b, CompareOptions{Metrics: []string{"tpot"}})
	l := lineOf(t, c, "steps=1", "tpot")
	if *l.P < 0.05 || l.RankP == nil || *l.RankP > 0.01 {
		t.Errorf("p %v, by ranks %v", *l.P, l.RankP)
	}
	for all, want := range map[bool]bool{true: true, false: false} {
		o := options()
		o.All = all
		var text bytes.Buffer
		if err := c.WriteText(&text, o); err != nil || strings.Contains(text.String(), "p by ranks") != want {
			t.Errorf("-v %v: %v\n%s", all, err, text.String())
		}
	}
	c = mustCompare(t, only(t, sitting("x", 3, 3, 1, 1), "steps=1"), only(t, sitting("yy", 3, 3, 1, 1), "steps=1"), CompareOptions{})
	if c.Lines[0].RankP != nil {
		t.Errorf("of three launches: %v", *c.Lines[0].RankP)
	}
}

// The configuration read back and the command line spell one flag in two ways, and
// an old log may not name it.
func TestCompare_StepsInAnySpelling(t *testing.T) {
	side := func(id, key, value string) Side {
		s := only(t, sitting(id, 2, 3, 1, 1), "steps=1")
		s.View.Cells[1].Params = record.Params{}
		for run, d := range s.View.Data {
			d.Provenance = nil
			if key != "" {
				d.Provenance = []record.Fact{fact("flags", key, value)}
			}
			s.View.Data[run] = d
		}
		return s
	}
	const effective, asked, argv = "speculative_num_steps", "asked speculative-num-steps", "--speculative-num-steps"
	for name, tc := range map[string]struct {
		a, b     Side
		compared bool
		flag     string
	}{
		"one value in two spellings": {side("x", effective, "2"), side("yy", argv, "2"), true, ""},
		"read back and asked for":    {side("x", effective, "2"), side("yy", asked, "2"), true, ""},
		"two values":                 {side("x", effective, "2"), side("yy", argv, "3"), false, ""},
		"two values of logs":         {side("x", effective, "2"), side("yy", effective, "3"), false, ""},
		"not known of a":             {side("x", "", ""), side("yy", effective, "3"), true, "a: the speculative steps are not known"},
		"not known of either":        {side("x", "", ""), side("yy", "", ""), true, "a and b: the speculative steps are not known"},
	} {
		for _, kind := range []string{SideCell, SideFile} {
			tc.a.Kind = kind
			c := mustCompare(t, tc.a, tc.b, CompareOptions{Metrics: []string{"cycle_total"}})
			if got := c.Lines[0].Ratio != nil; got != tc.compared {
				t.Errorf("%s (%s): compared %v: %+v", name, kind, got, c.Lines[0])
			}
			if got := strings.Join(c.Flags, "; "); strings.Contains(got, "speculative steps") != (tc.flag != "") || !strings.Contains(got, tc.flag) {
				t.Errorf("%s: flags %q, want %q", name, c.Flags, tc.flag)
			}
		}
	}
}
