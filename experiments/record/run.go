package record

import "encoding/json"

// Params are the parameter values of a cell by name. Values are string, bool,
// int64 or float64.
type Params map[string]any

// SweepState is the life of a sweep.
type SweepState string

// States of a sweep.
const (
	SweepActive      SweepState = "active"      // begun, not known to have ended
	SweepDone        SweepState = "done"        // every slot filled, none failed
	SweepIncomplete  SweepState = "incomplete"  // ended with failed runs
	SweepInterrupted SweepState = "interrupted" // stopped early; resume continues it
)

// Sweep is one execution of an experiment. Spec and Plan are kept as the JSON
// they were resolved to, so that resume needs nothing but the store.
type Sweep struct {
	ID        string
	Name      string // the experiment's name
	Kind      string // sweep, run, import, ...: which command made it
	Spec      json.RawMessage
	Plan      json.RawMessage
	PlanSHA   string // lower-case hex SHA-256 of Plan
	State     SweepState
	CreatedUs int64 // microseconds since the epoch, UTC
	EndedUs   int64 // 0 while active
}

// Cell is one combination of parameter values in a sweep.
type Cell struct {
	ID       string
	SweepID  string
	Ord      int    // position in the plan, from 0; the baseline is first
	Key      string // SHA-256 of canonical argv, env, patches, benchmark, engine version
	Params   Params
	Baseline bool
}

// LaunchState is the life of one start of the server.
type LaunchState string

// States of a launch.
const (
	LaunchPlanned LaunchState = "planned"
	LaunchActive  LaunchState = "active"
	LaunchDone    LaunchState = "done"   // stopped with proof, all its runs ended
	LaunchFailed  LaunchState = "failed" // ended before all its runs were measured
	LaunchCut     LaunchState = "cut"    // its controller died; cleaned up by resume
)

// Launch is one start of the server on a host.
type Launch struct {
	ID       string
	SweepID  string
	Host     string
	Round    int
	Argv     []string
	Identity json.RawMessage // boot id, pid, start ticks of the server process; nil before start
	State    LaunchState
}

// Slot is the place a run has to fill. (CellID, Round, Repeat) is unique.
type Slot struct {
	ID     string
	CellID string
	Round  int  // from 0
	Repeat int  // from 0
	Closed bool // nobody fills it any more, see Recorder.Extend
}

// RunState is the life of one attempt at a slot.
type RunState string

// States of a run. A slot has at most one run that is done or failed.
const (
	RunActive     RunState = "active"
	RunDone       RunState = "done"
	RunFailed     RunState = "failed"     // a result: it has a class and a reason
	RunCut        RunState = "cut"        // its controller ended before the result was known
	RunSuperseded RunState = "superseded" // failed, then taken again by resume --retry-failed
)

// Class says why a run failed, in words stable enough to filter by.
type Class string

// Failure classes. Crash classes carry the kinds of the log samples.
const (
	ClassNone         Class = ""
	ClassPatch        Class = "patch"              // the patch set could not be established
	ClassPortInUse    Class = "port_in_use"        // somebody else listens on the port
	ClassGPUBusy      Class = "gpu_busy"           // somebody else holds a lease on the GPUs
	ClassExited       Class = "exited"             // the server process ended before it was ready
	ClassNotReady     Class = "not_ready"          // the ready timeout passed
	ClassStalled      Class = "start_stalled"      // starting, but no progress for the stall time
	ClassBenchStalled Class = "bench_stalled"      // no token for the stall time
	ClassBenchFailed  Class = "bench_failed"       // the benchmark ended without a result
	ClassServerDied   Class = "server_died"        // the process ended during the benchmark
	ClassRestarted    Class = "server_restarted"   // another server answers where ours did
	ClassUnreachable  Class = "server_unreachable" // nobody answers, though the process lives or should
	ClassOOMLoading   Class = "oom_loading"        // GPU memory ran out for the weights or the KV cache,
	ClassOOMCapture   Class = "oom_capture"        // while CUDA graphs were captured,
	ClassOOMRunning   Class = "oom_running"        // while requests ran
	ClassInternal     Class = "internal"
)

// Run is one attempt to measure one slot.
type Run struct {
	ID       string
	SlotID   string
	Attempt  int // from 1
	LaunchID string
	Host     string
	State    RunState
	Class    Class
	Reason   string // one or more lines for people: what, where, what next
	StartUs  int64
	EndUs    int64
}

// Result is a finished run with the plan's view of it, as the executor hands it
// to whoever plans the next launches.
type Result struct {
	Run  Run
	Cell Cell
	Slot Slot
	Data RunData // all of it, so that it is judged as a report judges it
}
