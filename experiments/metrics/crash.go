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
	doubted  []finding       // behind which a request was accepted, but no token came
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
	if e.lined {
		key = e.stream
	}
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
	if tb != nil && (strings.HasPrefix(e.msg, "    ") || reFrame.MatchString(e.msg)) { // a frame and its source text
		return
	}
	for i := range crashRules {
		ru := &crashRules[i]
		m := ru.match(e.msg)
		if m == nil {
			continue
		}
		r.note(e, run, ru, m, tb)
		return
	}
	r.uncaught(e, run, tb)
}

func (r *crashReader) note(e *entry, run int, ru *crashRule, m []string, tb *traceback) {
	if r.clean[run] && ru.force != fatal {
		return
	}
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

// uncaught is an exception, not otherwise known, that ends a traceback before the
// server was ready: a syntax or import fault, or one that nobody caught.
func (r *crashReader) uncaught(e *entry, run int, tb *traceback) {
	if tb == nil || tb.excLine != e.num || tb.request || r.ready[run] {
		return
	}
	kind, name := kindImport, lastName(tb.exception)
	if !reImportErr.MatchString(name) && !(tb.importing && tb.module) {
		if !tb.uncaught || tb.headFatal || reStopped.MatchString(name) {
			return
		}
		kind = kindStart
	}
	if tb.headFatal {
		r.proof[run] = true
	}
	rank := e.rank
	if rank == "" {
		rank = tb.rank
	}
	r.keep(finding{kind: kind, line: e.num, off: e.start, text: e.msg, run: run, stream: e.stream, rank: rank, tb: tb, phase: r.phases.of(e.stream, run)})
}

// outlived drops what failed in a start which came to its end all the same: the
// import of a plugin or of a model that nobody asked for, a helper process.
func (r *crashReader) outlived(run int) {
	if r.proof[run] {
		return
	}
	r.found = slices.DeleteFunc(r.found, func(f finding) bool { return f.run == run && f.rule == nil })
}

// alive is called for each sign of life. Findings of that run which the log did
// not call fatal were no crash when tokens came behind them. A served request says
// less: some servers log it when its answer begins, before its first token.
func (r *crashReader) alive(run int, base stream, tokens bool) {
	if len(r.found)+len(r.doubted) == 0 || r.proof[run] {
		return
	}
	outlived := func(f finding) bool { return f.run == run && f.force == suspect && f.stream.base() == base }
	if tokens {
		r.doubted = slices.DeleteFunc(r.doubted, outlived)
	} else {
		for _, f := range r.found {
			if outlived(f) && len(r.doubted) < maxFindings {
				r.doubted = append(r.doubted, f)
			}
		}
	}
	r.found = slices.DeleteFunc(r.found, outlived)
}

// suspected is the verdict on a server that does nothing any more: behind a
// marker there may be a request that it took and never answered.
func (r *crashReader) suspected() *Crash {
	if c := r.crash(true); c != nil || len(r.doubted) == 0 {
		return c
	}
	found := r.found
	r.found = r.doubted
	c := r.crash(true)
	r.found = found
	return c
}
