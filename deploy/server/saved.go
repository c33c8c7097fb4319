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

//go:embed scripts/saved.sh
var savedText string

//go:embed scripts/savedlist.sh
var savedListText string

// Saved is a server that was stopped, kept on the host to be started again. Its
// environment is there too, readable by this user alone, and in nothing else that
// specrun writes.
type Saved struct {
	ID    string
	User  string
	PID   int // that it had
	Argv  []string
	Cwd   string
	Port  int    // on which it listened; 0 for none
	Log   string // to which it wrote; "" unknown
	About string
	// Stopped is when it was proved gone, by the host's clock; zero: it was only
	// written down, or its stop was not proved.
	Stopped time.Time
	// Unit is the systemd service whose server it was, "system NAME" or "user NAME";
	// "" for none. That starts it again, and nothing else does.
	Unit string
	// Cards are the UUIDs of the host's GPUs by index, and by the UUIDs of their MIG
	// parts, as ReadSaved found them.
	Cards map[string]string
	// Launch is the one that starts it again, Restored the one that served.
	Launch, Restored string
}

// Pending tells that it was stopped and does not serve again yet.
func (s Saved) Pending() bool { return !s.Stopped.IsZero() && s.Restored == "" }

// GPUs are the UUIDs of the cards that a value of CUDA_VISIBLE_DEVICES names, whole
// ones also for parts of them; nil is all, also where a part's card is not known.
func (s Saved) GPUs(visible string) []string {
	var uuids []string
	for name := range strings.SplitSeq(visible, ",") {
		name = strings.TrimSpace(name)
		// The older name of a part: MIG-GPU-UUID/INSTANCE/INSTANCE.
		card, _, _ := strings.Cut(strings.TrimPrefix(name, "MIG-GPU-"), "/")
		switch {
		case name == "":
			continue
		case s.Cards[name] != "":
			card = s.Cards[name]
		case strings.HasPrefix(name, "MIG-GPU-"):
			card = "GPU-" + card
		case strings.HasPrefix(name, "MIG-"):
			return nil
		}
		if !slices.Contains(uuids, card) {
			uuids = append(uuids, card)
		}
	}
	return uuids
}

// NotSavedError says that no server is kept under an id.
type NotSavedError struct{ Host, ID string }

func (e *NotSavedError) Error() string { return fmt.Sprintf("%s: no saved server %s", e.Host, e.ID) }

// Hint says where to look.
func (e *NotSavedError) Hint() string { return "specrun server saved --host " + e.Host + " lists them" }

// OwnerError says that a saved server was another user's, and is not started as
// this one.
type OwnerError struct{ Host, ID, Owner, Me string }

func (e *OwnerError) Error() string {
	return fmt.Sprintf("%s: saved server %s was user %s's, and is not started as user %s", e.Host, e.ID, e.Owner, e.Me)
}

// Hint says what the user can do.
func (e *OwnerError) Hint() string {
	return "ask " + e.Owner + " to start it again; specrun server saved forget " + e.ID + " gives it up"
}

// ServiceError says that a saved server was a systemd service's, which starts it
// again.
type ServiceError struct {
	Host, ID string
	Unit     string // as Saved.Unit
}

func (e *ServiceError) Error() string {
	return fmt.Sprintf("%s: saved server %s was run by a service, and is not started beside it", e.Host, e.ID)
}

// Hint says what the user can do.
func (e *ServiceError) Hint() string {
	return StartService(e.Unit) + " on " + e.Host + " starts it again; specrun server saved forget " + e.ID + " gives it up"
}

// StartService is the command that starts a service, named as Saved.Unit is.
func StartService(unit string) string {
	scope, name, _ := strings.Cut(unit, " ")
	if scope == "user" {
		return "systemctl --user start " + name
	}
	return "systemctl start " + name
}

// SavedServers lists what is kept, in the order of ids.
func SavedServers(ctx context.Context, h Host, stateDir string) ([]Saved, error) {
	lines, err := savedRun(ctx, h, stateDir, "list", "")
	if err != nil {
		return nil, err
	}
	var all []Saved
	var at []remote.Line
	flush := func() error {
		if at == nil {
			return nil
		}
		s, _, err := parseSaved(h.Name(), at)
		all, at = append(all, s), nil
		return err
	}
	for _, l := range lines {
		if l.Key == "saved" {
			if err := flush(); err != nil {
				return nil, err
			}
		}
		at = append(at, l)
	}
	return all, flush()
}

// ReadSaved reads one with its environment. *NotSavedError when there is none.
func ReadSaved(ctx context.Context, h Host, stateDir, id string) (Saved, map[string]string, error) {
	lines, err := savedRun(ctx, h, stateDir, "read", id)
	if err != nil {
		return Saved{}, nil, err
	}
	return parseSaved(h.Name(), lines)
}

// SaveProcess keeps what it takes to start a running process again, and leaves it
// as it is. *UnsavedError when this user cannot read it.
func SaveProcess(ctx context.Context, h Host, stateDir, id string, p Process, about string) error {
	lines, err := savedRun(ctx, h, stateDir, "save", id, processVars(p, about)...)
	if err != nil {
		return err
	}
	for _, l := range lines {
		if l.Key == "error" {
			return &UnsavedError{Host: h.Name(), PID: p.Identity.PID, Detail: l.Value}
		}
	}
	return nil
}

// SavedStopped notes that one which was kept by SaveProcess was proved gone.
func SavedStopped(ctx context.Context, h Host, stateDir, id string) error {
	_, err := savedRun(ctx, h, stateDir, "stopped", id)
	return err
}

// ClaimSaved makes launch the one that starts a saved server again, and returns
// which one that is: one that was to do so before comes first, unless it is
// instead, which is known to have ended. So that two who want it start one.
// *OwnerError: it was another user's. *ServiceError: a service's.
func ClaimSaved(ctx context.Context, h Host, stateDir, id, launch, instead string) (string, error) {
	lines, err := savedRun(ctx, h, stateDir, "claim", id, remote.Var{Name: "LAUNCH", Value: launch}, remote.Var{Name: "INSTEAD", Value: instead})
	if err != nil {
		return "", err
	}
	var other OwnerError
	for _, l := range lines {
		switch {
		case l.Key == "launch" && l.Value != "":
			return l.Value, nil
		case l.Key == "unit":
			return "", &ServiceError{Host: h.Name(), ID: id, Unit: l.Value}
		case l.Key == "owner":
			other = OwnerError{Host: h.Name(), ID: id, Owner: l.Value}
		case l.Key == "me" && other.Owner != "":
			other.Me = l.Value
			return "", &other
		}
	}
	return "", fmt.Errorf("%s: saved server %s: its folder cannot be written", h.Name(), id)
}

// SavedRestored notes that launch serves in its stead.
func SavedRestored(ctx context.Context, h Host, stateDir, id, launch string) error {
	_, err := savedRun(ctx, h, stateDir, "restored", id, remote.Var{Name: "LAUNCH", Value: launch})
	return err
}

// ForgetSaved removes what is kept.
func ForgetSaved(ctx context.Context, h Host, stateDir, id string) error {
	_, err := savedRun(ctx, h, stateDir, "forget", id)
	return err
}

func savedRun(ctx context.Context, h Host, stateDir, mode, id string, vars ...remote.Var) ([]remote.Line, error) {
	if mode != "list" {
		if err := checkID(id); err != nil {
			return nil, fmt.Errorf("saved server: %w", err)
		}
	}
	all := map[string]string{"STATE": stateDir, "MODE": mode, "ID": id, "LAUNCH": "", "INSTEAD": "",
		"PID": "", "TICKS": "", "BOOT": "", "PORT": "", "LOG": "", "ABOUT": "", "UNIT": ""}
	for _, v := range vars {
		all[v.Name] = v.Value
	}
	var given []remote.Var
	for _, name := range []string{"STATE", "MODE", "ID", "LAUNCH", "INSTEAD", "PID", "TICKS", "BOOT", "PORT", "LOG", "ABOUT", "UNIT"} {
		given = append(given, remote.Var{Name: name, Value: all[name]})
	}
	res, err := h.Run(ctx, script("saved", savedText+savedListText, given...))
	if err != nil {
		return nil, fmt.Errorf("saved servers: %w", err)
	}
	lines := remote.Lines(res.Stdout)
	if len(lines) == 1 && lines[0].Key == "unknown" {
		return nil, &NotSavedError{Host: h.Name(), ID: id}
	}
	return lines, nil
}

func parseSaved(host string, lines []remote.Line) (s Saved, environ map[string]string, err error) {
	for _, l := range lines {
		var raw []byte
		switch l.Key {
		case "saved":
			s.ID = l.Value
		case "user":
			s.User = l.Value
		case "pid":
			s.PID, err = strconv.Atoi(l.Value)
		case "port":
			s.Port, err = strconv.Atoi(l.Value)
		case "log":
			s.Log = l.Value
		case "about":
			s.About = l.Value
		case "unit":
			s.Unit = l.Value
		case "launch":
			s.Launch = l.Value
		case "restored":
			s.Restored = l.Value
		case "stopped":
			var n int64
			n, err = strconv.ParseInt(l.Value, 10, 64)
			s.Stopped = time.Unix(n, 0)
		case "argv":
			raw, err = hex.DecodeString(l.Value)
			s.Argv = strings.Split(strings.TrimSuffix(string(raw), "\x00"), "\x00")
		case "cwd":
			raw, err = hex.DecodeString(l.Value)
			s.Cwd = strings.TrimSuffix(string(raw), "\n")
		case "card", "slice":
			if f := strings.Fields(l.Value); len(f) >= 2 {
				if s.Cards == nil {
					s.Cards = map[string]string{}
				}
				s.Cards[f[0]] = f[1]
			}
		case "environ":
			raw, err = hex.DecodeString(l.Value)
			environ = parseEnviron(raw)
		}
		if err != nil {
			return s, nil, fmt.Errorf("%s: saved server %s: %s: %w", host, s.ID, l.Key, err)
		}
	}
	return s, environ, nil
}
