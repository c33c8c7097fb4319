package server

import (
	"errors"
	"net"
	"os"
	"testing"
	"time"
)

// listen takes a port for the length of the test.
func listen(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().(*net.TCPAddr).Port
}

// auto asks for a port from one on, among count.
func auto(launch string, from, count int) LeaseRequest {
	return LeaseRequest{Owner: Owner{Launch: launch, Controller: "me"}, TTL: time.Minute,
		Port: PortRequest{From: from, Count: count, Step: 1, First: from, Span: count}}
}

func TestAcquire_APortPassesByListenersAndLeases(t *testing.T) {
	b := newBench(t)
	taken := listen(t)
	if _, err := Acquire(t.Context(), b.h, b.state, auto("la", taken, 1)); !errors.As(err, new(*PortError)) {
		t.Errorf("the port itself, which somebody listens on: %v", err)
	}
	first, err := Acquire(t.Context(), b.h, b.state, auto("la", taken, 200))
	if err != nil || first.Port <= taken {
		t.Fatalf("%+v, %v", first, err)
	}
	second, err := Acquire(t.Context(), b.h, b.state, auto("lb", taken, 200))
	if err != nil || second.Port <= first.Port {
		t.Fatalf("beside %d: %+v, %v", first.Port, second, err)
	}
	again, err := Acquire(t.Context(), b.h, b.state, auto("la", first.Port, 1))
	if err != nil || again.Port != first.Port {
		t.Errorf("its own again: %+v, %v", again, err)
	}
	var held *HeldError
	if _, err := Acquire(t.Context(), b.h, b.state, auto("lc", first.Port, 1)); !errors.As(err, &held) || held.Lease.Owner.Launch != "la" {
		t.Errorf("a leased one by its number: %v", err)
	}
	b.expire(PortLease(first.Port))
	if got, err := Acquire(t.Context(), b.h, b.state, auto("lc", first.Port, 1)); err != nil || got.Port != first.Port {
		t.Errorf("one whose lease has ended: %+v, %v", got, err)
	}
	if err := ReleaseLease(t.Context(), b.h, b.state, []string{PortLease(second.Port)}, Owner{Launch: "lb"}); err != nil {
		t.Fatal(err)
	}
	// What is given back leaves nothing behind: there are many ports.
	if _, err := os.Stat(b.state + "/locks/" + PortLease(second.Port)); !os.IsNotExist(err) {
		t.Errorf("after the release: %v", err)
	}
}

func TestAcquire_RoomsOfPortsDoNotOverlap(t *testing.T) {
	b := newBench(t)
	ask := func(launch string) (Grant, error) {
		q := auto(launch, 20000, 400)
		q.Port.Step, q.Port.Count, q.Port.Span, q.Port.Room = 10, 300, 3000, 1001
		return Acquire(t.Context(), b.h, b.state, q)
	}
	var ports []int
	for _, launch := range []string{"la", "lb", "lc"} {
		g, err := ask(launch)
		if err != nil {
			t.Fatalf("%s beside %v: %v", launch, ports, err)
		}
		for _, p := range ports {
			if g.Port-p < 1001 && p-g.Port < 1001 {
				t.Errorf("%s has port %d, another one %d", launch, g.Port, p)
			}
		}
		ports = append(ports, g.Port)
	}
	var none *NoPortError
	if _, err := ask("ld"); !errors.As(err, &none) || none.First != 20000 || none.Last != 22999 {
		t.Errorf("a fourth: %v", err)
	}
	// By its number, too.
	q := auto("le", ports[0]+500, 1)
	q.Port.Room = 1001
	var held *HeldError
	if _, err := Acquire(t.Context(), b.h, b.state, q); !errors.As(err, &held) || held.Lease.Name != PortLease(ports[0]) {
		t.Errorf("a port within another's room: %v", err)
	}
}

func TestAcquire_DerivedPortsAreLookedAtBefore(t *testing.T) {
	b := newBench(t)
	taken := listen(t)
	q := auto("la", taken-233, 1)
	q.Port.Derived = []int{233, 234}
	var in *PortError
	if _, err := Acquire(t.Context(), b.h, b.state, q); !errors.As(err, &in) || in.Holder.Port != taken || in.Of != taken-233 || in.Holder.PID != os.Getpid() {
		t.Fatalf("err = %v", err)
	}
	q.Port.Count, q.Port.Step, q.Port.First, q.Port.Span = 50, 1, taken-233, 50
	if g, err := Acquire(t.Context(), b.h, b.state, q); err != nil || g.Port == taken-233 || g.Port == taken-234 {
		t.Errorf("an automatic one: %+v, %v", g, err)
	}
}

func TestAcquire_ARunningServersOwnPortIsNotInItsWay(t *testing.T) {
	b := newBench(t)
	port := freePort(t)
	l := b.launch("own", port)
	st := b.start(l)
	if _, err := b.waitReady(st, port); err != nil {
		t.Fatal(err)
	}
	if g, err := Acquire(t.Context(), b.h, b.state, auto(l.ID, port, 1)); err != nil || g.Port != port {
		t.Errorf("its own: %+v, %v", g, err)
	}
	if _, err := Acquire(t.Context(), b.h, b.state, auto("other", port, 1)); !errors.As(err, new(*HeldError)) && !errors.As(err, new(*PortError)) {
		t.Errorf("another one's: %v", err)
	}
}
