package engine_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"specrun/deploy/server"
	"specrun/experiments/engine"
	"specrun/remote"
)

func command(t *testing.T) engine.Engine {
	t.Helper()
	e, err := engine.Lookup("command")
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func TestCommand_Argv(t *testing.T) {
	s := engine.Server{Port: 4242, Command: []string{"~/llama-server", "--port", "${port}", "--url=h:${port}"},
		Flags: []engine.Flag{{Name: "draft-max", Kind: engine.Value, Values: []string{"8"}}}, Args: []string{"-x"}}
	got, err := command(t).Argv(s)
	want := []string{"~/llama-server", "--port", "4242", "--url=h:4242", "--draft-max", "8", "-x"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%q, %v", got, err)
	}
	if s.Command[2] != "${port}" {
		t.Error("the command given was changed")
	}
	for name, bad := range map[string]engine.Server{"no command": {Port: 1}, "no port": {Command: s.Command}} {
		if _, err := command(t).Argv(bad); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
}

// freePort is one that nobody listens on.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// wait starts the fake server and waits until it is ready by the engine's rules.
func wait(t *testing.T, s engine.Server, loading, routes string, timeout time.Duration) (server.Ready, error) {
	t.Helper()
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Fatal("this test needs python3: ", err)
	}
	script, err := filepath.Abs("testdata/llamalike.py")
	if err != nil {
		t.Fatal(err)
	}
	s.Port = freePort(t)
	s.Command = []string{python, script, engine.PortMark, loading, routes}
	if s.Marker == "" {
		s.Args = []string{"--silent"}
	}
	argv, err := command(t).Argv(s)
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	h := remote.Local(remote.LocalConfig{Env: []string{"HOME=" + home, "PATH=" + os.Getenv("PATH")}, Dir: home})
	t.Cleanup(func() { h.Close() })
	id, state := fmt.Sprintf("command-%d-%d", os.Getpid(), time.Now().UnixNano()), filepath.Join(home, "state")
	if _, err := server.Start(t.Context(), h, server.Launch{ID: id, Argv: argv, StateDir: state, Port: s.Port}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := server.Stop(context.WithoutCancel(t.Context()), h, state, id, server.StopOptions{}); err != nil {
			t.Error(err)
		}
	})
	st, err := server.Look(t.Context(), h, state, id)
	if err != nil {
		t.Fatal(err)
	}
	return server.WaitReady(t.Context(), h, st, s.Port, command(t).Readiness(s), server.ReadyOptions{Timeout: timeout})
}

// A server that specrun knows nothing of is ready by its marker, its URL, or a
// completion alone.
func TestCommand_Ready(t *testing.T) {
	const marker = `server is listening`
	for name, c := range map[string]struct {
		s      engine.Server
		routes string
	}{
		"marker and URL":          {engine.Server{Marker: marker, URL: "/health"}, "completions"},
		"marker":                  {engine.Server{Marker: marker}, "chat"},
		"URL of a silent one":     {engine.Server{URL: "health"}, "completions,chat"},
		"neither":                 {engine.Server{}, "completions"},
		"a strict one":            {engine.Server{Marker: marker}, "completions,strict"},
		"URL without completions": {engine.Server{URL: "/health"}, "none"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := wait(t, c.s, "0.3", c.routes, 20*time.Second); err != nil {
				t.Error(err)
			}
		})
	}
}

// What shows no sign of serving is not ready, and it is said what is missing.
func TestCommand_NotReady(t *testing.T) {
	for name, c := range map[string]struct {
		s      engine.Server
		routes string
		text   string
	}{
		"no sign at all":  {engine.Server{}, "none", "server.ready.url or marker"},
		"no such URL":     {engine.Server{URL: "/healthz"}, "completions", "404"},
		"another marker":  {engine.Server{Marker: "never printed"}, "completions", "not ready"},
		"loads for hours": {engine.Server{URL: "/health"}, "completions", "503"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			loading := "0"
			if name == "loads for hours" {
				loading = "9999"
			}
			_, err := wait(t, c.s, loading, c.routes, 1500*time.Millisecond)
			var late *server.NotReadyError
			if !errors.As(err, &late) {
				t.Fatalf("%v", err)
			}
			if text := fmt.Sprint(err, late.Probe); name != "another marker" && !strings.Contains(text, c.text) {
				t.Errorf("%s", text)
			}
		})
	}
}

func TestCommand_ModelOfAServerThatListsNone(t *testing.T) {
	s := engine.Server{URL: "/health"}
	ready, err := wait(t, s, "0", "completions", 20*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	h := remote.Local(remote.LocalConfig{})
	defer h.Close()
	client := server.Client(h)
	defer client.CloseIdleConnections()
	if name, err := command(t).Model(t.Context(), client, ready.BaseURL); err != nil || name == "" {
		t.Errorf("%q, %v", name, err)
	}
}
