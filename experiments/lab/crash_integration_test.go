//go:build integration && linux

package lab

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// A client that goes away takes its request with it, and a stop waits for none.
func TestClientGone(t *testing.T) {
	t.Parallel()
	s := fast(t)
	steps := 2
	s.Failures = []Failure{{Kind: Stall, Steps: &steps, AfterTokens: 20}}
	srv := startServer(t, newEnvironment(t), s, nil, speculative(2)...).ready()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "POST", srv.base+"/v1/completions",
		strings.NewReader(`{"prompt":"x","max_tokens":4000,"ignore_eos":true,"stream":true}`))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if line, err := bufio.NewReader(resp.Body).ReadString('\n'); err != nil || !strings.HasPrefix(line, "data: ") {
		t.Fatalf("%q %v", line, err)
	}
	if err := srv.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	srv.until("SIGTERM received.")
	select {
	case <-srv.exited:
		t.Fatal("ended while a request was running")
	default:
	}
	cancel()
	if code := srv.wait(); code != 0 {
		t.Errorf("exit status %d:\n%s", code, srv.text())
	}
}

func TestFailures(t *testing.T) {
	t.Parallel()
	e := newEnvironment(t)
	s := fast(t)
	one, two, three, four := 1, 2, 3, 4
	s.Failures = []Failure{{Kind: Crash, Steps: &one}, {Kind: NeverReady, Steps: &two},
		{Kind: Stall, Steps: &three, AfterTokens: 40}, {Kind: Die, Steps: &four, AfterTokens: 40, Message: "lost it"}}
	t.Run("crash", func(t *testing.T) {
		srv := startServer(t, e, s, nil, speculative(1)...)
		if code := srv.wait(); code == 0 || !strings.Contains(srv.text(), "Scheduler hit an exception: Traceback") ||
			!strings.Contains(srv.text(), "CUDA out of memory") {
			t.Errorf("exit status %d:\n%s", code, srv.text())
		}
	})
	t.Run("never ready", func(t *testing.T) {
		srv := startServer(t, e, s, nil, speculative(2)...)
		srv.until("Load weight end.")
		if err := srv.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if srv.wait(); listening.MatchString(srv.text()) {
			t.Errorf("listened:\n%s", srv.text())
		}
	})
	t.Run("stall", func(t *testing.T) {
		srv := startServer(t, e, s, nil, speculative(3)...).ready()
		resp, err := http.Post(srv.base+"/v1/completions", "application/json",
			strings.NewReader(`{"prompt":"x","max_tokens":1000,"ignore_eos":true,"stream":true}`))
		if err != nil {
			t.Fatal(err)
		}
		words := 0
		for sc := bufio.NewScanner(resp.Body); words < 40 && sc.Scan(); {
			var e event
			if data, ok := bytes.CutPrefix(sc.Bytes(), []byte("data: ")); ok {
				if err := json.Unmarshal(data, &e); err != nil {
					t.Fatal(err)
				}
				words += len(strings.Fields(e.Choices[0].Text))
			}
		}
		resp.Body.Close()
		if words < 40 || words > 44 {
			t.Errorf("stalled after %d tokens", words)
		}
		var i info
		if srv.get("/get_server_info", &i); len(i.States) != 0 {
			t.Errorf("a hung scheduler answered: %+v", i)
		}
	})
	t.Run("die", func(t *testing.T) {
		srv := startServer(t, e, s, nil, speculative(4)...).ready()
		// The answer may be cut in any way: what counts is how the server ends.
		if resp, err := http.Post(srv.base+"/v1/completions", "application/json",
			strings.NewReader(`{"prompt":"x","max_tokens":1000,"ignore_eos":true}`)); err == nil {
			resp.Body.Close()
		}
		if code := srv.wait(); code == 0 || !strings.Contains(srv.text(), "RuntimeError: lost it") ||
			!strings.Contains(srv.text(), "SIGQUIT received.") {
			t.Errorf("exit status %d:\n%s", code, srv.text())
		}
	})
	t.Run("port taken", func(t *testing.T) {
		first := startServer(t, e, s, nil).ready()
		port := first.base[strings.LastIndexByte(first.base, ':')+1:]
		if _, err := strconv.Atoi(port); err != nil {
			t.Fatal(err)
		}
		second := startServer(t, e, s, nil, "--port", port)
		if code := second.wait(); code != 1 || !strings.Contains(second.text(), "error while attempting to bind on address ('127.0.0.1', "+port+")") {
			t.Errorf("exit status %d:\n%s", code, second.text())
		}
	})
	t.Run("scheduler killed", func(t *testing.T) {
		srv := startServer(t, e, s, nil).ready()
		found, err := withEnv("SPECRUN_LAB_SETTINGS=" + srv.settings)
		if err != nil || len(found) != 2 {
			t.Fatalf("processes %v, %v", found, err)
		}
		for _, p := range found {
			if p.PID != srv.cmd.Process.Pid {
				if err := p.signal(syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
			}
		}
		if code := srv.wait(); code == 0 || !strings.Contains(srv.text(), "crashed") {
			t.Errorf("exit status %d:\n%s", code, srv.text())
		}
	})
}
