package report

import (
	"slices"
	"strings"
	"testing"

	"specrun/experiments/record"
)

// edited is a side whose engine had a file edited from a round on, 0-based.
func edited(id string, from int) Side {
	s := sitting(id, 3, 3, 1, 1)
	for i, r := range s.View.Runs {
		round := int(r.ID[len(r.ID)-1] - '0')
		s.View.Runs[i].StartUs = epochUs + int64(i)
		facts := []record.Fact{fact("code", "engine_path", "/e/sglang"), fact("code", "engine_files", "900 files, sha256 aaaa"), fact("code", "file sglang/srt/managers/*", "aaaa")}
		if round >= from {
			facts = []record.Fact{fact("code", "engine_path", "/e/sglang"), fact("code", "engine_files", "900 files, sha256 bbbb"), fact("code", "file sglang/srt/managers/*", "bbbb"),
				fact("code", "file sglang/srt/managers/schedule_batch.py", "1dd5 modified")}
		}
		d := s.View.Data[r.ID]
		d.Provenance = append(slices.Clone(d.Provenance), facts...)
		s.View.Data[r.ID] = d
	}
	return s
}

func TestTable_SaysThatTheEngineWasEditedBetweenLaunches(t *testing.T) {
	const want = "code changed between round 1 and 2 (after steps=2, before baseline): file sglang/srt/managers/schedule_batch.py:"
	s := Summarize(edited("x", 1).View, options())
	notes := strings.Join(s.engineNotes(), "\n")
	if !strings.HasPrefix(notes, want) || strings.Count(notes, "\n") != 0 || !strings.Contains(strings.Join(strings.Fields(string(text(t, s))), " "), want) {
		t.Errorf("%s\n%s", notes, text(t, s))
	}
	for _, from := range []int{0, 3} {
		if notes := Summarize(edited("x", from).View, options()).engineNotes(); len(notes) != 0 {
			t.Errorf("all alike: %q", notes)
		}
	}
}

func TestDiff_TellsWhatVariesWithinACell(t *testing.T) {
	a, b := edited("good", 2), edited("later", 0)
	l := DiffSides(a, b).Lines[0]
	if l.Key != "file sglang/srt/managers/schedule_batch.py" || *l.A != "varies: as installed in 6 runs, 1dd5 modified in 3" || *l.B != "1dd5 modified" || l.Weight < likely {
		t.Errorf("%+v: %s, %s", l, *l.A, *l.B)
	}
	one, two := only(t, a, "steps=1"), only(t, a, "steps=2")
	var out strings.Builder
	if err := WriteDiff(&out, one, two, DiffSides(one, two), options()); err != nil {
		t.Fatal(err)
	}
	if text := strings.Join(strings.Fields(out.String()), " "); !strings.Contains(text, "changed while both sides were measured: code file sglang/srt/managers/schedule_batch.py: a varies: as installed in 2 runs, 1dd5 modified in 1;") {
		t.Errorf("%s", out.String())
	}
}
