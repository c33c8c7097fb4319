package metrics

import (
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// stream is what the prefixes of a line say about who wrote it. Two lines with
// unequal streams come from different writers.
type stream struct {
	file, service, pod, pid, rank, engine string
}

// base is the stream without what differs between the processes of one server.
func (s stream) base() stream { return stream{file: s.file, service: s.service, pod: s.pod} }

// entry is one line with its prefixes peeled off. Indentation of the message
// is kept: readers need it.
type entry struct {
	line
	stream
	msg   string
	at    float64 // seconds; the zone is not known, so only differences mean something. 0 = none
	torn  bool    // another record begins within this one's line
	cri   string  // "P" or "F" of a container runtime's record, with its stream name
	where string  // source file:line that the logger printed
	lined bool    // its writer puts its name before every line, also within a message
}

// logger and collector prefixes, tried again and again until none matches
var (
	reCRI      = regexp.MustCompile(`^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:?\d\d)) (stdout|stderr) ([FP])(?: |$)`)
	reISO      = regexp.MustCompile(`^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?)[ \t](?:\S+ [\w./@-]+\[(\d+)\]: )?`)
	reKubectl  = regexp.MustCompile(`^\[pod/([^/\]\s]+)/([^\]\s]+)\] ?`)
	reBracket  = regexp.MustCompile(`^\[((?:\d{4}-)?(?:\d\d-\d\d )?\d\d:\d\d:\d\d(?:[.,]\d+)?)((?: [A-Z][A-Z_]*\d+)*)\] ?`)
	reTorch    = regexp.MustCompile(`^\[(?:rank|default)(\d+)\]: ?`)
	reTagged   = regexp.MustCompile(`^\[\d+,(\d+)\]<std(?:out|err)>: ?`) // mpirun
	reCompose  = regexp.MustCompile(`^([A-Za-z][\w.-]*?) +\| ?`)
	rePid      = regexp.MustCompile(`^\(pid=(\d+)(?:, ip=[\w.:]+)?\) `)
	reActor    = regexp.MustCompile(`^\(([A-Za-z]\w*)((?: \w+=[^\s,)]+,?)+)\) `)
	reVLLM     = regexp.MustCompile(`^(?:DEBUG|INFO|WARNING|ERROR|CRITICAL) (?:((?:\d{4}-)?\d\d-\d\d \d\d:\d\d:\d\d)(?:[.,]\d+)? )?(?:\[([\w./-]+:\d+)\]|([\w./-]+:\d+)\]) ?`)
	reLoguru   = regexp.MustCompile(`^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d[.,]\d+) *\| *[A-Z]+ *\| *(\S+) +- `)
	reLogging  = regexp.MustCompile(`^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d+)?)(?: -)? (?:([\w.]+) - )?(?:DEBUG|INFO|WARNING|ERROR|CRITICAL)(?: -|:)? (?:(\d+) )?`)
	reRankFile = regexp.MustCompile(`^\[((?:[A-Z][A-Z_]*\d+ )*)([\w./-]+:\d+)\] ?`)
	reBasic    = regexp.MustCompile(`^(?:DEBUG|INFO|WARNING|ERROR|CRITICAL):([A-Za-z_][\w.]*):`)
	reSyslog   = regexp.MustCompile(`^([A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d) \S+ [\w./@-]+(?:\[(\d+)\])?: `)
	reGrep     = regexp.MustCompile(`^([^\s:|\[\]]*[\w)]\.(?:log|txt|out|err)(?:\.\d+)?)(?::(\d+):|-(\d+)-|:)`)
	reGrepN    = regexp.MustCompile(`^\d+[:-]( {2,}[A-Za-z]|\[)`)
)

var levels = map[string]bool{"DEBUG": true, "INFO": true, "WARNING": true, "WARN": true, "ERROR": true, "CRITICAL": true, "FATAL": true}

// peel takes the prefixes off a line.
func peel(l line) entry {
	e := entry{line: l, msg: l.text}
	for range 8 {
		rest, ok := e.peelOne()
		if !ok {
			break
		}
		e.msg = rest
	}
	return e
}

// maxPrefix is how much of a line is looked at for a prefix: a line may have
// megabytes.
const maxPrefix = 512

// peelOne removes one prefix.
func (e *entry) peelOne() (string, bool) {
	s := e.msg
	if s == "" {
		return s, false
	}
	if s[0] == '{' {
		return e.dockerJSON(s)
	}
	head := s[:min(len(s), maxPrefix)]
	rest, ok := e.peelHead(head)
	return s[len(head)-len(rest):], ok
}

// peelHead removes one prefix: what it returns is the end of s. The first byte
// decides what can match.
func (e *entry) peelHead(s string) (string, bool) {
	switch c := s[0]; {
	case c == '[':
		return e.peelBracketed(s)
	case c == '(':
		if m := reActor.FindStringSubmatch(s); m != nil {
			e.actor(m[1], m[2])
			return s[len(m[0]):], true
		}
		if m := rePid.FindStringSubmatch(s); m != nil {
			e.pid, e.lined = m[1], true
			return s[len(m[0]):], true
		}
	case isDigit(c):
		return e.peelDated(s)
	}
	return e.peelNamed(s)
}

func (e *entry) peelBracketed(s string) (string, bool) {
	if m := reKubectl.FindStringSubmatch(s); m != nil {
		e.pod = m[1]
		return s[len(m[0]):], true
	}
	if m := reBracket.FindStringSubmatch(s); m != nil {
		e.stamp(m[1])
		if m[2] != "" {
			e.rank = m[2][1:]
		}
		return s[len(m[0]):], true
	}
	if m := reTorch.FindStringSubmatch(s); m != nil {
		e.rank, e.lined = m[1], true
		return s[len(m[0]):], true
	}
	if m := reTagged.FindStringSubmatch(s); m != nil {
		e.rank, e.lined = m[1], true
		return s[len(m[0]):], true
	}
	if m := reRankFile.FindStringSubmatch(s); m != nil {
		if m[1] != "" {
			e.rank = strings.TrimSpace(m[1])
		}
		e.where = m[2]
		return s[len(m[0]):], true
	}
	return s, false
}

func (e *entry) peelDated(s string) (string, bool) {
	if m := reCRI.FindStringSubmatch(s); m != nil {
		e.stamp(m[1])
		e.cri = m[2] + m[3]
		return s[len(m[0]):], true
	}
	if m := reISO.FindStringSubmatch(s); m != nil {
		e.stamp(m[1])
		if m[2] != "" { // journalctl -o short-iso
			e.pid = m[2]
		}
		return s[len(m[0]):], true
	}
	if m := reLoguru.FindStringSubmatch(s); m != nil {
		e.stamp(m[1])
		e.where = m[2]
		return s[len(m[0]):], true
	}
	if m := reLogging.FindStringSubmatch(s); m != nil {
		e.stamp(m[1])
		return s[len(m[0]):], true
	}
	if m := reGrepN.FindStringSubmatchIndex(s); m != nil {
		return s[m[2]:], true
	}
	return e.peelNamed(s)
}

func (e *entry) peelNamed(s string) (string, bool) {
	if m := reVLLM.FindStringSubmatch(s); m != nil {
		e.stamp(m[1])
		e.where = m[2] + m[3]
		return s[len(m[0]):], true
	}
	if m := reBasic.FindStringSubmatch(s); m != nil {
		return s[len(m[0]):], true
	}
	if m := reGrep.FindStringSubmatch(s); m != nil && e.file == "" {
		e.file = m[1]
		return s[len(m[0]):], true
	}
	if m := reSyslog.FindStringSubmatch(s); m != nil {
		e.pid = m[2]
		return s[len(m[0]):], true
	}
	if m := reCompose.FindStringSubmatch(s); m != nil && e.service == "" && !levels[m[1]] {
		e.service = m[1]
		return s[len(m[0]):], true
	}
	return s, false
}

// dockerJSON unwraps one record of Docker's json-file log.
func (e *entry) dockerJSON(s string) (string, bool) {
	if !strings.HasPrefix(s, `{"log":`) {
		return s, false
	}
	var rec struct {
		Log    string `json:"log"`
		Stream string `json:"stream"`
		Time   string `json:"time"`
	}
	if json.Unmarshal([]byte(s), &rec) != nil {
		return s, false
	}
	e.stamp(rec.Time)
	msg := strings.TrimRight(rec.Log, "\r\n")
	e.cri = rec.Stream + "F"
	if msg == rec.Log { // Docker cuts records at 16 KiB; only the last part has the newline
		e.cri = rec.Stream + "P"
	}
	if i := strings.LastIndexByte(msg, '\r'); i >= 0 {
		msg = msg[i+1:]
	}
	return clean([]byte(msg)), true
}

var reActorKey = regexp.MustCompile(`(\w+)=([^\s,)]+)`)

// actor reads the "(VllmWorker rank=3 pid=20911)" that vLLM and Ray print.
func (e *entry) actor(name, keys string) {
	e.lined = true
	for _, m := range reActorKey.FindAllStringSubmatch(keys, -1) {
		switch m[1] {
		case "pid":
			e.pid = m[2]
		case "rank":
			e.rank = m[2]
		}
	}
	if i := strings.IndexByte(name, '_'); i >= 0 && e.rank == "" {
		e.rank = strings.ReplaceAll(name[i+1:], "_", " ") // Worker_TP3, EngineCore_DP0
	}
}

// stamp keeps the innermost time: a collector's own stamp is later than that of
// the process.
func (e *entry) stamp(s string) {
	if t, ok := parseTime(s); ok {
		e.at = t
	}
}

var timeLayouts = []string{
	time.RFC3339Nano, "2006-01-02T15:04:05", "2006-01-02 15:04:05", "01-02 15:04:05", "15:04:05",
}

// parseTime gives seconds on an axis of its own for stamps without year or date.
func parseTime(s string) (float64, bool) {
	s = strings.Replace(s, ",", ".", 1)
	for _, l := range timeLayouts {
		if t, err := time.Parse(l, s); err == nil {
			t = t.UTC()
			sec := float64(t.Unix())
			if t.Year() < 1 {
				sec += 62167219200 // year 0 to 1970, so that bare times are small and positive
			}
			return sec + float64(t.Nanosecond())/1e9, true
		}
	}
	return 0, false
}

// reInner is a prefix that begins within a line: another writer's record was
// glued to the one before it.
var reInner = regexp.MustCompile(`\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:[.,]\d+)?(?: [A-Z][A-Z_]*\d+)*\] `)

// unglue splits an entry at prefixes that begin within its message. Text that
// quotes a prompt is left alone: what looks like a record in it is none.
func unglue(e entry) []entry {
	if !strings.Contains(e.msg, "[2") {
		return []entry{e}
	}
	var out []entry
	for {
		m := reInner.FindStringIndex(e.msg)
		if m == nil || m[0] == 0 || quotes(e.msg[:m[0]]) {
			return append(out, e)
		}
		head := e
		head.msg, head.torn = e.msg[:m[0]], true
		out = append(out, head)
		inner := peel(line{num: e.num, start: e.start, end: e.end, terminated: e.terminated, text: e.msg[m[0]:]})
		inner.file, inner.service, inner.pod, inner.cri = e.file, e.service, e.pod, e.cri
		e = inner
	}
}

// quotes says whether text goes on inside somebody's quoted text.
func quotes(s string) bool {
	for _, k := range []string{"text=", "prompt", "obj=", "content"} {
		if strings.Contains(s, k) {
			return true
		}
	}
	return strings.Count(s, "'")%2 == 1 || strings.Count(s, `"`)%2 == 1
}

// number of a label such as "TP7"; -1 when there is none.
func rankNumber(rank string) int {
	i := len(rank)
	for i > 0 && isDigit(rank[i-1]) {
		i--
	}
	n, err := strconv.Atoi(rank[i:])
	if err != nil {
		return -1
	}
	return n
}
