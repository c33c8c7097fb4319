package metrics

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// joiner puts records back together that a container runtime split (the "P"
// records of CRI, Docker's records without newline), per stream.
type joiner struct {
	open map[joinKey]*entry
}

type joinKey struct {
	stream
	name string
}

// add returns the whole record; ok is false while more parts are to come.
func (j *joiner) add(e entry) (entry, bool) {
	if e.cri == "" {
		return e, true
	}
	key := joinKey{e.stream.base(), strings.TrimRight(e.cri, "PF")}
	head := j.open[key]
	if strings.HasSuffix(e.cri, "P") {
		if head == nil {
			if j.open == nil {
				j.open = map[joinKey]*entry{}
			}
			j.open[key] = &e
		} else if len(head.msg) < maxLine {
			head.msg += e.msg
		}
		return entry{}, false
	}
	if head == nil {
		return e, true
	}
	delete(j.open, key)
	whole := *head
	whole.msg += e.msg
	whole.end, whole.terminated = e.end, e.terminated
	// The runtime's stamp came off each part; the record's own prefix may only
	// now be readable.
	again := peel(line{num: whole.num, start: whole.start, end: whole.end, terminated: whole.terminated, text: whole.msg})
	if again.at == 0 {
		again.at = whole.at
	}
	if again.rank == "" {
		again.rank = whole.rank
	}
	again.file, again.service, again.pod = whole.file, whole.service, whole.pod
	return again, true
}

// rest returns the parts whose end never came, as unterminated records.
func (j *joiner) rest() []entry {
	var out []entry
	for _, e := range j.open {
		e.terminated = false
		out = append(out, *e)
	}
	j.open = nil
	return out
}

// guardLines bounds how long the text of a logged prompt is followed.
const guardLines = 48

// guard keeps lines of a logged prompt from being read as log lines. A prompt
// with a raw newline makes forged lines that cannot be told apart by shape; but
// the quotation that holds them opens before and closes behind them. Lines in
// between are held; when the quotation closes they are dropped, when it does
// not close within guardLines they were no prompt and are let go.
type guard struct {
	open    map[stream]*quotation
	dropped []string // warnings
}

type quotation struct {
	line  int // where it opened
	delim byte
	held  []entry
}

// add returns the entries that may be read now, in order.
func (g *guard) add(e entry) []entry {
	free := g.expire(e.num)
	key := e.stream.base()
	q := g.open[key]
	if q == nil {
		if delim, yes := opensQuotation(e.msg); yes {
			if g.open == nil {
				g.open = map[stream]*quotation{}
			}
			g.open[key] = &quotation{line: e.num, delim: delim}
		}
		return append(free, e)
	}
	if closesQuotation(e.msg, q.delim) {
		delete(g.open, key)
		for _, h := range q.held {
			if looksLikeRecord(h.msg) {
				g.dropped = append(g.dropped, fmt.Sprintf("line %d looks like a record but lies inside a logged prompt: left out", h.num))
			}
		}
		return append(free, e)
	}
	q.held = append(q.held, e)
	return free
}

// expire lets go of what quotations hold that did not close within guardLines.
func (g *guard) expire(line int) []entry {
	var out []entry
	for key, q := range g.open {
		if line > q.line+guardLines {
			out = append(out, q.held...)
			delete(g.open, key)
		}
	}
	if len(out) > 1 {
		slices.SortStableFunc(out, func(a, b entry) int { return cmp.Compare(a.start, b.start) })
	}
	return out
}

// rest lets go of what is still held.
func (g *guard) rest() []entry {
	var out []entry
	for _, q := range g.open {
		out = append(out, q.held...)
	}
	g.open = nil
	slices.SortStableFunc(out, func(a, b entry) int { return cmp.Compare(a.start, b.start) })
	return out
}

// openers begin the lines of request loggers, promptMarks stand before the
// prompt in them.
var (
	openers     = []string{"Receive: obj=", "Finish: obj=", "Received request "}
	promptMarks = []string{"text=", "prompt: ", "prompt="}
)

// opensQuotation says whether a request logger's line begins a quoted prompt
// that does not end in this line.
func opensQuotation(msg string) (byte, bool) {
	if !slices.ContainsFunc(openers, func(w string) bool { return strings.HasPrefix(msg, w) }) {
		return 0, false
	}
	for _, k := range promptMarks {
		i := strings.Index(msg, k)
		if i < 0 || i+len(k) >= len(msg) {
			continue
		}
		delim := msg[i+len(k)]
		if delim != '\'' && delim != '"' {
			continue
		}
		return delim, !closesQuotation(msg[i+len(k)+1:], delim)
	}
	return 0, false
}

// closesQuotation says whether delim, not escaped, stands before a comma or a
// closing bracket, as behind a printed argument.
func closesQuotation(s string, delim byte) bool {
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\\':
			i++
		case delim:
			if i+1 == len(s) || strings.IndexByte(",)]}", s[i+1]) >= 0 {
				return true
			}
		}
	}
	return false
}

func looksLikeRecord(msg string) bool {
	return reDecodeHead.MatchString(msg) || rePrefillHead.MatchString(msg) || reRow.MatchString(msg)
}
