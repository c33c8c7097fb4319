package main

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/spf13/cobra"

	"specrun/deploy"
)

func newLockCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "lock",
		Short: "Look at and release the locks on a host",
		Long: `Look at the locks that specrun's scripts hold on a host while they change files.
A lock belongs to a script on the host; when that is dead the next command takes
the lock by itself, so release is needed only when nobody can tell, such as for
a lock of another machine on a shared folder.`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	c.AddCommand(&cobra.Command{
		Use: "status", Short: "List the locks", Args: cobra.NoArgs,
		Example: "  specrun lock status --host kimi-8gpu",
		RunE:    func(c *cobra.Command, _ []string) error { return a.runLockStatus(c.Context()) },
	}, &cobra.Command{
		Use: "release", Short: "Release locks whose script is not running", Args: cobra.NoArgs,
		Example: "  specrun lock release --host kimi-8gpu --yes",
		RunE:    func(c *cobra.Command, _ []string) error { return a.runLockRelease(c.Context()) },
	})
	return c
}

func (a *app) runLockStatus(ctx context.Context) error {
	var mu sync.Mutex
	return a.eachHost(ctx, func(ctx context.Context, c *connection) error {
		locks, err := deploy.LockStatus(ctx, c.Host, c.entry.StateDir)
		if err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		a.printLocks(c.Name(), locks)
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

func (a *app) runLockRelease(ctx context.Context) error {
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
		for _, l := range locks {
			if !l.Held {
				continue
			}
			if _, err := deploy.ReleaseLock(ctx, c.Host, c.entry.StateDir, l); err != nil {
				failed = append(failed, err)
				continue
			}
			mu.Lock()
			a.printf("%s: released the lock on %s\n", c.Name(), l.What)
			mu.Unlock()
		}
		return errors.Join(failed...)
	})
}
