package experiments

import (
	"fmt"
	"maps"
	"path"
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
	Env     map[string]string `json:"env,omitempty"`
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
}

// Cell is one combination of values with all that it means.
type Cell struct {
	Ord      int           `json:"ord"`
	Key      string        `json:"key"` // see record.Cell
	Params   record.Params `json:"params"`
	Baseline bool          `json:"baseline"`
	Server   ServerConfig  `json:"server"`
	Bench    BenchPlan     `json:"bench"`
	argv     []string      // canonical; for merging and the key
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
	Host          HostConfig
	Python        string // of --python; before spec and host
	Rounds        int    // 0 = the spec's
	Repeats       int    // 0 = the spec's
	EngineVersion string // part of a cell's key; "" when the host was not asked
	Patches       func(name string) (PatchRef, error)
	Renderer      Renderer
	Timing        Timing // for the estimate; zero = a guess
}

// Timing is what earlier sweeps took, for the plan's estimate.
type Timing struct{ Start, Run time.Duration }

// Experiment is a spec joined with its options: all cells, no order of launches
// yet.
type Experiment struct {
	Spec    *Spec
	Host    HostConfig
	Single  bool
	Rounds  int
	Repeats int
	Cells   []Cell // the baseline first
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
	b := &cellBuilder{spec: s, opts: o, exprs: newExpressions(s.ParamNames()), refs: map[string]PatchRef{}}
	if b.order, err = s.paramOrder(); err != nil {
		return nil, err
	}
	e := &Experiment{Spec: s, Host: o.Host, Single: o.Single, Rounds: positive(o.Rounds, s.Rounds), Repeats: positive(o.Repeats, s.Repeats),
		renderer: o.Renderer, timing: o.Timing}
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
	if err != nil {
		return err
	}
	cell.Params = c.params()
	if into := e.find(cell); into >= 0 {
		why := "the same server and benchmark"
		if e.Cells[into].Baseline {
			why = "no speculation: the baseline"
		}
		e.Merged = append(e.Merged, Merged{Cell: c.String(), Params: cell.Params, Into: into, Why: why})
		return nil
	}
	e.add(cell)
	return nil
}

func (e *Experiment) add(c Cell) {
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

// cellBuilder computes cells of one spec.
type cellBuilder struct {
	spec  *Spec
	opts  Options
	exprs *expressions
	order []Param
	refs  map[string]PatchRef
}

// env computes the params of a combination.
func (b *cellBuilder) env(c combination) (cellEnv, error) {
	env := newCellEnv()
	// What is given first, so that derived defaults see it whatever the order.
	for _, p := range b.spec.Params {
		if v, ok := c.get(axisParam, p.Name); ok {
			env.set(p.Name, v)
		}
	}
	for _, p := range b.order {
		if _, given := env.scalars[p.Name]; given {
			continue
		}
		v, err := b.exprs.expand(p.Default, env)
		if err != nil {
			return env, b.fault(c, "params."+p.Name+".default", err)
		}
		env.set(p.Name, v)
	}
	return env, nil
}

func (b *cellBuilder) fault(c combination, field string, err error) error {
	return &CellError{File: b.spec.File, Cell: c.String(), Field: field, Err: err}
}

// droppedBy names the first rule that a combination fails.
func (b *cellBuilder) droppedBy(c combination) (string, error) {
	env, err := b.env(c)
	if err != nil {
		return "", err
	}
	for i, r := range b.spec.Where {
		ok, err := b.exprs.rule(r.Expr, env.values)
		if err != nil {
			return "", b.fault(c, fmt.Sprintf("where[%d]", i), err)
		}
		if !ok {
			return r.Expr, nil
		}
	}
	return "", nil
}

// stepsFlag is the flag whose 0 means no speculation.
const stepsFlag = "speculative-num-steps"

// speculationOff says that steps=0 makes the combination a server without
// speculation. Rules about speculation do not apply to it.
func (b *cellBuilder) speculationOff(c combination) (bool, error) {
	if v, ok := c.get(axisFlag, stepsFlag); ok {
		return v.Text == "0", nil
	}
	env, err := b.env(c)
	if err != nil {
		return false, err
	}
	if v, ok := env.scalars["steps"]; ok && v.Text == "0" {
		return true, nil
	}
	for _, f := range b.spec.Server.Flags {
		if f.Name == stepsFlag && f.Value.Kind == KindScalar {
			v, err := b.exprs.expand(f.Value.Scalar, env)
			if err != nil {
				return false, b.fault(c, "server.flags."+f.Name, err)
			}
			return v.Text == "0", nil
		}
	}
	return false, nil
}

// build computes one cell; off leaves out what the baseline leaves out.
func (b *cellBuilder) build(c combination, off bool) (Cell, error) {
	env, err := b.env(c)
	if err != nil {
		return Cell{}, err
	}
	cfg, err := b.server(c, env, off)
	if err != nil {
		return Cell{}, err
	}
	cell := Cell{Server: cfg, Bench: defaultBench()}
	for _, e := range b.spec.Bench {
		v, err := b.exprs.expand(e.Value, env)
		if err == nil {
			err = benchFields[e.Name](&cell.Bench, v)
		}
		if err != nil {
			return Cell{}, b.fault(c, "bench."+e.Name, err)
		}
	}
	for i, k := range c.keys {
		if k.kind == axisBench {
			if err := benchFields[k.name](&cell.Bench, c.values[i]); err != nil {
				return Cell{}, b.fault(c, k.key, err)
			}
		}
	}
	if cell.argv, err = b.opts.Renderer.Canonical(cfg); err != nil {
		return Cell{}, b.fault(c, "server.flags", err)
	}
	cell.Key, err = cellKey(cell, b.opts.EngineVersion)
	return cell, err
}

func (b *cellBuilder) server(c combination, env cellEnv, off bool) (ServerConfig, error) {
	s := &b.spec.Server
	cfg := ServerConfig{Engine: s.Engine, Cwd: s.Cwd, GPUs: s.GPUs, Port: s.Port, EnvFile: s.EnvFile, LoginEnv: s.LoginEnv, HostEnv: b.opts.Host.Env}
	cfg.Python = firstOf(b.opts.Python, s.Python, b.opts.Host.Python)
	if v, ok := c.get(axisPython, "python"); ok {
		cfg.Python = v.Text
	}
	cfg.Cwd = firstOf(s.Cwd, b.opts.Host.Cwd)
	if cfg.Python == "" {
		return cfg, &SpecError{File: b.spec.File, Field: "server.python", Msg: "no interpreter is named",
			Advice: "set server.python, or python: of the host " + b.opts.Host.Name + ", or --python"}
	}
	var err error
	if cfg.Patches, err = b.patches(c, off); err != nil {
		return cfg, err
	}
	if cfg.Flags, err = b.flags(c, env, off); err != nil {
		return cfg, err
	}
	if cfg.Prefix, err = b.words(c, env, "server.prefix", s.Prefix); err != nil {
		return cfg, err
	}
	if cfg.Args, err = b.words(c, env, "server.args", s.Args); err != nil {
		return cfg, err
	}
	cfg.Env, cfg.Secrets, err = b.environment(c, env, cfg.Patches)
	return cfg, err
}

func firstOf(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}

func (b *cellBuilder) words(c combination, env cellEnv, name string, entries []Entry) ([]string, error) {
	var out []string
	for i, e := range entries {
		v, err := b.exprs.expand(e.Value, env)
		if err != nil {
			return nil, b.fault(c, fmt.Sprintf("%s[%d]", name, i), err)
		}
		if !v.IsNull() {
			out = append(out, v.Text)
		}
	}
	return out, nil
}

// flags computes the server's flags: the spec's, then those of the axes, then
// what the baseline removes or sets. Removed ones are not computed.
func (b *cellBuilder) flags(c combination, env cellEnv, off bool) ([]ServerFlag, error) {
	flags := slices.Clone(b.spec.Server.Flags)
	for i, k := range c.keys {
		if k.kind == axisFlag {
			flags = setFlag(flags, Flag{Name: k.name, Value: Value{Scalar: c.values[i]}})
		}
	}
	if off {
		changes := []Flag{{Name: "speculative-*"}}
		if b.spec.Baseline != nil {
			changes = b.spec.Baseline.Flags
		}
		for _, ch := range changes {
			flags = changeFlags(flags, ch)
		}
	}
	var out []ServerFlag
	for _, f := range flags {
		v, err := b.exprs.expandValue(f.Value, env)
		if err != nil {
			return nil, b.fault(c, "server.flags."+f.Name, err)
		}
		sf, err := serverFlag(f.Name, v)
		if err != nil {
			return nil, b.fault(c, "server.flags."+f.Name, err)
		}
		if sf.Kind != flagOmitted {
			out = append(out, sf)
		}
	}
	return out, nil
}

func setFlag(flags []Flag, f Flag) []Flag {
	if i := slices.IndexFunc(flags, func(o Flag) bool { return o.Name == f.Name }); i >= 0 {
		flags[i] = f
		return flags
	}
	return append(flags, f)
}

// changeFlags sets every flag that a name or glob fits; a null removes them.
func changeFlags(flags []Flag, change Flag) []Flag {
	remove := change.Value.Kind == KindScalar && change.Value.Scalar.IsNull()
	isGlob := strings.ContainsAny(change.Name, "*?")
	var out []Flag
	found := false
	for _, f := range flags {
		if ok, err := path.Match(change.Name, f.Name); err == nil && ok {
			found = true
			if remove {
				continue
			}
			f.Value = change.Value
		}
		out = append(out, f)
	}
	if !found && !remove && !isGlob {
		out = append(out, change)
	}
	return out
}

func (b *cellBuilder) patches(c combination, off bool) ([]PatchRef, error) {
	names := b.spec.Patches
	if v, ok := c.get(axisPatches, patchesKey); ok {
		names = nil
		if v.Text != noPatches {
			names = strings.Split(v.Text, "+")
		}
	} else if off && b.spec.Baseline != nil && b.spec.Baseline.HasPatches {
		names = b.spec.Baseline.Patches
	}
	var refs []PatchRef
	for _, n := range names {
		ref, known := b.refs[n]
		if !known {
			var err error
			if ref, err = b.opts.Patches(n); err != nil {
				return nil, err
			}
			b.refs[n] = ref
		}
		if slices.ContainsFunc(refs, func(r PatchRef) bool { return r.Name == ref.Name }) {
			return nil, b.fault(c, "patches", fmt.Errorf("%s is named twice", ref.Name))
		}
		refs = append(refs, ref)
	}
	return refs, nil
}

// environment joins what patches set, the spec's env and the axes, later ones
// winning; null removes.
func (b *cellBuilder) environment(c combination, env cellEnv, patches []PatchRef) (vars, secrets map[string]string, err error) {
	vars, secrets = map[string]string{}, map[string]string{}
	for _, p := range patches {
		maps.Copy(vars, p.Env)
	}
	for _, e := range b.spec.Server.Env {
		delete(vars, e.Name)
		if e.From != "" {
			secrets[e.Name] = e.From
			continue
		}
		v, err := b.exprs.expand(e.Value, env)
		if err != nil {
			return nil, nil, b.fault(c, "server.env."+e.Name, err)
		}
		if !v.IsNull() {
			vars[e.Name] = v.Text
		}
	}
	for i, k := range c.keys {
		if k.kind != axisEnv {
			continue
		}
		delete(vars, k.name)
		delete(secrets, k.name)
		if !c.values[i].IsNull() {
			vars[k.name] = c.values[i].Text
		}
	}
	return vars, secrets, nil
}
