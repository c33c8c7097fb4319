//go:build linux

package lab

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// testServer is a stand-in server started without SSH.
type testServer struct {
	t        *testing.T
	cmd      *exec.Cmd
	log      string
	settings string
	exited   chan struct{} // closed when it has; then code is valid
	code     int
	base     string
}

var listening = regexp.MustCompile(`Uvicorn running on (http://127\.0\.0\.1:\d+)`)

// startServer starts a server with these flags after the usual ones; the test
// ends it. It returns at once: see ready.
func startServer(t *testing.T, e environment, s Settings, env []string, flags ...string) *testServer {
	t.Helper()
	dir := t.TempDir()
	srv := &testServer{t: t, log: filepath.Join(dir, "server.log"), settings: filepath.Join(dir, "settings.json"),
		exited: make(chan struct{})}
	if err := s.write(srv.settings); err != nil {
		t.Fatal(err)
	}
	out, err := os.OpenFile(srv.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	argv := append([]string{"-m", "sglang.launch_server", "--model-path", "m", "--port", "0"}, flags...)
	srv.cmd = exec.Command(e.python(), argv...)
	srv.cmd.Env = cleanEnv(srv.settings, env...)
	srv.cmd.Dir = dir
	srv.cmd.Stdout, srv.cmd.Stderr = out, out
	if err := srv.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(srv.exited)
		srv.code = exitCode(srv.cmd.Wait())
	}()
	t.Cleanup(func() {
		if err := endAll(context.Background(), "SPECRUN_LAB_SETTINGS="+srv.settings, 5*time.Second); err != nil {
			t.Error(err)
		}
		<-srv.exited
	})
	return srv
}

// speculative are the flags of a launch with so many draft steps.
func speculative(steps int) []string {
	return []string{"--speculative-algorithm", "EAGLE3", "--speculative-draft-model-path", "d", "--speculative-num-steps",
		fmt.Sprint(steps), "--speculative-eagle-topk", "1", "--speculative-num-draft-tokens", fmt.Sprint(steps + 1)}
}

// exitCode is the status as a shell would give it: 128 + the signal.
func exitCode(err error) int {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return 0
	}
	if ws := exit.Sys().(syscall.WaitStatus); ws.Signaled() {
		return 128 + int(ws.Signal())
	}
	return exit.ExitCode()
}

func (s *testServer) text() string {
	data, err := os.ReadFile(s.log)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(data)
}

// until polls the log for a text; the server's end ends the wait.
func (s *testServer) until(text string) {
	s.t.Helper()
	ok := await(context.Background(), 30*time.Second, func() bool {
		select {
		case <-s.exited:
			return true
		default:
			return strings.Contains(s.text(), text)
		}
	})
	if !ok || !strings.Contains(s.text(), text) {
		s.t.Fatalf("log has no %q:\n%s", text, s.text())
	}
}

func (s *testServer) ready() *testServer {
	s.t.Helper()
	s.until("The server is fired up and ready to roll!\n")
	s.base = listening.FindStringSubmatch(s.text())[1]
	return s
}

func (s *testServer) wait() int {
	s.t.Helper()
	select {
	case <-s.exited:
		return s.code
	case <-time.After(30 * time.Second):
		s.t.Fatalf("server still runs:\n%s", s.text())
		return 0
	}
}

func (s *testServer) post(path, body string) (int, []byte) {
	s.t.Helper()
	resp, err := http.Post(s.base+path, "application/json", strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return resp.StatusCode, data
}

func (s *testServer) get(path string, out any) int {
	s.t.Helper()
	resp, err := http.Get(s.base + path)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	if out != nil {
		if err := json.Unmarshal(data, out); err != nil {
			s.t.Fatalf("%s: %v in %q", path, err, data)
		}
	}
	return resp.StatusCode
}

type info struct {
	Version string `json:"version"`
	Steps   int    `json:"speculative_num_steps"`
	Drafts  int    `json:"speculative_num_draft_tokens"`
	Mode    string `json:"speculative_attention_mode"`
	Max     int    `json:"max_running_requests"`
	States  []struct {
		AcceptLen *float64 `json:"avg_spec_accept_length"`
	} `json:"internal_states"`
	Lab struct {
		Simulated bool    `json:"simulated"`
		Cycles    int     `json:"cycles"`
		Clock     float64 `json:"cycle_clock_ms"`
		Resets    int     `json:"clock_resets"`
	} `json:"specrun_lab"`
	Settings string `json:"specrun_lab_settings"`
}

type usage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
	Total      int `json:"total_tokens"`
}

type event struct {
	Choices []struct {
		Text   string
		Delta  struct{ Content string }
		Finish string `json:"finish_reason"`
	}
	Usage *usage
}

// stream posts and decodes the events of the answer; each is passed to f.
func (s *testServer) stream(path, body string, f func(event)) []event {
	s.t.Helper()
	resp, err := http.Post(s.base+path, "application/json", strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	var events []event
	done := false
	for sc := bufio.NewScanner(resp.Body); sc.Scan(); {
		data, ok := strings.CutPrefix(sc.Text(), "data: ")
		switch {
		case sc.Text() == "":
		case !ok || done:
			s.t.Fatalf("unexpected line %q", sc.Text())
		case data == "[DONE]":
			done = true
		default:
			var e event
			if err := json.Unmarshal([]byte(data), &e); err != nil {
				s.t.Fatalf("%v in %q", err, data)
			}
			if f != nil {
				f(e)
			}
			events = append(events, e)
		}
	}
	if !done {
		s.t.Fatalf("stream ended without [DONE] after %d events", len(events))
	}
	return events
}

func fast(t *testing.T) Settings {
	s := quiet(t)
	s.Scale = 0.05
	return s
}
