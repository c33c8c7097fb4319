package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"specrun/configs"
	"specrun/experiments"
	"specrun/experiments/detach"
	"specrun/experiments/store"
	"specrun/remote"
)

// fullHost is a host that cannot pack anything.
type fullHost struct {
	detach.Host
	err error
}

func (h fullHost) Name() string { return "gpu" }

func (h fullHost) Stream(context.Context, remote.Script, io.Writer) (remote.Result, error) {
	return remote.Result{}, h.err
}

// While a sweep goes on, results that do not come end no following; a connection
// that is lost does, since another one is made then.
func TestFollower_ResultsThatDoNotComeYet(t *testing.T) {
	ctx := t.Context()
	results := openResults(t)
	var said bytes.Buffer
	a := &app{env: &env{now: time.Now, stderr: &said}, printer: &printer{err: &said}}
	f := &follower{a: a, results: results, entry: configs.Host{Name: "gpu"}, id: "k3v7"}
	for range 2 {
		if err := f.tryFetch(ctx, fullHost{err: errors.New("no space left on device")}); err != nil {
			t.Errorf("got %v", err)
		}
	}
	if n := strings.Count(said.String(), "no space left on device"); n != 1 {
		t.Errorf("said %d times: %s", n, said.String())
	}
	if err := f.tryFetch(ctx, fullHost{err: &remote.Error{Host: "gpu", Op: "script", Kind: remote.ErrLost}}); !detach.HostLost(err) {
		t.Errorf("got %v", err)
	}
}

// That a fetch failed counts for nothing only when another follower gave up the
// claim that there was: else the host's results would be removed unfetched.
func TestFollower_GoneNeedsAClaimThatWasGivenUp(t *testing.T) {
	ctx := t.Context()
	const id = "k3v7aaaaaa"
	results := openResults(t)
	if err := (sitting{id: id, rounds: 1, cycle: 1, plain: 1}).store(results); err != nil {
		t.Fatal(err)
	}
	claim := func(until int64) {
		t.Helper()
		if err := results.Claim(ctx, id, claimOf("gpu"), until); err != nil {
			t.Fatal(err)
		}
	}
	f := &follower{results: results, entry: configs.Host{Name: "gpu"}, id: id}
	failed := errors.New("no space left on device")
	if f.gone(ctx, failed) {
		t.Error("without a claim the failure was taken for another follower's success")
	}
	f.held = true
	claim(store.Forever)
	if f.gone(ctx, failed) {
		t.Error("the claim is still held")
	}
	claim(0)
	if !f.gone(ctx, failed) {
		t.Error("the claim was given up: all is here")
	}
}

// A folder that this store may not remove stays; the user must learn that it does.
func TestFollower_SaysThatAFolderStays(t *testing.T) {
	ctx := t.Context()
	results := openResults(t)
	var said bytes.Buffer
	a := &app{env: &env{now: time.Now, stderr: &said, newID: randomID}, printer: &printer{err: &said}}
	ours, err := results.ID(ctx, a.newID)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		store string
		stays bool
	}{{"another", true}, {ours, false}} {
		said.Reset()
		f := &follower{a: a, results: results, entry: configs.Host{Name: "gpu"}, id: "k3v7", dir: filepath.Join(t.TempDir(), "k3v7")}
		if err := os.Mkdir(f.dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(f.dir, "store"), []byte(c.store+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := f.remove(ctx, remote.Local(remote.LocalConfig{Name: "gpu"}), true); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(f.dir); (err == nil) != c.stays || strings.Contains(said.String(), f.dir+" stays on gpu") != c.stays {
			t.Errorf("of %s: %v, said %q", c.store, err, said.String())
		}
	}
}

// A host that went down with its sweep: that its last results are not here is said.
func TestFollower_DeadAndUnreachableIsSaid(t *testing.T) {
	var said bytes.Buffer
	a := &app{env: &env{now: time.Now, stderr: &said, home: t.TempDir(), getenv: func(string) string { return "" }}, printer: &printer{err: &said}}
	f := &follower{a: a, entry: configs.Host{Name: "gpu", Address: "127.0.0.1", Port: 1, User: "nobody", IdentityFile: filepath.Join(t.TempDir(), "none")}, id: "k3v7", dir: "/d/k3v7"}
	err := f.conclude(t.Context(), detach.Status{State: detach.Dead})
	if err == nil || !strings.Contains(err.Error(), "was killed") || !strings.Contains(said.String(), "what sweep k3v7 measured last was not fetched: ") {
		t.Errorf("%v; said %q", err, said.String())
	}
}

// How long a sweep has gone on is told by the host's clock alone.
func TestFollower_BeganByTheHostsClock(t *testing.T) {
	now := time.Now()
	a := &app{env: &env{now: func() time.Time { return now }}, printer: &printer{err: &bytes.Buffer{}}}
	plan := &experiments.Plan{}
	f := &follower{a: a, plan: plan, seen: a.newWatch(plan, false)}
	e := detach.Event{AtUs: now.Add(time.Hour).UnixMicro(), Began: "it", Ago: time.Minute}
	if err := f.on(t.Context(), nil, e, false); err != nil || !f.seen.begin.Equal(now.Add(-time.Minute)) {
		t.Errorf("began %v, %v", f.seen.begin.Sub(now), err)
	}
}

// Two laptops fetch one sweep at once, and the store that it was begun with is
// quicker to bring it home: that is no failure of the other's. One of a folder that
// is still there is.
func TestFetch_FolderThatAnotherStoreRemovedMeanwhile(t *testing.T) {
	ctx := t.Context()
	results := openResults(t)
	var said bytes.Buffer
	a := &app{env: &env{now: time.Now, stderr: &said, newID: randomID}, printer: &printer{err: &said}}
	c := &connection{Host: remote.Local(remote.LocalConfig{Name: "gpu"}), entry: configs.Host{Name: "gpu"}}
	defer c.Close()
	for there, dir := range map[bool]string{true: t.TempDir(), false: filepath.Join(t.TempDir(), "k3v7")} {
		said.Reset()
		f := &follower{a: a, results: results, entry: c.entry, id: "k3v7", dir: dir}
		if gone, err := f.bringHomeOrGone(ctx, c); gone == there || (err != nil) != there {
			t.Errorf("folder there: %v; gone %v, %v", there, gone, err)
		}
		err := a.fetchListed(ctx, c, results, detach.Listed{SweepID: "k3v7", Dir: dir, State: detach.Ended})
		if (err != nil) != there || strings.Contains(said.String(), "removed meanwhile by the store that it was begun with") == there {
			t.Errorf("folder there: %v; %v, said %q", there, err, said.String())
		}
	}
}
