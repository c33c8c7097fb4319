package detach

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"specrun/remote"
)

// lookChunk bounds what one look brings of the events.
const lookChunk = 256 << 10

// Status is one look at a sweep.
type Status struct {
	State  State
	Clock  int64   // of the host when it was looked, in seconds UTC; 0: it has not said
	Now    *Event  // what is going on; nil: it has not said
	End    *End    // when it has ended
	Events []Event // behind the position that was asked for
	At     int64   // the position behind them
	More   bool    // there may be more of them already
}

// Look looks at a sweep's folder and reads its events from a position on, 0 for
// all. It is one round trip and changes nothing.
func Look(ctx context.Context, h Host, dir string, from int64) (Status, error) {
	res, err := h.Run(ctx, script("look", lookText,
		remote.Var{Name: "DIR", Value: dir},
		remote.Var{Name: "OFFSET", Value: strconv.FormatInt(from, 10)},
		remote.Var{Name: "WANT", Value: strconv.Itoa(lookChunk)}))
	if err != nil {
		return Status{}, fmt.Errorf("look at the sweep: %w", err)
	}
	st, err := parseLook(res.Stdout, from)
	if err != nil {
		return st, fmt.Errorf("%s: look at the sweep in %s: %w", h.Name(), dir, err)
	}
	return st, nil
}

func parseLook(out []byte, from int64) (Status, error) {
	st := Status{At: from}
	head, data, _ := bytes.Cut(out, []byte("data\n"))
	a := answer(head)
	var err error
	if st.State, err = parseState(a["is"]); err != nil {
		return st, err
	}
	if st.Clock, err = strconv.ParseInt(a["clock"], 10, 64); err != nil {
		st.Clock = 0
	}
	if text, ok := a["now"]; ok {
		st.Now = &Event{}
		if err := json.Unmarshal([]byte(text), st.Now); err != nil {
			return st, fmt.Errorf("%s: %w", nowFile, err)
		}
	}
	if text, ok := a["end"]; ok {
		st.End = &End{}
		if err := json.Unmarshal([]byte(text), st.End); err != nil {
			return st, fmt.Errorf("%s: %w", endFile, err)
		}
	}
	st.More = len(data) == lookChunk
	for {
		line, rest, whole := bytes.Cut(data, []byte("\n"))
		if !whole {
			// Half a line is being written, or the chunk ends in it. One that no look
			// can hold is no event: it would be asked for again and again.
			if len(data) == lookChunk {
				st.At += lookChunk
			}
			return st, nil
		}
		st.At += int64(len(line)) + 1
		data = rest
		var e Event
		if json.Unmarshal(line, &e) == nil { // else what a killed process left of one
			e.end = st.At
			if st.Clock > 0 {
				e.Ago = max(0, time.Unix(st.Clock, 0).Sub(time.UnixMicro(e.AtUs)))
			}
			st.Events = append(st.Events, e)
		}
	}
}

// Listed is a sweep that went on by itself on a host.
type Listed struct {
	SweepID string
	Dir     string
	State   State
	Owner   string // the user whose it is, when we may not look into it
}

// List lists the sweeps that a host has, by id. It changes nothing. *OthersError
// when only another user may look.
func List(ctx context.Context, h Host, stateDir string) ([]Listed, error) {
	res, err := h.Run(ctx, script("list", listText, remote.Var{Name: "STATE", Value: stateDir}))
	if err != nil {
		return nil, fmt.Errorf("list the sweeps: %w", err)
	}
	return parseList(h.Name(), string(res.Stdout))
}

func parseList(host, out string) (all []Listed, err error) {
	dir := ""
	for line := range strings.Lines(out) {
		key, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		switch key {
		case "dir":
			dir = value
		case "others":
			return nil, &OthersError{Host: host, Dir: dir, Owner: value}
		case "sweep":
			id, text, _ := strings.Cut(value, " ")
			text, owner, _ := strings.Cut(text, " ")
			state, err := parseState(text)
			if err != nil {
				return nil, fmt.Errorf("%s: list the sweeps: %w", host, err)
			}
			all = append(all, Listed{SweepID: id, Dir: dir + "/" + id, State: state, Owner: owner})
		}
	}
	return all, nil
}

// Find is List for one sweep; its State is Absent when the host does not have
// it.
func Find(ctx context.Context, h Host, stateDir, sweepID string) (Listed, error) {
	all, err := List(ctx, h, stateDir)
	for _, l := range all {
		if l.SweepID == sweepID {
			return l, err
		}
	}
	return Listed{SweepID: sweepID, State: Absent}, err
}

// Stop asks the process of a sweep to end as an interrupt does, once, and says
// how the sweep stood. Follow sees its end.
func Stop(ctx context.Context, h Host, dir string) (State, error) {
	return act(ctx, h, "stop", stopText, dir)
}

// Remove removes a sweep's folder when its process has ended and its results are
// for this store; dead removes that of one which was killed, or never began, too.
// It says how the sweep stands then: not Absent means that it was left.
func Remove(ctx context.Context, h Host, dir, store string, dead bool) (State, error) {
	value := "no"
	if dead {
		value = "yes"
	}
	return act(ctx, h, "remove", removeText, dir, remote.Var{Name: "DEAD", Value: value}, remote.Var{Name: "STORE", Value: store})
}

func act(ctx context.Context, h Host, name, text, dir string, vars ...remote.Var) (State, error) {
	res, err := h.Run(ctx, script(name, text, append(vars, remote.Var{Name: "DIR", Value: dir})...))
	if err != nil {
		return "", fmt.Errorf("%s the sweep in %s: %w", name, dir, err)
	}
	state, err := parseState(answer(res.Stdout)["is"])
	if err != nil {
		return "", fmt.Errorf("%s: %s the sweep in %s: %w", h.Name(), name, dir, err)
	}
	return state, nil
}
