package experiments

import (
	"context"
	"io"
	"net/http"
	"time"

	"specrun/deploy/server"
	"specrun/experiments/bench"
	"specrun/experiments/engine"
	"specrun/experiments/record"
)

// Recorder keeps what happens. Every call is durable when it returns. Package
// store has the real one; recordertest has its contract and one in memory.
// Calls come from one goroutine at a time, Claim apart.
type Recorder interface {
	// Begin stores a sweep with all its cells and slots.
	Begin(ctx context.Context, p record.SweepPlan) error
	// Extend adds cells and slots to a sweep, and closes the slots without a result
	// of the cells closed: all or nothing. What is there already stays as it is, a
	// slot that is added again is open again, and of closed ids unknown ones are none.
	Extend(ctx context.Context, sweepID string, cells []record.Cell, slots []record.Slot, closed ...string) error
	// Record stores an event and what it changes, together or not at all.
	Record(ctx context.Context, e record.Event, c record.Change) error
	// View reads all that is known of a sweep.
	View(ctx context.Context, sweepID string) (record.SweepView, error)
	// Claim makes controller the one that works on the sweep until expiresUs, or
	// prolongs its claim; expiresUs 0 gives it up. An error that is a
	// ClaimHolder says that another one has a claim that has not expired.
	Claim(ctx context.Context, sweepID, controller string, expiresUs int64) error
	// Cut makes an active sweep of which no launch was ever begun interrupted, at
	// atUs. Any other stays as it is: its journal says how it stands.
	Cut(ctx context.Context, sweepID string, atUs int64) error
	// Attach keeps a file with a run, or with a launch when RunID is "". The same
	// name again replaces it.
	Attach(ctx context.Context, a record.Artifact, content io.Reader) (record.Artifact, error)
	// Kept opens what was attached, by the hash of its content, and says how many
	// bytes that has.
	Kept(ctx context.Context, sha256 string) (io.ReadCloser, int64, error)
}

// ClaimHolder is an error that knows who holds the claim on a sweep.
type ClaimHolder interface {
	error
	Holder() (controller string, expiresUs int64)
}

// Source plans launches from what was measured so far. Next is called again
// after each launch; none left ends the sweep. A launch's runs whose slots are
// filled are not measured again. Next must not keep results.
type Source interface {
	Next(ctx context.Context, results []record.Result) ([]PlannedLaunch, error)
}

// Host is one machine as the executor uses it. Connect makes a real one. All
// its calls block until done or until ctx ends, and report a lost connection as
// an error that remote's sentinels match.
type Host struct {
	Name    string
	Leases  Leases
	Patcher Patcher
	Server  Server
	Bench   Bench
	Prober  Prober
	Foreign Foreign // nil: this host has none that could be dealt with
	// Containers are those on the host; nil: none can be entered. Leave goes back to
	// the host around the container that this one is; nil: it is none.
	Containers Containers
	Leave      func() *Host
	Close      func() error
}

// Leases keep two controllers from one port or GPU, see package server.
type Leases interface {
	Acquire(ctx context.Context, q server.LeaseRequest) (server.Grant, error)
	Refresh(ctx context.Context, names []string, owner server.Owner, ttl time.Duration) error
	// Leave renews no more: names hold as long as the launch's server lives.
	Leave(ctx context.Context, names []string, owner server.Owner) error
	// Release gives names back; nil is everything that owner has.
	Release(ctx context.Context, names []string, owner server.Owner) error
	// Last gives owner the patch sets for itself alone when nobody else has a share
	// in them, else it gives up owner's shares and other is one who has.
	Last(ctx context.Context, names []string, owner server.Owner, ttl time.Duration) (other *server.Lease, err error)
	// Met lists the launches that were on the host while the one with this port was.
	Met(ctx context.Context, port int) ([]string, error)
	// Reclaim releases what owner's controller left; what another one goes on with
	// stays.
	Reclaim(ctx context.Context, names []string, owner server.Owner) error
}

// Where names the interpreter whose files patches go into.
type Where struct {
	Python string
	Cwd    string
	Env    map[string]string
	Engine string // that it is to have; "" any
}

// PatchState is what is deployed for one interpreter.
type PatchState struct {
	Patches []PatchRef    `json:"patches"` // in the order of the stack
	Files   []PatchedFile `json:"files"`
	// Unsound says why the files are not what the ledger says; "" when they are.
	Unsound string `json:"unsound,omitempty"`
	// Open says that a change was cut off half way, so that what is deployed is
	// not settled: Recover settles it.
	Open          bool   `json:"open,omitempty"`
	EngineVersion string `json:"engine_version,omitempty"`
	// Engines are the versions of those that the interpreter sees.
	Engines       map[string]string `json:"engines,omitempty"`
	PythonVersion string            `json:"python_version,omitempty"`

	// looked are the patches, by content, whose targets were looked for; nil: all.
	looked []string
}

// VersionOf is that of an engine; "" when the interpreter does not see it.
func (s PatchState) VersionOf(engine string) string {
	if len(s.Engines) == 0 {
		return s.EngineVersion
	}
	return s.Engines[engine]
}

// PatchedFile is one file that patches change or could change.
type PatchedFile struct {
	Path     string `json:"path"`
	SHA256   string `json:"sha256"`
	Pristine string `json:"pristine_sha256,omitempty"`
	Verdict  string `json:"verdict"`
	// PristineVerdict is what it was before specrun's first change; "" unknown.
	PristineVerdict string   `json:"pristine_verdict,omitempty"`
	Patches         []string `json:"patches,omitempty"`

	// By content: the patches on it, and those that have it as a target and may
	// fit it.
	stack, targetOf []string
}

// Patcher establishes patch sets.
type Patcher interface {
	// Current reads what is deployed and changes nothing.
	Current(ctx context.Context, w Where) (PatchState, error)
	// Recover finishes or undoes every change that was cut off half way.
	Recover(ctx context.Context, w Where) error
	// Ensure makes exactly set deployed, in its order, as one transaction. It
	// recovers first.
	Ensure(ctx context.Context, w Where, set []PatchRef) (PatchState, error)
}

// Server runs server processes, see package server.
type Server interface {
	// Marks lists the stops that could not be proved: while there is one nothing is
	// started.
	Marks(ctx context.Context) ([]server.Mark, error)
	Start(ctx context.Context, l server.Launch) (server.Identity, error)
	Look(ctx context.Context, launch string) (server.State, error)
	// LookClosely is Look with who listens on port and, with used, what the
	// processes have used.
	LookClosely(ctx context.Context, launch string, port int, used bool) (server.State, error)
	// Autopsy reads what the host knows about the end of a launch's processes.
	Autopsy(ctx context.Context, launch string) (server.Death, error)
	WaitReady(ctx context.Context, st server.State, port int, r server.Readiness, o server.ReadyOptions) (server.Ready, error)
	Stop(ctx context.Context, launch string) (server.Proof, error)
	Environ(ctx context.Context, id server.Identity) (map[string]string, error)
	// ReadAt reads from a growing file; n is 0 at its end, size its length.
	ReadAt(ctx context.Context, path string, p []byte, off int64) (n int, size int64, err error)
	// Client makes HTTP requests as seen from the host.
	Client() *http.Client
}

// BenchState is how far a detached benchmark is.
type BenchState string

// States of a benchmark.
const (
	BenchAbsent  BenchState = "absent"
	BenchRunning BenchState = "running"
	BenchDone    BenchState = "done" // its report is there
	BenchDead    BenchState = "dead" // it ended without one
)

// BenchJob is one load on a server. Dir names it: relative to the launch's
// folder on the host, never used twice.
type BenchJob struct {
	Launch  string
	Dir     string
	BaseURL string
	Model   string
	LogPath string // of the server, for the cursors
	Warm    bool   // the warm-up requests only
	// LogEvery is how often the server prints by the clock, see bench.Job.
	LogEvery time.Duration
	Plan     BenchPlan
	// Watch is what the worker looks at on the host meanwhile; nil: nothing.
	Watch *bench.Watch
}

// BenchReport is what a load measured.
type BenchReport struct {
	StartUs, EndUs   int64 // clock of the machine that ran it
	LogStart, LogEnd int64 // byte cursors in the server's log
	Completed        int
	Failed           int
	Stalled          bool
	FirstError       string // of a failed request
	PromptsSHA       string
	OutputsSHA       string
	Warmup           *bench.Warmup // of a load that warmed up; nil: it did not
	Raw              []byte        // the whole report as JSON, kept as an artifact
}

// BenchProgress is one look at a load.
type BenchProgress struct {
	State  BenchState
	Detail string // for people: 3 of 16 requests; why it died
	// Silent is for how long no token has come while requests ran; 0 unknown.
	Silent time.Duration
	Ending bool         // every request was answered: it ends within moments
	Report *BenchReport // when done
}

// Bench loads a server with a benchmark that outlives the connection.
type Bench interface {
	// Prepare finds out whether a plan's load can be made at all, and brings what
	// it needs to the host, before a server is started for it.
	Prepare(ctx context.Context, p BenchPlan) error
	// Start begins the job once, however often it is called.
	Start(ctx context.Context, j BenchJob) error
	Poll(ctx context.Context, j BenchJob) (BenchProgress, error)
	// Stop ends it; nothing of it is left. May be repeated.
	Stop(ctx context.Context, j BenchJob) error
}

// Prober reads what else could explain a number. It changes nothing on a host.
type Prober interface {
	// Facts are those that stay while a host runs: kernel, CPU, GPUs, driver.
	Facts(ctx context.Context, w Where) ([]record.Fact, error)
	// Launch reads, by one script with at most one start of the interpreter, what
	// may be otherwise at the next launch: packages, the engine's files, the
	// model's, settings of GPUs and CPUs, who else uses them. It may run beside
	// the other calls.
	Launch(ctx context.Context, q LaunchQuery) (LaunchProbe, error)
}

// LaunchQuery is what the facts of a launch are asked about.
type LaunchQuery struct {
	Where   Where
	Engine  string        // package that serves; "" for none
	Patched []PatchedFile // counted as before their patch while they are as the ledger says
	Models  []ModelFiles
	PID     int // of the server; 0 unknown
	Session int // of the server; 0 unknown
}

// ModelFiles is a model as the server was told to load it.
type ModelFiles struct {
	What     string // model or draft
	Path     string // folder on the host, or a name of the hub
	Revision string
}

// LaunchProbe is what was found.
type LaunchProbe struct {
	Facts []record.Fact
	// Diff is that of an editable engine's working copy; nil when there is none,
	// or it is too long to keep.
	Diff []byte
}

// Engine is what is particular to an engine.
type Engine interface {
	Renderer
	// Readiness is fresh for each launch.
	Readiness(c ServerConfig) server.Readiness
	// Check reads the effective configuration of a ready server back. startLog is
	// called only when the server does not tell it itself.
	Check(ctx context.Context, client *http.Client, baseURL string, c ServerConfig, startLog StartLog) (Checked, error)
	// CrashIn finds why a server died in the end of its log; nil when it does
	// not say.
	CrashIn(tail []byte) *server.Crash
}

// StartLog reads what a server wrote to its log until it was ready; a long one
// from its beginning.
type StartLog = engine.StartLog

// Checked is what a ready server says of itself.
type Checked struct {
	Model     string            `json:"model"` // the name requests use
	Version   string            `json:"version,omitempty"`
	Effective map[string]string `json:"effective,omitempty"`
	// Mismatches are flags that the server runs with, but not as asked.
	Mismatches []Mismatch `json:"mismatches,omitempty"`
	// Simulated says why the numbers are not real; "" when they are.
	Simulated string `json:"simulated,omitempty"`
	// AcceptanceSimulated says that the engine draws how much is accepted: its
	// text means nothing then.
	AcceptanceSimulated bool `json:"acceptance_simulated,omitempty"`
}

// Mismatch is one flag with what was asked and what the server runs with.
type Mismatch struct {
	Flag      string `json:"flag"`
	Asked     string `json:"asked"`
	Effective string `json:"effective"`
	Rule      string `json:"rule,omitempty"` // why the server does that, when it is known
}

func (m Mismatch) String() string {
	text := m.Flag + ": asked " + m.Asked + ", runs with " + m.Effective
	if m.Rule != "" {
		text += " (" + m.Rule + ")"
	}
	return text
}

// Window is what a run left behind, to be measured.
type Window struct {
	Cell     Cell
	Report   BenchReport
	Log      []byte // of the server, whole lines between the report's cursors
	LogStart int64  // offset of Log in the file
	// LogCut says what of Log is missing, "" when nothing is known to be.
	LogCut string
	// DiedAfter says how the server ended behind the last response; "" when it
	// lived on.
	DiedAfter string
	Checked   Checked
	Patches   PatchState
	Alive     bool // the server ran at the end
	// Warmup is how the server was warmed up before; nil: it was not.
	Warmup *bench.Warmup
	// Beside are other launches on the host, on other GPUs, in words.
	Beside []string
	// PromptsSHA and OutputsSHA are those of the sweep's first run, and of its
	// first run with the same speculative shape; "" when this is that run.
	PromptsSHA string
	OutputsSHA string
	// BaselineRequests are those of the sweep's first baseline run, with their
	// greedy outputs; nil when there was none yet, or this is it.
	BaselineRequests []bench.Request
	// Announced are the patches that said so in the log when the server became
	// ready, by name, version and the beginning of their hash.
	Announced []PatchRef
}

// Collector turns a window into numbers, labels and checks. It is pure.
type Collector func(w Window) (record.RunData, error)
