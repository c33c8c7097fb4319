package main

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"specrun/experiments"
	"specrun/experiments/record"
)

func TestFit_KeepsTheTimesAndTheWidth(t *testing.T) {
	for _, c := range []struct {
		body, tail string
		width      int
		want       string
	}{
		{"steps=1: ready", " (3s)", 79, "steps=1: ready (3s)"},
		{"steps=1: ready", " (3s)", 19, "steps=1: ready (3s)"},
		{"steps=1: ready", " (3s)", 18, "steps=1: rea… (3s)"},
		{"größer: ready", " (3s)", 12, "größer… (3s)"},
		{"steps=1", " (3s)", 5, " (3s)"},
		{"steps=1", " (3s)", 3, " (3"},
		{"steps=1", "", 0, ""},
	} {
		if got := fit(c.body, c.tail, c.width); got != c.want {
			t.Errorf("fit(%q, %q, %d) = %q, want %q", c.body, c.tail, c.width, got, c.want)
		}
	}
}

// Whatever the width of the terminal is at that moment, the line is less wide:
// one that wraps could not be taken back.
func TestLiveLine_IsLessWideThanTheTerminal(t *testing.T) {
	var screen bytes.Buffer
	width := 40
	p := &printer{err: &screen, out: &screen, live: true, columns: func() int { return width }}
	for _, w := range []int{40, 25, 120, 0} {
		width = w
		screen.Reset()
		p.setLive(strings.Repeat("x", 200), func() string { return " (12s)" })
		shown := strings.TrimPrefix(screen.String(), "\r\x1b[K")
		most := w - 1
		if w == 0 {
			most = noWidth - 1
		}
		if n := len([]rune(shown)); n != most || !strings.HasSuffix(shown, "… (12s)") {
			t.Errorf("width %d: %d characters: %q", w, n, shown)
		}
	}
	screen.Reset()
	p.note("done")
	if got := screen.String(); got != "\r\x1b[Kdone\n" {
		t.Errorf("a note leaves the line: %q", got)
	}
}

func TestWatch_LeavesOutWhatAllCellsShareAndSaysHowLong(t *testing.T) {
	var screen bytes.Buffer
	now := time.Date(2026, 11, 29, 12, 0, 0, 0, time.UTC)
	a := &app{env: &env{now: func() time.Time { return now }}, printer: &printer{err: &screen, live: true}}
	plan := &experiments.Plan{Estimate: experiments.Estimate{Seconds: 60}}
	for i := range 3 {
		c := experiments.Cell{Ord: i, Baseline: i == 0, Params: record.Params{"bench.max_tokens": int64(64)}}
		if i > 0 {
			c.Params["steps"] = int64(i)
		}
		plan.Cells = append(plan.Cells, c)
	}
	w := a.newWatch(plan, false)
	last := func() string {
		all := strings.Split(screen.String(), "\r\x1b[K")
		return all[len(all)-1]
	}
	step := func(launch, cell int, name, message string) string {
		w.show(experiments.Progress{Host: "gpu-01", Launch: launch, Launches: 3, Cells: plan.Cells[cell : cell+1], Step: name, Phase: experiments.PhaseNote, Message: message})
		return last()
	}
	now = now.Add(5 * time.Second)
	if got, want := step(1, 1, "ready", "ready marker"), "[1/3] steps=1: ready (5s, about 55s left)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	now = now.Add(5 * time.Second) // the first launch took 10 s: two more take 20
	if got, want := step(2, 2, "ready", "capturing draft extend graphs"), "[2/3] steps=2: ready, capturing draft extend graphs (10s, about 20s left)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	now = now.Add(30 * time.Second) // later than thought: nothing is promised any more
	if got, want := step(2, 0, "bench", ""), "[2/3] baseline: bench (40s)"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestNoteText_FitsTheTerminal(t *testing.T) {
	long := strings.TrimSpace(strings.Repeat("word ", 60))
	for columns, most := range map[int]int{60: 59, 200: 100} {
		a := &app{printer: &printer{live: true, columns: func() int { return columns }}}
		for i, line := range strings.Split(a.noteText("note: ", long), "\n") {
			if len(line) > most || i > 0 && !strings.HasPrefix(line, "      word") {
				t.Errorf("at %d columns: %q", columns, line)
			}
		}
	}
}
