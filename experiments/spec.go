package experiments

import (
	"time"
)

// Spec is an experiment file as written: defaults filled, nothing expanded.
// Templates (${...}) are checked when it is loaded and computed for each cell.
// It is a plain value; copies share their slices and must not be changed.
type Spec struct {
	File      string // as given to LoadSpec, for messages
	Name      string
	Hosts     []string
	Patches   []string
	Server    ServerSpec
	Params    []Param // in the order of the file
	Where     []Rule
	Baseline  *Baseline // nil: the sweep has none
	Bench     []Entry   // in the order of the file, only what is set
	Objective string
	Repeats   int // runs within one launch
	Rounds    int // launches per cell
	Order     Order
	After     After
	Limits    Limits
}

// Pos is a place in the file, from 1; zero when the value is not from a file.
type Pos struct{ Line, Column int }

// ServerSpec is the server block.
type ServerSpec struct {
	Engine    string
	Launch    string // one of the Launch constants
	Container ContainerSpec
	Unit      UnitSpec
	Commands  CommandsSpec
	Attach    *AttachSpec // nil: the server is started by specrun
	Command   []Entry     // of engine command: the program and its arguments
	Python    string      // "" = the host entry's
	Cwd       string
	GPUs      []int // nil = all
	Port      int   // 0 = auto
	Prefix    []Entry
	Flags     []Flag
	Args      []Entry
	Env       []EnvVar
	EnvFile   string
	LoginEnv  bool
	Ready     Ready
	Read      []ReadRule // of the server's log
	// StopGrace is the time between SIGTERM and SIGKILL; 0 = the default of package
	// server.
	StopGrace time.Duration
}

// Ready bounds the time a server takes to become ready.
type Ready struct {
	Timeout time.Duration // of the whole start
	Stall   time.Duration // without any sign of progress
	// How the server of engine command says that it serves.
	Marker string
	URL    string
}

// Flag is one server flag, named without its dashes.
type Flag struct {
	Name  string
	Value Value
	Pos   Pos
}

// EnvVar is one variable of the server's environment: a value (null removes
// it), or a reference to a secret in the controller's environment.
type EnvVar struct {
	Name  string
	Value Scalar
	From  string // name of the controller's variable; "" = Value counts
	Pos   Pos
}

// Entry is a named or listed scalar that may hold a template.
type Entry struct {
	Name  string // "" in a list
	Value Scalar
	Pos   Pos
}

// Param is one parameter: what a sweep may vary.
type Param struct {
	Name    string
	Values  []Scalar // the axis of a sweep that names no keys; nil = none
	Default Scalar   // may be a template over other params
	Help    string
	Pos     Pos
}

// Rule is an expression over the params that a cell must fulfil.
type Rule struct {
	Expr string
	Pos  Pos
}

// Baseline says what the baseline cell changes.
type Baseline struct {
	Flags      []Flag   // names may be globs: speculative-*
	Patches    []string // replaces the patch set, when HasPatches
	HasPatches bool
	Pos        Pos
}

// Limits bounds a run.
type Limits struct {
	Run time.Duration // of warm-up, benchmark and collection together; 0 = none
}

// Order says how rounds of launches are arranged.
type Order string

// Orders of launches.
const (
	OrderInterleave Order = "interleave" // all cells, then all cells again
	OrderGrid       Order = "grid"       // all rounds of a cell, then the next cell
)

// After says what stays when a sweep ends.
type After string

// What stays when a sweep ends.
const (
	AfterRestore After = "restore" // patches as found, and a server that specrun stopped and saved before
	AfterStop    After = "stop"    // patches as found, no server
	AfterKeep    After = "keep"    // the last cell's patches and server stay
	AfterBest    After = "best"    // patches as found; the best cell's server, without profilers
)

// Defaults of an experiment file.
const (
	defaultRepeats      = 3
	defaultRounds       = 1
	defaultReadyTimeout = 60 * time.Minute
	defaultReadyStall   = 20 * time.Minute
	defaultRunLimit     = time.Hour
	defaultObjective    = "output_throughput"
)

// ParamNames lists the params in the order of the file.
func (s *Spec) ParamNames() []string {
	names := make([]string, len(s.Params))
	for i, p := range s.Params {
		names[i] = p.Name
	}
	return names
}

func (s *Spec) param(name string) (Param, bool) {
	for _, p := range s.Params {
		if p.Name == name {
			return p, true
		}
	}
	return Param{}, false
}

func (s *Spec) flagNames() []string {
	names := make([]string, len(s.Server.Flags))
	for i, f := range s.Server.Flags {
		names[i] = f.Name
	}
	return names
}
