package server

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"
	"strings"

	"specrun/remote"
)

//go:embed scripts/whom.sh
var whomText string

// Whom is whom the end of a process concerns.
type Whom struct {
	Members []Member // the processes that StopProcess ends with it, now
	Peers   []Peer   // who is connected to its port
}

// Member is one process.
type Member struct {
	PID     int    `json:"pid"`
	Command string `json:"command"` // one line, shortened
}

// Peer is one address with open connections.
type Peer struct {
	Address     string `json:"address"`
	Connections int    `json:"connections"`
}

// WhomOf finds out whom a stop of a process concerns. It changes nothing.
// *ProtectedError where StopProcess would refuse it with that.
func WhomOf(ctx context.Context, h Host, p Process) (Whom, error) {
	res, err := h.Run(ctx, script("whom", whomText,
		remote.Var{Name: "PID", Value: strconv.Itoa(p.Identity.PID)},
		remote.Var{Name: "PORT", Value: strconv.Itoa(p.Port())}))
	if err != nil {
		return Whom{}, fmt.Errorf("look who uses process %d: %w", p.Identity.PID, err)
	}
	var w Whom
	for _, l := range remote.Lines(res.Stdout) {
		first, rest, _ := strings.Cut(l.Value, " ")
		switch l.Key {
		case "member":
			pid, err := strconv.Atoi(first)
			if err != nil {
				return Whom{}, fmt.Errorf("%s: member %q: %w", h.Name(), l.Value, err)
			}
			w.Members = append(w.Members, Member{pid, strings.TrimSpace(rest)})
		case "protected":
			return Whom{}, &ProtectedError{Host: h.Name(), PID: p.Identity.PID, First: first == "first"}
		case "peer":
			addr, err := procAddr(first)
			if err != nil {
				return Whom{}, fmt.Errorf("%s: peer %q: %w", h.Name(), l.Value, err)
			}
			n, err := strconv.Atoi(rest)
			if err != nil {
				return Whom{}, fmt.Errorf("%s: peer %q: %w", h.Name(), l.Value, err)
			}
			w.Peers = append(w.Peers, Peer{addr.String(), n})
		}
	}
	return w, nil
}
