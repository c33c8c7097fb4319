package patches

import (
	"bytes"
	"fmt"
	"slices"
	"sort"
	"strings"

	"specrun/internal/edit"
)

// place is where an edit acts: lines [from, to) give way to text.
type place struct {
	edit     int // 0-based
	from, to int
	text     []string
}

// applyEdits makes the edits at their anchors, all found in src as it is.
// Untouched lines keep their bytes and line ends; new lines get the line end
// that most of the file's lines have.
func applyEdits(p *Patch, t Target, src []byte) ([]byte, error) {
	body, hasBOM := bytes.CutPrefix(src, utf8BOM)
	lines := splitLines(body)
	conflict := func(edit int, reason string, c ...Candidate) error {
		return &Conflict{Patch: p.String(), Target: t.Name(), Edit: edit, Reason: reason, Candidates: c}
	}

	var places []place
	var done []string
	for i, e := range t.Edits {
		find := textLines(e.Find)
		if isApplied(lines, e) {
			done = append(done, fmt.Sprint(i+1))
			continue
		}
		at := occurrences(lines, find)
		switch {
		case len(at) == 0:
			return nil, conflict(i+1, fmt.Sprintf("its anchor of %d lines matches nowhere", len(find)), nearLines(lines, find)...)
		case len(at) > 1:
			return nil, conflict(i+1, fmt.Sprintf("its anchor matches %d times", len(at)), matches(lines, at)...)
		}
		pl := place{edit: i, from: at[0], to: at[0] + len(find), text: textLines(e.Text)}
		switch e.Action {
		case Before:
			pl.to = pl.from
		case After:
			pl.from = pl.to
		}
		places = append(places, pl)
	}
	if len(places) == 0 {
		return nil, ErrAlreadyApplied
	}
	if len(done) > 0 {
		return nil, conflict(0, fmt.Sprintf("partly applied: edit %s of %d is there already", strings.Join(done, ", "), len(t.Edits)))
	}

	sort.SliceStable(places, func(i, j int) bool {
		a, b := places[i], places[j]
		if a.from != b.from {
			return a.from < b.from
		}
		return a.to < b.to // an insertion goes before a replacement at the same line
	})
	for i := 1; i < len(places); i++ {
		if places[i].from < places[i-1].to {
			return nil, conflict(places[i].edit+1, fmt.Sprintf("it changes the same lines as edit %d", places[i-1].edit+1))
		}
	}
	out := make([]byte, 0, len(src)+1024)
	if hasBOM {
		out = append(out, utf8BOM...)
	}
	return append(out, splice(lines, places)...), nil
}

// splice writes the lines with the new ones in place. A file without a newline
// at its end stays one.
func splice(lines []line, places []place) []byte {
	end := []byte(dominantEnd(lines))
	var all []line
	at := 0
	for _, pl := range places {
		all = append(all, lines[at:pl.from]...)
		for _, text := range pl.text {
			all = append(all, line{text: []byte(text), end: end})
		}
		at = pl.to
	}
	all = append(all, lines[at:]...)
	terminated := len(lines) == 0 || len(lines[len(lines)-1].end) > 0
	var out []byte
	for i, l := range all {
		out = append(out, l.text...)
		switch {
		case i == len(all)-1 && !terminated: // no newline at the end
		case len(l.end) == 0:
			out = append(out, end...)
		default:
			out = append(out, l.end...)
		}
	}
	return out
}

// isApplied says whether the result of the edit is in the file exactly once and
// its anchor nowhere beside it.
func isApplied(lines []line, e Edit) bool {
	find, text := textLines(e.Find), textLines(e.Text)
	after := slices.Clone(text)
	switch e.Action {
	case Before:
		after = append(after, find...)
	case After:
		after = append(slices.Clone(find), text...)
	}
	at := occurrences(lines, after)
	if len(after) == 0 || len(at) != 1 {
		return false
	}
	for _, f := range occurrences(lines, find) {
		if f < at[0] || f+len(find) > at[0]+len(after) {
			return false
		}
	}
	return true
}

// occurrences lists the first lines of all places where the wanted lines stand,
// compared byte for byte but for their ends.
func occurrences(lines []line, want []string) []int {
	var at []int
	for i := 0; len(want) > 0 && i+len(want) <= len(lines); i++ {
		same := true
		for j, w := range want {
			if string(lines[i+j].text) != w {
				same = false
				break
			}
		}
		if same {
			at = append(at, i)
		}
	}
	return at
}

const maxCandidates = 3

func matches(lines []line, at []int) []Candidate {
	var c []Candidate
	for _, i := range at[:min(len(at), maxCandidates)] {
		c = append(c, Candidate{Line: i + 1, Text: string(lines[i].text), Why: "matches"})
	}
	return c
}

// nearLines lists where the anchor may have been meant: runs of lines that are
// equal but for white space, else the lines most like its first one.
func nearLines(lines []line, want []string) []Candidate {
	var c []Candidate
	for i := 0; len(want) > 0 && i+len(want) <= len(lines) && len(c) < maxCandidates; i++ {
		same := true
		for j, w := range want {
			if squash(string(lines[i+j].text)) != squash(w) {
				same = false
				break
			}
		}
		if same {
			c = append(c, Candidate{Line: i + 1, Text: string(lines[i].text), Why: "differs in white space only"})
		}
	}
	if len(c) > 0 || len(want) == 0 {
		return c
	}
	first := strings.TrimSpace(want[0])
	type near struct{ line, d int }
	var best []near
	for i, l := range lines {
		text := strings.TrimSpace(string(l.text))
		if d := edit.Distance(first, text); text != "" && d <= len(first)/3 {
			best = append(best, near{i, d})
		}
	}
	sort.SliceStable(best, func(i, j int) bool { return best[i].d < best[j].d })
	for _, b := range best[:min(len(best), maxCandidates)] {
		why := "looks like its first line"
		if b.d == 0 {
			why = "is its first line"
		}
		c = append(c, Candidate{Line: b.line + 1, Text: string(lines[b.line].text), Why: why})
	}
	return c
}

func squash(s string) string { return strings.Join(strings.Fields(s), " ") }

// textLines cuts text of a patch, which has LF ends, into lines.
func textLines(text string) []string {
	text = strings.TrimSuffix(text, "\n")
	if text == "" {
		return nil
	}
	return strings.Split(text, "\n")
}
