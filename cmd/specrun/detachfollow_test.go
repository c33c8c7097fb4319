package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"specrun/configs"
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

func (h fullHost) Run(context.Context, remote.Script) (remote.Result, error) {
	return remote.Result{}, h.err
}

// While a sweep goes on, results that do not come end no following; a connection
// that is lost does, since another one is made then.
func TestFollower_ResultsThatDoNotComeYet(t *testing.T) {
	ctx := t.Context()
	results, err := store.Open(ctx, filepath.Join(t.TempDir(), "r.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer results.Close()
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
	results, err := store.Open(ctx, filepath.Join(t.TempDir(), "r.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer results.Close()
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
	results, err := store.Open(ctx, filepath.Join(t.TempDir(), "r.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer results.Close()
	var said bytes.Buffer
	a := &app{env: &env{now: time.Now, stderr: &said}, printer: &printer{err: &said}}
	for _, c := range []struct {
		store string
		stays bool
	}{{"another:/r.db", true}, {a.storeName(results), false}} {
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
