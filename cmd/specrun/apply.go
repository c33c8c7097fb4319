package main

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"specrun/deploy"
	"specrun/patches"
)

// deployFlags are what apply and rollback have in common.
type deployFlags struct {
	specFile   string
	dryRun     bool
	force      bool
	allowDirty bool
	take       bool
}

func (f *deployFlags) register(c *cobra.Command) {
	c.Flags().StringVarP(&f.specFile, "file", "f", "", "experiment `FILE` whose server.python, env and cwd are meant")
	c.Flags().BoolVar(&f.dryRun, "dry-run", false, "print the plan and its diff, write nothing on the host")
	c.Flags().BoolVar(&f.force, "force", false, "overwrite content that is not ours, keeping it as a blob on the host")
	c.Flags().BoolVar(&f.allowDirty, "allow-dirty", false, "also patch files of a source checkout that have uncommitted changes")
	c.Flags().BoolVar(&f.take, "take", false, "end another specrun's script that holds the lock, or change the files under a sweep")
}

func newApplyCommand(a *app) *cobra.Command {
	var f deployFlags
	c := &cobra.Command{
		Use:   "apply PATCH...",
		Short: "Put patches into the engine's files on a host",
		Long: `Put patches into the files that the server's own interpreter imports. The change is
one transaction: each file is old or new whatever happens, and after the next
specrun command all of them are. Every byte can be put back with rollback, also
from another machine. Running servers keep the code they loaded; restart them.

What is applied already is reported and left alone.` + exitStatus(exitOK, exitFailed, exitUsage, exitConflict, exitUnreachable, exitLocked, exitRollbackFailed),
		Example: `  specrun apply profiling-v4 --host kimi-8gpu
  specrun apply profiling-v4 --host kimi-8gpu --dry-run`,
		Args: needs("a PATCH", 1, 0, "specrun patch list"),
		RunE: func(c *cobra.Command, args []string) error {
			add, err := a.lookupPatches(args)
			if err != nil {
				return err
			}
			return a.runDeploy(c.Context(), f, deploy.Change{Add: add})
		},
	}
	f.register(c)
	return c
}

func newRollbackCommand(a *app) *cobra.Command {
	var f deployFlags
	c := &cobra.Command{
		Use:   "rollback [PATCH...]",
		Short: "Put every byte back",
		Long: `Take patches out of the engine's files again; without names all of them, so that
every file that specrun ever changed on the host has its pristine bytes. The
patches are kept whole on the host, so any specrun can undo any other's work.
Content that someone else wrote is not overwritten without --force, and then it
is kept as a blob.` + exitStatus(exitOK, exitFailed, exitUsage, exitConflict, exitUnreachable, exitLocked, exitRollbackFailed),
		Example: `  specrun rollback --host kimi-8gpu
  specrun rollback profiling-v4 --host kimi-8gpu --dry-run`,
		RunE: func(c *cobra.Command, args []string) error {
			return a.runDeploy(c.Context(), f, deploy.Change{Remove: args, RemoveAll: len(args) == 0})
		},
	}
	f.register(c)
	return c
}

// runDeploy makes the change on every host and prints what became of each file.
func (a *app) runDeploy(ctx context.Context, f deployFlags, change deploy.Change) error {
	if f.force && !f.dryRun {
		if err := a.confirm("content that is not specrun's may be overwritten (a copy stays on the host)"); err != nil {
			return err
		}
	}
	if f.take && !f.dryRun {
		if err := a.confirm("another specrun's script may be ended, or the files under a sweep changed"); err != nil {
			return err
		}
	}
	library, err := patches.Library()
	if err != nil {
		return err
	}
	var mu sync.Mutex
	return a.eachHost(ctx, func(ctx context.Context, c *connection) error {
		spec, _, err := a.optionalSpec(f.specFile, c.entry)
		if err != nil {
			return err
		}
		for _, p := range change.Add {
			if err := onlyForLab(p, c.entry); err != nil {
				return err
			}
		}
		plan, outcome, err := deploy.Do(ctx, c.Host, c.where(a, spec), change, deploy.DoOptions{
			Options: deploy.Options{Force: f.force, AllowDirty: f.allowDirty, NotUnderSweep: !f.take && !f.dryRun},
			ApplyOptions: deploy.ApplyOptions{Take: f.take, OnEvent: func(e deploy.Event) {
				a.progress("%s: %s %s", c.Name(), e.Step, e.Detail)
			}},
			DryRun:  f.dryRun,
			Library: library,
		})
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		packages := packagesOf(library, change.Add)
		if f.dryRun {
			a.printPlan(c.Name(), plan, packages)
			return nil
		}
		a.printOutcome(c.Name(), outcome, packages)
		return nil
	})
}

func (a *app) printPlan(host string, p *deploy.Plan, packages map[string]bool) {
	if a.flags.json {
		visible := *p
		visible.Live = shown(host, p.Live)
		a.line("plan", &visible)
		return
	}
	if p.Empty() {
		a.printf("%s: nothing to change\n", host)
	}
	short := a.shortPaths(pathsOf(p.Files), packages)
	for _, f := range p.Files {
		a.printf("%s: would %s %s: %s -> %s\n", host, f.Action, short(f.Path), stackName(f.Before), stackName(f.After))
	}
	diff := p.Diff()
	a.printf("%s", diff)
	if !p.Empty() {
		a.printf("%s: would %s; nothing was written\n", host, planSummary(p, diff))
	}
	for _, n := range p.Notes {
		a.note("%s: note: %s", host, n)
	}
}

// planSummary is a plan in a line: what would become of how many files, and the
// lines of its diff.
func planSummary(p *deploy.Plan, diff string) string {
	files := map[deploy.Action]int{}
	for _, f := range p.Files {
		files[f.Action]++
	}
	var parts []string
	for _, action := range []deploy.Action{deploy.Patch, deploy.Restore, deploy.Forget} {
		if n := files[action]; n > 0 {
			parts = append(parts, fmt.Sprintf("%s %s", action, counted(n, "file")))
		}
	}
	text := strings.Join(parts, ", ")
	plus, minus := diffLines(diff)
	if plus > 0 {
		text += fmt.Sprintf(", +%s", counted(plus, "line"))
	}
	if minus > 0 {
		text += fmt.Sprintf(", -%s", counted(minus, "line"))
	}
	return text
}

// diffLines counts what a unified diff adds and takes away. Each hunk says how
// long it is: what is outside, such as the names of the files, is no content.
func diffLines(diff string) (plus, minus int) {
	old, now := 0, 0 // lines left of the hunk
	for line := range strings.Lines(diff) {
		switch {
		case old == 0 && now == 0:
			old, now = hunkLength(line)
		case line[0] == '+':
			plus, now = plus+1, now-1
		case line[0] == '-':
			minus, old = minus+1, old-1
		case line[0] == ' ':
			old, now = old-1, now-1
		}
	}
	return plus, minus
}

// hunkLength reads "@@ -1,7 +1,8 @@"; zeros for any other line.
func hunkLength(line string) (old, now int) {
	var at int
	if n, _ := fmt.Sscanf(line, "@@ -%d,%d +%d,%d @@", &at, &old, &at, &now); n != 4 {
		return 0, 0
	}
	return old, now
}

func (a *app) printOutcome(host string, o *deploy.Outcome, packages map[string]bool) {
	if a.flags.json {
		visible := *o
		visible.Live = shown(host, o.Live)
		a.line("outcome", &visible)
		return
	}
	if o.Recovered != nil {
		for _, tx := range o.Recovered.Transactions {
			a.note("%s: an earlier command had been cut off: taken %s, %s", host, tx.Result, strings.Join(tx.Paths, ", "))
		}
	}
	short := a.shortPaths(pathsOf(o.Changed, o.Kept), packages)
	for _, f := range o.Changed {
		a.printf("%s: %s %s: %s -> %s\n", host, past(f.Action), short(f.Path), stackName(f.Before), stackName(f.After))
	}
	for _, f := range o.Kept {
		a.printf("%s: unchanged %s: %s\n", host, short(f.Path), stackName(f.After))
	}
	if len(o.Changed)+len(o.Kept) == 0 {
		a.printf("%s: nothing to change\n", host)
	}
	if len(o.Changed) > 0 && !o.Durable {
		a.note("%s: note: the host could not say that the new content is on its disk", host)
	}
	for _, n := range o.Notes {
		a.note("%s: note: %s", host, n)
	}
	for _, live := range shown(host, o.Live) {
		a.note("%s: process %d (%s) still runs the code that it loaded before: restart it", host, live.PID, strings.Join(live.Argv, " "))
	}
}

func past(action deploy.Action) string {
	switch action {
	case deploy.Patch:
		return "patched"
	case deploy.Restore:
		return "restored"
	case deploy.Forget:
		return "forgot"
	}
	return string(action)
}

// stackName shows the patches of a file in words.
func stackName(stack []string) string {
	if len(stack) == 0 {
		return "pristine"
	}
	return strings.Join(stack, " + ")
}
