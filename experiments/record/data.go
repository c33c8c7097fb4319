package record

// Metric is one number of a run: a name and unit of the metric table, a value,
// and where it came from.
type Metric struct {
	Name   string  // cycle_total, accept_len, output_throughput, tpot_mean, ...
	Unit   string  // ms/cyc, tokens/step, tok/s, ms, ...
	Value  float64 // NaN when the source printed it so
	N      int     // how many raw readings it rests on
	Source string  // profiler, server_log, client, per_request, derived
}

// Sample is one raw reading.
type Sample struct {
	Seq    int // order within the run
	AtUs   int64
	Name   string
	Unit   string
	Value  float64
	Source string
	Labels map[string]string // rank, engine, ...: belongs to that series only
}

// Label limits the trust in a run's numbers. Names are those of the label table.
type Label struct {
	Name   string
	Reason string // the numbers behind it, one line
}

// Outcome of a trust check.
type Outcome string

// Outcomes of a check.
const (
	Pass         Outcome = "pass"
	Fail         Outcome = "fail"
	NotCheckable Outcome = "not checkable"
)

// TrustCheck is one cross-check with the numbers it compared.
type TrustCheck struct {
	Name        string
	Outcome     Outcome
	Left, Right float64 // the two numbers compared; NaN when there was none
	Explanation string  // one line
}

// Fact is one line of provenance. Groups: code, flags, env, patches, packages,
// host, gpu, workload, command.
type Fact struct {
	Group string
	Key   string
	Value string
}

// Artifact is a kept file of a run or launch: server log, benchmark report.
type Artifact struct {
	RunID    string // "" when it belongs to the launch
	LaunchID string
	Name     string // server.log, bench.json
	Path     string // absolute path on the controller, set by the store
	SHA256   string // lower-case hex, of the content
	Bytes    int64
}

// RunData is everything measured and known about one run.
type RunData struct {
	Metrics    []Metric
	Samples    []Sample
	Labels     []Label
	Checks     []TrustCheck
	Provenance []Fact
}

// SweepPlan is what begins a sweep in the store: all cells and slots at once.
type SweepPlan struct {
	Sweep Sweep
	Cells []Cell
	Slots []Slot
}

// SweepView is all that the store knows of a sweep, as resume reads it.
// Launches, Runs and Events are in the order in which they began.
type SweepView struct {
	Sweep    Sweep
	Cells    []Cell
	Slots    []Slot
	Launches []Launch
	Runs     []Run
	Events   []Event
	Data     map[string]RunData // by run id
	Artifact []Artifact
}

// CellFacts is what the labels of a cell, not of one of its runs, rest on.
type CellFacts struct {
	Runs     int // that are done
	Launches int // with a run that is done
	// BaselineMoved says how the baseline that the cell is compared with moved
	// during the sweep, for people; "" when it is not known to have moved.
	BaselineMoved string
}
