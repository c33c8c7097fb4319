package report

import (
	"strings"
	"testing"

	"specrun/experiments/record"
)

// What a log does not tell is not known: it is no difference, and no cause.
func TestExplain_ALogIsSilentOfMuch(t *testing.T) {
	facts := func(label string, kv ...string) record.RunData {
		var d record.RunData
		for i := 0; i < len(kv); i += 3 {
			d.Provenance = append(d.Provenance, record.Fact{Group: kv[i], Key: kv[i+1], Value: kv[i+2]})
		}
		if label != "" {
			d.Labels = []record.Label{{Name: label}}
		}
		return d
	}
	stored := facts("", "workload", "model", "practice/target", "workload", "concurrency", "1", "host", "machine", "x86_64", "host", "kernel", "6.8")
	for label, want := range map[string]int{"imported": 1, "": 3} {
		log := facts(label, "workload", "concurrency", "8", "host", "kernel", "6.8")
		for _, d := range []Diff{explainRuns([]record.RunData{stored}, []record.RunData{log}), explainRuns([]record.RunData{log}, []record.RunData{stored})} {
			if len(d.Lines) != want || d.PartialA+d.PartialB != 3-want {
				t.Errorf("%q: %d lines, %d and %d not known: %+v", label, len(d.Lines), d.PartialA, d.PartialB, d.Lines)
			}
			var out strings.Builder
			d.write(&out, false)
			if got := strings.Contains(out.String(), " is imported: of 2 facts its logs say nothing, so not compared\n"); got != (label == "imported") {
				t.Errorf("%q: %s", label, &out)
			}
			if strings.Contains(out.String(), "(absent)") != (label == "") {
				t.Errorf("%q: %s", label, &out)
			}
		}
	}
}
