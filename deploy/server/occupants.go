package server

import (
	"context"
	_ "embed"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"specrun/remote"
)

//go:embed scripts/occupants.sh
var occupantsText string

// Occupant is a process of the host that FindOccupants found.
type Occupant struct {
	PID  int
	User string
	UID  int
	// Argv is its argument vector, or the title that it has set in the first word;
	// empty when it hides it.
	Argv      []string
	Age       time.Duration
	Listens   []int  // TCP ports of its own, in order; nil also where they are hidden from this user
	Launch    string // of specrun's, as its environment says; "" for none, or hidden
	Container string // id of the container that it is in and this session is not
	Ancestors []int  // from its parent on
}

// Card is a GPU of the host.
type Card struct {
	Index int // as nvidia-smi counts
	UUID  string
	MiB   int64 // in use, whoever holds it; -1 where nvidia-smi does not tell
}

// Occupants are what FindOccupants found.
type Occupants struct {
	UID       int        // of the session that looked
	Processes []Occupant // in the order of their pids
	Cards     []Card     // none where no nvidia-smi answers
	// Holders are what holds GPU memory; the pid of one in another container may be
	// of no process that can be seen.
	Holders []GPUHolder
}

// FindOccupants lists the processes of the host of which an argument matches
// pattern, an extended regular expression of awk's, and those that hold GPU memory,
// whoever started them. It is one round trip and changes nothing; a host without
// GPUs has no Cards, which is no error.
func FindOccupants(ctx context.Context, h Host, pattern string) (Occupants, error) {
	res, err := h.Run(ctx, script("occupants", findText+foreignText+occupantsText, remote.Var{Name: "PATTERN", Value: pattern}))
	if err != nil {
		return Occupants{}, fmt.Errorf("look for servers: %w", err)
	}
	found, err := parseOccupants(remote.Lines(res.Stdout))
	if err != nil {
		return Occupants{}, fmt.Errorf("%s: look for servers: %w", h.Name(), err)
	}
	return found, nil
}

func parseOccupants(lines []remote.Line) (Occupants, error) {
	var all Occupants
	hz, up, here := 100.0, 0.0, ""
	for _, l := range lines {
		var p Occupant
		if n := len(all.Processes); n > 0 {
			p = all.Processes[n-1]
		}
		var err error
		switch l.Key {
		case "me":
			all.UID, err = strconv.Atoi(l.Value)
		case "hz":
			hz, err = strconv.ParseFloat(l.Value, 64)
		case "up":
			up, err = strconv.ParseFloat(l.Value, 64)
		case "cgroup_here":
			here, err = unhex(l.Value)
			here = containerOf(here)
		case "card":
			var c Card
			c, err = parseCard(l.Value)
			all.Cards = append(all.Cards, c)
		case "gpu":
			var g GPUHolder
			g, err = parseGPU(l.Value, true)
			all.Holders = append(all.Holders, g)
		case "process":
			p = Occupant{}
			p.PID, err = strconv.Atoi(l.Value)
			all.Processes = append(all.Processes, p)
		case "ticks":
			var ticks float64
			ticks, err = strconv.ParseFloat(l.Value, 64)
			p.Age = max(0, time.Duration((up-ticks/hz)*float64(time.Second)).Truncate(time.Second))
		case "uid":
			p.UID, err = strconv.Atoi(l.Value)
		case "user":
			p.User = l.Value
		case "argv":
			var raw string
			if raw, err = unhex(l.Value); raw != "" {
				p.Argv = strings.Split(strings.TrimSuffix(raw, "\x00"), "\x00")
			}
		case "cgroup":
			var group string
			if group, err = unhex(l.Value); containerOf(group) != here {
				p.Container = containerOf(group)
			}
		case "run":
			p.Launch = l.Value
		case "above":
			for _, pid := range strings.Fields(l.Value) {
				var n int
				if n, err = strconv.Atoi(pid); err != nil {
					break
				}
				p.Ancestors = append(p.Ancestors, n)
			}
		case "listens":
			var n int
			if n, err = strconv.Atoi(l.Value); !slices.Contains(p.Listens, n) {
				p.Listens = append(p.Listens, n)
			}
		}
		if err != nil {
			return Occupants{}, fmt.Errorf("line %s: %w", l.Key, err)
		}
		if n := len(all.Processes); n > 0 {
			all.Processes[n-1] = p
		}
	}
	return all, nil
}

func unhex(s string) (string, error) {
	b, err := hex.DecodeString(s)
	return string(b), err
}

// parseCard reads "index uuid MiB".
func parseCard(s string) (Card, error) {
	f := strings.SplitN(s, " ", 3)
	if len(f) != 3 {
		return Card{}, fmt.Errorf("card %q: want three fields", s)
	}
	index, err := strconv.Atoi(f[0])
	if err != nil {
		return Card{}, fmt.Errorf("card %q: %w", s, err)
	}
	c := Card{Index: index, UUID: f[1], MiB: -1}
	if mib, err := strconv.ParseInt(f[2], 10, 64); err == nil { // else "[N/A]"
		c.MiB = mib
	}
	return c, nil
}
