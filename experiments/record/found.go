package record

// RunView is all that is stored of one run.
type RunView struct {
	Sweep     Sweep
	Cell      Cell
	Slot      Slot
	Launch    Launch
	Run       Run
	Data      RunData
	Events    []Event    // of the whole launch, in the order in which they came
	Artifacts []Artifact // of the run and of its launch
}

// SweepRow is a sweep with its progress, as a list shows it.
type SweepRow struct {
	Sweep  Sweep // without Spec and Plan
	Cells  int
	Slots  int
	Done   int // slots with a run that is done
	Failed int // slots with a run that failed
	// Launches are those that were ever begun.
	Launches int
	Hosts    []string // that its launches used, sorted
}

// RunRow is a run as a list shows it.
type RunRow struct {
	SweepID   string
	SweepName string
	Kind      string // of the sweep
	Cell      Cell
	Slot      Slot
	Run       Run
	Metrics   []Metric
	Labels    []Label
}
