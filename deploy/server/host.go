package server

import (
	"context"
	_ "embed"
	"fmt"
	"net"
	"regexp"
	"strconv"
	"strings"

	"specrun/remote"
)

// Host is what this package needs of a host. *remote.Host is one. It must be
// safe for concurrent use.
type Host interface {
	Name() string
	// Run runs a script to its end; the error is nil only when it exited 0.
	Run(ctx context.Context, s remote.Script) (remote.Result, error)
	// ReadAt reads from a file that grows: n is 0 at its end, size its length.
	ReadAt(ctx context.Context, path string, p []byte, off int64) (n int, size int64, err error)
	// DialContext connects to an address as seen from the host.
	DialContext(ctx context.Context, network, addr string) (net.Conn, error)
}

//go:embed scripts/lib.sh
var libText string

//go:embed scripts/launch.sh
var launchText string

//go:embed scripts/start.sh
var startText string

//go:embed scripts/look.sh
var lookText string

//go:embed scripts/death.sh
var deathText string

//go:embed scripts/list.sh
var listText string

//go:embed scripts/place.sh
var placeText string

//go:embed scripts/instance.sh
var instanceText string

//go:embed scripts/unit.sh
var unitText string

//go:embed scripts/command.sh
var commandText string

//go:embed scripts/stop.sh
var stopText string

//go:embed scripts/judge.sh
var judgeText string

//go:embed scripts/lease.sh
var leaseText string

//go:embed scripts/ports.sh
var portsText string

//go:embed scripts/process.sh
var processText string

//go:embed scripts/login.sh
var loginText string

// library is what all scripts and the launcher use.
func library() string { return remote.HostLib() + libText }

// script joins a script with the functions all of them use.
func script(name, text string, vars ...remote.Var) remote.Script {
	return remote.Script{Name: "server-" + name, Text: library() + text, Vars: vars}
}

var launchID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

func checkID(id string) error {
	if !launchID.MatchString(id) {
		return fmt.Errorf("launch id %q: want letters, digits, dot, dash and underscore", id)
	}
	return nil
}

// Identity names one process for good: a pid alone may be given to a stranger.
type Identity struct {
	HostID     string `json:"host_id"` // machine and PID namespace
	BootID     string `json:"boot_id"`
	PID        int    `json:"pid"`
	StartTicks uint64 `json:"start_ticks"` // since boot, field 22 of /proc/PID/stat
	SID        int    `json:"sid"`         // session; the process leads it
}

func parseIdentity(s string) (Identity, error) {
	f := strings.Fields(s)
	if len(f) != 5 {
		return Identity{}, fmt.Errorf("identity %q: want five fields", s)
	}
	pid, err := strconv.Atoi(f[2])
	if err != nil {
		return Identity{}, fmt.Errorf("identity %q: %w", s, err)
	}
	ticks, err := strconv.ParseUint(f[3], 10, 64)
	if err != nil {
		return Identity{}, fmt.Errorf("identity %q: %w", s, err)
	}
	sid, err := strconv.Atoi(f[4])
	if err != nil {
		return Identity{}, fmt.Errorf("identity %q: %w", s, err)
	}
	return Identity{HostID: f[0], BootID: f[1], PID: pid, StartTicks: ticks, SID: sid}, nil
}
