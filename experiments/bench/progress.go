package bench

// State of a benchmark on a host.
type State string

// States, as Poll tells them.
const (
	StateAbsent  State = "absent"  // nothing was started in this folder
	StateRunning State = "running" // the worker lives
	StateDone    State = "done"    // the report is there
	StateDead    State = "dead"    // the worker is gone and left no report
)

// Progress of a benchmark.
type Progress struct {
	State  State  `json:"state"`
	Phase  string `json:"phase"`
	Total  int    `json:"total"` // requests of this phase
	Done   int    `json:"done"`  // ended, failed ones included
	Failed int    `json:"failed"`
	Chunks int64  `json:"chunks"`  // pieces of text received so far
	LastUs int64  `json:"last_us"` // newest token, or the phase's start; the worker's clock
	AtUs   int64  `json:"at_us"`   // when this was written: a heartbeat

	Report *Report `json:"-"` // with StateDone, from Poll
	Log    string  `json:"-"` // the end of the worker's own output, with StateDead
}
