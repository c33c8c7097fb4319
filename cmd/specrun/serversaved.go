package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"specrun/deploy/server"
	"specrun/experiments"
)

func newServerSavedCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "saved",
		Short: "List the servers that were stopped and can be started again",
		Long: `List the servers on a host that server stop --pid, or stop --save, stopped and that
can be started again with "server start --saved ID": command line, folder and
environment as they were. All of it is kept on the host, readable by this user
alone; no environment is shown or stored here, and of a long command line only the
beginning (--json prints all of it). What a systemd service ran is started again by
that service alone, with systemctl. A sweep with after: restore starts
those that are stopped again when it has ended.` + exitStatus(exitOK, exitUsage, exitUnreachable),
		Example: "  specrun server saved --host kimi-8gpu",
		Args:    noArgs,
		RunE:    func(c *cobra.Command, _ []string) error { return a.runServerSaved(c.Context()) },
	}
	c.AddCommand(&cobra.Command{
		Use:     "forget ID",
		Short:   "Remove what is kept of a server, so that nothing starts it again",
		Long:    "Remove what is kept of a server on the host. Nothing is stopped or started." + exitStatus(exitOK, exitUsage, exitUnreachable),
		Example: "  specrun server saved forget k3v7 --host kimi-8gpu",
		Args:    needs("an ID", 1, 1, "specrun server saved"),
		RunE: func(c *cobra.Command, args []string) error {
			return a.eachHost(c.Context(), func(ctx context.Context, h *connection) error {
				s, err := pickSaved(ctx, h, args[0])
				if err != nil {
					return err
				}
				if err := server.ForgetSaved(ctx, h, h.entry.StateDir, s.ID); err != nil {
					return err
				}
				a.printf("%s: %s is forgotten\n", h.Name(), s.ID)
				return nil
			})
		},
	})
	return c
}

// savedLine is a saved server in a JSON line.
type savedLine struct {
	Host    string     `json:"host"`
	ID      string     `json:"id"`
	State   string     `json:"state"` // stopped, restored, unproved
	User    string     `json:"user"`
	PID     int        `json:"pid"`     // that it had
	Command []string   `json:"command"` // secrets hidden
	Cwd     string     `json:"cwd"`
	Port    int        `json:"port"`
	Log     string     `json:"log,omitempty"`
	Unit    string     `json:"unit,omitempty"` // "system NAME" or "user NAME": the service that starts it again
	Stopped *time.Time `json:"stopped"`
	Launch  string     `json:"launch,omitempty"` // that starts or started it again
}

func savedOf(host string, s server.Saved) savedLine {
	l := savedLine{Host: host, ID: s.ID, State: "stopped", User: s.User, PID: s.PID, Command: experiments.HideArgv(host, s.Argv), Cwd: s.Cwd, Port: s.Port, Log: s.Log, Unit: s.Unit, Launch: s.Launch}
	switch {
	case s.Restored != "":
		l.State, l.Launch = "restored", s.Restored
	case s.Stopped.IsZero():
		l.State = "unproved"
	}
	if !s.Stopped.IsZero() {
		l.Stopped = &s.Stopped
	}
	return l
}

func (a *app) runServerSaved(ctx context.Context) error {
	return a.eachHost(ctx, func(ctx context.Context, c *connection) error {
		all, err := server.SavedServers(ctx, c, c.entry.StateDir)
		if err != nil {
			return err
		}
		if len(all) == 0 {
			a.printf("%s: no server is saved\n", c.Name())
		}
		var rows [][]string
		for _, s := range all {
			l := savedOf(c.Name(), s)
			if a.flags.json {
				a.line("saved", l)
				continue
			}
			state := l.State
			if l.State == "restored" {
				state += " by launch " + l.Launch
			}
			if l.Unit != "" {
				state += ", service's"
			}
			stopped := "-"
			if l.Stopped != nil {
				stopped = l.Stopped.Local().Format("2006-01-02 15:04")
			}
			rows = append(rows, []string{c.Name(), l.ID, state, stopped, l.User, fmt.Sprint(l.Port), brief(strings.Join(l.Command, " "), briefRow)})
		}
		if len(rows) > 0 {
			a.table([]string{"HOST", "ID", "STATE", "STOPPED", "USER", "PORT", "COMMAND"}, rows)
		}
		return nil
	})
}

// pickSaved finds the one whose id begins with id.
func pickSaved(ctx context.Context, c *connection, id string) (server.Saved, error) {
	all, err := server.SavedServers(ctx, c, c.entry.StateDir)
	if err != nil {
		return server.Saved{}, err
	}
	var fit []server.Saved
	var names []string
	for _, s := range all {
		if s.ID == id {
			return s, nil
		}
		if strings.HasPrefix(s.ID, id) {
			fit, names = append(fit, s), append(names, s.ID)
		}
	}
	switch len(fit) {
	case 0:
		return server.Saved{}, &server.NotSavedError{Host: c.Name(), ID: id}
	case 1:
		return fit[0], nil
	}
	return server.Saved{}, usagef("give more of it", "%s: %s fits %s", c.Name(), id, strings.Join(names, ", "))
}

// runServerStartSaved starts a saved server again and leaves it running.
func (a *app) runServerStartSaved(ctx context.Context, id string, dryRun bool) error {
	defer a.tick()()
	return a.eachHost(ctx, func(ctx context.Context, c *connection) (err error) {
		s, err := pickSaved(ctx, c, id)
		if err != nil {
			return err
		}
		l := savedOf(c.Name(), s)
		if dryRun {
			if a.flags.json {
				a.line("saved", l)
			}
			a.printf("%s: would start in %s: %s\n", c.Name(), l.Cwd, strings.Join(l.Command, " "))
			return nil
		}
		begin := a.now()
		a.setLive(c.Name()+": starting saved server "+s.ID, func() string { return timesText(a.now(), begin, time.Time{}) })
		r, err := experiments.RestartSaved(ctx, c, c.entry.StateDir, s.ID, experiments.RestartOptions{Launch: a.newID(), Controller: experiments.Controller()})
		if ctx.Err() != nil && err != nil {
			return fmt.Errorf("the start was interrupted and is undone: %w", err)
		}
		if err != nil {
			return err
		}
		a.printRestarted(c.Name(), r)
		return nil
	})
}

func (a *app) printRestarted(host string, r *experiments.Restarted) {
	if a.flags.json {
		a.line("server", serverLine{Host: host, Launch: r.Launch, State: "ready", PID: r.Identity.PID, Port: r.Saved.Port, URL: r.URL, Log: r.LogPath,
			Experiment: "saved " + r.Saved.ID, Patches: []string{}})
		return
	}
	what := "serves again"
	if r.Already {
		what = "serves already"
	}
	a.printf("%s: the server that was saved as %s %s: %s\n  launch  %s\n  process %d\n  log     %s\n", host, r.Saved.ID, what, r.URL, r.Launch, r.Identity.PID, r.LogPath)
}
