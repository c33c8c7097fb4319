package report

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"specrun/experiments/record"
)

// note collects what goes below the table: labels, failed checks, failed runs.
func (s *Summary) note(row *CellRow) {
	row.Labels = []string{}
	defer func() { slices.Sort(row.Labels) }()
	if o := s.options; o.CellLabels != nil && row.Runs > 0 {
		for _, l := range o.CellLabels(record.CellFacts{Runs: row.Runs, Launches: row.Launches, BaselineMoved: s.baselineMoved(row)}) {
			s.label(row, l)
		}
	}
	failedChecks := map[string]bool{}
	for _, r := range s.runs[row.cell.ID] {
		switch r.State {
		case record.RunFailed:
			s.failed = append(s.failed, failure{run: r, cell: row.name, at: s.slotOf[r.SlotID]})
		case record.RunDone:
			for _, l := range s.data[r.ID].Labels {
				s.label(row, l)
			}
			for _, c := range s.data[r.ID].Checks {
				if c.Outcome != record.Fail || failedChecks[c.Name] {
					continue
				}
				failedChecks[c.Name] = true
				row.failedCheck = cmp.Or(row.failedCheck, c.Name)
				s.check(row, c)
			}
		}
	}
}

// toldBy are the labels that say already what a failed check says, in numbers.
var toldBy = map[string]string{"enough-cycles": "short", "requests-completed": "partial", "cache-hits": "cache-warm", "nothing-compiled": "jit",
	"clocks": "throttled", "alone-on-gpus": "shared-host", "nobody-else": "shared-host", "client-kept-up": "noisy", "effective-configuration": "config-mismatch", "speculation-as-asked": "config-mismatch", "patch-live": "patch-unverified"}

// check notes a failed check of a row, once for all rows.
func (s *Summary) check(row *CellRow, c record.TrustCheck) {
	if label, ok := toldBy[c.Name]; ok && slices.Contains(row.Labels, label) {
		return
	}
	i := slices.IndexFunc(s.checks, func(n checkNote) bool { return n.name == c.Name })
	if i < 0 {
		s.checks = append(s.checks, checkNote{name: c.Name, explanation: c.Explanation})
		i = len(s.checks) - 1
	}
	s.checks[i].cells = append(s.checks[i].cells, row.name)
}

// label gives a row a label, whose reason is shown once for all rows.
func (s *Summary) label(row *CellRow, l record.Label) {
	if !slices.Contains(row.Labels, l.Name) {
		row.Labels = append(row.Labels, l.Name)
	}
	i := slices.IndexFunc(s.labels, func(n labelNote) bool { return n.name == l.Name })
	if i < 0 {
		n := labelNote{name: l.Name}
		if s.options.Advice != nil {
			n.advice = s.options.Advice(l.Name)
		}
		s.labels = append(s.labels, n)
		i = len(s.labels) - 1
	}
	s.labels[i].add(row.name, l.Reason)
}

// footnotes explain what the table uses, and nothing else.
func (s *Summary) footnotes(w io.Writer, marks map[string]bool) error {
	var b strings.Builder
	note := func(format string, args ...any) {
		for _, line := range Wrap("  "+fmt.Sprintf(format, args...), s.options.noteWidth(), "     ") {
			b.WriteString(line + "\n")
		}
	}
	s.noteMarks(note, marks)
	s.noteMeasured(note)
	s.noteLabels(note)
	s.noteFailures(note)
	if b.Len() > 0 {
		b.WriteString("\n")
	}
	b.WriteString(s.conclusion())
	_, err := fmt.Fprintf(w, "\n%s\n", s.options.fit(b.String()))
	return err
}

// conclusion is what came out of a sweep, of each load on lines of its own.
func (s *Summary) conclusion() string {
	var lines []string
	for _, l := range s.loads {
		lines = append(lines, l.name()+": "+l.Verdict)
		if l.advises() {
			lines = append(lines, l.name()+": "+l.decision())
		}
	}
	if len(s.loads) > 0 {
		return strings.Join(lines, "\n") + s.quotable()
	}
	text := s.Verdict + s.quotable()
	if s.advises() {
		text += "\n" + s.decision()
	}
	return text
}

// noteMarks says what the signs in the table mean, and what ratios rest on.
func (s *Summary) noteMarks(note func(string, ...any), marks map[string]bool) {
	if marks["±"] {
		note("numbers: medians over launches; ±  95 %% interval (Student's t on logs)")
	}
	if marks["~"] {
		note("~  not separable: the difference may be noise")
	}
	if marks["?"] {
		for _, why := range s.tooFew {
			note("?  unknown: %s", why)
		}
	}
	if least, ok := s.leastEffect(); ok {
		together := ""
		if s.holm > 1 {
			together = fmt.Sprintf(", %d cells judged together (Holm)", s.holm)
		}
		note("vs baseline: ratio of the medians of %s, judged by means%s; smallest effect found 8 times in 10: %s", head(s.headline()), together, least)
	}
	if len(s.contrary) > 0 {
		note("vs baseline of %s: by medians; launches on average the other way: not separable", cellsText(s.contrary))
	}
	if text := s.ranksNote(); s.options.All && text != "" {
		note("%s", text)
	}
}

// noteMeasured tells what is peculiar in what was measured.
func (s *Summary) noteMeasured(note func(string, ...any)) {
	if text := s.mixedNote(); text != "" {
		note("%s", text)
	}
	for _, text := range s.remarks {
		note("%s", text)
	}
	for _, text := range slices.Concat(s.retakenNotes(), s.creeping(), s.outlierNotes()) {
		note("%s", text)
	}
	if text := s.slopeNote(); text != "" {
		note("%s", text)
	}
	for _, text := range s.probeNotes() {
		note("%s", text)
	}
	if text := s.levelsNote(); s.options.All && text != "" {
		note("%s", text)
	}
	if s.normalised() {
		note("normalised: divided by the baseline of the same round, times the baseline's median")
	}
}

// noteLabels gives each label of the table its reason and what to do about it.
func (s *Summary) noteLabels(note func(string, ...any)) {
	slices.SortFunc(s.labels, func(a, b labelNote) int { return strings.Compare(a.name, b.name) })
	for _, l := range s.labels {
		text := l.text(s.shared(l.name))
		if l.advice != "" {
			text += " -> " + l.advice
		}
		note("%s", text)
		if l.name == driftLabel && !s.options.Normalise && s.plan.interleaved() {
			note("   ratios to the baseline are taken within rounds, the other numbers are not: specrun show %s --normalise", plain(s.Sweep.ID))
		}
	}
}

// noteFailures lists failed checks, failed runs, and runs that are missing.
func (s *Summary) noteFailures(note func(string, ...any)) {
	for _, c := range s.checks {
		text := fmt.Sprintf("check failed: %s: %s: %s", c.cells[0], c.name, plain(c.explanation))
		if others := c.cells[1:]; len(others) > 0 {
			text += " (also " + cellsText(others) + ")"
		}
		note("%s", text)
	}
	for _, f := range s.failed {
		note("failed: %s round %d repeat %d (specrun show %s): %s: %s", f.cell, f.at.Round+1, f.at.Repeat+1, f.run.ID, f.run.Class, firstLine(f.run.Reason))
	}
	if done := s.results(); done < s.planned {
		note("%d of %d runs have no result: specrun resume %s", s.planned-done, s.planned, s.Sweep.ID)
	}
}

// noteWidth is how wide a footnote may be before it goes on in another line.
const noteWidth = 100

// noteWidth is noteWidth on a terminal that has the room.
func (o Options) noteWidth() int {
	if o.Width > 0 {
		return min(noteWidth, o.Width)
	}
	return noteWidth
}

// fit breaks lines between words where a terminal would break them within one.
// What goes elsewhere keeps its lines, since programs read those.
func (o Options) fit(text string) string {
	if o.Width == 0 {
		return text
	}
	var lines []string
	for line := range strings.SplitSeq(text, "\n") {
		lines = append(lines, Wrap(line, o.Width, "  ")...)
	}
	return strings.Join(lines, "\n")
}

// cellsText names cells in a few words: neighbours as steps=1..4, and when that
// is still long, how many there are.
func cellsText(names []string) string {
	type span struct {
		key      string
		from, to int64
		name     string // as it is; used unless to is greater
	}
	var spans []span
	for _, name := range names {
		key, value, _ := strings.Cut(name, "=")
		n, err := strconv.ParseInt(value, 10, 64)
		if err != nil {
			spans = append(spans, span{name: name})
			continue
		}
		if last := len(spans) - 1; last >= 0 && spans[last].key == key && spans[last].to+1 == n {
			spans[last].to = n
			continue
		}
		spans = append(spans, span{key, n, n, name})
	}
	const most = 3
	if len(spans) > most {
		return fmt.Sprintf("%d cells", len(names))
	}
	var parts []string
	for _, s := range spans {
		if s.to > s.from {
			s.name = fmt.Sprintf("%s=%d..%d", s.key, s.from, s.to)
		}
		parts = append(parts, s.name)
	}
	return strings.Join(parts, ", ")
}

// results counts the runs that are done or failed.
func (s *Summary) results() int {
	n := 0
	for _, row := range s.Cells {
		n += row.Runs + row.Failed
	}
	return n
}

// leastEffect is the range over the rows of the smallest effect they could show.
func (s *Summary) leastEffect() (string, bool) {
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, row := range s.Cells {
		if d := row.Doubt[s.headline()]; d.MinEffect != nil {
			lo, hi = math.Min(lo, *d.MinEffect), math.Max(hi, *d.MinEffect)
		}
	}
	switch {
	case math.IsInf(lo, 1):
		return "", false
	case percent(lo) == percent(hi):
		return percent(lo), true
	}
	return percent(lo) + " to " + percent(hi), true
}
