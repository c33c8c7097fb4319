package experiments

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"specrun/experiments/record"
)

// HostConfig is what the hosts file says of a machine, as far as a server on it
// depends on it. Paths are on the host.
type HostConfig struct {
	Name     string            `json:"name"`
	Python   string            `json:"python,omitempty"` // used when the spec has none
	Cwd      string            `json:"cwd,omitempty"`    // used when the spec has none
	StateDir string            `json:"state_dir,omitempty"`
	Env      map[string]string `json:"env,omitempty"` // below env_file and the spec's env
}

// PatchRef names one patch exactly, with what it asks of the server's
// environment.
type PatchRef struct {
	Name    string            `json:"name"`
	Version string            `json:"version"`
	SHA256  string            `json:"sha256"` // of the patch's whole content
	Probe   string            `json:"probe,omitempty"`
	Prints  bool              `json:"prints,omitempty"` // rows in the server's log
	Env     map[string]string `json:"env,omitempty"`
	Folder  string            `json:"folder,omitempty"` // that it was read from, when its name alone does not lead there
}

// ServerFlag is a flag with its values computed; Kind is one of the kinds of
// package engine.
type ServerFlag struct {
	Name   string   `json:"name"`
	Kind   string   `json:"kind"`
	Values []string `json:"values,omitempty"`
}

// ServerConfig is everything that makes one server: two cells with an equal one
// can share a launch.
type ServerConfig struct {
	Engine   string            `json:"engine"`
	Python   string            `json:"python"`
	Cwd      string            `json:"cwd,omitempty"`
	GPUs     []int             `json:"gpus,omitempty"` // empty = all
	Port     int               `json:"port,omitempty"` // 0 = auto
	Prefix   []string          `json:"prefix,omitempty"`
	Flags    []ServerFlag      `json:"flags,omitempty"`
	Args     []string          `json:"args,omitempty"`
	HostEnv  map[string]string `json:"host_env,omitempty"`
	Env      map[string]string `json:"env,omitempty"`     // of patches and spec
	Secrets  map[string]string `json:"secrets,omitempty"` // variable -> variable of the controller
	EnvFile  string            `json:"env_file,omitempty"`
	LoginEnv bool              `json:"login_env,omitempty"`
	Patches  []PatchRef        `json:"patches,omitempty"`
	Launch   LaunchConfig      `json:"launch,omitzero"`
	Attach   *AttachConfig     `json:"attach,omitempty"`
	Command  []string          `json:"command,omitempty"` // of engine command
	Ready    ReadyConfig       `json:"ready,omitzero"`
	Read     []ReadRule        `json:"read,omitempty"` // of its log
}

// Cell is one combination of values with all that it means.
type Cell struct {
	Ord      int           `json:"ord"`
	Key      string        `json:"key"` // see record.Cell
	Params   record.Params `json:"params"`
	Baseline bool          `json:"baseline"`
	Server   ServerConfig  `json:"server"`
	Bench    BenchPlan     `json:"bench"`
	Arm      string        `json:"arm,omitempty"` // of an A/A sweep: a or b, equal otherwise
	argv     []string      // canonical; for merging and the key
	unused   []string      // variables that the engine does not read
	notes    []string      // of the engine's release: what was translated,
	changes  []string      // and what runs otherwise than asked
	combo    combination   // that it was built from, and
	off      bool          // whether without speculation; for its quote
}

// Dropped is a combination that a rule excludes.
type Dropped struct {
	Cell   string        `json:"cell"`
	Params record.Params `json:"params"`
	Rule   string        `json:"rule"`
}

// Merged is a combination that gives the very server and benchmark of another.
type Merged struct {
	Cell   string        `json:"cell"`
	Params record.Params `json:"params"`
	Into   int           `json:"into"` // ord of the cell that stands for both
	Why    string        `json:"why"`
}

// Renderer turns a server's configuration into a command line. Engines adapts
// package engine to it.
type Renderer interface {
	// Argv is the whole command without prefix, listening on port.
	Argv(c ServerConfig, port int) ([]string, error)
	// Canonical is an Argv that is equal for servers which the engine makes
	// equal, whatever their port or the order of their flags.
	Canonical(c ServerConfig) ([]string, error)
	// Shell is a line to paste into a shell on the host that starts argv.
	Shell(argv []string, env map[string]string, cwd string) string
	// WithoutSpeculation says what else the engine changes when speculation is
	// off; "" when nothing is known.
	WithoutSpeculation() string
}

// Options is what the command line and the hosts file add to a spec.
type Options struct {
	Axes          []Axis
	Single        bool // specrun run: no axes from the spec, no baseline, one cell
	NoBaseline    bool
	AA            bool // each cell twice, as arms a and b, see armsOf
	Host          HostConfig
	Python        string // of --python; before spec and host
	Rounds        int    // 0 = the spec's
	Repeats       int    // 0 = the spec's
	EngineVersion string // part of a cell's key; "" when the host was not asked
	Patches       func(name string) (PatchRef, error)
	Renderer      Renderer
	Timing        Timing // for the estimate; zero = a guess
}

// Timing is what a launch takes beside its runs, and what a run takes, for the
// plan's estimate.
type Timing struct {
	Launch, Run time.Duration
	Basis       string // where that comes from; "" is earlier sweeps
}

// Experiment is a spec joined with its options: all cells, no order of launches
// yet.
type Experiment struct {
	Spec    *Spec
	Kind    string // see Plan.Kind
	Host    HostConfig
	Single  bool
	Rounds  int
	Repeats int
	Cells   []Cell // the baseline first
	Quotes  []Quote
	Dropped []Dropped
	Merged  []Merged
	Notes   []string

	renderer Renderer
	timing   Timing
}

// maxCells bounds the product of all axes.
const maxCells = 100_000

// Resolve computes every cell. It asks no host. Errors are *SpecError,
// *ArgError, *CellError or what o.Patches and o.Renderer return.
func Resolve(s *Spec, o Options) (*Experiment, error) {
	axes := o.Axes
	if len(axes) == 0 && !o.Single {
		axes = specAxes(s)
	}
	if _, taken := s.param(armKey); taken && o.AA {
		return nil, &SpecError{File: s.File, Field: "params." + armKey, Msg: "an A/A sweep names its arms so", Advice: "give the param another name"}
	}
	bound, err := bindAxes(s, axes)
	if err != nil {
		return nil, err
	}
	total := 1
	for _, a := range bound {
		if total *= len(a.Rows); total > maxCells {
			return nil, &ArgError{Arg: a.Arg, Msg: fmt.Sprintf("more than %d cells", maxCells), Advice: "sweep fewer values at a time"}
		}
	}
	if o.Single && total > 1 {
		return nil, &ArgError{Arg: bound[0].Arg, Msg: fmt.Sprintf("%d cells, but run measures one", total), Advice: "use specrun sweep"}
	}
	b := &cellBuilder{spec: s, opts: o, exprs: newExpressions(s.exprNames()), refs: map[string]PatchRef{}}
	if b.order, err = s.paramOrder(); err != nil {
		return nil, err
	}
	e := &Experiment{Spec: s, Kind: KindSweep, Host: o.Host, Single: o.Single, Rounds: positive(o.Rounds, s.Rounds), Repeats: positive(o.Repeats, s.Repeats),
		renderer: o.Renderer, timing: o.Timing}
	if err := checkAttach(s, o, bound); err != nil {
		return nil, err
	}
	e.attached()
	combos := combinations(bound)
	if s.Baseline != nil && !o.NoBaseline && !o.Single {
		if err := e.addBaselines(b, bound, combos); err != nil {
			return nil, err
		}
	}
	for _, c := range combos {
		if err := e.addCell(b, c); err != nil {
			return nil, err
		}
	}
	if len(e.Cells) == 0 || len(e.Cells) == e.baselines() && len(e.Merged) == 0 {
		return nil, e.nothingLeft()
	}
	if err := refuseSecretParams(e.Cells); err != nil {
		return nil, err
	}
	switch {
	case o.AA:
		e.Kind = KindAA
		e.inArms()
	case o.Single:
		e.Kind = KindRun
		fallthrough
	default:
		if err := e.addQuotes(b); err != nil {
			return nil, err
		}
	}
	return e, nil
}

func positive(v, otherwise int) int {
	if v > 0 {
		return v
	}
	return otherwise
}

// specAxes are the params with values, for a sweep that names no keys.
func specAxes(s *Spec) []Axis {
	var axes []Axis
	for _, p := range s.Params {
		if len(p.Values) == 0 {
			continue
		}
		a := Axis{Arg: "params." + p.Name + ".values", Keys: []string{p.Name}}
		for _, v := range p.Values {
			a.Rows = append(a.Rows, []Scalar{v})
		}
		axes = append(axes, a)
	}
	return axes
}

// addBaselines adds the baseline cell; with bench axes one for each of their
// combinations, since a comparison must load both servers alike. Pinned keys
// count for the baseline too; what varies stays at its default.
func (e *Experiment) addBaselines(b *cellBuilder, axes []boundAxis, combos []combination) error {
	pinned := map[string]bool{}
	for _, a := range axes {
		for _, k := range a.keys {
			pinned[k.key] = a.Pin()
		}
	}
	for _, c := range combos {
		kept := c.only(func(k boundKey) bool { return k.kind == axisBench || pinned[k.key] && k.kind != axisPatches })
		cell, err := b.build(kept, true)
		if err != nil {
			return err
		}
		cell.Baseline = true
		cell.combo, cell.off = kept, true
		cell.Params = kept.only(func(k boundKey) bool { return k.kind == axisBench }).params()
		if e.find(cell) < 0 {
			e.add(cell)
		}
	}
	return nil
}

func (e *Experiment) addCell(b *cellBuilder, c combination) error {
	off, err := b.speculationOff(c)
	if err != nil {
		return err
	}
	if !off {
		rule, err := b.droppedBy(c)
		if err != nil {
			return err
		}
		if rule != "" {
			e.Dropped = append(e.Dropped, Dropped{Cell: c.String(), Params: c.params(), Rule: rule})
			return nil
		}
	}
	cell, err := b.build(c, off)
	if why := impossible(err); why != "" && !e.Single {
		e.Dropped = append(e.Dropped, Dropped{Cell: c.String(), Params: c.params(), Rule: why})
		return nil
	}
	if err != nil {
		return err
	}
	cell.Params = c.params()
	cell.combo, cell.off = c, off
	if into := e.find(cell); into >= 0 {
		why := "the same server and benchmark"
		if e.Cells[into].Baseline {
			why = "no speculation: the baseline"
		} else if more := whyEqual(e.Cells[into], cell); more != "" {
			why += ": " + more
		}
		e.Merged = append(e.Merged, Merged{Cell: c.String(), Params: cell.Params, Into: into, Why: why})
		return nil
	}
	e.add(cell)
	return nil
}

func (e *Experiment) add(c Cell) {
	e.take(c)
	c.Ord = len(e.Cells)
	e.Cells = append(e.Cells, c)
}

func (e *Experiment) find(c Cell) int {
	return slices.IndexFunc(e.Cells, func(o Cell) bool { return o.Key == c.Key })
}

func (e *Experiment) baselines() int {
	n := 0
	for _, c := range e.Cells {
		if c.Baseline {
			n++
		}
	}
	return n
}

func (e *Experiment) nothingLeft() error {
	rules := map[string]bool{}
	for _, d := range e.Dropped {
		rules[d.Rule] = true
	}
	return &SpecError{File: e.Spec.File, Field: "where",
		Msg:    fmt.Sprintf("no cell is left: all %d are dropped by %s", len(e.Dropped), strings.Join(sortedKeys(rules), " and ")),
		Advice: "choose other values or change the rules"}
}
