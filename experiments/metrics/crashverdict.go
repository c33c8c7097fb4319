package metrics

import (
	"cmp"
	"strings"
)

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
		switch {
		case f.run != run, f.rule != nil && f.rule.client && (r.server || !whole):
			continue
		case f.rule == nil && f.kind == kindStart && !r.server: // a client's own
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
	root := pick(fs, func(f finding) bool { return f.kind == kindCapture && !reConsequence.MatchString(f.text) })
	if root == nil {
		root = pick(fs, func(f finding) bool {
			// A server whose child failed ends itself by SIGKILL: the shell's
			// word for that is no cause.
			return f.kind != kindScheduler && f.kind != kindStart && !(f.kind == kindSigkill && f.late) && !reConsequence.MatchString(f.text)
		})
	}
	if root == nil {
		root = r.headless(fs)
	} else if symptoms[root.kind] {
		root = cmp.Or(before(fs, root), root)
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
	// A helper process may fail in a start that ends for another reason.
	root := pick(fs, func(f finding) bool {
		return (f.rule != nil || f.kind != kindStart) && (f.tb == nil || !reConsequence.MatchString(f.tb.message))
	})
	if root == nil {
		root = pick(fs, func(f finding) bool { return f.tb == nil || !reConsequence.MatchString(f.tb.message) })
	}
	if root == nil {
		root = &fs[0]
	}
	return root
}

// symptoms are what the other ranks see of one that ended for a reason of its own.
var symptoms = map[string]bool{kindNCCL: true, kindNCCLTimeout: true, kindWatchdog: true}

// before is the exception with which another process ended before the symptom
// was seen; nil when there is none.
func before(fs []finding, symptom *finding) *finding {
	return pick(fs, func(f finding) bool {
		return f.line < symptom.line && f.force == fatal && (f.kind == kindScheduler || f.kind == kindStart) &&
			f.tb != nil && f.tb != symptom.tb && f.tb.excLine > 0 && f.tb.excLine < symptom.line && !reConsequence.MatchString(f.tb.message)
	})
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
