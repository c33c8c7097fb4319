package main

import (
	"errors"
	"path/filepath"
	"testing"

	"specrun/configs"
	"specrun/experiments/store"
)

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
