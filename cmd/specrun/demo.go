package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"specrun/deploy"
	"specrun/experiments/lab"
)

func newDemoCommand(a *app) *cobra.Command {
	var keep bool
	c := &cobra.Command{
		Use:   "demo",
		Short: "The whole loop on the practice host, nothing else needed",
		Long: `Run the whole loop on a practice host of its own, in under a minute: status, apply
profiling-v4, sweep steps=1..4 with the baseline, the table with the best cell,
rollback, status. Nothing outside a temporary folder is touched.` + exitStatus(exitOK, exitFailed, exitUsage, exitPartial),
		Example: "  specrun demo",
		Args:    noArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return a.runDemo(c.Context(), keep) },
	}
	c.Flags().BoolVar(&keep, "keep", false, "keep the practice host's folder and the results")
	return c
}

func (a *app) runDemo(ctx context.Context, keep bool) (err error) {
	begin := a.now()
	dir, remove, err := demoFolder(keep)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, remove()) }()
	a.demo, err = lab.Start(ctx, lab.Options{Dir: filepath.Join(dir, "lab"), Python: a.flags.python})
	if err != nil {
		return err
	}
	a.flags.python = "" // it was for the lab's environment, not for the server
	defer func() {
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
		defer cancel()
		err = errors.Join(err, a.demo.Close(stopping))
	}()
	a.passing = !keep
	a.flags.hosts, a.flags.store = []string{labHost}, filepath.Join(dir, "results.db")
	profiling, err := a.lookupPatches([]string{"profiling-v4"})
	if err != nil {
		return err
	}
	for _, step := range []struct {
		command string
		do      func() error
	}{
		{"status", func() error { return a.expectPristine(ctx) }},
		{"apply profiling-v4", func() error { return a.runDeploy(ctx, deployFlags{}, deploy.Change{Add: profiling}) }},
		{"sweep steps=1..4", func() error { return a.runSweep(ctx, sweepFlags{}, []string{"steps=1..4"}) }},
		{"rollback", func() error { return a.runDeploy(ctx, deployFlags{}, deploy.Change{RemoveAll: true}) }},
		{"status", func() error { return a.expectPristine(ctx) }},
	} {
		a.printf("\n$ specrun %s --host lab\n", step.command)
		if err := step.do(); err != nil {
			return err
		}
	}
	a.note("\ndone in %s; next: specrun lab start, then the same commands with --host lab", a.now().Sub(begin).Round(100*time.Millisecond))
	if keep {
		a.note("kept: %s", dir)
	} else {
		a.note("the results went with the practice host; --keep keeps them")
	}
	return nil
}

// expectPristine prints the status and fails when a file is not as released.
func (a *app) expectPristine(ctx context.Context) error {
	reports, err := a.showStatus(ctx, "")
	if err != nil {
		return err
	}
	for _, r := range reports {
		for _, f := range r.Files {
			if f.Verdict != deploy.Pristine {
				return fmt.Errorf("demo: %s is %s, not pristine", f.Path, f.Verdict)
			}
		}
	}
	return nil
}

// demoFolder makes the folder of a demo; remove deletes it unless it is kept.
func demoFolder(keep bool) (dir string, remove func() error, err error) {
	dir, err = os.MkdirTemp("", "specrun-demo-")
	if err != nil {
		return "", nil, err
	}
	if keep {
		return dir, func() error { return nil }, nil
	}
	return dir, func() error { return os.RemoveAll(dir) }, nil
}
