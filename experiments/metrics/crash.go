package metrics

import (
	"slices"
	"strconv"
	"strings"
)

// finding is one matched marker with what its surroundings tell.
type finding struct {
	rule   *crashRule
	kind   string
	force  force
	line   int
	off    int64
	text   string
	run    int
	ready  bool // the server had been ready before
	stream stream
	rank   string
	port   int
	tb     *traceback // the traceback it stands in or heads
	late   bool       // the log had said before that the process ends
	phase  string     // of the start, by the lines before it
}

// crashReader looks for the reason of a process's death.
//
// A marker is not enough: servers that live print the same words. A finding
// counts when the log itself says that the process ends, or when, at the end of
// the log, the server showed no sign of life after it.
type crashReader struct {
	found    []finding
	proof    map[int]bool // runs whose log says that the process ends
	tb       map[stream]*traceback
	ready    map[int]bool
	ends     map[int]finding // by run: the first line that only says that it ended
	deadRank string
	clean    map[int]bool // runs in which a stop was asked for: errors while shutting down are no crash
	server   bool         // the file is a server's log, not a client's output
	phases   phases
}

// maxMarker is how much of a line is looked at for markers.
const maxMarker = 4096

func (r *crashReader) read(long *entry, run int) {
	short := *long // a marker stands at the beginning of its line
	short.msg = long.msg[:min(len(long.msg), maxMarker)]
	e := &short
	if r.proof == nil {
		r.proof, r.tb, r.ready, r.ends = map[int]bool{}, map[stream]*traceback{}, map[int]bool{}, map[int]finding{}
		r.clean = map[int]bool{}
	}
	key := e.stream.base()
	if !r.ready[run] && containsAny(e.msg, readyWords) {
		r.ready[run] = true
		r.outlived(run)
	}
	if !r.clean[run] && containsAny(e.msg, stopWords) {
		r.clean[run] = true
	}
	r.phases.read(e, run)
	tb := r.follow(e, key)
	if tb == nil && !containsAny(e.msg, crashWords) {
		return
	}
	if m := reDeadRank.FindStringSubmatch(e.msg); m != nil {
		r.deadRank = m[1]
	}
	if reHarmless.MatchString(e.msg) || strings.HasPrefix(e.msg, "server_args=") {
		return
	}
	if strings.HasPrefix(e.msg, "    ") && tb != nil { // source text of a frame
		return
	}
	for i := range crashRules {
		ru := &crashRules[i]
		m := ru.re.FindStringSubmatch(e.msg)
		if m == nil {
			continue
		}
		r.note(e, run, ru, m, tb)
		return
	}
	r.importFault(e, run, tb)
}

func (r *crashReader) note(e *entry, run int, ru *crashRule, m []string, tb *traceback) {
	if ru.force != suspect {
		r.proof[run] = true
	}
	f := finding{rule: ru, kind: ru.kind, force: ru.force, line: e.num, off: e.start, text: e.msg, run: run,
		ready: r.ready[run], stream: e.stream, rank: e.rank, tb: tb, phase: r.phases.of(e.stream, run)}
	_, f.late = r.ends[run]
	if ru.force == outcome {
		if !f.late {
			f.kind = kindScheduler
			r.ends[run] = f
		}
		return
	}
	if r.clean[run] && ru.force == suspect {
		return
	}
	if m := reExited.FindStringSubmatch(e.msg); m != nil && f.stream.service == "" {
		f.stream.service = m[1]
	}
	if tb != nil {
		if tb.headFatal {
			r.proof[run] = true
		}
		if f.rank == "" {
			f.rank = tb.rank
		}
		if tb.request {
			return
		}
	}
	if ru.port > 0 {
		f.port = firstPort(m[1:], e.msg)
	}
	r.keep(f)
}

// maxFindings bounds what is kept of a log that repeats itself: the first ones
// are where the cause is.
const maxFindings = 500

func (r *crashReader) keep(f finding) {
	if len(r.found) < maxFindings {
		r.found = append(r.found, f)
	}
}

func firstPort(groups []string, msg string) int {
	for _, g := range groups {
		if n, err := strconv.Atoi(g); err == nil && n > 0 {
			return n
		}
	}
	for _, m := range reErrPort.FindAllStringSubmatch(msg, -1) {
		for _, g := range m[1:] {
			if n, err := strconv.Atoi(g); err == nil && n > 0 && n < 65536 {
				return n
			}
		}
	}
	return 0
}

// importFault is a syntax or import exception that ends a traceback before the
// server was ready.
func (r *crashReader) importFault(e *entry, run int, tb *traceback) {
	if tb == nil || tb.excLine != e.num || tb.request || r.ready[run] {
		return
	}
	if !reImportErr.MatchString(lastName(tb.exception)) && !(tb.importing && tb.module) {
		return
	}
	if tb.headFatal {
		r.proof[run] = true
	}
	rank := e.rank
	if rank == "" {
		rank = tb.rank
	}
	r.keep(finding{kind: kindImport, line: e.num, off: e.start, text: e.msg, run: run, stream: e.stream, rank: rank, tb: tb, phase: r.phases.of(e.stream, run)})
}

// outlived drops the imports that failed in a start which came to its end all the
// same: a plugin or a model that nobody asked for.
func (r *crashReader) outlived(run int) {
	if r.proof[run] {
		return
	}
	r.found = slices.DeleteFunc(r.found, func(f finding) bool { return f.run == run && f.rule == nil && f.kind == kindImport })
}

// alive is called for each sign of life: a decode line, a served request.
// Findings of that run which the log did not call fatal were no crash.
func (r *crashReader) alive(run int, base stream) {
	if len(r.found) == 0 || r.proof[run] {
		return
	}
	kept := r.found[:0]
	for _, f := range r.found {
		if f.run != run || f.force != suspect || f.stream.base() != base {
			kept = append(kept, f)
		}
	}
	r.found = kept
}

// crash is the verdict: on what has been read so far (the log itself must have
// said that the process ends), or on the whole file.
func (r *crashReader) crash(whole bool) *Crash {
	for run := 1; ; run++ {
		fs := r.of(run, whole)
		if len(fs) > 0 {
			return r.verdict(fs, run)
		}
		if run > r.lastRun() {
			return nil
		}
	}
}

func (r *crashReader) lastRun() int {
	last := 1
	for _, f := range r.found {
		last = max(last, f.run)
	}
	for run := range r.ends {
		last = max(last, run)
	}
	return last
}

// of returns the findings of a run that count.
func (r *crashReader) of(run int, whole bool) []finding {
	var out []finding
	for _, f := range r.found {
		if f.run != run || f.rule != nil && f.rule.client && (r.server || !whole) {
			continue
		}
		if !whole && !r.proof[run] {
			continue
		}
		out = append(out, f)
	}
	if f, ok := r.ends[run]; ok && len(out) == 0 {
		out = append(out, f)
	}
	return out
}

// verdict picks the root cause. The earliest specific finding wins; a failed
// graph capture and an NCCL error are named as such with the memory error
// behind them as their cause; a bare exception or a failed engine start is the
// answer only when nothing says why.
func (r *crashReader) verdict(fs []finding, run int) *Crash {
	root := pick(fs, func(f finding) bool { return f.kind == kindCapture })
	if root == nil {
		root = pick(fs, func(f finding) bool {
			// A server whose child failed ends itself by SIGKILL: the shell's
			// word for that is no cause.
			return f.kind != kindScheduler && f.kind != kindStart && !(f.kind == kindSigkill && f.late) && !reConsequence.MatchString(f.text)
		})
	}
	if root == nil {
		root = r.headless(fs)
	}
	c := &Crash{Kind: root.kind, FirstLine: root.line, Offset: root.off, Evidence: clip(root.text), Rank: root.rank,
		Service: root.stream.service, Pod: root.stream.pod, Port: root.port, Stage: "startup", Hint: crashHints[root.kind],
		Fatal: true}
	if root.ready {
		c.Stage = "serving"
	}
	if c.Kind == kindStart && root.ready && !reFlags.MatchString(root.text) {
		c.Kind = kindScheduler // it had started
	}
	c.Phase = r.phaseOf(root)
	r.addTraceback(c, root)
	for _, f := range fs {
		if f.line != root.line && f.kind != c.Kind && (f.kind == kindCUDAOOM || f.kind == kindCUDA && c.Kind != kindCUDAOOM) && (c.Kind == kindCapture || c.Kind == kindNCCL) {
			c.Cause = f.kind
			break
		}
	}
	if c.Kind == kindCapture && c.Cause == "" && strings.Contains(root.text, "out of memory") {
		c.Cause = kindCUDAOOM
	}
	if c.Kind == kindStart || c.Kind == kindScheduler {
		c.Hint = ""
	}
	r.addContext(c, fs)
	return c
}

// headless is the verdict without a specific cause: the first fatal exception
// that is not the consequence of another process's end.
func (r *crashReader) headless(fs []finding) *finding {
	root := pick(fs, func(f finding) bool { return f.tb == nil || !reConsequence.MatchString(f.tb.message) })
	if root == nil {
		root = &fs[0]
	}
	return root
}

func (r *crashReader) addTraceback(c *Crash, root *finding) {
	tb := root.tb
	if tb == nil {
		return
	}
	c.InFile, c.InLine = tb.file, tb.lineNo
	c.Exception, c.Message = lastName(tb.exception), clip(tb.message)
}

// addContext takes rank and port from other findings of the same death.
func (r *crashReader) addContext(c *Crash, fs []finding) {
	for _, f := range fs {
		if c.Rank == "" {
			c.Rank = f.rank
		}
		if c.Port == 0 && c.Kind == kindPort {
			c.Port = f.port
		}
	}
	if c.Rank == "" {
		c.Rank = r.deadRank
	}
}

func pick(fs []finding, ok func(finding) bool) *finding {
	for i := range fs {
		if ok(fs[i]) {
			return &fs[i]
		}
	}
	return nil
}

func lastName(s string) string { return s[strings.LastIndexByte(s, '.')+1:] }

// clip bounds the text kept as evidence.
func clip(s string) string {
	s = strings.TrimSpace(s)
	if len(s) <= 500 {
		return s
	}
	return strings.ToValidUTF8(s[:500], "") + "..."
}
