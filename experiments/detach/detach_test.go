package detach

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"specrun/experiments"
	"specrun/experiments/bench"
	"specrun/experiments/record"
	"specrun/remote"
)

// TestMain lets the test binary be the process on the host, as specrun itself is.
// Its sweep has a run for each line of the results, and waits for a file "go"
// before each.
func TestMain(m *testing.M) {
	if len(os.Args) == 5 && os.Args[1] == "detached" && os.Args[3] == "--dir" {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		if err := process(ctx, os.Args[2], os.Args[4]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	flag.Parse()
	os.Exit(m.Run())
}

func process(ctx context.Context, what, dir string) error {
	if what == "pack" {
		return Pack(ctx, os.Stdout, files{dir}, os.Stdin)
	}
	secrets, err := Secrets(os.Stdin)
	if err != nil {
		return err
	}
	if _, _, err := ReadJob(dir, "v1"); err != nil {
		return err
	}
	s, err := Serve(dir, "the test's process", time.Now)
	if err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(dir, ResultsFile))
	if err != nil {
		return err
	}
	for n, run := range strings.Fields(string(text)) {
		s.Tell(experiments.Progress{Launch: n + 1, Step: "bench", Phase: experiments.PhaseBegin})
		for ctx.Err() == nil {
			if os.Remove(filepath.Join(dir, "go")) == nil {
				break
			}
			time.Sleep(5 * time.Millisecond)
		}
		if ctx.Err() != nil {
			return s.End(End{Exit: 130, Error: "interrupted"})
		}
		s.Tell(experiments.Progress{Launch: n + 1, Phase: experiments.PhaseResult,
			Result: &record.Result{Run: record.Run{ID: run, State: record.RunDone, Reason: secrets["TOKEN"]}}})
	}
	return s.End(End{Summary: &experiments.Summary{Done: 3}})
}

// files are results for Pack.
type files struct{ dir string }

func (f files) Copy(_ context.Context, w io.Writer) error {
	text, err := os.ReadFile(filepath.Join(f.dir, ResultsFile))
	if err == nil {
		_, err = w.Write(text)
	}
	return err
}

// Kept has every file but those whose hashes begin with 0, and of 1 it has a part.
func (f files) Kept(_ context.Context, sha string) (io.ReadCloser, int64, error) {
	var r io.Reader = strings.NewReader("content of " + sha)
	switch sha[0] {
	case '0':
		return nil, 0, fmt.Errorf("kept file %.2s: no such file", sha)
	case '1':
		r = io.MultiReader(r, iotest.ErrReader(io.ErrUnexpectedEOF))
	}
	return io.NopCloser(r), int64(len("content of " + sha)), nil
}

// shells are those that hosts have as /bin/sh, as far as this machine has them.
func shells(t *testing.T) [][]string {
	t.Helper()
	var found [][]string
	for _, shell := range [][]string{{"dash"}, {"bash"}, {"busybox", "sh"}} {
		if path, err := exec.LookPath(shell[0]); err == nil {
			found = append(found, append([]string{path}, shell[1:]...))
		}
	}
	if len(found) == 0 {
		found = [][]string{{"/bin/sh"}}
	}
	return found
}

// world is a host with its state folder.
type world struct {
	t     *testing.T
	h     *remote.Host
	state string
}

func newWorld(t *testing.T, shell ...string) *world {
	t.Helper()
	w := &world{t: t, state: filepath.Join(t.TempDir(), "the state"), h: remote.Local(remote.LocalConfig{Name: "here", Dir: t.TempDir(), Shell: shell})}
	t.Cleanup(func() {
		all, err := List(context.Background(), w.h, w.state)
		for _, l := range all {
			w.kill(l.Dir, syscall.SIGKILL)
		}
		if err := errors.Join(err, w.h.Close()); err != nil {
			t.Error(err)
		}
	})
	return w
}

func self(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	must(t, err)
	return path
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func (w *world) kill(dir string, s syscall.Signal) {
	text, err := os.ReadFile(filepath.Join(dir, identityFile))
	var boot string
	var pid int
	if _, scanErr := fmt.Sscan(string(text), &boot, &pid); err == nil && scanErr == nil {
		_ = syscall.Kill(pid, s)
	}
}

// start brings a sweep of three runs to the host, or starts it again.
func (w *world) start(id, version string) (string, error) {
	w.t.Helper()
	ctx := w.t.Context()
	p, err := Prepare(ctx, w.h, w.state, id)
	must(w.t, err)
	results := ""
	if p.State == Absent {
		results = filepath.Join(w.t.TempDir(), "r")
		must(w.t, os.WriteFile(results, []byte("r1 r2 r3"), 0o600))
	}
	must(w.t, Send(ctx, w.h, p, Job{SweepID: id, Version: version, Store: "mine"}, results))
	return p.Dir, Start(ctx, w.h, p, self(w.t), map[string]string{"TOKEN": "it's \"secret\"\n."})
}

func (w *world) goOn(dir string) { must(w.t, os.WriteFile(filepath.Join(dir, "go"), nil, 0o600)) }

// awaits looks until the sweep stands as asked for.
func (w *world) awaits(dir string, state State) Status {
	w.t.Helper()
	for limit := time.Now().Add(20 * time.Second); ; {
		st, err := Look(w.t.Context(), w.h, dir, 0)
		must(w.t, err)
		if st.State == state {
			return st
		}
		if time.Now().After(limit) {
			w.t.Fatalf("it is %s, want %s", st.State, state)
		}
	}
}

// seen collects what a follower is told.
type seen struct {
	mu   sync.Mutex
	runs []string
	on   func(run string) // after each
}

func (s *seen) tell(_ context.Context, _ Host, e Event, now bool) error {
	if e.Result == nil || now {
		return nil
	}
	s.mu.Lock()
	s.runs = append(s.runs, e.Result.Run)
	s.mu.Unlock()
	if s.on != nil {
		s.on(e.Result.Run)
	}
	return nil
}

func TestSweep_InEachShell(t *testing.T) {
	for _, shell := range shells(t) {
		t.Run(filepath.Base(shell[0]), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, shell...)
			ctx := t.Context()
			dir, err := w.start("k3v7", "v1")
			must(t, err)
			w.awaits(dir, Running)
			all, err := List(ctx, w.h, w.state)
			if err != nil || len(all) != 1 || all[0] != (Listed{SweepID: "k3v7", Dir: dir, State: Running}) {
				t.Errorf("%+v, %v", all, err)
			}
			// A second start leaves it alone.
			before, _ := os.ReadFile(filepath.Join(dir, identityFile))
			if _, err := w.start("k3v7", "v1"); err != nil {
				t.Error(err)
			}
			if after, _ := os.ReadFile(filepath.Join(dir, identityFile)); !bytes.Equal(before, after) {
				t.Errorf("%q became %q", before, after)
			}

			var got seen
			got.on = func(run string) {
				if run == "r1" {
					w.kill(dir, syscall.SIGKILL)
				}
			}
			w.goOn(dir)
			f := Follower{Dir: dir, Poll: time.Millisecond, On: got.tell, Dial: func(context.Context) (Connection, error) { return w.h, nil }}
			st, err := f.Follow(ctx, keptOpen{w.h})
			if err != nil || st.State != Dead || strings.Join(got.runs, " ") != "r1" {
				t.Fatalf("%+v, %v after %v", st, err, got.runs)
			}
			if state, err := Remove(ctx, w.h, dir, "mine", false); state != Dead || err != nil {
				t.Errorf("a killed one was removed: %v, %v", state, err)
			}

			// Another process goes on in the folder, with what lies there.
			if _, err := w.start("k3v7", "v1"); err != nil {
				t.Fatal(err)
			}
			got = seen{on: func(string) { w.goOn(dir) }}
			w.goOn(dir)
			st, err = f.Follow(ctx, keptOpen{w.h})
			if err != nil || st.State != Ended || st.End == nil || st.End.Summary == nil || st.End.Summary.Done != 3 {
				t.Fatalf("%+v, %v", st, err)
			}
			if want := "r1 r1 r2 r3"; strings.Join(got.runs, " ") != want {
				t.Errorf("told %v, want %s", got.runs, want)
			}

			var results, kept bytes.Buffer
			file := filepath.Join(t.TempDir(), "fetched")
			must(t, Fetch(ctx, w.h, dir, file))
			text, err := os.ReadFile(file)
			must(t, err)
			results.Write(text)
			hashes := []string{strings.Repeat("a1", 32), strings.Repeat("b2", 32)}
			gone, cut := strings.Repeat("0a", 32), strings.Repeat("1a", 32)
			lost, err := FetchFiles(ctx, w.h, dir, []string{gone, hashes[0], cut, hashes[1]}, func(sha string, r io.Reader) error {
				fmt.Fprintf(&kept, "%.2s ", sha)
				_, err := io.Copy(&kept, r)
				return err
			})
			if err != nil || len(lost) != 2 || lost[gone] != "kept file 0a: no such file" || lost[cut] != "unexpected EOF" {
				t.Errorf("lost %v, %v", lost, err)
			}
			if want := "a1 content of " + hashes[0] + "b2 content of " + hashes[1]; results.String() != "r1 r2 r3" || kept.String() != want {
				t.Errorf("fetched %q and %q", results.String(), kept.String())
			}
			secret, err := exec.Command("grep", "-rl", "--exclude=events.jsonl", "secret", w.state).Output()
			if len(secret) > 0 {
				t.Errorf("the secret lies in %s (%v)", secret, err)
			}

			if state, err := Remove(ctx, w.h, dir, "somebody else's", true); state != Ended || err != nil {
				t.Errorf("removed for somebody else: %v, %v", state, err)
			}
			if state, err := Remove(ctx, w.h, dir, "mine", false); state != Absent || err != nil {
				t.Errorf("not removed: %v, %v", state, err)
			}
			if left, _ := os.ReadDir(filepath.Dir(dir)); len(left) > 0 {
				t.Errorf("left on the host: %v", left)
			}
			if err := Fetch(ctx, w.h, dir, file+"2"); err == nil || !strings.Contains(err.Error(), "no such folder") {
				t.Errorf("fetch of what is gone: %v", err)
			}
		})
	}
}

// keptOpen is a connection whose Close the test owns.
type keptOpen struct{ *remote.Host }

func (keptOpen) Close() error { return nil }

// Whoever is not sure that it was asked asks again, also where nothing can be
// written.
func TestStop_MayBeRepeated(t *testing.T) {
	for _, shell := range shells(t) {
		t.Run(filepath.Base(shell[0]), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, shell...)
			dir, err := w.start("k3v7", "v1")
			must(t, err)
			must(t, os.Mkdir(filepath.Join(dir, "stop"), 0o700)) // where an earlier version noted it
			asked, err := Stop(t.Context(), w.h, dir)
			if asked != Running || err != nil {
				t.Fatalf("%v, %v", asked, err)
			}
			for asked == Running && err == nil {
				asked, err = Stop(t.Context(), w.h, dir)
			}
			if asked != Ended || err != nil {
				t.Errorf("%v, %v", asked, err)
			}
			if st := w.awaits(dir, Ended); st.End == nil || st.End.Exit != 130 || st.End.BeganUs == 0 {
				t.Errorf("%+v", st.End)
			}
		})
	}
}

// Each event is told once although the connection is lost at every second look.
func TestFollow_OverLostConnections(t *testing.T) {
	w := newWorld(t)
	dir, err := w.start("k3v7", "v1")
	must(t, err)
	lost, dialled := 0, 0
	got := seen{on: func(string) { w.goOn(dir) }}
	w.goOn(dir)
	f := Follower{Dir: dir, Poll: time.Millisecond, On: got.tell, Lost: func(error) { lost++ },
		Dial: func(context.Context) (Connection, error) {
			if dialled++; dialled%2 == 0 {
				return nil, &remote.Error{Host: "here", Op: "dial", Kind: remote.ErrUnreachable}
			}
			return &flaky{Host: w.h}, nil
		}}
	st, err := f.Follow(t.Context(), &flaky{Host: w.h})
	if err != nil || st.State != Ended || strings.Join(got.runs, " ") != "r1 r2 r3" {
		t.Errorf("%+v, %v, told %v", st, err, got.runs)
	}
	if lost == 0 {
		t.Error("no connection was lost: the test tests nothing")
	}
}

// flaky loses the connection with every second script.
type flaky struct {
	*remote.Host
	n int
}

func (f *flaky) Run(ctx context.Context, s remote.Script) (remote.Result, error) {
	if f.n++; f.n%2 == 0 {
		return remote.Result{}, &remote.Error{Host: "here", Op: "script", Kind: remote.ErrLost}
	}
	return f.Host.Run(ctx, s)
}

func (f *flaky) Close() error { return nil }

func TestFollow_AHostThatStaysAwayEndsIt(t *testing.T) {
	w := newWorld(t)
	f := Follower{Dir: "/nowhere", Patience: time.Millisecond, Dial: func(context.Context) (Connection, error) {
		return nil, &remote.Error{Host: "here", Op: "dial", Kind: remote.ErrUnreachable}
	}}
	_, err := f.Follow(t.Context(), &flaky{Host: w.h, n: 1})
	if !HostLost(err) || !strings.Contains(err.Error(), "stayed away") {
		t.Errorf("got %v", err)
	}
}

func TestStart_Refused(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	_, err := w.start("other", "v2")
	var refused *RefusedError
	if !errors.As(err, &refused) || !strings.Contains(err.Error(), "made by specrun v2, and this is v1") || !strings.Contains(refused.Hint(), "make build") {
		t.Errorf("another version: %v", err)
	}
	all, err := List(ctx, w.h, w.state)
	if err != nil || len(all) != 1 || all[0].State != Begun {
		t.Errorf("%+v, %v", all, err)
	}
	// The next try takes its place.
	if _, err := w.start("other", "v1"); err != nil {
		t.Error(err)
	}

	p, err := Prepare(ctx, w.h, w.state, "full")
	must(t, err)
	if p.Free <= 0 {
		t.Errorf("%d bytes free", p.Free)
	}
	p.Free = 1 << 20
	var full *NoRoomError
	if err := Send(ctx, w.h, p, Job{SweepID: "full"}, ""); !errors.As(err, &full) || full.Free != 1<<20 {
		t.Errorf("a full disk: %v", err)
	}
	must(t, Discard(ctx, w.h, p))

	_, err = Push(ctx, w.h, w.state, func(goos, goarch string) (string, error) {
		return "", &bench.NoWorkerError{OS: goos, Arch: goarch, Tried: []string{"/nowhere: no such file"}}
	})
	var missing *NoBuildError
	if !errors.As(err, &missing) || missing.Host != "here" || !strings.Contains(missing.Hint(), "specrun-"+missing.OS+"-"+missing.Arch) {
		t.Errorf("no build for the host: %v", err)
	}
}

// Two made a place before either had started. The second start comes while the
// first one's process records and has not said yet that it runs.
func TestStart_KeepsWhatAQuickerOneRecords(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	results := filepath.Join(t.TempDir(), "r")
	must(t, os.WriteFile(results, []byte("r1 r2 r3"), 0o600))
	var places []Place
	for range 2 {
		p, err := Prepare(ctx, w.h, w.state, "k3v7")
		must(t, err)
		must(t, Send(ctx, w.h, p, Job{SweepID: "k3v7", Version: "v1", Store: "mine"}, results))
		places = append(places, p)
	}
	dir := places[0].Dir
	must(t, Start(ctx, w.h, places[0], self(t), nil))
	w.awaits(dir, Running)
	recorded := filepath.Join(dir, ResultsFile)
	must(t, os.WriteFile(recorded, []byte("r1 r2 r3 and more"), 0o600))
	identity := filepath.Join(dir, identityFile)
	must(t, os.Rename(identity, identity+".later"))
	var refused *RefusedError
	if err := Start(ctx, w.h, places[1], self(t), nil); !errors.As(err, &refused) || !strings.Contains(refused.Log, ErrTaken.Error()) {
		t.Errorf("got %v", err)
	}
	must(t, os.Rename(identity+".later", identity))
	if text, err := os.ReadFile(recorded); string(text) != "r1 r2 r3 and more" {
		t.Errorf("what was recorded is %q, %v", text, err)
	}
}

func TestFind_HostsThatHaveNothing(t *testing.T) {
	w := newWorld(t)
	l, err := Find(t.Context(), w.h, w.state, "k3v7")
	if err != nil || l.State != Absent {
		t.Errorf("%+v, %v", l, err)
	}
	st, err := Look(t.Context(), w.h, w.state+"/detached/k3v7", 0)
	if err != nil || st.State != Absent || len(st.Events) > 0 {
		t.Errorf("%+v, %v", st, err)
	}
	if entries, _ := os.ReadDir(w.state); len(entries) > 0 {
		t.Errorf("looking made %v", entries)
	}
}
