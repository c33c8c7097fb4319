package report

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"specrun/experiments/record"
)

// started is a start of a server as an old log tells of it: what differs between
// any two starts, what it was started with, and one TOTAL.
func started(port int, total float64, flags ...string) record.RunData {
	d := record.RunData{Labels: []record.Label{{Name: "imported"}}, Metrics: []record.Metric{{Name: "cycle_total", Unit: "ms/cyc", Value: total, Source: "profiler"}},
		Provenance: []record.Fact{fact("workload", "file", "old.log"), fact("code", "engine", "sglang")}}
	for i := 0; i < len(flags); i += 2 {
		d.Provenance = append(d.Provenance, fact("flags", flags[i], flags[i+1]))
	}
	if len(flags) > 0 {
		d.Provenance = append(d.Provenance, fact("flags", "port", fmt.Sprint(port)), fact("flags", "random_seed", fmt.Sprint(port*7)), fact("flags", "log_level", fmt.Sprint("info", port%2)))
	}
	return d
}

// eagle are the flags of a speculating server.
func eagle(steps int, more ...string) []string {
	return append([]string{"speculative_algorithm", "EAGLE3", "speculative_num_steps", fmt.Sprint(steps), "speculative_eagle_topk", "1", "tp_size", "8"}, more...)
}

func TestConfigurations(t *testing.T) {
	version := func(d record.RunData, v string) record.RunData {
		d.Provenance = append(d.Provenance, fact("code", "engine_version", v))
		return d
	}
	shape := func(steps int64, more ...any) record.Params {
		p := record.Params{"steps": steps, "topk": int64(1)}
		for i := 0; i < len(more); i += 2 {
			p[more[i].(string)] = more[i+1]
		}
		return p
	}
	for name, tc := range map[string]struct {
		runs []record.RunData
		want []Configuration
	}{
		"nothing":                        {nil, nil},
		"ports, seeds and logging apart": {[]record.RunData{started(1, 20, eagle(2)...), started(2, 20, eagle(2)...)}, []Configuration{{shape(2), false, []int{0, 1}}}},
		"steps": {[]record.RunData{started(1, 20, eagle(2)...), started(2, 22, eagle(3)...), started(3, 20, eagle(2)...)},
			[]Configuration{{shape(2), false, []int{0, 2}}, {shape(3), false, []int{1}}}},
		"any flag that matters": {[]record.RunData{started(1, 20, eagle(2, "attention_backend", "fa3")...), started(2, 22, eagle(2, "attention_backend", "trtllm_mha")...)},
			[]Configuration{{shape(2, "attention-backend", "fa3"), false, []int{0}}, {shape(2, "attention-backend", "trtllm_mha"), false, []int{1}}}},
		"a flag that only one has": {[]record.RunData{started(1, 20, eagle(2)...), started(2, 22, eagle(2, "enable_dp_attention", "true")...)},
			[]Configuration{{shape(2), false, []int{0}}, {shape(2, "enable-dp-attention", true), false, []int{1}}}},
		"cycles in spite of its flags": {[]record.RunData{started(1, 20, "tp_size", "8")}, []Configuration{{record.Params{}, false, []int{0}}}},
		"without speculation": {[]record.RunData{{Provenance: started(1, 20, "tp_size", "8").Provenance}, started(2, 22, eagle(2)...)},
			[]Configuration{{record.Params{}, true, []int{0}}, {shape(2, "speculative-algorithm", "EAGLE3"), false, []int{1}}}},
		"versions": {[]record.RunData{version(started(1, 20, eagle(2)...), "0.5.3"), version(started(2, 22, eagle(2)...), "0.5.4")},
			[]Configuration{{shape(2, "engine_version", "0.5.3"), false, []int{0}}, {shape(2, "engine_version", "0.5.4"), false, []int{1}}}},
		"one start without flags":   {[]record.RunData{started(1, 20)}, []Configuration{{record.Params{}, false, []int{0}}}},
		"some starts without flags": {[]record.RunData{started(1, 20), started(2, 20), started(3, 20, eagle(2)...)}, []Configuration{{record.Params{"flags": "not recorded"}, false, []int{0, 1}}, {shape(2, "speculative-algorithm", "EAGLE3", "tp-size", int64(8)), false, []int{2}}}},
	} {
		if diff := cmp.Diff(tc.want, Configurations(tc.runs)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// The failure of the story with a p-value: starts with other steps, appended to one
// log, are no launches of one cell.
func TestCompare_StartsOfOtherConfigurationsAreOtherCells(t *testing.T) {
	old := FileSide("old.log", []record.RunData{started(1, 20.11, eagle(2)...), started(2, 20.23, eagle(2)...), started(3, 20.05, eagle(2)...)})
	mixed := FileSide("new.log", []record.RunData{started(1, 24.51, eagle(4)...), started(2, 24.61, eagle(4)...), started(3, 22.33, eagle(3)...)})
	_, err := Compare(old, mixed, CompareOptions{})
	var none *NothingError
	if !errors.As(err, &none) || !strings.Contains(err.Error(), "steps=4") || !strings.Contains(err.Error(), "steps=2") {
		t.Errorf("no cell in common: %v", err)
	}
	grown := FileSide("new.log", []record.RunData{started(1, 24.51, eagle(4)...), started(2, 22.13, eagle(2)...), started(3, 22.33, eagle(2)...), started(4, 22.24, eagle(2)...)})
	c := mustCompare(t, old, grown, CompareOptions{})
	if l := lineOf(t, c, "steps=2 topk=1", "cycle_total"); l.A.N != 3 || l.B.N != 3 || !*l.Separable || strings.HasPrefix(l.Method, "paired") || len(c.Lines) != 1 {
		t.Errorf("%+v", c.Lines)
	}
	if len(c.OnlyB) != 1 || c.OnlyB[0] != "steps=4" || len(c.Diff.Likely()) > 0 {
		t.Errorf("only in b %q, causes %+v", c.OnlyB, c.Diff.Likely())
	}
	// And the cells of one log are no rounds.
	one := grown
	one.Cells = []string{"cell 2"}
	other := grown
	other.Cells = []string{"cell 1"}
	if c := mustCompare(t, one, other, CompareOptions{}); c.interleaved || c.Lines[0].Ratio != nil {
		t.Errorf("%+v", c.Lines)
	}
}

func TestCompare_StartsOfUnknownConfiguration(t *testing.T) {
	a := FileSide("old.log", []record.RunData{started(1, 20.11), started(2, 20.23)})
	c := mustCompare(t, a, FileSide("new.log", []record.RunData{started(1, 22.13)}), CompareOptions{})
	want := "a: how the server was started is not recorded: its 2 starts count as launches of one cell"
	if got := strings.Join(c.Flags, "\n"); !strings.Contains(got, want) || strings.Contains(got, "b: how") {
		t.Errorf("flags %q", c.Flags)
	}
	var text bytes.Buffer
	if err := c.WriteText(&text, options()); err != nil || !strings.Contains(text.String(), "flags=not recorded") {
		t.Errorf("%v\n%s", err, text.String())
	}
}
