package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"specrun/deploy/server"
	"specrun/experiments"
)

func newServerStopCommand(a *app) *cobra.Command {
	var f stopFlags
	c := &cobra.Command{
		Use:   "stop [LAUNCH]",
		Short: "Stop a server, and prove that nothing of it is left",
		Long: `Stop the server that runs, or the one of the launch named (an id may be cut to any
beginning that fits only one): TERM, a grace, KILL of what is left, then the proof
that no process of it lives and its port is free. Its leases are released. Patches
stay. One that a sweep works with right now is left alone without --take.

--pid stops a server that specrun did not start, with its descendants, and its
session when it leads one, in the same way. It shows user, command line, age, GPUs,
port and who is connected first, and asks. What it takes to start it again (command
line, folder, environment) is saved before, on the host and readable by this user
alone: see server saved. --save does so with a server of ours. Long command lines
are cut, and equal ones shown once; --json prints all.` +
			exitStatus(exitOK, exitFailed, exitUsage, exitUnreachable, exitLocked),
		Example: `  specrun server stop --host kimi-8gpu
  specrun server stop k3v7 --host kimi-8gpu
  specrun server stop --pid 4242 --host kimi-8gpu`,
		Args: atMost(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := f.check(c, args, a.flags.hosts); err != nil {
				return err
			}
			if err := a.confirmTake(f.take); err != nil {
				return err
			}
			return a.eachHost(c.Context(), func(ctx context.Context, h *connection) error {
				if f.pid != 0 {
					return a.stopProcess(ctx, h, f)
				}
				found, err := a.stopOn(ctx, h, firstArg(args), f)
				if err == nil && found == nil {
					a.printf("%s: no server runs that specrun started\n", h.Name())
				}
				return err
			})
		},
	}
	registerTake(c, &f.take)
	c.Flags().IntVar(&f.pid, "pid", 0, "stop process `N`, which specrun did not start")
	c.Flags().BoolVar(&f.save, "save", false, "save what it takes to start it again (--pid does so anyway)")
	c.Flags().BoolVar(&f.noSave, "no-save", false, "with --pid: save nothing")
	return c
}

// stopFlags are those of server stop.
type stopFlags struct {
	take, save, noSave bool
	pid                int
}

func (f stopFlags) check(c *cobra.Command, args, hosts []string) error {
	switch {
	case f.pid < 0 || f.pid == 0 && c.Flags().Changed("pid"):
		return usagef("specrun server status lists what serves on a host and who holds its GPUs", "--pid %d is no process", f.pid)
	case f.pid != 0 && len(args) > 0:
		return usagef("give one of them", "LAUNCH and --pid name different servers")
	case f.pid != 0 && len(hosts) > 1:
		return usagef("name one host", "process %d of %d hosts", f.pid, len(hosts))
	case f.noSave && (f.pid == 0 || f.save):
		return usagef("leave it out", "--no-save goes with --pid, and not with --save")
	}
	return nil
}

func registerTake(c *cobra.Command, take *bool) {
	c.Flags().BoolVar(take, "take", false, "also stop a server that another specrun works with")
}

func (a *app) confirmTake(take bool) error {
	if !take {
		return nil
	}
	return a.confirm("the server of another specrun's sweep may be stopped")
}

func firstArg(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}

// unproved is a launch whose stop could not be proved, so that the host is marked;
// nil when there is none. None of them runs for all that is known.
func unproved(ctx context.Context, c *connection) (*experiments.RunningServer, error) {
	marks, err := server.Marks(ctx, c, c.entry.StateDir)
	if err != nil {
		return nil, err
	}
	for _, m := range marks {
		if m.PID == 0 {
			return &experiments.RunningServer{Launch: m.Launch}, nil
		}
	}
	return nil, nil
}

// stopOn stops one server; nil when none runs and none was named.
func (a *app) stopOn(ctx context.Context, c *connection, id string, f stopFlags) (*experiments.RunningServer, error) {
	s, err := pickServer(ctx, c, id)
	if err == nil && s == nil {
		s, err = unproved(ctx, c)
	}
	if err != nil || s == nil {
		return nil, err
	}
	if s.Attached {
		return nil, usagef(fmt.Sprintf("specrun server stop --pid %d --host %s stops it; the launch ends with its sweep", s.Identity.PID, c.Name()),
			"%s: launch %s measures a server that specrun did not start", c.Name(), s.Launch)
	}
	if s.Controller != "" && !f.take {
		return nil, lockedServer(c.Name(), *s)
	}
	saved := ""
	if f.save && s.State != "" {
		if saved, err = a.saveServer(ctx, c, *s); err != nil {
			return nil, err
		}
	}
	a.progress("%s: stopping launch %s", c.Name(), s.Launch)
	proof, err := experiments.StopServer(ctx, c, c.entry.StateDir, s.Launch, 0)
	if err != nil {
		return nil, err
	}
	if saved != "" {
		if err := server.SavedStopped(ctx, c, c.entry.StateDir, saved); err != nil {
			return nil, err
		}
		a.note("%s: saved as %s; specrun server start --saved %s --host %s starts it again", c.Name(), saved, saved, c.Name())
	}
	if a.flags.json {
		a.line("stopped", struct {
			Host string `json:"host"`
			server.Proof
			Saved string `json:"saved,omitempty"`
		}{c.Name(), proof, saved})
		return s, nil
	}
	port := ""
	switch {
	case proof.Other != nil:
		port = fmt.Sprintf(", port %d is held by %s", proof.Port, proof.Other)
	case proof.Port != 0:
		port = fmt.Sprintf(", port %d is free", proof.Port)
	}
	a.printf("%s: stopped launch %s (process %d): nothing of it is left%s\n", c.Name(), s.Launch, proof.Identity.PID, port)
	return s, nil
}

// pickServer finds the server that is meant on a host: the one that runs, or the
// launch whose id begins with id, which may have ended. nil: none runs and none
// was named.
func pickServer(ctx context.Context, c *connection, id string) (*experiments.RunningServer, error) {
	running, err := experiments.Servers(ctx, c, c.entry.StateDir)
	if err != nil {
		return nil, err
	}
	var fit []experiments.RunningServer
	var names []string
	for _, s := range running {
		if s.Launch == id {
			return &s, nil
		}
		if strings.HasPrefix(s.Launch, id) {
			fit = append(fit, s)
			names = append(names, fmt.Sprintf("%s (%s)", s.Launch, serverCell(s)))
		}
	}
	switch {
	case len(fit) == 1:
		return &fit[0], nil
	case len(fit) > 1:
		return nil, usagef("name one of them", "%s: %d servers run: %s", c.Name(), len(fit), strings.Join(names, ", "))
	case id == "":
		return nil, nil
	}
	st, err := server.Look(ctx, c, c.entry.StateDir, id)
	if err != nil {
		return nil, err
	}
	if st.Phase == server.Absent {
		return nil, usagef("specrun server status lists what runs; of one that has ended give the whole id", "%s: no launch %s", c.Name(), id)
	}
	return &experiments.RunningServer{Launch: id, Identity: st.Identity, LogPath: st.LogPath, LogSize: st.LogSize,
		Attached: st.Attached && st.Phase == server.Running}, nil
}

func newServerStatusCommand(a *app) *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show what serves on a host, and who holds its GPUs",
		Long: `List the servers that specrun started on a host, for sweeps or by hand, and
whose process lives; then those that somebody else started, and what else holds
memory of its GPUs: user, process, age, port, and the commands that go on from
there. Nothing is changed. What is hidden from your user is left out. Leases, and
who waits for them, are in lock status.

LIVE says whether the process has loaded the patched files as they are now: it
was started after the last change to them. When it was not, restart it. GPUS are
those on which it holds memory.` +
			exitStatus(exitOK, exitUsage, exitUnreachable),
		Example: "  specrun server status --host kimi-8gpu",
		Args:    noArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return a.runServerStatus(c.Context()) },
	}
}

func (a *app) runServerStatus(ctx context.Context) error {
	return a.eachHost(ctx, func(ctx context.Context, c *connection) error {
		servers, err := experiments.Servers(ctx, c, c.entry.StateDir)
		if err != nil {
			return err
		}
		all, err := occupantsOf(ctx, c, servers)
		if err != nil {
			return err
		}
		if len(servers) == 0 {
			a.printf("%s: no server runs that specrun started\n", c.Name())
		}
		head := []string{"HOST", "STATE", "LAUNCH", "PID", "PORT", "AGE", "CELL", "PATCHES", "LIVE", "STARTED"}
		if len(all.ours) > 0 {
			head = append(head, "GPUS")
		}
		var rows [][]string
		for _, s := range servers {
			if a.flags.json {
				a.line("server", serverLine{Host: c.Name(), Launch: s.Launch, State: string(s.State), PID: s.Identity.PID, Port: s.Port, URL: s.URL,
					Log: s.LogPath, Container: s.Container, Started: &s.Started, AgeS: int64(s.Age / time.Second), Experiment: s.Experiment, Sweep: s.Sweep, Saved: s.Saved,
					Params: s.Params, Baseline: s.Baseline, Patches: refNames(s.Patches), PatchLive: s.PatchLive, Controller: s.Controller, GPUs: all.ours[s.Launch]})
				continue
			}
			of := "by hand"
			if s.Sweep != "" {
				of = "sweep " + s.Sweep
			}
			rows = append(rows, []string{c.Name(), string(s.State), s.Launch, fmt.Sprint(s.Identity.PID), fmt.Sprint(s.Port), s.Age.String(),
				serverCell(s), serverPatches(s), liveText(s.PatchLive), of})
			if len(all.ours) > 0 {
				rows[len(rows)-1] = append(rows[len(rows)-1], cardsText(all.ours[s.Launch]))
			}
		}
		if len(rows) > 0 {
			a.table(head, rows)
		}
		a.printForeign(all.foreign)
		return nil
	})
}

// serverCell says which cell's server one is; a saved one is of none.
func serverCell(s experiments.RunningServer) string {
	if s.Saved != "" {
		return "saved " + s.Saved
	}
	return cellName(s.Params, s.Baseline)
}

// serverPatches shows the patches in the files of a server; nobody looks for those of a
// saved one.
func serverPatches(s experiments.RunningServer) string {
	if s.Saved != "" {
		return "unknown"
	}
	return patchNames(s.Patches)
}

func liveText(live *bool) string {
	switch {
	case live == nil:
		return "unknown"
	case *live:
		return "yes"
	}
	return "no"
}

func newServerLogsCommand(a *app) *cobra.Command {
	var follow bool
	c := &cobra.Command{
		Use:   "logs [LAUNCH]",
		Short: "Print the log of a server of ours",
		Long: `Print the log of the server that runs, or of the launch named, which may have
ended. With -f print what it adds until it ends or you interrupt.` + exitStatus(exitOK, exitFailed, exitUsage, exitUnreachable),
		Example: "  specrun server logs -f --host kimi-8gpu",
		Args:    atMost(1),
		RunE: func(c *cobra.Command, args []string) error {
			return a.runServerLogs(c.Context(), firstArg(args), follow)
		},
	}
	c.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what the server prints")
	return c
}

func (a *app) runServerLogs(ctx context.Context, id string, follow bool) error {
	switch {
	case len(a.flags.hosts) > 1:
		return usagef("name one host", "logs of %d hosts at once", len(a.flags.hosts))
	case a.flags.json && follow:
		return usagef("leave out one of the two", "--json tells where the log is, --follow prints it")
	}
	return a.eachHost(ctx, func(ctx context.Context, c *connection) error {
		s, err := pickServer(ctx, c, id)
		if err != nil {
			return err
		}
		if s == nil {
			return &codedError{code: exitFailed, msg: c.Name() + ": no server runs that specrun started", hint: "give the launch id of one that has ended; specrun watch --pid N or --log PATH follows any other"}
		}
		if a.flags.json {
			a.line("log", struct {
				Host   string `json:"host"`
				Launch string `json:"launch"`
				Path   string `json:"path"` // on the host
				Bytes  int64  `json:"bytes"`
			}{c.Name(), s.Launch, s.LogPath, s.LogSize})
			return nil
		}
		return experiments.CopyLog(ctx, c, c.entry.StateDir, s.Launch, follow, clearing{a})
	})
}

// clearing writes to stdout below the live line.
type clearing struct{ a *app }

var _ io.Writer = clearing{}

func (w clearing) Write(p []byte) (int, error) {
	w.a.raw(string(p))
	return len(p), nil
}
