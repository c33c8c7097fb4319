package remote_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"io"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"

	"specrun/remote"
	"specrun/remote/loopback"
)

func serve(t *testing.T, l loopback.Limits) *loopback.Server {
	t.Helper()
	s, err := loopback.Start(t.Context(), loopback.Options{Dir: t.TempDir(), Limits: l})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func dial(t *testing.T, c remote.Config) (*remote.Host, error) {
	t.Helper()
	h, err := remote.Dial(t.Context(), c)
	if err == nil {
		t.Cleanup(func() { h.Close() })
	}
	return h, err
}

func mustDial(t *testing.T, c remote.Config) *remote.Host {
	t.Helper()
	h, err := dial(t, c)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func hint(err error) string {
	var h interface{ Hint() string }
	if errors.As(err, &h) {
		return h.Hint()
	}
	return ""
}

func newKey(t *testing.T) (ed25519.PrivateKey, ssh.PublicKey) {
	t.Helper()
	pub, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p, err := ssh.NewPublicKey(pub)
	if err != nil {
		t.Fatal(err)
	}
	return key, p
}

// listen serves connections with f until the test ends.
func listen(t *testing.T, f func(n int, c net.Conn)) (host string, port int) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for n := 0; ; n++ {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { defer c.Close(); f(n, c) }()
		}
	}()
	a := l.Addr().(*net.TCPAddr)
	return a.IP.String(), a.Port
}

func mute(t *testing.T) (string, int) {
	return listen(t, func(_ int, c net.Conn) { io.Copy(io.Discard, c) })
}

func TestHost_NoiseIsNamedWhenSFTPFails(t *testing.T) {
	s := serve(t, loopback.Limits{Noise: "\x1b[1mHello\n"})
	h := mustDial(t, s.Config("gpu-01"))
	if err := h.CheckSFTP(t.Context()); !errors.Is(err, remote.ErrNoSFTP) || !strings.Contains(err.Error(), "Hello") {
		t.Errorf("error %v", err)
	}
}

func TestHost_ClosedHostFails(t *testing.T) {
	s := serve(t, loopback.Limits{})
	h := mustDial(t, s.Config("gpu-01"))
	h.Close()
	if r, err := h.Run(t.Context(), remote.Script{Name: "x", Text: "main() { :; }"}); !errors.Is(err, remote.ErrClosed) || r.Outcome != remote.NotStarted {
		t.Errorf("%+v, %v", r, err)
	}
	if err := h.Put(t.Context(), remote.File{Path: "/nowhere"}); !errors.Is(err, remote.ErrClosed) {
		t.Errorf("put: %v", err)
	}
}

func TestHost_WarmRunIsUsedOnceAndGivesWay(t *testing.T) {
	for _, limit := range []int{0, 1, 2, 3} {
		s := serve(t, loopback.Limits{MaxSessions: limit})
		h := mustDial(t, s.Config("gpu-01"))
		for range 3 {
			h.WarmRun(t.Context())
			h.WarmRun(t.Context())
			var wg sync.WaitGroup
			for i := range 6 {
				wg.Go(func() {
					r, err := h.Run(t.Context(), remote.Script{Name: "x", Text: "main() { echo $n; }", Vars: []remote.Var{{Name: "n", Value: strconv.Itoa(i)}}})
					if err != nil || string(r.Stdout) != strconv.Itoa(i)+"\n" {
						t.Errorf("limit %d: %+v, %v", limit, r, err)
					}
				})
			}
			wg.Wait()
		}
		if _, err := h.PutVerified(t.Context(), remote.File{Path: filepath.Join(t.TempDir(), "f"), Data: []byte("x")}); err != nil {
			t.Errorf("limit %d: %v", limit, err)
		}
	}
}

func waitFor(t *testing.T, cond func() bool) {
	t.Helper()
	limit := time.Now().Add(20 * time.Second)
	for !cond() {
		if time.Now().After(limit) {
			t.Error("waited in vain")
			return
		}
		time.Sleep(2 * time.Millisecond)
	}
}
