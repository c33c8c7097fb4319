package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"specrun/experiments/lab"
)

// labFlags are the settings of lab start.
type labFlags struct {
	scale    float64
	scaled   bool // --scale was given
	settings string
	set      []string
}

func newLabCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "lab",
		Short: "The practice host: try every command with --host lab",
		Long: `The practice host is a real SSH server on loopback in front of real processes: a
Python package laid out like SGLang's and a stand-in server that runs the
speculative cycle on an emulated device. Patches really apply there, the profiler
really measures, a synchronizing one really distorts; results are labelled
simulated. It runs as a process of its own until lab stop.`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	var f labFlags
	start := &cobra.Command{
		Use:   "start",
		Short: "Start the practice host, or change the settings of the running one",
		Long: `Start the practice host; one that runs already gets the new settings, which hold
from the next start of a server on. Settings that are given replace all earlier
ones: those not named have their defaults. Without any the earlier ones stay.

SETTINGS, each with its default; ms are nominal milliseconds, before scale
` + settingsHelp() + exitStatus(exitOK, exitFailed, exitUsage, exitLocked),
		Example: `  specrun lab start
  specrun lab start --set sync_cost_ms=4.1
  specrun lab start --set 'failures=[{"kind":"stale-code"}]'
  specrun lab start --scale 0.05`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			f.scaled = c.Flags().Changed("scale")
			return a.runLabStart(c.Context(), f)
		},
	}
	start.Flags().Float64Var(&f.scale, "scale", 0, "multiply all model times by `F`: for tests of behaviour, not of accuracy")
	start.Flags().StringVar(&f.settings, "settings", "", "JSON `FILE` of settings, over the defaults")
	start.Flags().StringArrayVar(&f.set, "set", nil, "`NAME=VALUE` of one setting; repeatable")
	c.AddCommand(start, &cobra.Command{
		Use: "stop", Short: "Stop the practice host and every process that came from it", Args: noArgs,
		Long:    "Stop the practice host and every process that came from it." + exitStatus(exitOK, exitFailed, exitUsage),
		Example: "  specrun lab stop",
		RunE:    func(c *cobra.Command, _ []string) error { return a.runLabStop(c.Context()) },
	}, &cobra.Command{
		Use: "status", Short: "Say whether the practice host runs, and how to reach it", Args: noArgs,
		Long:    "Say whether the practice host runs, and how to reach it." + exitStatus(exitOK, exitFailed, exitUsage),
		Example: "  specrun lab status",
		RunE:    func(c *cobra.Command, _ []string) error { return a.runLabStatus(c.Context()) },
	}, &cobra.Command{
		Use: "serve DIR", Short: "Run the practice host in this process", Args: cobra.ExactArgs(1), Hidden: true,
		RunE: func(c *cobra.Command, args []string) error {
			return lab.Serve(c.Context(), lab.Options{Dir: args[0], Python: a.flags.python})
		},
	})
	return c
}

// labLine is the JSON line of type lab.
type labLine struct {
	lab.Running
	Changed []string `json:"changed_settings,omitempty"` // NAME=VALUE of those that are not the defaults
}

// settingsText shows settings that are not the defaults.
func settingsText(changed []string) string {
	if len(changed) == 0 {
		return "the defaults"
	}
	return strings.Join(changed, " ") + "; all others the defaults"
}

// settingsHelp lists the settings with default and meaning, and the ways in
// which a server can go wrong.
func settingsHelp() string {
	var b strings.Builder
	for _, s := range lab.SettingList() {
		fmt.Fprintf(&b, "  %-23s %-20s %s\n", s.Name, s.Default, s.Help)
	}
	b.WriteString("\nFAILURES, a list of objects with kind, steps (of the launches concerned; none: all)\nand what the kind needs\n")
	for _, f := range lab.FailureList() {
		fmt.Fprintf(&b, "  %-17s %s\n  %-17s %s\n", f.Kind, f.Help, "", f.Example)
	}
	return strings.TrimRight(b.String(), "\n")
}

// labSettings is nil when nothing is to be changed.
func labSettings(f labFlags) (*lab.Settings, error) {
	if !f.scaled && f.settings == "" && len(f.set) == 0 {
		return nil, nil
	}
	s, err := lab.DefaultSettings()
	if f.settings != "" {
		s, err = lab.ReadSettings(f.settings)
	}
	if err != nil {
		return nil, usagef("", "%s", err)
	}
	if f.scaled {
		s.Scale = f.scale
	}
	for _, arg := range f.set {
		name, value, ok := strings.Cut(arg, "=")
		if !ok {
			return nil, usagef("write --set NAME=VALUE", "--set %s: no value", arg)
		}
		if err := s.Set(name, value); err != nil {
			return nil, usagef("\"specrun lab start --help\" lists the settings", "--set %s: %s", arg, err)
		}
	}
	if err := s.Validate(); err != nil {
		return nil, usagef("", "%s", err)
	}
	return &s, nil
}

func (a *app) runLabStart(ctx context.Context, f labFlags) error {
	settings, err := labSettings(f)
	if err != nil {
		return err
	}
	self, err := a.executable()
	if err != nil {
		return err
	}
	dir := a.labDir()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	command := []string{self, "lab", "serve", dir}
	if a.flags.python != "" {
		command = append(command, "--python", a.flags.python)
	}
	r, started, err := lab.StartDaemon(ctx, lab.DaemonOptions{Dir: dir, Settings: settings, Command: command})
	if err != nil {
		return err
	}
	changed, err := lab.Changed(dir)
	if err != nil {
		return err
	}
	if a.flags.json {
		a.line("lab", labLine{r, changed})
		return nil
	}
	state := "runs already"
	if started {
		state = "started"
	}
	a.printf("practice host %s: %s@%s port %d (process %d)\n", state, r.Host.User, r.Host.Address, r.Host.Port, r.PID())
	switch {
	case settings != nil:
		a.printf("settings from the next start of a server on: %s\n", settingsText(changed))
	case len(changed) > 0:
		a.printf("settings, as set earlier: %s\n", settingsText(changed))
	}
	a.note("next: specrun apply profiling-v4 --host lab")
	return nil
}

func (a *app) runLabStop(ctx context.Context) error {
	stopped, err := lab.Stop(ctx, a.labDir())
	if err != nil {
		return err
	}
	if stopped {
		a.printf("practice host stopped\n")
	} else {
		a.printf("practice host does not run\n")
	}
	return nil
}

func (a *app) runLabStatus(ctx context.Context) error {
	r, err := lab.Status(ctx, a.labDir())
	var absent *lab.NotRunningError
	if errors.As(err, &absent) {
		a.printf("practice host does not run\n")
		return nil
	}
	if err != nil {
		return err
	}
	changed, err := lab.Changed(a.labDir())
	if err != nil {
		return err
	}
	if a.flags.json {
		a.line("lab", labLine{r, changed})
		return nil
	}
	a.printf("practice host runs: %s@%s port %d (process %d)\nidentity file %s\nknown hosts   %s\ninterpreter   %s\nstate folder  %s\nsettings      %s\n",
		r.Host.User, r.Host.Address, r.Host.Port, r.PID(), r.Host.IdentityFile, r.Host.KnownHosts, r.Host.Python, r.Host.StateDir, settingsText(changed))
	return nil
}
