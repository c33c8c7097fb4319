package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"specrun/deploy"
	"specrun/deploy/server"
	"specrun/experiments"
)

func newLockCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "lock",
		Short: "Look at and release the locks and leases on a host",
		Long: `Look at the locks that specrun's scripts hold on a host while they change files,
and at the leases of servers on ports and GPUs, and the queue for them.

A lock belongs to a script on the host; when that is dead the next command takes
the lock by itself, so release is needed only when nobody can tell, such as for
a lock of another machine on a shared folder. A lease belongs to a launch: it
holds while its controller renews it, and as long as its server lives; release
leaves those alone (specrun server stop ends a server and its leases).`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	var force bool
	release := &cobra.Command{
		Use: "release", Short: "Release locks whose script is not running, and leases of dead launches", Args: noArgs,
		Long: `Release locks whose script is not running, and leases of launches whose server is
dead. Without a terminal it wants --yes, since a lock may be another machine's.

A host on which a stop could not be proved is marked, and starts nothing until
specrun server stop has proved it; --force takes the mark away without a proof.` + exitStatus(exitOK, exitFailed, exitUsage, exitUnreachable, exitLocked),
		Example: "  specrun lock release --host kimi-8gpu --yes",
		RunE:    func(c *cobra.Command, _ []string) error { return a.runLockRelease(c.Context(), force) },
	}
	release.Flags().BoolVar(&force, "force", false, "also take away the marks of stops that were not proved")
	c.AddCommand(&cobra.Command{
		Use: "status", Short: "List the locks, and the leases of servers", Args: noArgs,
		Long:    "List the locks, and the leases of servers. Nothing is changed." + exitStatus(exitOK, exitFailed, exitUsage, exitUnreachable),
		Example: "  specrun lock status --host kimi-8gpu",
		RunE:    func(c *cobra.Command, _ []string) error { return a.runLockStatus(c.Context()) },
	}, release)
	return c
}

func (a *app) runLockStatus(ctx context.Context) error {
	var mu sync.Mutex
	return a.eachHost(ctx, func(ctx context.Context, c *connection) error {
		locks, err := deploy.LockStatus(ctx, c.Host, c.entry.StateDir)
		if err != nil {
			return err
		}
		leases, err := server.Leases(ctx, c, c.entry.StateDir)
		if err != nil {
			return err
		}
		marks, err := server.Marks(ctx, c, c.entry.StateDir)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		a.printLocks(c.Name(), locks)
		a.printLeases(c.Name(), leases)
		a.printMarks(c.Name(), marks)
		return nil
	})
}

func (a *app) printLocks(host string, locks []deploy.Lock) {
	var rows [][]string
	for _, l := range locks {
		if a.flags.json {
			a.line("lock", struct {
				Host string `json:"host"`
				deploy.Lock
			}{host, l})
			continue
		}
		state := "free"
		if l.Held {
			state = "held"
		}
		rows = append(rows, []string{host, state, l.Reason, fmt.Sprint(l.PID), l.User, l.What})
	}
	if len(rows) > 0 {
		a.table([]string{"HOST", "STATE", "WHY", "PID", "USER", "FOLDER"}, rows)
	} else {
		a.printf("%s: no locks\n", host)
	}
}

func (a *app) printLeases(host string, leases []server.Lease) {
	var rows [][]string
	for _, l := range leases {
		if a.flags.json {
			a.line("lease", struct {
				Host       string     `json:"host"`
				Name       string     `json:"name"`
				State      string     `json:"state"`
				Launch     string     `json:"launch,omitempty"`
				Controller string     `json:"controller,omitempty"`
				What       string     `json:"what,omitempty"`
				Set        string     `json:"set,omitempty"`     // of a lease on a patch set, in words
				Wants      []string   `json:"wants,omitempty"`   // of a place in the queue, in order of arrival
				Expires    *time.Time `json:"expires,omitempty"` // host's clock
			}{host, l.Name, leaseState(l), l.Owner.Launch, l.Owner.Controller, l.Owner.What, l.Set, l.Wants, expiry(l)})
			continue
		}
		expires := "-"
		if at := expiry(l); at != nil {
			expires = at.Local().Format(time.DateTime)
		}
		name := l.Name
		if l.Queued() {
			name += " for " + l.Needs()
		}
		rows = append(rows, []string{host, leaseState(l), name, l.Owner.Launch, expires, l.Owner.What, l.Owner.Who()})
	}
	if len(rows) > 0 {
		a.table([]string{"HOST", "STATE", "LEASE", "LAUNCH", "EXPIRES", "FOR", "CONTROLLER"}, rows)
	} else {
		a.printf("%s: no leases\n", host)
	}
}

// printMarks shows the stops on a host that could not be proved.
func (a *app) printMarks(host string, marks []server.Mark) {
	for _, m := range marks {
		if a.flags.json {
			a.line("mark", struct {
				Host   string    `json:"host"`
				Launch string    `json:"launch"`
				PID    int       `json:"pid,omitempty"` // of a process that specrun did not start
				When   time.Time `json:"when"`          // host's clock
				Left   string    `json:"left"`
			}{host, m.Launch, m.PID, m.When.UTC(), m.Why()})
			continue
		}
		e := &server.MarkedError{Host: host, Marks: []server.Mark{m}}
		a.printf("%s\nhint: %s\n", e, e.Hint())
	}
}

// leaseState says why a lease holds, or that it does not.
func leaseState(l server.Lease) string {
	switch {
	case l.Queued() && l.Expired:
		return "gone"
	case l.Queued():
		return "in the queue"
	case l.Alive:
		return "server lives"
	case l.Expired:
		return "expired"
	}
	return "held"
}

func expiry(l server.Lease) *time.Time {
	if l.Expires.IsZero() {
		return nil
	}
	return &l.Expires
}

func (a *app) runLockRelease(ctx context.Context, force bool) error {
	if err := a.confirm("locks of other users or machines may be released"); err != nil {
		return err
	}
	var mu sync.Mutex
	return a.eachHost(ctx, func(ctx context.Context, c *connection) error {
		locks, err := deploy.LockStatus(ctx, c.Host, c.entry.StateDir)
		if err != nil {
			return err
		}
		var failed []error
		freed := 0
		for _, l := range locks {
			if !l.Held {
				continue
			}
			if _, err := deploy.ReleaseLock(ctx, c.Host, c.entry.StateDir, l); err != nil {
				failed = append(failed, err)
				continue
			}
			freed++
			mu.Lock()
			a.printf("%s: released the lock on %s\n", c.Name(), l.What)
			mu.Unlock()
		}
		released, err := experiments.ReleaseDeadLeases(ctx, c, c.entry.StateDir)
		var cleared []server.Mark
		if force && err == nil {
			cleared, err = server.ClearMarks(ctx, c, c.entry.StateDir)
		}
		mu.Lock()
		defer mu.Unlock()
		for _, l := range released {
			a.printf("%s: released the lease on %s of launch %s\n", c.Name(), l.Name, l.Owner.Launch)
		}
		for _, m := range cleared {
			a.printf("%s: took the mark of %s away; left was: %s\n", c.Name(), m.Of(), m.Why())
		}
		if err = errors.Join(append(failed, err)...); err == nil && freed+len(released)+len(cleared) == 0 {
			a.printf("%s: nothing to release\n", c.Name())
		}
		return err
	})
}
