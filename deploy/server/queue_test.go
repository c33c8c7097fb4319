package server

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"
)

// sweep asks for a place in the queue for names, and for shares.
func sweep(id string, wait bool, queue []string, shares ...string) LeaseRequest {
	return LeaseRequest{Names: shares, Owner: Owner{Launch: id, Controller: id + "@laptop", What: "sweep " + id}, Parent: id, TTL: time.Minute,
		Queue: queue, Wait: wait}
}

func (b *bench) acquire(q LeaseRequest) (Grant, error) {
	b.t.Helper()
	return Acquire(b.t.Context(), b.h, b.state, q)
}

// heldBy is who is in the way, "" when nobody is.
func heldBy(t *testing.T, err error) string {
	t.Helper()
	var held *HeldError
	if err != nil && !errors.As(err, &held) {
		t.Fatal(err)
	}
	if held == nil {
		return ""
	}
	return held.Lease.Owner.Launch
}

func TestQueue_GoesInOrderOfArrival(t *testing.T) {
	b := newBench(t)
	all := []string{"gpu-all"}
	a, err := b.acquire(sweep("a", false, all))
	if err != nil || a.Ticket == "" {
		t.Fatalf("%+v, %v", a, err)
	}
	// Between two launches of a, nobody has the GPUs, and still they are a's.
	for _, id := range []string{"b", "c"} {
		_, err := b.acquire(sweep(id, true, []string{"gpu-0"}))
		if by := heldBy(t, err); by != "a" {
			t.Fatalf("%s waits for %q", id, by)
		}
	}
	if _, err := b.acquire(sweep("hasty", false, []string{"gpu-0"})); heldBy(t, err) != "a" {
		t.Errorf("who does not wait: %v", err)
	}
	if _, err := b.acquire(LeaseRequest{Names: all, Owner: Owner{Launch: "stranger"}, TTL: time.Minute}); heldBy(t, err) != "a" {
		t.Errorf("without a place: %v", err)
	}
	list, err := Leases(t.Context(), b.h, b.state)
	if err != nil || len(list) != 3 || !list[1].Queued() || list[1].Owner.Launch != "b" || !slices.Equal(list[1].Wants, []string{"gpu-0"}) || list[2].Owner.Launch != "c" {
		t.Fatalf("the queue: %+v, %v", list, err)
	}
	if err := ReleaseLease(t.Context(), b.h, b.state, []string{a.Ticket}, Owner{Launch: "a"}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.acquire(sweep("c", true, []string{"gpu-0"})); heldBy(t, err) != "b" {
		t.Errorf("c before b: %v", err)
	}
	if _, err := b.acquire(sweep("late", false, []string{"gpu-0"})); heldBy(t, err) != "b" {
		t.Errorf("who comes later before who waits: %v", err)
	}
	if _, err := b.acquire(sweep("b", true, []string{"gpu-0"})); err != nil {
		t.Errorf("b in its turn: %v", err)
	}
	if _, err := b.acquire(sweep("else", false, []string{"gpu-1"})); err != nil {
		t.Errorf("another card: %v", err)
	}
	// Its launches have what it has the place for.
	launch := LeaseRequest{Names: []string{"gpu-0"}, Owner: Owner{Launch: "b-1"}, Parent: "b", TTL: time.Minute}
	if _, err := b.acquire(launch); err != nil {
		t.Errorf("a launch of b: %v", err)
	}
	if _, err := b.acquire(sweep("b", true, []string{"gpu-0"})); err != nil {
		t.Errorf("b again, while its launch is there: %v", err)
	}
}

func TestQueue_APlaceThatNobodyRenewsIsPassed(t *testing.T) {
	b := newBench(t)
	a, err := b.acquire(sweep("a", false, []string{"gpu-all"}))
	if err != nil {
		t.Fatal(err)
	}
	b.expire(a.Ticket)
	if _, err := b.acquire(sweep("b", false, []string{"gpu-all"})); err != nil {
		t.Fatalf("after a's end: %v", err)
	}
	// Whoever comes back has its place again, behind what has begun since.
	if err := RefreshLease(t.Context(), b.h, b.state, []string{a.Ticket}, Owner{Launch: "a"}, time.Minute); err != nil {
		t.Errorf("a comes back: %v", err)
	}
}

func TestPatchSets_TheSameOneIsShared(t *testing.T) {
	b := newBench(t)
	share := func(set, id string) LeaseRequest {
		q := sweep(id, false, []string{"gpu-" + id}, SharedPatchesLease("f00d", set, id))
		q.Found, q.Set = `{"found by":"`+id+`"}`, "patch "+set
		return q
	}
	if g, err := b.acquire(share("s1", "a")); err != nil || len(g.Sharers) != 0 {
		t.Fatalf("the first: %+v, %v", g, err)
	}
	g, err := b.acquire(share("s1", "b"))
	if err != nil || len(g.Sharers) != 1 || g.Sharers[0] != (Sharer{Launch: "a", Found: `{"found by":"a"}`}) {
		t.Fatalf("the same set: %+v, %v", g, err)
	}
	_, err = b.acquire(share("s2", "c"))
	var held *HeldError
	if !errors.As(err, &held) || held.Lease.Owner.Launch != "a" || !strings.Contains(err.Error(), "with patch s1 by a@laptop (sweep a)") {
		t.Errorf("another set: %v", err)
	}
	if _, err := b.acquire(sweep("d", false, nil, PatchesLease("f00d"))); heldBy(t, err) == "" {
		t.Errorf("the whole: %v", err)
	}
	// Who changes to another set has to be alone.
	if _, err := b.acquire(share("s2", "b")); heldBy(t, err) != "a" {
		t.Errorf("b wants another set beside a: %v", err)
	}
	last := func(id string) *Lease {
		t.Helper()
		other, err := LastHolder(t.Context(), b.h, b.state, []string{PatchesLease("f00d")}, Owner{Launch: id, Controller: id}, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		return other
	}
	if other := last("a"); other == nil || other.Owner.Launch != "b" {
		t.Errorf("a is the last: %+v", other)
	}
	if other := last("b"); other != nil {
		t.Errorf("b is not the last: %+v", other)
	}
	// While the last one puts back what was found nobody gets a share.
	if _, err := b.acquire(share("s1", "c")); heldBy(t, err) != "b" {
		t.Errorf("a share while the files are put back: %v", err)
	}
	if err := ReleaseLease(t.Context(), b.h, b.state, []string{PatchesLease("f00d"), SharedPatchesLease("f00d", "s1", "b")}, Owner{Launch: "b"}); err != nil {
		t.Fatal(err)
	}
	if g, err := b.acquire(share("s2", "c")); err != nil || len(g.Sharers) != 0 {
		t.Errorf("when all have gone: %+v, %v", g, err)
	}
}

// Whatever the order in which holders end, exactly one is the last.
func TestPatchSets_OneOfThoseWhoEndAtOnceIsTheLast(t *testing.T) {
	b := newBench(t)
	ids := []string{"a", "b", "c", "d"}
	for _, id := range ids {
		if _, err := b.acquire(sweep(id, false, []string{"gpu-" + id}, SharedPatchesLease("f00d", "s1", id))); err != nil {
			t.Fatal(err)
		}
	}
	type end struct {
		id    string
		other *Lease
		err   error
	}
	ends := make(chan end)
	for _, id := range ids {
		go func() {
			other, err := LastHolder(t.Context(), b.h, b.state, []string{PatchesLease("f00d")}, Owner{Launch: id}, time.Minute)
			ends <- end{id, other, err}
		}()
	}
	var last []string
	for range ids {
		e := <-ends
		switch {
		case e.err != nil:
			t.Error(e.err)
		case e.other == nil:
			last = append(last, e.id)
		}
	}
	if len(last) != 1 {
		t.Errorf("the last: %v", last)
	}
}

func TestMet_LaunchesThatAreThereTogetherKnowIt(t *testing.T) {
	b := newBench(t)
	launch := func(id string) Grant {
		t.Helper()
		q := auto(id, 21000, 100)
		q.Names, q.Owner.What = []string{"gpu-" + id}, "sweep of "+id
		g, err := b.acquire(q)
		if err != nil {
			t.Fatal(err)
		}
		return g
	}
	met := func(g Grant) string {
		t.Helper()
		all, err := Met(t.Context(), b.h, b.state, g.Port)
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(all, "; ")
	}
	a := launch("a")
	if got := met(a); got != "" {
		t.Errorf("alone: %q", got)
	}
	c := launch("c")
	if err := ReleaseLaunch(t.Context(), b.h, b.state, "c"); err != nil {
		t.Fatal(err)
	}
	if got := met(a); got != "launch c (sweep of c)" {
		t.Errorf("a met %q, also when that has ended", got)
	}
	d := launch("d")
	if got := met(d); got != "launch a (sweep of a)" {
		t.Errorf("d met %q", got)
	}
	if c.Port == d.Port && met(d) == "" {
		t.Error("what a port's last launch met counts for the next one")
	}
}
