package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"

	"golang.org/x/term"
)

// confirm asks before something that is not ours is stopped, overwritten or
// taken. Without a terminal and without --yes it refuses. The practice host is
// ours: nothing with --host lab asks.
func (a *app) confirm(what string) error {
	if a.onlyLab() {
		return nil
	}
	return a.confirmAnywhere(what)
}

// confirmAnywhere asks on the practice host, too: its sessions see every process of
// the machine that it runs on.
func (a *app) confirmAnywhere(what string) error {
	if a.flags.yes {
		return nil
	}
	if !a.stdinTTY || !a.stderrTTY {
		return usagef("give --yes to allow it", "%s, and there is no terminal to ask on", what)
	}
	a.done()
	fmt.Fprintf(a.stderr, "%s. Go on? [y/N] ", what)
	answer, err := bufio.NewReader(a.stdin).ReadString('\n')
	if err != nil || !strings.EqualFold(strings.TrimSpace(answer), "y") {
		return usagef("", "stopped: %s", what)
	}
	return nil
}

func (a *app) onlyLab() bool {
	for _, h := range a.flags.hosts {
		if h != labHost {
			return false
		}
	}
	return len(a.flags.hosts) > 0
}

// askSecret asks for a key's passphrase on the terminal, without echo.
func (a *app) askSecret(_ context.Context, question string) (string, error) {
	a.done()
	fmt.Fprintf(a.stderr, "%s: ", question)
	secret, err := term.ReadPassword(int(os.Stdin.Fd()))
	fmt.Fprintln(a.stderr)
	return string(secret), err
}
