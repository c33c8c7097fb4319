package metrics

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// blockReader assembles blocks, for each stream of its own. A stream without
// rank marks may hold several writers; then blocks are open side by side.
type blockReader struct {
	// onRestart begins another server start at the entry and returns its number.
	onRestart  func(e *entry) int
	tracks     map[stream]*track
	inOrder    []*track // the same, by first sight, so that reading twice gives the same
	incomplete int
	duplicates int
	cutLast    bool
	seen       bool
	warnings   []string
}

type track struct {
	open    []*block // oldest first
	closed  *block   // the last block that got its TOTAL; it may still get its accept length and its JSON line
	writers bool     // two writers seen
	highest int      // first cycle of the newest header, to notice a restart
	run     int      // server start that it belongs to
}

// blockEvent is a block that may be stored: nothing can change it any more.
type blockEvent struct{ settled *block }

func (r *blockReader) track(e *entry) *track {
	key := e.stream
	key.pid, key.engine = "", ""
	t := r.tracks[key]
	if t == nil {
		if r.tracks == nil {
			r.tracks = map[stream]*track{}
		}
		t = &track{}
		r.tracks[key] = t
		r.inOrder = append(r.inOrder, t)
	}
	return t
}

// read takes an entry and returns what became final by it. used says whether
// the entry was the profiler's.
func (r *blockReader) read(e *entry, run int) (ev []blockEvent, used bool) {
	if len(e.msg) > maxRow {
		return nil, false
	}
	cyc := strings.Contains(e.msg, cycleWord)
	if cyc {
		// Two writers may have put their rows into one line.
		for rest := e.msg; ; {
			m := reRow.FindStringSubmatch(rest)
			if m == nil {
				break
			}
			ev, used = append(ev, r.row(e, run, m)...), true
			rest = reShare.ReplaceAllString(rest[len(m[0]):], "")
		}
		if used {
			return ev, true
		}
	}
	if strings.Contains(e.msg, "accept") {
		if m := reAccept.FindStringSubmatch(e.msg); m != nil {
			return nil, r.accept(e, m[1])
		}
	}
	if r.rate(e) {
		return nil, true
	}
	if cyc {
		if ev, ok := r.header(e, run); ok {
			return ev, true
		}
	}
	if reBareRow.MatchString(e.msg) {
		// A row whose unit is missing or cut is no value; with nothing behind
		// it, the file ends inside it.
		r.cutLast = r.cutLast || !e.terminated
		if e.terminated {
			r.warnings = append(r.warnings, warnAt(e.num, "a profiler row without unit: not read"))
		}
		return nil, true
	}
	return nil, false
}

// maxRow is longer than any line of a block.
const maxRow = 400

func (r *blockReader) header(e *entry, run int) ([]blockEvent, bool) {
	if strings.HasPrefix(e.msg, " ") || strings.Contains(e.msg, "{") {
		return nil, false
	}
	b := &block{line: e.num, start: e.start, at: e.at, stream: e.stream, run: run, indent: -1}
	if m := reRange.FindStringSubmatch(e.msg); m != nil {
		b.first, _ = strconv.Atoi(m[1])
		b.last, _ = strconv.Atoi(m[2])
		b.cycles = b.last - b.first + 1
	} else if m := reLast.FindStringSubmatch(e.msg); m != nil && reProf.MatchString(e.msg) {
		b.cycles, _ = strconv.Atoi(m[1])
	} else {
		return nil, false
	}
	if b.cycles < 0 || len(e.msg) > 160 {
		return nil, false
	}
	r.seen = true
	t := r.track(e)
	ev := r.settle(t)
	r.newStart(t, run)
	if b.last > 0 && b.first < t.highest && !t.writers {
		r.abandon(t)
		b.run = r.onRestart(e)
		t.run = b.run
	}
	if b.last > 0 {
		t.highest = b.first
	}
	if len(t.open) > 0 {
		if o := t.open[len(t.open)-1]; b.last > 0 && o.first == b.first && o.last == b.last {
			// The same cycles again while the first block has no TOTAL yet: a
			// second writer without a mark of its own.
			t.writers = true
			r.ambiguous(e, t, b)
		} else if !t.writers {
			r.abandon(t)
		}
	}
	t.open = append(t.open, b)
	return ev, true
}

func (r *blockReader) ambiguous(e *entry, t *track, b *block) {
	for _, o := range t.open {
		o.ambiguous = true
	}
	b.ambiguous = true
	r.warnings = append(r.warnings, warnAt(e.num, "two profilers write without rank marks: their TOTALs are read, which component rows belong to which is not known"))
}

// newStart forgets the blocks of an earlier server start.
func (r *blockReader) newStart(t *track, run int) {
	if t.run != run {
		r.abandon(t)
		t.run, t.highest, t.writers = run, 0, false
	}
}

// abandon gives up blocks that never got a TOTAL.
func (r *blockReader) abandon(t *track) {
	r.incomplete += len(t.open)
	t.open = nil
}

func (r *blockReader) row(e *entry, run int, m []string) []blockEvent {
	name := strings.ToLower(strings.Join(strings.Fields(m[2]), " "))
	metric := rowMetric[name]
	v, ok := parseNumber(m[3], unitShift[m[4]])
	if !ok {
		return nil
	}
	r.seen = true
	t := r.track(e)
	indent := len(m[1])
	r.newStart(t, run)
	var ev []blockEvent
	b := t.current(metric, indent)
	if b == nil {
		if metric == "" {
			return nil
		}
		ev = r.settle(t)
		if len(t.open) > 0 && !t.writers {
			last := t.open[len(t.open)-1]
			if last.lastMetric == metric && last.headerless {
				t.writers = true
				nb := &block{}
				r.ambiguous(e, t, nb)
			} else if metric != total {
				r.abandon(t)
			}
		}
		b = &block{line: e.num, start: e.start, at: e.at, stream: e.stream, run: run, indent: -1, headerless: true, ambiguous: t.writers && len(t.open) > 0}
		if metric == total && len(t.open) == 0 {
			b.indent = indent
		}
		t.open = append(t.open, b)
	}
	if metric == "" || b.indent >= 0 && indent > b.indent {
		return ev // a nested detail, or a row of another kind
	}
	if b.indent < 0 {
		b.indent = indent
	}
	if m[4] != "ms" && !b.sawUnitShift {
		b.sawUnitShift = true
		r.warnings = append(r.warnings, warnAt(e.num, fmt.Sprintf("profiler block in %s/cyc: converted to ms/cyc", m[4])))
	}
	b.rows = append(b.rows, blockRow{metric, v, e.num, e.start})
	b.lastMetric, b.end = metric, e.end
	if metric == total {
		ev = append(ev, r.close(t, b)...)
	}
	return ev
}

// current finds the open block that a row belongs to: the oldest one that has
// no such row yet. A nested row belongs to the newest.
func (t *track) current(metric string, indent int) *block {
	for _, b := range t.open {
		if b.indent >= 0 && indent > b.indent || metric == "" {
			return t.open[len(t.open)-1]
		}
		if _, has := b.get(metric); !has {
			return b
		}
	}
	return nil
}

// close takes a block that has its TOTAL from the open ones.
func (r *blockReader) close(t *track, b *block) []blockEvent {
	var ev []blockEvent
	for i, o := range t.open {
		if o == b {
			t.open = append(t.open[:i:i], t.open[i+1:]...)
			break
		}
	}
	prev := t.closed
	if b.same(prev) {
		r.duplicates++
		r.warnings = append(r.warnings, warnAt(b.line, fmt.Sprintf("the block of cycles %d-%d stands here word for word a second time: counted once", b.first, b.last)))
		return nil
	}
	ev = r.settle(t)
	t.closed = b
	r.check(b)
	return ev
}

// check notes parts that exceed the printed TOTAL, which stays as printed.
func (r *blockReader) check(b *block) {
	sum, all := 0.0, 0.0
	for _, row := range b.rows {
		switch row.metric {
		case total:
			all = row.value
		case "cycle_call":
		default:
			sum += row.value
		}
	}
	sure := !b.ambiguous && len(b.rows) > 1 && !math.IsNaN(all)
	if sure && sum > all*1.02 {
		r.warnings = append(r.warnings, warnAt(b.line, fmt.Sprintf("parts sum to %.2f ms/cyc, more than the printed TOTAL of %.2f, which is kept", sum, all)))
	}
}

// accept attaches an accept length to the block it stands in or right behind.
func (r *blockReader) accept(e *entry, text string) bool {
	b := r.track(e).newest()
	if b == nil || !b.accept.IsNull() {
		return false
	}
	if absent(text) {
		return true
	}
	if f, ok := parseNumber(strings.Trim(text, "(),;"), 0); ok {
		b.accept = Number(f)
		b.end = e.end
	}
	return true
}

// settle makes the closed block final.
func (r *blockReader) settle(t *track) []blockEvent {
	b := t.closed
	if b == nil || b.settled {
		return nil
	}
	b.settled = true
	return []blockEvent{{settled: b}}
}

// finish settles all and counts what stayed open.
func (r *blockReader) finish() []blockEvent {
	var ev []blockEvent
	for _, t := range r.inOrder {
		ev = append(ev, r.settle(t)...)
		r.abandon(t)
	}
	return ev
}

// claim removes the newest unsettled text block that a JSON line with this
// cycle time stands for.
func (r *blockReader) claim(e *entry, cycle float64) *block {
	var found *block
	for _, t := range r.inOrder {
		b := t.closed
		if b == nil || b.settled || b.stream.base() != e.stream.base() {
			continue
		}
		all, _ := b.get(total)
		if math.Abs(all-cycle) <= 0.006+0.001*math.Abs(cycle) && (found == nil || b.line > found.line) {
			found = b
		}
	}
	if found == nil {
		return nil
	}
	found.settled = true
	return found
}
