package experiments

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"specrun/remote"
)

// watched collects what a Watcher tells.
type watched struct {
	mu     sync.Mutex
	sights []Watched
	notes  []string
}

func (w *watched) see(s Watched) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sights = append(w.sights, s)
}

func (w *watched) note(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.notes = append(w.notes, text)
}

// value is the newest of a metric, 0 for none.
func (w *watched) value(name string) float64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	for i := len(w.sights) - 1; i >= 0; i-- {
		if v, ok := w.sights[i].Values[name]; ok {
			return v
		}
	}
	return 0
}

func (w *watched) noted(text string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, n := range w.notes {
		if strings.Contains(n, text) {
			return true
		}
	}
	return false
}

func (w *watched) watcher(t *testing.T, dial func() (WatchHost, error)) Watcher {
	return Watcher{StateDir: t.TempDir(), Now: time.Now, Every: 10 * time.Millisecond, Patience: 10 * time.Second, OnSight: w.see, OnNote: w.note,
		Dial: func(context.Context) (WatchHost, error) { return dial() }}
}

func localWatch() (WatchHost, error) { return remote.Local(remote.LocalConfig{}), nil }

func decodeLine(tokS string) string {
	return "[2026-11-29 21:00:00] Decode batch. #running-req: 3, #token: 100, token usage: 0.00, accept len: 1.87, cuda graph: False, gen throughput (token/s): " + tokS + ", #queue-req: 2\n"
}

func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatal("did not happen: " + what)
}

func appendTo(t *testing.T, file, text string) {
	t.Helper()
	f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestWatch_ALogAsItGrowsAndIsRotated(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "server.log")
	appendTo(t, file, strings.Repeat("old words\n", 20_000)+decodeLine("90.5"))
	var w watched
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		end, err := w.watcher(t, localWatch).Watch(ctx, WatchTarget{Log: file})
		if end != nil {
			err = errors.New("a log alone has no end")
		}
		ended <- err
	}()
	until(t, "what was written before is seen", func() bool { return w.value("gen_throughput") == 90.5 })
	if w.value("accept_len") != 1.87 || w.value("running_req") != 3 || w.value("queue_req") != 2 {
		t.Errorf("seen: %+v", w.sights)
	}
	appendTo(t, file, decodeLine("91.5"))
	until(t, "a new line is seen", func() bool { return w.value("gen_throughput") == 91.5 })
	if err := os.Rename(file, file+".1"); err != nil {
		t.Fatal(err)
	}
	appendTo(t, file, decodeLine("92.5"))
	until(t, "the new file is read", func() bool { return w.value("gen_throughput") == 92.5 && w.noted("rotated") })
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// losing loses its connection once, in the middle of a log.
type losing struct {
	WatchHost
	lost *bool
}

func (l losing) Follow(ctx context.Context, path string, from remote.Cursor, poll time.Duration, f func([]byte, remote.Cursor) error) error {
	return l.WatchHost.Follow(ctx, path, from, poll, func(chunk []byte, at remote.Cursor) error {
		if err := f(chunk, at); err != nil || *l.lost {
			return err
		}
		*l.lost = true
		return remote.ErrLost
	})
}

func TestWatch_AProcessToItsLastWordsOverALostConnection(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "by hand.log")
	out, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	cmd := exec.Command("sh", "-c", "cat; echo my last words")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stdout = out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill() })
	var w watched
	lost := false
	type result struct {
		end *WatchEnd
		err error
	}
	ended := make(chan result, 1)
	go func() {
		watcher := w.watcher(t, func() (WatchHost, error) { h, err := localWatch(); return losing{h, &lost}, err })
		end, err := watcher.Watch(t.Context(), WatchTarget{PID: cmd.Process.Pid})
		ended <- result{end, err}
	}()
	for _, n := range []string{"11.5", "12.5"} {
		if _, err := in.Write([]byte(decodeLine(n))); err != nil {
			t.Fatal(err)
		}
		until(t, n+" is seen", func() bool {
			return w.value("gen_throughput") > 11 && (n == "11.5" || w.value("gen_throughput") == 12.5)
		})
	}
	if !w.noted("connection is lost") || !w.noted("connected again") {
		t.Errorf("notes: %q", w.notes)
	}
	in.Close()
	cmd.Wait() // its status is not the point
	r := <-ended
	if r.err != nil || r.end == nil || r.end.PID != cmd.Process.Pid || len(r.end.Last) == 0 || r.end.Last[len(r.end.Last)-1] != "my last words" {
		t.Errorf("end %+v, %v", r.end, r.err)
	}
}

func TestWatch_NothingRuns(t *testing.T) {
	t.Parallel()
	var w watched
	var nothing *NothingToWatchError
	if _, err := w.watcher(t, localWatch).Watch(t.Context(), WatchTarget{}); !errors.As(err, &nothing) || !strings.Contains(nothing.Hint(), "--pid") {
		t.Errorf("%v", err)
	}
	var none *NoLogError
	if _, err := w.watcher(t, localWatch).Watch(t.Context(), WatchTarget{Log: filepath.Join(t.TempDir(), "no.log")}); !errors.As(err, &none) || !strings.Contains(none.Hint(), "--pid") {
		t.Errorf("%v", err)
	}
	if _, err := w.watcher(t, localWatch).Watch(t.Context(), WatchTarget{Launch: "abc"}); !errors.As(err, &nothing) || !strings.Contains(err.Error(), "launch abc") {
		t.Errorf("%v", err)
	}
}
