//go:build integration

package experiments_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"specrun/experiments"
	"specrun/remote"
	"specrun/remote/remotetest"
)

// bigLog writes a log of so many bytes, one line in every of which is a decode
// line; the others are an access log that compresses badly.
func bigLog(t testing.TB, path string, size int64, every int) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(7, 7))
	var b bytes.Buffer
	at, tokens := time.Date(2026, 1, 1, 10, 0, 0, 0, time.UTC), 100
	for n, i := int64(0), 0; n < size; i++ {
		if i%every == 0 {
			at = at.Add(time.Duration(r.IntN(2)) * time.Second)
			if tokens += 70 + r.IntN(20); tokens > 4000 {
				tokens = 100
			}
			fmt.Fprintf(&b, "[%s TP0] Decode batch, #running-req: %d, #token: %d, token usage: %.2f, accept len: %.2f, accept rate: %.2f, cuda graph: True, gen throughput (token/s): %.2f, #queue-req: 0, \n",
				at.Format(time.DateTime), 1+r.IntN(4), tokens, float64(tokens)/30000, 1.87+r.NormFloat64()/10, 0.6+r.NormFloat64()/20, 93+3*r.NormFloat64())
		} else {
			fmt.Fprintf(&b, "INFO:     127.0.0.1:%d - \"POST /v1/chat/completions HTTP/1.1\" 200 OK request=%016x tokens=%d ms=%.3f\n",
				30000+r.IntN(30000), r.Uint64(), r.IntN(4000), 1000*r.Float64())
		}
		if b.Len() > 1<<20 {
			n += int64(b.Len())
			if _, err := b.WriteTo(f); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// What travels is a small part of a log, and what is read is the same.
func TestImportHost_OverASlowLink(t *testing.T) {
	t.Parallel()
	sshd := remotetest.StartSSHD(t, remotetest.Options{})
	proxy := remotetest.StartProxy(t, sshd.HostPort())
	h, err := remote.Dial(context.Background(), proxy.Through(sshd.Config()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { h.Close() })
	proxy.Delay(25 * time.Millisecond) // a round trip of 50 ms
	for name, c := range map[string]struct {
		every int
		most  float64
	}{"few rows": {200, 0.01}, "nearly all rows": {1, 0.10}} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "it's a server.log")
			bigLog(t, path, 16<<20, c.every)
			before, sent := proxy.Received(), proxy.Sent()
			var got experiments.ImportFile
			filter, err := experiments.ImportHost(context.Background(), h, experiments.ImportRequest{Patterns: []string{filepath.Dir(path) + "/it's *.log"}},
				func(f experiments.ImportFile) error { got = f; return f.Err })
			if err != nil {
				t.Fatal(err)
			}
			wire := proxy.Received() - before
			t.Logf("%s: %d of %d bytes on the wire (%.3f %%), %d sent", filter, wire, got.Bytes, 100*float64(wire)/float64(got.Bytes), proxy.Sent()-sent)
			if float64(wire) > c.most*float64(got.Bytes) {
				t.Errorf("%d of %d bytes travelled", wire, got.Bytes)
			}
			want := experiments.ImportLocal(path, nil)
			if want.Err != nil {
				t.Fatal(want.Err)
			}
			if got.Content != want.Content {
				t.Errorf("content %v, here %v", got.Content, want.Content)
			}
			if d := cmp.Diff(fmt.Sprint(want.Runs), fmt.Sprint(got.Runs)); d != "" {
				t.Errorf("runs %s", d)
			}
		})
	}
}

// A file that the account may not read is one error, the others are read.
func TestImportHost_Unreadable(t *testing.T) {
	t.Parallel()
	sshd := remotetest.StartSSHD(t, remotetest.Options{UID: 54321})
	h := sshd.Dial(t)
	dir := t.TempDir()
	for p := dir; len(p) > len(os.TempDir()); p = filepath.Dir(p) {
		if err := os.Chmod(p, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	bigLog(t, filepath.Join(dir, "a.log"), 1<<20, 20)
	bigLog(t, filepath.Join(dir, "b.log"), 1<<20, 20)
	if err := os.Chmod(filepath.Join(dir, "b.log"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dir, "a.log"), 0); err != nil {
		t.Fatal(err)
	}
	var errs []error
	_, err := experiments.ImportHost(context.Background(), h, experiments.ImportRequest{Patterns: []string{dir + "/?.log"}},
		func(f experiments.ImportFile) error { errs = append(errs, f.Err); return nil })
	if err != nil {
		t.Fatal(err)
	}
	if len(errs) != 2 || errs[1] != nil || errs[0] == nil || errs[0].Error() != "sshd: read "+filepath.Join(dir, "a.log")+": Permission denied" {
		t.Errorf("errors %v", errs)
	}
}
