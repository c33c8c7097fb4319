package main

import (
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"specrun/deploy"
	"specrun/deploy/server"
	"specrun/experiments"
	"specrun/patches"
)

func newStatusCommand(a *app) *cobra.Command {
	var specFile string
	var exitWithCode bool
	c := &cobra.Command{
		Use:   "status",
		Short: "Say what every file is: pristine, patched, edited ...",
		Long: `Say what every file is that specrun changed on a host, and every file that a
built-in patch would change there. Nothing is changed.

  pristine    as released         pre-edited  differs from the release, not by us
  patched     exactly as applied  edited      patched, then changed by someone else
  incomplete  a command was cut off; the next apply, rollback or sweep finishes it
  foreign     patched by something no ledger knows    missing  the file is gone` +
			exitStatus(exitOK, exitFailed, exitUsage, exitUnreachable) + "\n" +
			exitLine(exitConflict, "with --exit-code: a file is edited, foreign, incomplete or missing"),
		Example: `  specrun status --host kimi-8gpu
  specrun status --host kimi-8gpu --exit-code`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			return a.runStatus(c.Context(), specFile, exitWithCode)
		},
	}
	c.Flags().StringVarP(&specFile, "file", "f", "", "experiment `FILE` whose server.python, env and cwd are meant")
	c.Flags().BoolVar(&exitWithCode, "exit-code", false, "exit 4 when a file is edited, foreign, incomplete or missing")
	return c
}

func (a *app) runStatus(ctx context.Context, specFile string, exitWithCode bool) error {
	reports, err := a.showStatus(ctx, specFile)
	unclean := func(r *deploy.Report) bool { return !r.Clean() }
	if err == nil && exitWithCode && slices.ContainsFunc(reports, unclean) {
		return &codedError{code: exitConflict, silent: true}
	}
	return err
}

// showStatus reads the status of each host and prints it.
func (a *app) showStatus(ctx context.Context, specFile string) (reports []*deploy.Report, err error) {
	library, err := patches.Library()
	if err != nil {
		return nil, err
	}
	var mu sync.Mutex
	err = a.eachHost(ctx, func(ctx context.Context, c *connection) error {
		spec, _, err := a.optionalSpec(specFile, c.entry)
		if err != nil {
			return err
		}
		report, err := deploy.Status(ctx, c.Host, c.where(a, spec), library)
		if err != nil {
			return err
		}
		marks, err := server.Marks(ctx, c, c.entry.StateDir)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		reports = append(reports, report)
		a.printStatus(c.Name(), report, packagesOf(library))
		a.printMarks(c.Name(), marks)
		return nil
	})
	return reports, err
}

// shown are processes as they may be printed: their arguments may hold secrets.
func shown(host string, live []deploy.Process) []deploy.Process {
	out := slices.Clone(live)
	for i := range out {
		out[i].Argv = experiments.ShownArgv(host, out[i].Argv)
	}
	return out
}

func (a *app) printStatus(host string, r *deploy.Report, packages map[string]bool) {
	live := shown(host, r.Live)
	if a.flags.json {
		for _, f := range r.Files {
			a.line("file", struct {
				Host string `json:"host"`
				deploy.FileStatus
			}{host, f})
		}
		for _, tx := range r.Open {
			a.line("transaction", tx)
		}
		for _, p := range live {
			a.line("process", p)
		}
		return
	}
	if len(r.Files) == 0 {
		hint := "the interpreter " + r.Python + " sees none of the built-in patches' targets"
		if r.Python == "" {
			hint = "no interpreter is named: give --python or python: in the hosts file"
		}
		a.printf("%s: no engine found (%s)\n", host, hint)
	}
	var paths []string
	for _, f := range r.Files {
		paths = append(paths, f.Path)
	}
	short := a.shortPaths(paths, packages)
	var rows [][]string
	for _, f := range r.Files {
		engine := strings.TrimSpace(f.Engine + " " + f.EngineVersion)
		rows = append(rows, []string{host, string(f.Verdict), stackName(f.Patches), engine, short(f.Path)})
	}
	if len(rows) > 0 {
		a.table([]string{"HOST", "VERDICT", "PATCHES", "ENGINE", "FILE"}, rows)
	}
	for _, tx := range r.Open {
		a.note("%s: a command was cut off half way (transaction %s); the next apply or rollback finishes or undoes it", host, tx.ID)
	}
	for _, p := range live {
		a.note("%s: process %d runs the engine: %s", host, p.PID, strings.Join(p.Argv, " "))
	}
}
