package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"specrun/deploy/server"
	"specrun/experiments"
	"specrun/experiments/record"
)

// serverFlags are what start and restart have in common.
type serverFlags struct {
	specFile string
	dryRun   bool
	wait     time.Duration
	take     bool // restart: also another specrun's
}

func newServerCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "server",
		Short: "One server by hand, with the spec's flags",
		Long: `Start, stop and look at servers by hand. What is started here runs on until it
is stopped, whatever becomes of this machine. Only servers that specrun started, for a
sweep or by hand, are stopped; no other process is touched but one that stop --pid
names. status lists the others too.`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(newServerStartCommand(a), newServerStopCommand(a), newServerRestartCommand(a), newServerStatusCommand(a), newServerLogsCommand(a), newServerSavedCommand(a))
	return c
}

func (f *serverFlags) register(c *cobra.Command) {
	c.Flags().StringVarP(&f.specFile, "file", "f", "", specUsage)
	c.Flags().BoolVar(&f.dryRun, "dry-run", false, "print the command, change nothing")
	c.Flags().DurationVar(&f.wait, "wait", 0, waitUsage)
}

func newServerStartCommand(a *app) *cobra.Command {
	var f serverFlags
	saved := ""
	c := &cobra.Command{
		Use:   "start [KEY=VALUE...]",
		Short: "Start the server that run would measure, and leave it running",
		Long: `Start the server of one cell, the spec's defaults with the values given, exactly as
run would: port and GPUs leased, the patch set exactly as the spec says, started
detached, and waited for until it has really generated. Then it is left running,
with its patches. A start that fails leaves the host as it was.

--saved starts a server again that stop --pid or stop --save stopped, with command
line, folder and environment as they were and a log of its own, and waits until it
answers on its port. Patches stay as they are.` +
			exitStatus(exitOK, exitFailed, exitUsage, exitConflict, exitUnreachable, exitLocked),
		Example: `  specrun server start --host kimi-8gpu
  specrun server start steps=3 --host kimi-8gpu
  specrun server start --saved k3v7 --host kimi-8gpu`,
		RunE: func(c *cobra.Command, args []string) error {
			if !c.Flags().Changed("saved") {
				return a.runServerStart(c.Context(), f, args, nil)
			}
			if len(args) > 0 || f.specFile != "" {
				return usagef("leave the rest out", "a saved server has its own command line: no KEY=VALUE, no -f")
			}
			return a.runServerStartSaved(c.Context(), saved, f.dryRun)
		},
	}
	f.register(c)
	c.Flags().StringVar(&saved, "saved", "", "start the server again that was saved as `ID`")
	return c
}

func newServerRestartCommand(a *app) *cobra.Command {
	var f serverFlags
	c := &cobra.Command{
		Use:   "restart [KEY=VALUE...]",
		Short: "Stop the server that runs, and start the one of the spec",
		Long: `Stop the server that runs, as stop does, then start one as start does: the spec's
defaults with the values given, whatever the one before had. A wrong spec is found
before anything is stopped.` +
			exitStatus(exitOK, exitFailed, exitUsage, exitConflict, exitUnreachable, exitLocked),
		Example: "  specrun server restart steps=3 --host kimi-8gpu",
		RunE: func(c *cobra.Command, args []string) error {
			if err := a.confirmTake(f.take && !f.dryRun); err != nil {
				return err
			}
			return a.runServerStart(c.Context(), f, args, func(ctx context.Context, s hostSweep) error {
				return a.stopForRestart(ctx, s, f.take)
			})
		},
	}
	f.register(c)
	registerTake(c, &f.take)
	return c
}

// runServerStart starts a server on each host, several at a time. before is done
// on each first, once all plans are made.
func (a *app) runServerStart(ctx context.Context, f serverFlags, args []string, before func(context.Context, hostSweep) error) error {
	sweeps, _, err := a.planAll(ctx, sweepFlags{specFile: f.specFile, wait: f.wait, single: true, unmeasured: true, rounds: 1, repeats: 1}, args)
	if err != nil {
		return err
	}
	if f.dryRun {
		for _, s := range sweeps {
			a.printServerPlan(s.plan)
		}
		return nil
	}
	defer a.tick()()
	errs := make([]error, len(sweeps))
	var group errgroup.Group
	group.SetLimit(parallel)
	for i, s := range sweeps {
		group.Go(func() error {
			if before != nil {
				errs[i] = before(ctx, s)
			}
			if errs[i] == nil {
				errs[i] = a.startServer(ctx, s, len(sweeps) > 1)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return unwrapOne(errors.Join(errs...))
}

func (a *app) startServer(ctx context.Context, s hostSweep, several bool) error {
	hosts := func(ctx context.Context, _ string) (*experiments.Host, error) { return a.experimentHost(ctx, s.entry) }
	seen := a.newWatch(s.plan, several)
	deps := a.deps(nil, hosts, seen)
	deps.Wait = s.wait
	started, err := experiments.StartServer(ctx, deps, s.plan)
	if err != nil {
		return err
	}
	live := true // its process was started after its patches
	a.printServer(serverLine{
		Host: s.entry.Name, Launch: started.Launch, State: "ready", PID: started.Identity.PID, Port: started.Port, URL: started.Ready.BaseURL,
		Log: started.LogPath, Experiment: s.plan.Name, Params: started.Cell.Params, Patches: refNames(started.Cell.Server.Patches), PatchLive: &live,
	})
	for _, m := range started.Mismatches {
		a.note("%s: note: %s", s.entry.Name, m)
	}
	if len(started.Cell.Server.Patches) > 0 {
		a.note("%s: the patches stay in its files; specrun rollback --host %s removes them", s.entry.Name, s.entry.Name)
	}
	return nil
}

// serverLine is a server in a JSON line.
type serverLine struct {
	Host       string        `json:"host"`
	Launch     string        `json:"launch"`
	State      string        `json:"state"` // ready starting running stopping
	PID        int           `json:"pid"`
	Port       int           `json:"port"`
	URL        string        `json:"url"` // as seen from the host
	Log        string        `json:"log"` // path on the host, or in the container
	Container  string        `json:"container,omitempty"`
	Started    *time.Time    `json:"started,omitempty"`
	AgeS       int64         `json:"age_s"`
	Experiment string        `json:"experiment,omitempty"`
	Sweep      string        `json:"sweep,omitempty"` // none: started by hand
	Saved      string        `json:"saved,omitempty"` // the saved server that it is again
	Params     record.Params `json:"params"`
	Baseline   bool          `json:"baseline"`
	Patches    []string      `json:"patches"`
	PatchLive  *bool         `json:"patch_live"` // null: not known
	Controller string        `json:"controller,omitempty"`
	GPUs       []cardLine    `json:"gpus,omitempty"` // of status: on which it holds memory now
}

func refNames(refs []experiments.PatchRef) []string {
	names := []string{}
	for _, r := range refs {
		names = append(names, r.Name)
	}
	return names
}

func (a *app) printServer(s serverLine) {
	if a.flags.json {
		a.line("server", s)
		return
	}
	patches := "none"
	if len(s.Patches) > 0 {
		patches = stackName(s.Patches)
	}
	a.printf("%s: server ready: %s\n  launch  %s\n  cell    %s\n  patches %s\n  process %d\n  log     %s\n",
		s.Host, s.URL, s.Launch, cellName(s.Params, s.Baseline), patches, s.PID, s.Log)
}

// printServerPlan shows what start would do.
func (a *app) printServerPlan(p *experiments.Plan) {
	if a.flags.json {
		a.line("plan", p.Shown())
		return
	}
	l := p.Launches[0]
	cell := p.Cells[l.Runs[0].Cell]
	a.printf("%s: would start %s, patches %s%s\n%s\n", p.Host.Name, cellName(cell.Params, cell.Baseline), patchNames(cell.Server.Patches), placeholder(l), l.Command)
}

// stopForRestart stops the server that runs on a host, when there is one.
func (a *app) stopForRestart(ctx context.Context, s hostSweep, take bool) (err error) {
	c, err := a.connect(ctx, s.entry)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.Close()) }()
	found, err := a.stopOn(ctx, c, "", stopFlags{take: take})
	if err != nil || found == nil {
		return err
	}
	cell := s.plan.Cells[0]
	if was, now := serverCell(*found), cellName(cell.Params, cell.Baseline); was != now {
		a.note("%s: the server before was %s, this one is %s", c.Name(), was, now)
	}
	return nil
}

// lockedServer says that another specrun works with a server.
func lockedServer(host string, s experiments.RunningServer) error {
	what := "is being started by hand"
	if s.Sweep != "" {
		what = "belongs to sweep " + s.Sweep + ", which is at work"
	}
	return &codedError{code: exitLocked, msg: fmt.Sprintf("%s: launch %s %s: %s", host, s.Launch, what, server.Owner{Controller: s.Controller}.Who()),
		hint: "wait for it, interrupt that specrun, or stop its server all the same with --take"}
}
