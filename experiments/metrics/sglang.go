package metrics

import (
	"regexp"
	"strings"
)

// DecodeLine is one of SGLang's "Decode batch" lines: what the scheduler did
// since the decode line before it (40 decode cycles by default).
type DecodeLine struct {
	Line        int
	Offset, End int64   // byte offsets of the line; End is behind its newline
	Since       int64   // End of the decode line of this rank before it; 0 for the first
	At          float64 // the line's own stamp in seconds, of unknown zone and 1 s resolution; 0 = none
	Rank        string
	Server      Server
	Run         int
	RunningReq  float64 // NaN when not printed
	Tokens      float64 // tokens in the KV cache, NaN when not printed
	// GenThroughput in tok/s is tokens over wall time since the decode line
	// before, so it is no rate when Burst is set.
	GenThroughput float64
	AcceptLen     float64 // bonus token included; NaN without speculation
	// Burst marks the first decode line after a prefill, after idling, or of the
	// log: the time it divides by holds more than decode cycles.
	Burst bool
}

var (
	reDecodeHead  = regexp.MustCompile(`^Decode batch(?:\.| ?\[\d+\],?|,)? `)
	rePrefillHead = regexp.MustCompile(`^Prefill batch(?:\.| ?\[\d+\],?|,)? `)
)

type metricName struct{ name, unit string }

// decodeKeys are the fields of a decode line that are metrics; the text is that
// of the line.
var decodeKeys = map[string]metricName{
	"accept len":               {"accept_len", "tokens/step"},
	"accept rate":              {"accept_rate", "ratio"},
	"block accept len":         {"block_accept_len", "tokens/step"},
	"cap len":                  {"cap_len", "tokens"},
	"gen throughput (token/s)": {"gen_throughput", "tok/s"},
	"token usage":              {"token_usage", "ratio"},
	"full token usage":         {"full_token_usage", "ratio"},
	"swa token usage":          {"swa_token_usage", "ratio"},
	"mamba usage":              {"mamba_usage", "ratio"},
	"pre-allocated usage":      {"pre_allocated_usage", "ratio"},
	"#running-req":             {"running_req", "requests"},
	"#queue-req":               {"queue_req", "requests"},
	"#retracted-req":           {"retracted_req", "requests"},
	"#transfer-req":            {"transfer_req", "requests"},
	"#prealloc-req":            {"prealloc_req", "requests"},
	"fwd occupancy":            {"fwd_occupancy", "percent"},
	"cuda graph":               {"cuda_graph", "word"},
}

var prefillKeys = map[string]metricName{
	"#new-token":                 {"prefill_new_token", "tokens"},
	"input throughput (token/s)": {"input_throughput", "tok/s"},
}

// fieldPair is one "key: value" of a comma-separated line.
type fieldPair struct{ key, value string }

// fieldPairs splits "a: 1, b: 2, ". cut says that the last pair may be cut off:
// the line does not end in a separator.
func fieldPairs(s string) (out []fieldPair, cut bool) {
	cut = !strings.HasSuffix(strings.TrimRight(s, " "), ",")
	for part := range strings.SplitSeq(s, ", ") {
		k, v, ok := strings.Cut(strings.Trim(part, ", "), ": ")
		if !ok {
			continue
		}
		out = append(out, fieldPair{k, strings.TrimSpace(v)})
	}
	return out, cut
}

// sglangReader reads decode and prefill lines.
type sglangReader struct {
	torn     int
	seen     bool
	cutLast  bool
	lines    []DecodeLine // not yet drained
	prefills []PrefillLine
	prev     map[stream]decodeState
	warnings []string
}

type decodeState struct {
	at      float64
	end     int64
	prefill bool // a prefill came since
	idle    bool // the line itself said that nothing was running
	any     bool
}

// idleGap is the pause between two decode lines, in seconds, that is taken for
// idling whatever the speed: stamps have a resolution of one second.
const idleGap = 30

func (r *sglangReader) read(e *entry, c *collector, run int) bool {
	if head := rePrefillHead.FindString(e.msg); head != "" {
		r.seen = true
		pairs, _ := fieldPairs(e.msg[len(head):])
		if e.torn || !complete(pairs, e.terminated, "#running-req") {
			r.tear(e)
			return true
		}
		r.mark(e, func(s *decodeState) { s.prefill = true })
		r.prefills = append(r.prefills, prefillLine(e, pairs))
		for _, p := range pairs {
			if m, ok := prefillKeys[p.key]; ok {
				if f, ok := parseNumber(p.value, 0); ok {
					c.add(e, run, sourceServer, m.name, m.unit, Number(f))
				}
			}
		}
		return true
	}
	head := reDecodeHead.FindString(e.msg)
	if head == "" {
		return false
	}
	r.seen = true
	pairs, cut := fieldPairs(e.msg[len(head):])
	if e.torn || !complete(pairs, e.terminated || !cut, "gen throughput (token/s)", "#queue-req") {
		r.tear(e)
		return true
	}
	r.decode(e, c, run, pairs)
	return true
}

// complete says whether a record has the fields that all versions print, the
// last of them whole.
func complete(pairs []fieldPair, whole bool, need ...string) bool {
	if len(pairs) == 0 {
		return false
	}
	for _, k := range need {
		i := indexKey(pairs, k)
		if i < 0 || pairs[i].value == "" {
			return false
		}
	}
	if whole {
		return true
	}
	// Without a newline the last number may be short of digits; the word
	// after it would have told. A queue length as last field of a new version
	// is a small whole number, and more than that is not known.
	last := pairs[len(pairs)-1]
	return last.key == "#queue-req" && last.value != ""
}

func indexKey(pairs []fieldPair, key string) int {
	for i, p := range pairs {
		if p.key == key {
			return i
		}
	}
	return -1
}

func (r *sglangReader) tear(e *entry) {
	r.torn++
	r.cutLast = r.cutLast || !e.terminated
}

func (r *sglangReader) decode(e *entry, c *collector, run int, pairs []fieldPair) {
	d := DecodeLine{Line: e.num, Offset: e.start, End: e.end, At: e.at, Rank: e.rank, Server: e.server(), Run: run,
		RunningReq: nan, Tokens: nan, GenThroughput: nan, AcceptLen: nan}
	for _, p := range pairs {
		switch p.key {
		case "cpu graph", "npu graph", "cuda graph":
			c.add(e, run, sourceServer, "cuda_graph", "word", Word(p.value))
			continue
		case "#token", "#full token":
			if f, ok := parseNumber(p.value, 0); ok {
				d.Tokens = f
			}
			continue
		}
		m, ok := decodeKeys[p.key]
		if !ok {
			continue
		}
		f, ok := parseNumber(strings.TrimSuffix(p.value, "%"), 0)
		if !ok {
			continue
		}
		c.add(e, run, sourceServer, m.name, m.unit, Number(f))
		switch m.name {
		case "accept_len":
			d.AcceptLen = f
		case "gen_throughput":
			d.GenThroughput = f
		case "running_req":
			d.RunningReq = f
		}
	}
	r.mark(e, func(s *decodeState) {
		gap := e.at - s.at
		d.Since = s.end
		d.Burst = !s.any || s.prefill || s.idle || e.at != 0 && s.at != 0 && (gap > idleGap || gap < 0)
		if e.at != 0 && s.at != 0 && gap < -3600 && e.at > 1e9 {
			r.warnings = append(r.warnings, warnAt(e.num, "the clock of this decode line is far behind the one before it: check whether it belongs to this log"))
		}
		s.any, s.at, s.end, s.prefill, s.idle = true, e.at, e.end, false, d.RunningReq == 0
	})
	r.lines = append(r.lines, d)
}

func (r *sglangReader) mark(e *entry, f func(*decodeState)) {
	key := e.stream
	key.pid = ""
	if r.prev == nil {
		r.prev = map[stream]decodeState{}
	}
	s := r.prev[key]
	f(&s)
	r.prev[key] = s
}
