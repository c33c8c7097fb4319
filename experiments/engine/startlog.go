package engine

import (
	"bytes"
	"regexp"
	"strings"

	"specrun/deploy/server"
	"specrun/experiments/metrics"
)

// maxLine bounds the memory that one line without an end may take.
const maxLine = 64 << 10

// milestone is a step of the start: text of a log line and what it means.
type milestone struct {
	re   *regexp.Regexp
	name string // may use groups of re
}

// startText is how an engine's start looks in its log.
type startText struct {
	prefix     *regexp.Regexp // of a line, taken off before the rest is read; nil: none
	ready      *regexp.Regexp // nil: nothing is printed
	milestones []milestone    // in the order in which they are tried
	explain    explainer
}

// startLog follows one start. Milestones and the ready marker are the engine's
// own; what is a crash is judged by package metrics, as in a finished log.
type startLog struct {
	text     startText
	follower *metrics.Follower
	usage    usage
	partial  []byte
	last     string // milestone
}

func newStartLog(text startText) startLog {
	return startLog{text: text, follower: metrics.NewFollower()}
}

// Observe implements server.Readiness.
func (r *startLog) Observe(chunk []byte) server.Observation {
	var seen server.Observation
	for rest := chunk; len(rest) > 0; {
		end := bytes.IndexAny(rest, "\r\n") // a progress bar ends its lines with CR
		if end < 0 {
			if len(r.partial)+len(rest) <= maxLine {
				r.partial = append(r.partial, rest...)
			}
			break
		}
		if len(r.partial)+end <= maxLine {
			r.line(string(append(r.partial, rest[:end]...)), &seen)
		}
		r.partial = r.partial[:0]
		rest = rest[end+1:]
	}
	r.follower.Write(chunk)
	// Only the verdict is wanted; what else was found would pile up.
	r.follower.Samples()
	r.follower.Decode()
	r.follower.Rows()
	r.follower.Prefills()
	r.follower.Speculation()
	seen.Crash = r.text.explain.crash(r.follower.Crash(), &r.usage)
	return seen
}

func (r *startLog) line(line string, seen *server.Observation) {
	msg := line
	if r.text.prefix != nil {
		msg = line[len(r.text.prefix.FindString(line)):]
	}
	r.usage.read(line)
	if r.text.ready != nil && r.text.ready.MatchString(msg) {
		seen.Ready = true
		r.milestone("ready marker", seen)
		return
	}
	for _, m := range r.text.milestones {
		at := m.re.FindStringSubmatchIndex(msg)
		if at == nil {
			continue
		}
		name := m.re.ExpandString(nil, m.name, msg, at)
		r.milestone(strings.Join(strings.Fields(string(name)), " "), seen)
		return
	}
}

// milestone reports one once, though each rank prints it, with numbers of its own
// behind a comma.
func (r *startLog) milestone(name string, seen *server.Observation) {
	what, _, _ := strings.Cut(name, ",")
	if what != r.last {
		r.last = what
		seen.Milestones = append(seen.Milestones, name)
	}
}

// Ended implements server.Explainer.
func (r *startLog) Ended() *server.Crash {
	r.follower.Close()
	c := r.follower.Crash()
	if c == nil { // it has ended, so what is suspicious is likely why
		c = r.follower.Suspect()
	}
	return r.text.explain.crash(c, &r.usage)
}

// Suspect implements server.Suspecter.
func (r *startLog) Suspect() *server.Crash {
	return r.text.explain.crash(r.follower.Suspect(), &r.usage)
}
