package metrics

import (
	"bytes"
	"encoding/json"
	"strings"
)

// ProfilerRow is one summary of a profiler: sums over the decode cycles that it
// counted. It comes from the profiler's JSON line, or from a text block of a
// profiler that prints no such line.
type ProfilerRow struct {
	Line        int
	Offset, End int64 // byte offsets of the summary; End is behind its last line

	TStart, TEnd  float64 // host clock, unix seconds; 0 in a text block
	Cycles        int     // counted cycles; 0 when a text block does not say
	WallMs        float64 // sum of the counted cycle intervals, ms
	CallMs        float64 // sum of the time inside the worker's call, ms; NaN unknown
	BatchSum      int     // requests summed over cycles; -1 unknown
	BatchMin      int
	BatchMax      int
	Tokens        int // tokens put out as the profiler counts them, see Bonus; -1 unknown
	Accepted      int // drafts accepted; -1 unknown
	Proposed      int // drafts proposed; -1 unknown
	RequestCycles int // requests x cycles over which Tokens are summed; -1 unknown
	Steps         int
	Context       float64 // mean sequence length over the cycles; NaN unknown
	Rank          int
	DPRank        int                // data-parallel rank, -1 when the server has one only
	Worker        string             // v1, v2
	Phases        map[string]float64 // draft, verify, extend, ...: ms summed over the cycles
	Skipped       map[string]int     // cycles not counted, by reason
	Profiler      string
	Version       string
	Hash          string
	PhaseKind     string // what the phase times are: "launch" when nothing waits for the device
	Bonus         bool   // Tokens count the bonus token
	Partial       bool   // flushed before the interval was full

	// Text says that the row was read from a text block: TStart and TEnd are not
	// known, numbers are rounded as printed, and AcceptLen holds what it printed.
	Text      bool
	AcceptLen float64 // of a text block; NaN when absent
	// Rate is the tok/s that the text block printed, the one before a JSON line
	// too; NaN when it printed none.
	Rate   float64
	Stream map[string]string
	Run    int
}

// profileLine is the JSON line as the profiling patches write it.
type profileLine struct {
	Specrun       string             `json:"specrun"`
	Schema        int                `json:"schema"`
	Profiler      string             `json:"profiler"`
	Version       string             `json:"version"`
	Hash          string             `json:"hash"`
	Worker        string             `json:"worker"`
	Rank          int                `json:"rank"`
	DPRank        *int               `json:"dp_rank"`
	TStart        float64            `json:"t_start"`
	TEnd          float64            `json:"t_end"`
	Cycles        int                `json:"cycles"`
	WallMs        *float64           `json:"wall_ms"`
	CallMs        *float64           `json:"call_ms"`
	Phases        string             `json:"phases"`
	Bonus         *bool              `json:"bonus"`
	PhasesMs      map[string]float64 `json:"phases_ms"`
	BatchSum      *int               `json:"batch_sum"`
	BatchMin      *int               `json:"batch_min"`
	BatchMax      *int               `json:"batch_max"`
	Tokens        *int               `json:"tokens"`
	Accepted      *int               `json:"accepted"`
	Proposed      *int               `json:"proposed"`
	Steps         *int               `json:"steps"`
	RequestCycles *int               `json:"request_cycles"`
	Context       *float64           `json:"context"`
	Skipped       map[string]int     `json:"skipped"`
	Partial       bool               `json:"partial"`
}

// profileMark begins every JSON line of a profiler.
const profileMark = `{"specrun":`

// profileSchema is the newest version of the JSON line that is understood.
const profileSchema = 1

// jsonReader reads the profilers' JSON lines.
type jsonReader struct {
	bad      int
	badLines []int
	cutLast  bool
	newer    bool
	last     map[stream]profileKey
	dup      int
	warnings []string
}

type profileKey struct {
	start, end float64
	cycles     int
}

// read returns the row of a JSON line; used says whether the line was one.
func (r *jsonReader) read(e *entry, run int) (row *ProfilerRow, used bool) {
	i := strings.Index(e.msg, profileMark)
	if i < 0 || quotes(e.msg[:i]) {
		return nil, false
	}
	var p profileLine
	dec := json.NewDecoder(bytes.NewReader([]byte(e.msg[i:])))
	if err := dec.Decode(&p); err != nil || p.Cycles < 0 || p.WallMs == nil {
		if p.Specrun != "" && p.Specrun != "profile" {
			return nil, true
		}
		r.bad++
		r.badLines = append(r.badLines, e.num)
		r.cutLast = r.cutLast || !e.terminated
		return nil, true
	}
	if p.Specrun != "profile" {
		return nil, true
	}
	if p.Schema > profileSchema && !r.newer {
		r.newer = true
		r.warnings = append(r.warnings, warnAt(e.num, "profiler line of a newer schema: known fields are read"))
	}
	if e.rank == "" && p.DPRank != nil {
		e.rank = "DP" + itoa(*p.DPRank) // each rank serves requests of its own
	}
	key := profileKey{p.TStart, p.TEnd, p.Cycles}
	st := e.stream
	st.rank += "/" + p.Worker + "/" + itoa(p.Rank)
	if r.last == nil {
		r.last = map[stream]profileKey{}
	}
	if p.TEnd != 0 && r.last[st] == key {
		r.dup++
		r.warnings = append(r.warnings, warnAt(e.num, "this profiler line stands here a second time: counted once"))
		return nil, true
	}
	r.last[st] = key
	return p.row(e, run), true
}

func (p *profileLine) row(e *entry, run int) *ProfilerRow {
	return &ProfilerRow{
		Line: e.num, Offset: e.start, End: e.end, TStart: p.TStart, TEnd: p.TEnd, Cycles: p.Cycles,
		WallMs: orNaN(p.WallMs), CallMs: orNaN(p.CallMs), BatchSum: orMinus(p.BatchSum), BatchMin: orMinus(p.BatchMin), BatchMax: orMinus(p.BatchMax),
		Tokens: orMinus(p.Tokens), Accepted: orMinus(p.Accepted), Proposed: orMinus(p.Proposed), RequestCycles: orMinus(p.RequestCycles),
		Steps: orMinus(p.Steps), Context: orNaN(p.Context), Rank: p.Rank, DPRank: orMinus(p.DPRank), Worker: p.Worker, Phases: p.PhasesMs, Skipped: p.Skipped,
		Profiler: p.Profiler, Version: p.Version, Hash: p.Hash, Partial: p.Partial, PhaseKind: p.Phases, Bonus: p.Bonus == nil || *p.Bonus, AcceptLen: nan, Rate: nan, Run: run, Stream: e.stream.labels(),
	}
}

// fromBlock makes a row of a text block: means times cycles, so that rows sum
// alike whatever they were read from.
func fromBlock(b *block) ProfilerRow {
	n := float64(max(b.cycles, 1))
	r := ProfilerRow{
		Line: b.line, Offset: b.start, End: b.end, Cycles: b.cycles, CallMs: nan, BatchSum: -1, BatchMin: -1, BatchMax: -1,
		Tokens: -1, Accepted: -1, Proposed: -1, RequestCycles: -1, Steps: -1, Context: nan, Rank: max(rankNumber(b.stream.rank), 0), DPRank: -1,
		Text: true, AcceptLen: nan, Rate: b.printedRate(), Run: b.run, Stream: b.stream.labels(),
	}
	for _, row := range b.rows {
		switch {
		case row.metric == total:
			r.WallMs = row.value * n
		case row.metric == "cycle_call":
			r.CallMs = row.value * n
		case row.metric == "cycle_other", b.ambiguous:
		default:
			if r.Phases == nil {
				r.Phases = map[string]float64{}
			}
			r.Phases[strings.TrimPrefix(row.metric, "cycle_")] = row.value * n
		}
	}
	if f, ok := b.accept.Float(); ok && !b.ambiguous {
		r.AcceptLen = f
	}
	return r
}

// labels are the non-empty parts of a stream.
func (s stream) labels() map[string]string {
	m := map[string]string{}
	for k, v := range map[string]string{"file": s.file, "service": s.service, "pod": s.pod, "pid": s.pid, "rank": s.rank, "engine": s.engine} {
		if v != "" {
			m[k] = v
		}
	}
	return m
}

func orNaN(f *float64) float64 {
	if f == nil {
		return nan
	}
	return *f
}

func orMinus(i *int) int {
	if i == nil {
		return -1
	}
	return *i
}
