package server

import (
	"context"
	_ "embed"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"specrun/remote"
)

//go:embed scripts/find.sh
var findText string

// Seen is a process that Find found.
type Seen struct {
	PID, Parent int
	Argv        []string
}

// Find lists the processes of the host whose command line has one of words in
// it, whoever started them, in the order of their pids. It changes nothing.
func Find(ctx context.Context, h Host, words ...string) ([]Seen, error) {
	res, err := h.Run(ctx, script("find", findText, remote.Var{Name: "WORDS", Value: strings.Join(words, " ")}))
	if err != nil {
		return nil, fmt.Errorf("look for processes: %w", err)
	}
	var all []Seen
	for _, l := range remote.Lines(res.Stdout) {
		f := strings.Fields(l.Value)
		if l.Key != "process" || len(f) != 3 {
			continue // it ended while it was looked at
		}
		pid, err := strconv.Atoi(f[0])
		if err != nil {
			return nil, fmt.Errorf("%s: look for processes: %w", h.Name(), err)
		}
		parent, err := strconv.Atoi(f[1])
		if err != nil {
			return nil, fmt.Errorf("%s: look for processes: %w", h.Name(), err)
		}
		raw, err := hex.DecodeString(f[2])
		if err != nil {
			return nil, fmt.Errorf("%s: look for processes: %w", h.Name(), err)
		}
		all = append(all, Seen{pid, parent, strings.Split(strings.TrimSuffix(string(raw), "\x00"), "\x00")})
	}
	slices.SortFunc(all, func(a, b Seen) int { return a.PID - b.PID })
	return all, nil
}

// SessionEnv reads the environment that scripts have on the host, and so a
// server too that Start starts, below what the launch adds.
func SessionEnv(ctx context.Context, h Host) (map[string]string, error) {
	res, err := h.Run(ctx, script("session", "main() { cat /proc/$$/environ; }\n"))
	if err != nil {
		return nil, fmt.Errorf("read the session's environment: %w", err)
	}
	return parseEnviron(res.Stdout), nil
}
