package server

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"specrun/remote"
)

// LeaseRequest is what Acquire is to take: all of it or nothing.
type LeaseRequest struct {
	Names []string
	Owner Owner
	TTL   time.Duration
	// Parent is the sweep that the launch belongs to, as the owner of the place in
	// the queue; "" has none, and comes after everybody who has one.
	Parent string
	// Queue are names that the launches of Owner are going to take: it gets a
	// place for them, and they have to be free. The place is held like a lease,
	// under Grant.Ticket. Whoever came earlier and needs one of them, or of Names,
	// goes first.
	Queue []string
	Wait  bool // refused, it keeps its place until the TTL is over
	// Found is one line that is kept with the leases on patch sets, for those who
	// share them later; Set is the set in words.
	Found string
	Set   string
	Port  PortRequest // zero: none
}

// PortRequest asks for a port: From itself when Count is at most 1, else the first
// that will do of Count, Step apart from From on, going round within the Span
// ports from First on.
type PortRequest struct {
	From, Count, Step int
	First, Span       int
	// Room is how many ports from the chosen one on no other launch gets a port
	// in; 0 is 1, itself.
	Room int
	// Derived are distances from the port at which its server listens too.
	Derived []int
}

func (p PortRequest) vars() []remote.Var {
	offsets := "0"
	for _, d := range p.Derived {
		offsets += " " + strconv.Itoa(d)
	}
	port := ""
	if p.From > 0 {
		port = strconv.Itoa(p.From)
	}
	if p.Count <= 1 {
		p.Count, p.Step, p.First, p.Span = 1, 1, p.From, 1
	}
	number := func(name string, n int) remote.Var { return remote.Var{Name: name, Value: strconv.Itoa(n)} }
	return []remote.Var{{Name: "PORT", Value: port}, number("FIRST", p.First), number("SPAN", p.Span), number("STEP", p.Step),
		number("COUNT", p.Count), number("ROOM", max(p.Room, 1)), {Name: "OFFSETS", Value: offsets}}
}

func (p PortRequest) check() error {
	room := max(p.Room, 1)
	for _, d := range p.Derived {
		room = max(room, d+1)
	}
	if p.From == 0 && p.Count == 0 {
		return nil
	}
	last := p.From
	if p.Count > 1 {
		last = p.First + p.Span - 1
		if p.First < 1 || p.Step < 1 || p.From < p.First || p.From > last {
			return fmt.Errorf("no ports %d to %d from %d on", p.First, last, p.From)
		}
	}
	if p.From < 1 || last > 65535 || p.Count > 1 && last+room-1 > 65535 {
		return fmt.Errorf("no ports %d to %d with room for %d", p.From, last, room)
	}
	return nil
}

// Grant is what Acquire took.
type Grant struct {
	Port   int    // 0: none was asked for
	Ticket string // lease name of the place in the queue; "" none
	// Sharers are the others who have a share in the patch sets.
	Sharers []Sharer
}

// Names are those of the request and of the port.
func (g Grant) Names(q LeaseRequest) []string {
	names := slices.Clone(q.Names)
	if g.Port != 0 {
		names = append([]string{PortLease(g.Port)}, names...)
	}
	return names
}

// Sharer is somebody else who has a share in a patch set.
type Sharer struct {
	Launch string // its owner
	Found  string // what it said that it had found
}

// NoPortError says that no port will do.
type NoPortError struct {
	Host        string
	First, Last int
}

func (e *NoPortError) Error() string {
	return fmt.Sprintf("%s: no free port from %d to %d", e.Host, e.First, e.Last)
}

// Hint says what the user can do.
func (e *NoPortError) Hint() string { return "name one with server.port" }

// Acquire takes what q asks for, for q.TTL; what the same launch holds already is
// renewed. It is one script. Errors: *HeldError for the first lease that somebody
// else holds or comes before us for (with Wait the Grant has the ticket), *PortError who listens on the port that was
// asked for or on one derived from it, *NoPortError.
func Acquire(ctx context.Context, h Host, stateDir string, q LeaseRequest) (Grant, error) {
	if err := checkID(q.Owner.Launch); err != nil {
		return Grant{}, fmt.Errorf("acquire lease: %w", err)
	}
	if q.TTL < time.Second {
		return Grant{}, fmt.Errorf("acquire lease: %v is less than a second", q.TTL)
	}
	if err := q.Port.check(); err != nil {
		return Grant{}, fmt.Errorf("acquire lease: %w", err)
	}
	a, err := leaseRun(ctx, h, "acquire", stateDir, q)
	switch {
	case err != nil:
		return Grant{}, err
	case len(a.found) > 0:
		return a.grant, &a.found[0]
	case a.state == "port" && a.holder != nil:
		e := &PortError{Host: h.Name(), Holder: *a.holder}
		if a.listen != q.Port.From {
			e.Of = q.Port.From
		}
		return Grant{}, e
	case a.state == "noport":
		if q.Port.Count <= 1 {
			return Grant{}, &NoPortError{Host: h.Name(), First: q.Port.From, Last: q.Port.From}
		}
		return Grant{}, &NoPortError{Host: h.Name(), First: q.Port.First, Last: q.Port.First + q.Port.Span - 1}
	case a.state != "leased":
		return Grant{}, fmt.Errorf("%s: acquire lease: no answer", h.Name())
	}
	return a.grant, nil
}

// SharedPatchesLease is owner's share in the patch set that set names, a hash, of
// the lease that PatchesLease names. Whoever wants the very same set has a share
// beside it, another set waits.
func SharedPatchesLease(id, set, owner string) string {
	return PatchesLease(id) + "." + set + "." + owner
}

// LastHolder finds out whether owner is the last who has a share in the patch sets
// that names are of, as PatchesLease names them. Then it has them for itself alone,
// for ttl, to put back what was found, and releases them; else its shares are given
// up and other is one who has them.
func LastHolder(ctx context.Context, h Host, stateDir string, names []string, owner Owner, ttl time.Duration) (other *Lease, err error) {
	if err := checkID(owner.Launch); err != nil {
		return nil, fmt.Errorf("last holder: %w", err)
	}
	a, err := leaseRun(ctx, h, "last", stateDir, LeaseRequest{Names: names, Owner: owner, TTL: ttl})
	switch {
	case err != nil:
		return nil, err
	case len(a.found) > 0:
		return &a.found[0].Lease, nil
	case a.state != "leased":
		return nil, fmt.Errorf("%s: last holder: no answer", h.Name())
	}
	return nil, nil
}

// Met lists the launches that were on the host at some time while the launch with
// this port was, in words: what each is for. It costs one script.
func Met(ctx context.Context, h Host, stateDir string, port int) ([]string, error) {
	a, err := leaseRun(ctx, h, "met", stateDir, LeaseRequest{Names: []string{PortLease(port)}, TTL: time.Second})
	if err != nil {
		return nil, err
	}
	var all []string
	for _, m := range a.met {
		id, what, _ := strings.Cut(m, " ")
		text := "launch " + id
		if what = strings.TrimSpace(what); what != "" {
			text += " (" + what + ")"
		}
		if !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	return all, nil
}
