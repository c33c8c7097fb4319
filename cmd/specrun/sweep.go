package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"specrun/configs"
	"specrun/experiments"
	"specrun/patches"
)

// sweepFlags are what sweep and run have in common.
type sweepFlags struct {
	specFile   string
	dryRun     bool
	rounds     int
	repeats    int
	noBaseline bool
	aa         bool
	single     bool   // specrun run
	probe      string // specrun probe: the patch
	detach     bool   // the host goes on with it
	wait       time.Duration
	unmeasured bool // specrun server: nothing is run, so no time is estimated
}

func (f *sweepFlags) register(c *cobra.Command) {
	c.Flags().StringVarP(&f.specFile, "file", "f", "", specUsage)
	c.Flags().BoolVar(&f.dryRun, "dry-run", false, "print the plan and the command of each cell, change nothing")
	c.Flags().IntVar(&f.rounds, "rounds", 0, "`N` launches per cell (default: the spec's)")
	c.Flags().IntVar(&f.repeats, "repeats", 0, "`N` runs within one launch (default: the spec's)")
	c.Flags().DurationVar(&f.wait, "wait", 0, waitUsage)
	f.registerDetach(c)
}

func (f *sweepFlags) registerDetach(c *cobra.Command) {
	c.Flags().BoolVar(&f.detach, "detach", false, detachUsage)
}

// waitUsage says what --wait does.
const waitUsage = "wait up to `DURATION`, such as 2h, for GPUs, port and patch set that others have (default: exit 6 at once)"

func newSweepCommand(a *app) *cobra.Command {
	var f sweepFlags
	c := &cobra.Command{
		Use:   "sweep [KEY=VALUES...]",
		Short: "Measure every combination of values, with the baseline",
		Long: `Measure every combination of values: for each launch the patch set of the spec is
established, the server started with the flags of the cell, benchmarked and
stopped with proof; at the end the host is as it was found (see after: in the
spec). A failed run is a result, the other cells go on. Always begins a new sweep;
resume continues one that was cut off.

VALUES (ends are inclusive)
  steps=1..4   x=1..9..2   conc=1..256x2   mode=prefill,decode   steps=2
  steps+draft=1+2,2+3      patches=none,profiling-v4
KEYS
  a param, else a flag of the spec; flag.NAME env.NAME bench.NAME patches python

bench.* axes do not restart the server; where they change the work, as in
bench.concurrency=1,32 bench.requests=128, each load has a best cell of its own.

From two rounds on the cells take turns (order: interleave), every second round
backwards. With bench.quotable: true in the spec the best cell is measured again at
the end, without its profiling patches. --aa measures every cell against itself:
what is called different then is noise.

--detach sends specrun itself and the plan to the host, where a process of its own
does the same as this command would, so that a closed laptop leaves no GPU idle.
This command then only follows it: resume follows it again, cancel ends it.` +
			exitStatus(exitOK, exitFailed, exitUsage, exitPartial, exitConflict, exitUnreachable, exitLocked),
		Example: `  specrun sweep steps=1..4 --host kimi-8gpu
  specrun sweep steps=1..4 mode=prefill,decode --host kimi-8gpu --rounds 3
  specrun sweep steps=1..4 --host kimi-8gpu --dry-run`,
		RunE: func(c *cobra.Command, args []string) error { return a.runSweep(c.Context(), f, args) },
	}
	f.register(c)
	c.Flags().BoolVar(&f.noBaseline, "no-baseline", false, "leave the baseline cell out")
	c.Flags().BoolVar(&f.aa, "aa", false, "each cell twice, as arms a and b in turn: how often is a cell called different from itself?")
	a.normaliseFlag(c)
	return c
}

func newRunCommand(a *app) *cobra.Command {
	f := sweepFlags{single: true}
	c := &cobra.Command{
		Use:   "run [KEY=VALUE...]",
		Short: "Measure one cell",
		Long: `Measure one cell: the spec's defaults with the values given. As sweep otherwise.` +
			exitStatus(exitOK, exitFailed, exitUsage, exitPartial, exitConflict, exitUnreachable, exitLocked),
		Example: "  specrun run steps=2 --host kimi-8gpu",
		RunE:    func(c *cobra.Command, args []string) error { return a.runSweep(c.Context(), f, args) },
	}
	f.register(c)
	return c
}

// hostSweep is a sweep planned for one host.
type hostSweep struct {
	entry   configs.Host
	plan    *experiments.Plan
	wait    time.Duration // for what others have
	patched bool          // the host's files have patches already, and get them back at the end
}

func (a *app) runSweep(ctx context.Context, f sweepFlags, args []string) error {
	sweeps, specPath, err := a.planAll(ctx, f, args)
	if err != nil {
		return err
	}
	for _, s := range sweeps {
		a.announce(s.plan, f.dryRun)
	}
	if f.dryRun {
		return nil
	}
	results, err := a.openStore(ctx, specPath)
	if err != nil {
		return err
	}
	defer results.Close()
	if f.detach {
		return a.detachAll(ctx, results, sweeps)
	}
	return a.executeAll(ctx, results, sweeps)
}

// planAll plans a sweep for each host. specPath is the spec's, "" for a built-in
// one.
func (a *app) planAll(ctx context.Context, f sweepFlags, args []string) (sweeps []hostSweep, specPath string, err error) {
	axes, err := experiments.ParseArgs(args)
	if err != nil {
		return nil, "", err
	}
	first, specPath, err := a.specBeforeHosts(f.specFile)
	if err != nil {
		return nil, "", err
	}
	entries, err := a.hostEntries(ctx, first)
	if err != nil {
		return nil, "", err
	}
	for _, e := range entries {
		spec, path, err := a.requiredSpec(f.specFile, e)
		if err != nil {
			return nil, "", err
		}
		if specPath == "" {
			specPath = path
		}
		plan, patched, err := a.planFor(ctx, f, spec, specPath, e, axes)
		if err != nil {
			return nil, "", err
		}
		sweeps = append(sweeps, hostSweep{entry: e, plan: plan, wait: f.wait, patched: patched})
	}
	return sweeps, specPath, nil
}

// specBeforeHosts is the spec whose hosts are meant when no --host is given.
func (a *app) specBeforeHosts(file string) (*experiments.Spec, string, error) {
	if len(a.flags.hosts) > 0 {
		return nil, "", nil
	}
	return a.requiredSpec(file, configs.Host{})
}

// planFor resolves the spec for one host, which is asked for the engine's
// version: it is part of what a cell is. patched says that its files have patches.
func (a *app) planFor(ctx context.Context, f sweepFlags, spec *experiments.Spec, specPath string, e configs.Host, axes []experiments.Axis) (plan *experiments.Plan, patched bool, err error) {
	if err := checkRanges(spec, axes); err != nil {
		return nil, false, err
	}
	engine, err := experiments.Engines(spec.Server.Engine)
	if err != nil {
		return nil, false, err
	}
	host := experiments.HostConfig{Name: e.Name, Python: e.Python, Cwd: e.Cwd, StateDir: e.StateDir, Env: e.Env}
	options := experiments.Options{
		Axes: axes, Single: f.single, NoBaseline: f.noBaseline, AA: f.aa, Host: host, Python: a.flags.python,
		Rounds: f.rounds, Repeats: f.repeats, Renderer: engine,
		Patches: func(name string) (experiments.PatchRef, error) { return a.patchRef(name, e) },
	}
	resolve := experiments.Resolve
	if f.probe != "" {
		ref, err := a.patchRef(f.probe, e)
		if err != nil {
			return nil, false, err
		}
		options.Patches = func(string) (experiments.PatchRef, error) { return ref, nil } // the only one of a probe
		resolve = func(s *experiments.Spec, o experiments.Options) (*experiments.Experiment, error) {
			return experiments.ResolveProbe(s, o, ref.Name)
		}
	}
	if _, err := resolve(spec, options); err != nil {
		return nil, false, err // before the host is asked: a wrong spec costs no connection
	}
	h, err := a.experimentHost(ctx, e)
	if err != nil {
		return nil, false, err
	}
	state, found, err := readFound(ctx, h, spec, experiments.WhereOf(spec, host, a.flags.python))
	if err = errors.Join(err, h.Close()); err != nil {
		return nil, false, unwrapOne(err)
	}
	options.EngineVersion = state.VersionOf(spec.Server.Engine)
	if !f.unmeasured {
		if options.Timing, err = a.timing(ctx, specPath, spec.Name, e); err != nil {
			return nil, false, err
		}
	}
	experiment, err := resolve(spec, options)
	if err != nil {
		return nil, false, err
	}
	plan, err = experiments.NewPlan(experiment)
	if err == nil && !f.unmeasured {
		plan.Notes = append(plan.Notes, found...)
	}
	return plan, len(state.Patches) > 0, err
}

// patchRef names a patch exactly, for a sweep on the host.
func (a *app) patchRef(name string, e configs.Host) (experiments.PatchRef, error) {
	p, err := a.patchFor(name, e)
	if err != nil {
		return experiments.PatchRef{}, err
	}
	ref := experiments.RefOf(p)
	if strings.ContainsRune(name, filepath.Separator) {
		ref.Folder, err = filepath.Abs(name) // resume may run elsewhere
	}
	return ref, err
}

// looksLikeRange is how people write a range who do not know the grammar.
var looksLikeRange = regexp.MustCompile(`^([0-9]+)(-|:|\.\.\.)([0-9]+)$`)

// checkRanges finds such a range as the value of a param that is a number
// everywhere in the spec; the expressions over it could only fail.
func checkRanges(spec *experiments.Spec, axes []experiments.Axis) error {
	for _, axis := range axes {
		for i, key := range axis.Keys {
			at := slices.IndexFunc(spec.Params, func(p experiments.Param) bool { return p.Name == key })
			if at < 0 || !numeric(spec.Params[at]) {
				continue
			}
			for _, row := range axis.Rows {
				if ends := looksLikeRange.FindStringSubmatch(row[i].Text); ends != nil {
					return usagef(fmt.Sprintf("ranges are written %s=%s..%s", key, ends[1], ends[3]), "%s=%s: not a number", key, row[i].Text)
				}
			}
		}
	}
	return nil
}

// numeric says that all values which the spec has for a param are numbers.
func numeric(p experiments.Param) bool {
	values := append(slices.Clone(p.Values), p.Default)
	return !slices.ContainsFunc(values, func(s experiments.Scalar) bool {
		switch s.Value.(type) {
		case int64, float64:
			return false
		}
		return s.Text != "" // no default
	})
}

// patchFor finds a patch that a sweep on the host may use.
func (a *app) patchFor(name string, e configs.Host) (*patches.Patch, error) {
	p, err := a.lookupPatch(name)
	if err == nil {
		err = onlyForLab(p, e)
	}
	return p, err
}

// onlyForLab refuses patches that only the practice host can run.
func onlyForLab(p *patches.Patch, e configs.Host) error {
	if !p.LabOnly || e.Kind == configs.Lab {
		return nil
	}
	return usagef("use it with --host lab", "patch %s is for the practice host only", p.Name)
}
