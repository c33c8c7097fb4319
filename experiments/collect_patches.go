package experiments

import (
	"bufio"
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"specrun/deploy"
	"specrun/experiments/bench"
	"specrun/experiments/metrics"
	"specrun/experiments/trust"
)

// reAnnounced is what a profiling patch of the library says when the engine
// first calls it: name, version, and the beginning of its hash.
var reAnnounced = regexp.MustCompile(`specrun-profiler: (\S+) (\S+) ([0-9a-f]{8,64}) active in `)

// announced finds the patches that a log says to be at work.
func announced(log string) []PatchRef {
	var out []PatchRef
	for _, m := range reAnnounced.FindAllStringSubmatch(log, -1) {
		ref := PatchRef{Name: m[1], Version: m[2], SHA256: m[3]}
		if !slices.ContainsFunc(out, func(p PatchRef) bool { return p.SHA256 == ref.SHA256 }) {
			out = append(out, ref)
		}
	}
	return out
}

// enoughCycles is how long a benchmark is from which on a profiler has a row to
// print.
const enoughCycles = 100

// patchLive says whether every patch of the set was seen at work: its rows, or
// what it said when the server became ready, carry the beginning of its hash. A
// patch that measures and printed nothing through a long benchmark is not there;
// one that prints nothing leaves it unknown.
func patchLive(set []PatchRef, rows []metrics.ProfilerRow, said []PatchRef, least int) (trust.Answer, string) {
	if len(set) == 0 {
		return trust.Unknown, ""
	}
	nameless := slices.ContainsFunc(rows, func(r metrics.ProfilerRow) bool { return r.Hash == "" })
	answer, evidence := trust.Yes, []string{}
	for _, p := range set {
		is := func(hash string) bool { return hash != "" && strings.HasPrefix(p.SHA256, hash) }
		switch {
		case slices.ContainsFunc(rows, func(r metrics.ProfilerRow) bool { return is(r.Hash) }):
			evidence = append(evidence, p.Name+" printed rows of its hash")
		case slices.ContainsFunc(said, func(s PatchRef) bool { return is(s.SHA256) }):
			evidence = append(evidence, p.Name+" said that it is active, with its hash")
		case p.Prints && !nameless && least >= enoughCycles:
			answer = trust.No
			evidence = append(evidence, fmt.Sprintf("no row of %s in at least %d decode cycles", p.Name, least))
		default:
			if answer == trust.Yes {
				answer = trust.Unknown
			}
		}
	}
	return answer, strings.Join(evidence, "; ")
}

// deployedOtherwise says in which way the files of a running server are not as
// asked; "" when they are. A file that differs by somebody's hand shows no row.
func deployedOtherwise(asked []PatchRef, s PatchState) string {
	var bad []string
	for _, f := range s.Files {
		switch deploy.Verdict(f.Verdict) {
		case deploy.Edited, deploy.Foreign, deploy.Missing:
			bad = append(bad, f.Path+" is "+f.Verdict)
		}
	}
	if len(bad) == 0 && s.Unsound != "" {
		bad = append(bad, s.Unsound)
	}
	if len(bad) > 0 {
		return strings.Join(bad, "; ")
	}
	if !samePatches(asked, s.Patches) {
		return "the files have " + namesOf(s.Patches)
	}
	return ""
}

// profilersIn names the profilers that printed, each with what tells it from
// another of the same name. Rows that say nothing of themselves are one.
func profilersIn(rows []metrics.ProfilerRow) []string {
	var out []string
	for _, r := range rows {
		p := PatchRef{Name: firstOf(r.Profiler, "a profiler without a name"), SHA256: r.Hash}
		if r.Version != "" {
			p.Name += " " + r.Version
		}
		if text := patchContent(p); !slices.Contains(out, text) {
			out = append(out, text)
		}
	}
	return out
}

// strangersIn are the profilers that printed in the window and were not asked
// for: somebody applied a patch by hand, and the server loaded it. A row that
// says neither hash nor name tells nothing.
func strangersIn(asked []PatchRef, rows []metrics.ProfilerRow) []PatchRef {
	var out []PatchRef
	for _, r := range rows {
		is := func(p PatchRef) bool {
			if r.Hash == "" {
				return p.Name == r.Profiler
			}
			return strings.HasPrefix(p.SHA256, r.Hash)
		}
		if r.Hash == "" && r.Profiler == "" || slices.ContainsFunc(asked, is) || slices.ContainsFunc(out, is) {
			continue
		}
		out = append(out, PatchRef{Name: firstOf(r.Profiler, "a patch"), Version: r.Version, SHA256: r.Hash, Probe: string(probeOf(r))})
	}
	return out
}

// probeOf is what a profiler says of its phases: launch and wall times wait for
// nothing.
func probeOf(r metrics.ProfilerRow) trust.Probe {
	switch r.PhaseKind {
	case "sync":
		return trust.ProbeSync
	case "events":
		return trust.ProbeEvents
	}
	return trust.ProbeLight
}

func namesOf(set []PatchRef) string {
	names := make([]string, len(set))
	for i, p := range set {
		names[i] = p.Name
	}
	return firstOf(strings.Join(names, ", "), "none")
}

// patchContent names a patch that may have the name of another one.
func patchContent(p PatchRef) string {
	if p.SHA256 == "" {
		return p.Name
	}
	return fmt.Sprintf("%s (content %.12s)", p.Name, p.SHA256)
}

// strongest is the probe that disturbs most.
func strongest(set []PatchRef) trust.Probe {
	order := []trust.Probe{trust.ProbeNone, trust.ProbeLight, trust.ProbeEvents, trust.ProbeSync}
	most := trust.ProbeNone
	for _, p := range set {
		if slices.Index(order, trust.Probe(p.Probe)) > slices.Index(order, most) {
			most = trust.Probe(p.Probe)
		}
	}
	return most
}

// reCompile fits lines that engines and their compilers print when a kernel is
// made, or loaded for the first time, which stops the engine as well. Lines with
// a request's text are looked through before.
var reCompile = regexp.MustCompile(`(?i)Loading JIT ops:|^(?:\[[^\]]*\] )?\[\d+/\d+\] .*(?:nvcc|c\+\+|g\+\+|clang)|\bautotun(?:e|ing)\b|(?:JIT|torch\.compile|kernels?)[^:]{0,30}\bcompil(?:ing|ation)\b|\bcompiling\b[^:]{0,30}\bkernels?\b|Capture .*cuda graph.* begin`)

// reQuoting fits lines that may quote what a user wrote.
var reQuoting = regexp.MustCompile(`Receive: obj=|Finish: obj=|Received request |prompt[=:]|text=`)

// compiledIn says whether kernels were compiled during the benchmark, by what
// the server printed and by the folders where compilers keep their work.
func compiledIn(log []byte, r bench.Report) (trust.Answer, string) {
	var signs []string
	if changed, known := r.CachesChanged(); known && len(changed) > 0 {
		signs = append(signs, "files came to "+strings.Join(changed, ", "))
	}
	lines := bufio.NewScanner(bytes.NewReader(log))
	lines.Buffer(nil, len(log)+1)
	for lines.Scan() {
		if l := lines.Bytes(); reCompile.Match(l) && !reQuoting.Match(l) {
			signs = append(signs, fmt.Sprintf("the log says %.120q", l))
			break
		}
	}
	if len(signs) > 0 {
		return trust.Yes, strings.Join(signs, "; ")
	}
	if _, known := r.CachesChanged(); known || len(log) > 0 {
		return trust.No, ""
	}
	return trust.Unknown, ""
}
