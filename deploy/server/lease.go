package server

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"specrun/remote"
)

// Owner is who holds a lease. A lease belongs to a launch: a controller that
// goes on with the same launch has its leases.
type Owner struct {
	Launch     string
	Controller string // who to ask: user@machine, pid
	What       string // sweep and cell, for people
}

// Who is the controller for people: without what tells its process from another
// one of that pid.
func (o Owner) Who() string {
	who, _, _ := strings.Cut(o.Controller, " [")
	return who
}

// Lease is one held lease as the host has it.
type Lease struct {
	Name  string // port-30000, gpu-all, gpu-<uuid>, patches-<folder>, queue-<n>
	Owner Owner
	// Parent is the sweep that the owner is a launch of; "" none.
	Parent string
	// Set is, in words, the patch set of a lease on one.
	Set string
	// Wants are the leases that a place in the queue is for.
	Wants   []string
	Taken   time.Time // host's clock, whole seconds
	Expires time.Time // host's clock, whole seconds
	Expired bool
	// Alive is known only of an expired lease: its launch has processes, so it
	// still holds.
	Alive bool
	// Unowned is a lease whose maker wrote no owner; it ends after a minute.
	Unowned bool
}

// HeldError says that somebody else holds a lease.
type HeldError struct {
	Host  string
	Lease Lease
	Now   time.Time // host's clock
}

func (e *HeldError) Error() string {
	l := e.Lease
	if l.Unowned {
		return fmt.Sprintf("%s: %s is being leased by somebody else", e.Host, l.Name)
	}
	msg := fmt.Sprintf("%s: %s is leased by %s for launch %s", e.Host, l.Name, l.Owner.Who(), l.Owner.Launch)
	switch { // the owner of these is no launch
	case strings.HasPrefix(l.Name, patchesPrefix):
		msg = fmt.Sprintf("%s: the engine's patches are leased by %s", e.Host, l.Owner.Who())
		if l.Set != "" {
			msg = fmt.Sprintf("%s: the engine's files are leased with %s by %s", e.Host, l.Set, l.Owner.Who())
		}
	case l.Queued():
		msg = fmt.Sprintf("%s: %s was here before, for %s", e.Host, l.Owner.Who(), l.Needs())
	}
	if l.Owner.What != "" {
		msg += " (" + l.Owner.What + ")"
	}
	if l.Alive {
		return msg + ", whose server runs"
	}
	return msg + fmt.Sprintf(", for %v from now unless renewed", l.Expires.Sub(e.Now))
}

// DetachedSweep begins Owner.What, before the sweep's id, where a process on the
// host has the lease that no terminal is behind.
const DetachedSweep = "detached sweep "

// Hint says what the user can do.
func (e *HeldError) Hint() string {
	if e.Lease.Alive {
		return "no controller works with it now: end it with specrun server stop, or resume its sweep"
	}
	if sweep, is := strings.CutPrefix(e.Lease.Owner.What, DetachedSweep); is {
		return fmt.Sprintf("--wait 2h waits for it in the queue; else, where it was begun, specrun resume %s follows it and specrun cancel %s ends it; or use other GPUs (server.gpus)", sweep, sweep)
	}
	return "--wait 2h waits for it in the queue; else interrupt that specrun, or use other GPUs (server.gpus)"
}

// LeaseLostError says that a lease that was held is not ours any more: it
// expired and was taken. Whoever gets it must stop using what it stood for.
type LeaseLostError struct {
	Host string
	Name string
}

func (e *LeaseLostError) Error() string {
	return fmt.Sprintf("%s: the lease on %s was lost", e.Host, e.Name)
}

// Hint says how that comes about.
func (e *LeaseLostError) Hint() string {
	return "the connection was gone for longer than the lease, and somebody else took it"
}

// PortLease is the lease name of a TCP port.
func PortLease(port int) string { return "port-" + strconv.Itoa(port) }

// PatchesLease is the lease name of one interpreter's patch set; id tells it
// from others on the host.
func PatchesLease(id string) string { return patchesPrefix + id }

const patchesPrefix = "patches-"

// GPULeases are the lease names of the GPUs of a launch; none given means all.
// gpu-all excludes every other name that begins with gpu-. Indexes and UUIDs of
// one card are different names: use one of the two on a host.
func GPULeases(gpus []string) []string {
	if len(gpus) == 0 {
		return []string{"gpu-all"}
	}
	var names []string
	for _, g := range gpus {
		names = append(names, "gpu-"+g)
	}
	return names
}

// Queued says that the lease is a place in the queue: what it wants is taken, or
// will be by whoever has the place.
func (l Lease) Queued() bool { return strings.HasPrefix(l.Name, "queue-") }

// Needs is what a place in the queue is for, in words.
func (l Lease) Needs() string {
	var words []string
	for _, w := range l.Wants {
		if strings.HasPrefix(w, patchesPrefix) {
			w = "the engine's files"
		}
		if !slices.Contains(words, w) {
			words = append(words, w)
		}
	}
	return strings.Join(words, ", ")
}

// AcquireLease takes all of names for ttl, or none and returns a *HeldError for
// the first that somebody else holds. What the same launch holds already is
// renewed. A lease ends when it is released, or when ttl has passed without a
// RefreshLease and no process of its launch lives.
func AcquireLease(ctx context.Context, h Host, stateDir string, names []string, owner Owner, ttl time.Duration) error {
	_, err := Acquire(ctx, h, stateDir, LeaseRequest{Names: names, Owner: owner, TTL: ttl})
	return err
}

// RefreshLease makes names end ttl from now, or returns a *LeaseLostError.
func RefreshLease(ctx context.Context, h Host, stateDir string, names []string, owner Owner, ttl time.Duration) error {
	err := lease(ctx, h, "refresh", stateDir, names, owner, ttl)
	var held *HeldError
	if errors.As(err, &held) {
		return &LeaseLostError{Host: h.Name(), Name: held.Lease.Name}
	}
	return err
}

// LeaveLease stops renewing names on purpose: from now on they hold only as long
// as a process of the launch lives. It returns a *LeaseLostError when they are
// somebody else's.
func LeaveLease(ctx context.Context, h Host, stateDir string, names []string, owner Owner) error {
	return RefreshLease(ctx, h, stateDir, names, owner, 0)
}

// ReleaseLease gives names back. What owner does not hold is left as it is.
func ReleaseLease(ctx context.Context, h Host, stateDir string, names []string, owner Owner) error {
	return lease(ctx, h, "release", stateDir, names, owner, time.Second)
}

// ReclaimLease gives back names that the launch of a controller which has ended
// still holds: of owner both launch and controller must be those that the lease
// has. What another controller goes on with is left as it is.
func ReclaimLease(ctx context.Context, h Host, stateDir string, names []string, owner Owner) error {
	return lease(ctx, h, "reclaim", stateDir, names, owner, time.Second)
}

// ReleaseLaunch gives back everything that a launch holds, for somebody who does
// not know what that is.
func ReleaseLaunch(ctx context.Context, h Host, stateDir, launch string) error {
	return lease(ctx, h, "release", stateDir, nil, Owner{Launch: launch}, time.Second)
}

// Leases lists the leases of the host that are not released.
func Leases(ctx context.Context, h Host, stateDir string) ([]Lease, error) {
	a, err := leaseRun(ctx, h, "list", stateDir, LeaseRequest{TTL: time.Second})
	var all []Lease
	for _, f := range a.found {
		all = append(all, f.Lease)
	}
	return all, err
}

func lease(ctx context.Context, h Host, mode, stateDir string, names []string, owner Owner, ttl time.Duration) error {
	if err := checkID(owner.Launch); err != nil {
		return fmt.Errorf("%s lease: %w", mode, err)
	}
	if ttl < time.Second && mode != "refresh" || ttl < 0 {
		return fmt.Errorf("%s lease: %v is less than a second", mode, ttl)
	}
	a, err := leaseRun(ctx, h, mode, stateDir, LeaseRequest{Names: names, Owner: owner, TTL: ttl})
	if err != nil {
		return err
	}
	if len(a.found) > 0 {
		return &a.found[0]
	}
	if a.state == "" {
		return fmt.Errorf("%s: %s lease: no answer", h.Name(), mode)
	}
	return nil
}

var leaseName = regexp.MustCompile(`^(port|gpu|patches|queue)-[A-Za-z0-9._-]+$`)

// leaseAnswer is what the script says.
type leaseAnswer struct {
	found  []HeldError
	state  string
	grant  Grant
	met    []string
	listen int // the port that somebody listens on; 0 none
	holder *Holder
}

func leaseRun(ctx context.Context, h Host, mode, stateDir string, q LeaseRequest) (leaseAnswer, error) {
	for _, name := range append(slices.Clone(q.Names), q.Queue...) {
		if !leaseName.MatchString(name) {
			return leaseAnswer{}, fmt.Errorf("%s lease: %q is no name of a lease", mode, name)
		}
	}
	oneLine := strings.NewReplacer("\n", " ", "\r", " ")
	vars := []remote.Var{
		{Name: "STATE", Value: stateDir},
		{Name: "MODE", Value: mode},
		{Name: "NAMES", Value: strings.Join(q.Names, " ")},
		{Name: "LAUNCH", Value: q.Owner.Launch},
		{Name: "CONTROLLER", Value: oneLine.Replace(q.Owner.Controller)},
		{Name: "WHAT", Value: oneLine.Replace(q.Owner.What)},
		{Name: "TTL", Value: strconv.FormatInt(int64((q.TTL+time.Second-1)/time.Second), 10)},
		{Name: "PARENT", Value: q.Parent},
		{Name: "WANTS", Value: strings.Join(q.Queue, " ")},
		{Name: "FOUND", Value: oneLine.Replace(q.Found)},
		{Name: "SET", Value: oneLine.Replace(q.Set)},
		{Name: "WAIT", Value: flag(q.Wait)},
	}
	res, err := h.Run(ctx, script("lease", judgeText+leaseText, append(vars, q.Port.vars()...)...))
	if err != nil {
		return leaseAnswer{}, fmt.Errorf("%s lease on %s: %w", mode, strings.Join(q.Names, ", "), err)
	}
	return parseLeases(h.Name(), res.Stdout)
}

func parseLeases(host string, out []byte) (a leaseAnswer, err error) {
	var at HeldError
	seconds := func(s string) (time.Time, error) {
		if s == "" {
			return time.Time{}, nil
		}
		n, err := strconv.ParseInt(s, 10, 64)
		if err != nil {
			return time.Time{}, fmt.Errorf("%s: lease: %w", host, err)
		}
		return time.Unix(n, 0), nil
	}
	for _, f := range remote.Lines(out) {
		switch f.Key {
		case "name":
			at = HeldError{Host: host, Lease: Lease{Name: f.Value}}
		case "verdict":
			at.Lease.Alive = f.Value == "alive"
			at.Lease.Expired = f.Value == "expired" || f.Value == "alive"
		case "launch":
			at.Lease.Owner.Launch = f.Value
		case "controller":
			at.Lease.Owner.Controller = f.Value
		case "what":
			at.Lease.Owner.What = f.Value
		case "taken":
			at.Lease.Taken, err = seconds(f.Value)
		case "expires":
			at.Lease.Expires, err = seconds(f.Value)
			at.Lease.Unowned = f.Value == ""
		case "now":
			at.Now, err = seconds(f.Value)
		case "parent":
			at.Lease.Parent = f.Value
		case "set":
			at.Lease.Set = f.Value
		case "wants":
			at.Lease.Wants = strings.Fields(f.Value)
		case "end":
			a.found = append(a.found, at)
		case "state":
			a.state = f.Value
		case "port":
			a.grant.Port, err = strconv.Atoi(f.Value)
		case "ticket":
			a.grant.Ticket = f.Value
		case "sharer":
			a.grant.Sharers = append(a.grant.Sharers, Sharer{Launch: f.Value})
		case "found":
			a.grant.Sharers[len(a.grant.Sharers)-1].Found = f.Value
		case "met":
			a.met = append(a.met, f.Value)
		case "listens":
			a.listen, err = strconv.Atoi(f.Value)
		case "listener":
			var holder Holder
			holder, err = parseHolder(a.listen, f.Value)
			if a.holder == nil {
				a.holder = &holder
			}
		}
		if err != nil {
			return leaseAnswer{}, err
		}
	}
	return a, nil
}
