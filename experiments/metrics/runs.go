package metrics

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Server is one of the servers whose lines a log holds, by what a collector put
// before them; the zero value where it tells none apart.
type Server struct{ File, Service, Pod string }

// String names it, as in "service web-1"; "" for the zero value.
func (s Server) String() string {
	var out []string
	for _, part := range [][2]string{{"file", s.File}, {"pod", s.Pod}, {"service", s.Service}} {
		if part[1] != "" {
			out = append(out, part[0]+" "+part[1])
		}
	}
	return strings.Join(out, ", ")
}

// RunKey is one start of one server. Starts are counted for each server from 1.
type RunKey struct {
	Server Server
	Start  int
}

func (s stream) server() Server { return Server{File: s.file, Service: s.service, Pod: s.pod} }

// Key is the start that the summary is of.
func (r *ProfilerRow) Key() RunKey {
	return RunKey{Server{File: r.Stream["file"], Service: r.Stream["service"], Pod: r.Stream["pod"]}, r.Run}
}

// Key is the start that the line is of.
func (d *DecodeLine) Key() RunKey { return RunKey{d.Server, d.Run} }

// Has says whether a series is of a start. Labels are given only where the
// readings of a file differ, so all its series are needed to tell.
func (k RunKey) Has(s Series, all []Series) bool {
	for label, want := range map[string]string{"file": k.Server.File, "service": k.Server.Service, "pod": k.Server.Pod, "run": strconv.Itoa(k.Start)} {
		has, ok := s.Labels[label]
		if ok && has != want {
			return false
		}
		if !ok && want != "" && label != "run" && slices.ContainsFunc(all, func(o Series) bool { return o.Labels[label] != "" }) {
			return false
		}
	}
	return true
}

// startTracker numbers the server starts in a log, per server (service, pod,
// file): several starts are often appended to one file.
type startTracker struct {
	of  map[stream]*starts
	all []Start // what the banners say, in file order
}

type starts struct {
	first  []int // first line of each start
	values bool  // numbers were read since the start
	args   bool  // the start's argument line was seen
	served bool  // "Started server process" was seen
	late   int   // line of such a banner behind numbers: a start only if numbers follow
}

func (t *startTracker) get(s stream) *starts {
	key := s.base()
	st := t.of[key]
	if st == nil {
		if t.of == nil {
			t.of = map[stream]*starts{}
		}
		st = &starts{first: []int{1}}
		t.of[key] = st
	}
	return st
}

// run is the current start, from 1.
func (t *startTracker) run(s stream) int { return len(t.get(s).first) }

// startWords are in the banners of a start.
var startWords = []string{"server_args=ServerArgs(", "vLLM API server version", "LLM engine", "Started server process ["}

// observe looks for the banners of a start.
func (t *startTracker) observe(e *entry) {
	switch {
	case strings.HasPrefix(e.msg, "server_args=ServerArgs("), strings.Contains(e.msg, "vLLM API server version"):
		st := t.get(e.stream)
		if st.values || st.args {
			st.begin(e.num)
		}
		st.args = true
		t.note(e, len(st.first))
	case strings.Contains(e.msg, "Initializing a V") && strings.Contains(e.msg, "LLM engine"):
		if st := t.get(e.stream); st.values {
			st.begin(e.num)
		}
	case strings.Contains(e.msg, "Started server process ["):
		st := t.get(e.stream)
		if st.values || st.served {
			st.late = e.num
		}
		st.served = true
	}
}

// maxStarts bounds what is kept of a server that restarts again and again.
const maxStarts = 1000

var reVersion = regexp.MustCompile(`vLLM API server version v?(\S+)`)

// note keeps what a banner says.
func (t *startTracker) note(e *entry, run int) {
	if len(t.all) >= maxStarts {
		return
	}
	s := Start{RunKey: RunKey{e.server(), run}, Line: e.num}
	if args, ok := strings.CutPrefix(e.msg, "server_args=ServerArgs("); ok {
		s.Args = strings.TrimSuffix(strings.TrimSpace(args), ")")
	}
	if m := reVersion.FindStringSubmatch(e.msg); m != nil {
		s.Version = m[1]
	}
	t.all = append(t.all, s)
}

// value notes that a number was read, which confirms a late banner.
func (t *startTracker) value(s stream) {
	st := t.get(s)
	if st.late > 0 {
		st.begin(st.late)
		st.served = true
	}
	st.values = true
}

// restart begins a new start at a line, because a cycle counter went back.
func (t *startTracker) restart(e *entry) int {
	st := t.get(e.stream)
	at := e.num
	if st.late > 0 {
		at = st.late
	}
	st.begin(at)
	return len(st.first)
}

func (s *starts) begin(line int) {
	s.first = append(s.first, line)
	s.values, s.args, s.served, s.late = false, false, false, 0
}

// ranges gives the starts as line ranges; nil when there is one, or when
// several servers share the file, so that line ranges would not separate them.
func (t *startTracker) ranges(lines int) []LineRange {
	var only *starts
	for _, st := range t.of {
		if len(st.first) > 1 {
			if only != nil {
				return nil
			}
			only = st
		}
	}
	if only == nil {
		return nil
	}
	var out []LineRange
	for i, f := range only.first {
		last := lines
		if i+1 < len(only.first) {
			last = only.first[i+1] - 1
		}
		out = append(out, LineRange{f, last})
	}
	return out
}
