package trust

import (
	"fmt"
	"math"

	"specrun/experiments/record"
)

// Probe is how a patch set measures, and so disturbs.
type Probe string

// Probes of patches, from harmless to harmful.
const (
	ProbeNone   Probe = "none"
	ProbeLight  Probe = "light"  // wall clock, no synchronize
	ProbeEvents Probe = "events" // device events read later
	ProbeSync   Probe = "sync"   // waits for the device
)

// Mismatch is a setting that the server runs with, but not as asked.
type Mismatch struct{ Name, Asked, Effective string }

// Request is what one measured request tells.
type Request struct {
	// MsPerChunk is the time between two streamed chunks, over the positions that
	// all requests of the run have: a chunk is what one cycle yields, so neither
	// acceptance nor length matters. Of several requests at once only those within
	// the steady part have it, over times without a prefill. NaN unknown, or
	// failed.
	MsPerChunk   float64
	MsSilent     float64 // longest time between two chunks, without a prefill of another request; 0 unknown
	MsUsual      float64 // and their median
	Chunks       int     // streamed; 0 unknown
	HeadChunks   int     // of those, how many came in one go with the first one,
	MsHead       float64 // and how long they would have taken one by one
	PromptTokens int
	CachedTokens int // -1 unknown
	Failed       bool
}

// Warmup is how the server was warmed up.
type Warmup struct {
	Judged  bool // else a given number of requests was sent
	Settled bool
	Sent    int
	Spread  float64 // of the last two, a fraction; negative unknown
}

// Span is a part of the log in which profiler and server both have numbers.
type Span struct {
	Profiler, Server float64 // tok/s
	AcceptLen        float64 // of the profiler there
	Lines            int     // of the server
	RequestCycles    int     // of the profiler
}

// Difference is where greedy outputs first differ from those of the baseline.
type Difference struct {
	Same        bool
	Request, At int // index of the request, character in its output
}

// Cycles is what the profiler counted in the benchmark window.
type Cycles struct {
	Counted   int     // decode cycles whose interval was counted
	Mixed     int     // of those, not at the batch size that most have
	MeanBatch float64 // requests per cycle; 0 unknown

	// The same over the whole benchmark, ramp and drain too.
	WholeCounted, WholeMixed int
}

// Answer is what could be found out.
type Answer int

// Answers.
const (
	Unknown Answer = iota
	Yes
	No
)

// Input is all that is known of a run. Metrics have the names and sources of the
// metric table: cycle_total, cycle_draft, accept_len, tpot_mean, ... Zero fields
// mean unknown, and what rests on them is not checkable.
type Input struct {
	Concurrency int // asked for
	Steps       int // speculative steps; 0 = no speculation
	Metrics     []record.Metric
	Cycles      *Cycles // nil: no profiler
	Ramp        bool    // the profiler's rows are of ramp and drain, too
	// CyclesExpected says that somebody was to count cycles: a patch of the set
	// prints them, or rows of one are there.
	CyclesExpected bool
	// TotalUnstated is why it is not known what the metric cycle_total spans; ""
	// when it is the interval of a cycle.
	TotalUnstated string
	Requests      []Request

	LogInterval int   // decode cycles per line of the server log; 0 = the usual 40
	Span        *Span // nil: the same span could not be found in both
	Warmup      *Warmup

	Patches       []string // names of the patches that the server should have loaded
	PatchLive     Answer   // whether a sign of them was seen in the running server
	PatchEvidence string   // what PatchLive rests on
	Strangers     []string // profilers seen in the running server beside them
	Profilers     []string // all that printed in the window, with what tells them apart
	Probe         Probe    // the strongest of all these

	ConfigRead bool // whether the effective configuration could be read
	Mismatches []Mismatch

	SpeculationSigns []string // what tells that the server speculates
	Sums             *Sums    // nil: not both the log and the counters have drafts

	LogCut           string // what is missing of the server's log of the benchmark; "" for nothing
	DiedAfter        string // how the server ended behind the last response; "" when it lived on
	ServerAlive      Answer // the same process at the end of the benchmark
	CompiledInWindow Answer // kernels were compiled during the benchmark
	CompileEvidence  string
	PromptsSHA       string  // of the prompts sent
	SweepPromptsSHA  string  // of the sweep's first run
	OutputsSHA       string  // of the greedy outputs; "" when not greedy
	ShapeOutputsSHA  string  // of the first run of the same speculative shape
	Deterministic    bool    // batches do not change what a request gets
	ClientTokens     int64   // output tokens that the client counted
	ServerTokens     int64   // and the server; 0 unknown
	LogCached        int     // prompt tokens from the cache by the server log,
	LogPrompt        int     // of so many; 0 unknown
	ClientWatched    bool    // the client saw its own standstills
	ClientStalledMs  float64 // for so long it was not run,
	ClientMs         float64 // of so much time measured
	RunningMost      int     // requests that the server had at once, at most; 0 unknown
	PromptSent       int     // prompt tokens of all requests; 0 unknown
	ServerPrompt     int64   // and by the server's counter,
	LoggedPrompt     int     // and by its log; 0 unknown
	GPUSamples       int
	ThrottledSamples int
	ThrottleReasons  string
	Baseline         *Difference // nil: nothing to compare with
	Neighbours       []string    // processes not ours on the GPUs
	Beside           []string    // other launches on the host, on other GPUs
	NeighboursRead   bool        // none of them means that there was none
	PreEdited        []string    // target files with that verdict
	OnController     bool        // the benchmark ran on the controller
	Imported         bool
	Attached         bool   // somebody else runs the server
	SimulatedBecause string // "" = real
	// AcceptanceSimulated says that the engine draws how much is accepted, so that
	// the text it puts out means nothing.
	AcceptanceSimulated bool
}

// speculates says whether checks on cycles apply. A log need not say how many
// steps its server made.
func (in Input) speculates() bool { return in.Steps > 0 || in.Imported && in.Cycles != nil }

// Assess applies the rules of the label table and every check to one run.
// Labels come in the order of the table; a check is always listed, even when it
// is not checkable.
func Assess(in Input) (labels []record.Label, checks []record.TrustCheck) {
	checks = all(in)
	return assign(in, checks), checks
}

// AssessCell gives the labels that depend on all launches of a cell.
func AssessCell(c record.CellFacts) []record.Label {
	var out []record.Label
	switch {
	case c.Runs == 1:
		out = append(out, record.Label{Name: Single, Reason: "1 run"})
	case c.Launches >= 2 && c.Launches <= fewLaunchesMax:
		out = append(out, record.Label{Name: FewRounds, Reason: fmt.Sprintf("%d launches", c.Launches)})
	}
	if c.BaselineMoved != "" {
		out = append(out, record.Label{Name: Drift, Reason: c.BaselineMoved})
	}
	return out
}

// value finds a metric, of the first of the sources that has a finite one, or
// of any source when none is named.
func value(ms []record.Metric, name string, sources ...string) (float64, bool) {
	find := func(source string) (float64, bool) {
		for _, m := range ms {
			if m.Name == name && (source == "" || m.Source == source) && !math.IsNaN(m.Value) && !math.IsInf(m.Value, 0) {
				return m.Value, true
			}
		}
		return math.NaN(), false
	}
	if len(sources) == 0 {
		return find("")
	}
	for _, s := range sources {
		if v, ok := find(s); ok {
			return v, true
		}
	}
	return math.NaN(), false
}

// counted is value of one source, with how many readings it rests on.
func counted(ms []record.Metric, name, source string) (v float64, n int, ok bool) {
	for _, m := range ms {
		if m.Name == name && m.Source == source && !math.IsNaN(m.Value) && !math.IsInf(m.Value, 0) {
			return m.Value, m.N, true
		}
	}
	return math.NaN(), 0, false
}

// phases gives the phase times, without what is left over.
func phases(ms []record.Metric) map[string]float64 {
	out := map[string]float64{}
	for _, name := range []string{"cycle_draft", "cycle_verify", "cycle_extend"} {
		if v, ok := value(ms, name); ok {
			out[name] = v
		}
	}
	return out
}
