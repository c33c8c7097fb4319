package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"specrun/configs"
	"specrun/experiments/detach"
	"specrun/experiments/record"
	"specrun/experiments/store"
	"specrun/remote"
)

// A start that was refused leaves a folder with the results of that moment. When the
// sweep went on here since, the next start must not go on from those; a folder that
// is another store's is nobody's to remove.
func TestSendJob_WhatARefusedStartLeft(t *testing.T) {
	ctx := t.Context()
	const id = "k3v7aaaaaa"
	open := func(path string) *store.Store {
		t.Helper()
		s, err := store.Open(ctx, path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s
	}
	results := open(filepath.Join(t.TempDir(), "r.db"))
	if err := results.Begin(ctx, record.SweepPlan{Sweep: record.Sweep{ID: id, Plan: []byte("{}"), State: record.SweepActive, CreatedUs: 1}}); err != nil {
		t.Fatal(err)
	}
	worker := filepath.Join(t.TempDir(), "worker") // one that cannot start
	if err := os.WriteFile(worker, []byte("#!/bin/sh\necho no >&2\nexit 1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	c := &connection{Host: remote.Local(remote.LocalConfig{Name: "gpu"}), entry: configs.Host{Name: "gpu", StateDir: t.TempDir()}}
	defer c.Close()
	a := &app{env: &env{now: time.Now}}
	send := func(of string) error {
		_, err := a.sendJob(ctx, c, results, worker, detach.Job{SweepID: id, Store: of}, nil, false)
		return err
	}
	launches := func() int {
		t.Helper()
		at, err := detach.Find(ctx, c, c.entry.StateDir, id)
		if err != nil || at.State != detach.Begun {
			t.Fatalf("%+v, %v", at, err)
		}
		copied := filepath.Join(t.TempDir(), "there.db")
		text, err := os.ReadFile(filepath.Join(at.Dir, detach.ResultsFile))
		if err == nil {
			err = os.WriteFile(copied, text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		v, err := open(copied).View(context.Background(), id)
		if err != nil {
			t.Fatal(err)
		}
		return len(v.Launches)
	}
	var refused *detach.RefusedError
	if err := send("mine"); !errors.As(err, &refused) || launches() != 0 {
		t.Fatalf("got %v", err)
	}
	err := results.Record(ctx, record.Event{LaunchID: "l1", Seq: 1, AtUs: 2, Step: "launch", Kind: record.EventIntent},
		record.Change{Launch: &record.Launch{ID: "l1", SweepID: id, Host: "gpu", State: record.LaunchDone}})
	if err != nil {
		t.Fatal(err)
	}
	if err := send("another"); err == nil || !strings.Contains(err.Error(), "of another store") || launches() != 0 {
		t.Errorf("another store's: %v", err)
	}
	if err := send("mine"); !errors.As(err, &refused) {
		t.Fatalf("got %v", err)
	}
	if launches() != 1 {
		t.Error("the host would go on from what was there before")
	}
}

// A sweep that was refused before its first launch must not stand before one that
// goes on, on its host for example.
func TestSweepToResume_LeavesOutWhatWasRefused(t *testing.T) {
	ctx := t.Context()
	results := openResults(t)
	const goesOn, refused = "k3v7aaaaaa", "q2m9bbbbbb"
	for _, id := range []string{goesOn, refused} {
		if err := results.Begin(ctx, record.SweepPlan{Sweep: record.Sweep{ID: id, Plan: []byte("{}"), State: record.SweepActive, CreatedUs: 1}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := results.Cut(ctx, refused, 2); err != nil {
		t.Fatal(err)
	}
	a := &app{}
	for want, args := range map[string][]string{goesOn: nil, refused: {"q2m9"}} {
		if got, err := a.sweepToResume(ctx, results, args, false); err != nil || got != want {
			t.Errorf("%q: got %s, %v", args, got, err)
		}
	}
}

// openResults is an empty store, closed when the test ends.
func openResults(t *testing.T) *store.Store {
	t.Helper()
	results, err := store.Open(t.Context(), filepath.Join(t.TempDir(), "r.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { results.Close() })
	return results
}
