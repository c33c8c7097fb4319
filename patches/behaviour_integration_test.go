//go:build integration

package patches_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"specrun/patches/wheels"
)

// release says how a release's worker differs from the others for the stubs.
type release struct {
	version           string
	worker            string
	verifyParts       int // of the tuple that v1's verify gives
	targetExtendParts int
	withoutReqs       bool // the v2 batch of this release holds no requests
}

var releases = []release{
	{version: "0.4.9.post2", worker: "v1", verifyParts: 4, targetExtendParts: 4},
	{version: "0.5.2", worker: "v1", verifyParts: 4, targetExtendParts: 4},
	{version: "0.5.3.post2", worker: "v1", verifyParts: 4, targetExtendParts: 3},
	{version: "0.5.3.post2", worker: "v2", withoutReqs: true},
	{version: "0.5.6", worker: "v1", verifyParts: 4, targetExtendParts: 3},
	{version: "0.5.6", worker: "v2"},
	{version: "0.5.10", worker: "v1", verifyParts: 4, targetExtendParts: 4},
	{version: "0.5.10", worker: "v2"},
	{version: "0.5.12", worker: "v1", verifyParts: 3, targetExtendParts: 4},
	{version: "0.5.12", worker: "v2"},
	{version: "0.5.14", worker: "v2"},
	{version: "0.5.23", worker: "v2"},
}

func (r release) source(t testing.TB) []byte {
	t.Helper()
	name := map[string]string{"v1": "eagle_worker.py", "v2": "eagle_worker_v2.py"}[r.worker]
	src := wheels.File(t, r.version, "sglang/srt/speculative/"+name)
	if src == nil {
		t.Fatalf("sglang %s has no %s", r.version, name)
	}
	return src
}

func (r release) behaviour(t testing.TB, patch string) behaviour {
	b := newBehaviour(t, r.worker)
	b.patch, b.VerifyParts, b.TargetExtendParts, b.WithReqs = patch, r.verifyParts, r.targetExtendParts, !r.withoutReqs
	if patch == "profiling-v3" {
		b.SyncMs = 0.25
	}
	return b
}

func TestProfiler_OnReleases(t *testing.T) {
	for _, r := range releases {
		for _, patch := range []string{"profiling-v4", "profiling-v3"} {
			t.Run(fmt.Sprintf("%s %s %s", r.version, r.worker, patch), func(t *testing.T) {
				t.Parallel()
				b := r.behaviour(t, patch)
				o := b.run(t, r.source(t))
				if err := b.compare(o); err != nil {
					t.Fatalf("seed %d: %v\n%s", b.Seed, err, o.out)
				}
				if len(o.rows) < 5 {
					t.Errorf("only %d rows", len(o.rows))
				}
			})
		}
	}
}

// The test above must notice a release whose outer body goes another way: here
// it calls a method of another name for the draft.
func TestProfiler_OnReleases_NoticesABodyThatLeavesAWrappedMethod(t *testing.T) {
	for _, r := range releases {
		t.Run(r.version+" "+r.worker, func(t *testing.T) {
			t.Parallel()
			call := []byte("self.draft_worker.draft(")
			if r.worker == "v1" || r.version == "0.5.3.post2" {
				call = []byte("self.draft(")
			}
			src := r.source(t)
			if !bytes.Contains(src, call) {
				t.Fatalf("the outer body has no %s", call)
			}
			doctored := bytes.ReplaceAll(src, call, []byte(strings.Replace(string(call), "draft(", "propose(", 1)))
			b := r.behaviour(t, "profiling-v4")
			b.Renamed = []string{"propose"}
			o := b.run(t, doctored)
			if err := b.compare(o); err == nil || !strings.Contains(err.Error(), "draft is") {
				t.Fatalf("not noticed: %v\n%s", err, o.out)
			}
		})
	}
}

func TestProfiler_OnReleases_OffWrapsNothing(t *testing.T) {
	for _, r := range releases {
		b := r.behaviour(t, "profiling-v4")
		b.off = true
		if o := b.run(t, r.source(t)); len(o.names) > 0 || o.out != "" {
			t.Errorf("%s %s: wrapped %v, prints %q", r.version, r.worker, o.names, o.out)
		}
	}
}
