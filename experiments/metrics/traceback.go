package metrics

import (
	"path"
	"regexp"
	"strconv"
	"strings"
)

// traceWord heads every traceback.
const traceWord = "Traceback (most recent call last):"

// traceback is a Python traceback being read; its lines follow without prefix.
type traceback struct {
	headLine  int
	headText  string
	headFatal bool // its head says that a process ends with it
	rank      string
	file      string // innermost frame
	lineNo    int
	exception string
	message   string
	excLine   int
	excOff    int64
	ended     bool
	importing bool   // an import is among its frames,
	module    bool   // and its innermost one is code of a module, not of a function
	phase     string // of the start, by its innermost frame that tells
	last      int    // line of its newest head or frame: text far behind it is not its own
	request   bool   // belongs to one request: the server goes on
	frames    int
	uncaught  bool // it begins where a program or a process begins: nobody caught it
}

// follow keeps the traceback that an entry belongs to, nil when to none.
func (r *crashReader) follow(e *entry, key stream) *traceback {
	tb := r.tb[key]
	if strings.Contains(e.msg, traceWord) {
		next := &traceback{headLine: e.num, last: e.num, headText: e.msg, rank: e.rank}
		before := strings.TrimSpace(e.msg[:strings.Index(e.msg, "Traceback")])
		next.headFatal = strings.Contains(before, "hit an exception")
		next.request = strings.Contains(before, "in request") || strings.Contains(before, "ASGI application")
		if tb != nil && before == "" && e.rank == "" && tb.chained(e) {
			next.headFatal, next.rank, next.request, next.headLine = tb.headFatal, tb.rank, tb.request, tb.headLine
		}
		r.tb[key] = next
		r.head(e, next)
		return next
	}
	if tb == nil {
		return nil
	}
	if e.num > tb.last+traceLines && !tb.ended || e.num > tb.last+traceLines+traceTail {
		delete(r.tb, key)
		return nil
	}
	switch {
	case reChained.MatchString(e.msg):
		tb.ended, tb.last = false, e.num
		tb.excLine = e.num // remember how near the next head must be
		return tb
	case tb.ended:
		if e.msg == "" || e.at != 0 || e.num > tb.excLine+traceTail {
			return nil
		}
		return tb // text that the exception printed behind its first line
	}
	if m := reFrame.FindStringSubmatch(e.msg); m != nil {
		tb.last = e.num
		if tb.frames++; tb.frames == 1 {
			tb.uncaught = reOutermost.MatchString(e.msg)
		}
		if phase := framePhase(e.msg); phase != "" {
			tb.phase = phase
		}
		tb.importing = tb.importing || strings.Contains(e.msg, "<frozen importlib") || strings.HasSuffix(strings.TrimSpace(e.msg), "in import_module")
		tb.module = strings.HasSuffix(strings.TrimSpace(e.msg), "in <module>")
		if !inLibrary(m[1]) || tb.file == "" {
			tb.file = path.Base(m[1])
			tb.lineNo, _ = strconv.Atoi(m[2])
		}
		return tb
	}
	if strings.HasPrefix(e.msg, " ") {
		return tb
	}
	if m := reException.FindStringSubmatch(e.msg); m != nil {
		tb.exception, tb.message, tb.ended = m[1], e.msg, true
		tb.excLine, tb.excOff = e.num, e.start
		return tb
	}
	if e.at != 0 && e.where == "" {
		return nil // another writer's line in between
	}
	return tb
}

// head gives "EngineCore failed to start." the traceback that stands behind it.
// Where each line says whose it is, other ranks' lines may stand between the two.
func (r *crashReader) head(e *entry, tb *traceback) {
	near := 3
	if e.lined {
		near = traceLines
	}
	for n := len(r.found) - 1; n >= 0 && e.num-r.found[n].line <= near; n-- {
		f := &r.found[n]
		if f.stream == e.stream || !e.lined {
			if f.kind == kindStart && f.tb == nil {
				f.tb = tb
			}
			return
		}
	}
}

// reOutermost is the first frame of a program, or of a process that one started.
var reOutermost = regexp.MustCompile(`, in _run_module_as_main$|/bin/[^"/]+", line \d+, in <module>$|/(?:launch_server|api_server|serve)\.py", line \d+, in <module>$|/multiprocessing/process\.py", line \d+, in _bootstrap$`)

// chained says whether a bare "Traceback" line continues this one.
func (tb *traceback) chained(e *entry) bool { return tb.excLine > 0 && e.num-tb.excLine <= 3 }

// inLibrary says whether a frame lies in a library below the engine, so that
// the engine's own frame above it says more.
func inLibrary(file string) bool {
	return strings.Contains(file, "/torch/") || strings.Contains(file, "/triton/") || strings.Contains(file, "/multiprocessing/") || strings.Contains(file, "/concurrent/")
}
