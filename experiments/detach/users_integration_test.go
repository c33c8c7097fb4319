//go:build integration || soak

package detach

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"specrun/experiments/bench"
	"specrun/remote/remotetest"
)

const otherUID = 4003

// A second user of a state folder sees what goes on and whose it is, as far as the
// folder is shared; what is in a sweep's folder is its owner's. It needs root.
func TestSecondUser(t *testing.T) {
	for name, shared := range map[string]bool{"shared folder": true, "one user's folder": false} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			// Everybody may come as far as the state folder.
			for dir := filepath.Dir(w.state); dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
				must(t, os.Chmod(dir, 0o755))
			}
			must(t, os.Mkdir(w.state, 0o755))
			if shared {
				must(t, os.Chown(w.state, 0, otherUID))
				must(t, os.Chmod(w.state, 0o770|os.ModeSetgid))
			}
			ctx := t.Context()
			build := func(string, string) (string, error) { return self(t), nil }
			ours, err := Push(ctx, w.h, w.state, build)
			must(t, err)
			dir, err := w.start("k3v7", "v1")
			must(t, err)
			w.awaits(dir, Running)
			other := remotetest.StartSSHD(t, remotetest.Options{UID: otherUID}).Dial(t)

			all, err := List(ctx, other, w.state)
			place, prepared := Prepare(ctx, other, w.state, "q2m9")
			if !shared {
				var whose, again *OthersError
				if !errors.As(err, &whose) || whose.Owner != "root" || !errors.As(prepared, &again) || again.Owner != "root" {
					t.Errorf("%v, %v", err, prepared)
				}
				return
			}
			if err != nil || len(all) != 1 || all[0] != (Listed{SweepID: "k3v7", Dir: dir, State: Running, Owner: "root"}) {
				t.Errorf("%+v, %v", all, err)
			}
			must(t, prepared)
			must(t, Discard(ctx, other, place))
			if worker, err := bench.EnsureWorker(ctx, other, w.state, build); err != nil || worker == ours || filepath.Base(worker) != filepath.Base(ours) {
				t.Errorf("the other user runs %s, %v", worker, err)
			}
			if err := Fetch(ctx, other, dir, filepath.Join(t.TempDir(), "theirs")); err == nil || !strings.Contains(err.Error(), "is gone") {
				t.Errorf("fetched by another user: %v", err)
			}
			if state, err := Stop(ctx, other, dir); state != Running || err != nil {
				t.Errorf("%v, %v", state, err)
			}
			w.goOn(dir)
			if st, err := Look(ctx, w.h, dir, 0); err != nil || st.State != Running {
				t.Errorf("ended by another user: %+v, %v", st, err)
			}
		})
	}
}
