package lab

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strings"
)

// Neighbour is another's process on a card: one that lives, and only sleeps. It
// costs no time; see throttle_pct for what others do to a card.
type Neighbour struct {
	Card   int    `json:"gpu"`
	MiB    int    `json:"mib"`
	Name   string `json:"name"`   // its command, as nvidia-smi shows it
	Always bool   `json:"always"` // shown also while no server runs: then none can be started on that card
}

// setNeighbours ends the processes of the neighbours there were and starts
// those of the new. They end with the practice host.
func (l layout) setNeighbours(list []Neighbour) error {
	path := l.path("gpu", "neighbours")
	if err := endListed(path); err != nil {
		return fmt.Errorf("practice host: neighbours: %w", err)
	}
	var text strings.Builder
	var failed error
	for _, n := range list {
		p, err := l.startNeighbour()
		if err != nil {
			failed = fmt.Errorf("practice host: neighbour %q: %w", n.Name, err)
			break
		}
		always := "no"
		if n.Always {
			always = "yes"
		}
		fmt.Fprintf(&text, "%d %d %d %d %s %s\n", p.PID, p.StartTicks, n.Card, n.MiB, always, n.Name)
	}
	// Also after a failure: those that did start must be found again.
	return errors.Join(failed, replaceFile(path, []byte(text.String()), 0o600))
}

func (l layout) startNeighbour() (Process, error) {
	cmd := exec.Command("sleep", "1000000000")
	cmd.Dir = string(l)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), l.mark()} // the mark ends it with the practice host
	detach(cmd)
	if err := cmd.Start(); err != nil {
		return Process{}, err
	}
	p, err := identify(cmd.Process.Pid)
	if err != nil {
		return p, errors.Join(err, cmd.Process.Kill(), cmd.Wait())
	}
	go cmd.Wait() // ends with the process, or with ours
	return p, nil
}

// endListed ends the processes that a neighbours file names.
func endListed(path string) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	sc := bufio.NewScanner(f)
	for sc.Scan() {
		var pid int
		var ticks uint64
		if _, err := fmt.Sscan(sc.Text(), &pid, &ticks); err != nil {
			return fmt.Errorf("%s: %q: %w", path, sc.Text(), err)
		}
		// The number may be another process's by now.
		if p, err := identify(pid); err == nil && p.StartTicks == ticks {
			if err := p.end(context.Background(), grace); err != nil {
				return err
			}
		}
	}
	return sc.Err()
}
