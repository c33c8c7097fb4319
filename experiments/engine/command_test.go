package engine_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
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
func wait(t *testing.T, s engine.Server) (server.Ready, error) {
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
	s.Command = []string{python, script, engine.PortMark, "0.3"}
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
	return server.WaitReady(t.Context(), h, st, s.Port, command(t).Readiness(s), server.ReadyOptions{Timeout: 30 * time.Second})
}

// A server that specrun knows nothing of is ready by its marker, or by its URL and
// a completion alone.
func TestCommand_Ready(t *testing.T) {
	for name, s := range map[string]engine.Server{
		"marker and URL":      {Marker: `server is listening`, URL: "/health"},
		"URL of a silent one": {URL: "health"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := wait(t, s); err != nil {
				t.Error(err)
			}
		})
	}
}

// fakeAnswers is a server with these routes; a body that does not begin with a
// brace is a status.
func fakeAnswers(t *testing.T, routes map[string]string) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, ok := routes[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		raw, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		if body == "strict" { // refuses what it does not know
			if bytes.Contains(raw, []byte("ignore_eos")) {
				http.Error(w, "unknown field", http.StatusUnprocessableEntity)
				return
			}
			body = `{"choices":[{}],"usage":{"completion_tokens":3}}`
		}
		if status, err := strconv.Atoi(body); err == nil {
			http.Error(w, "no", status)
			return
		}
		if _, err := io.WriteString(w, body); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(s.Close)
	return s
}

// What shows no sign of serving is not ready, and it is said what is missing.
func TestCommand_Probe(t *testing.T) {
	const done = `{"choices":[{}],"usage":{"completion_tokens":16}}`
	for name, c := range map[string]struct {
		s      engine.Server
		routes map[string]string
		want   string // "" = ready
	}{
		"completions":             {engine.Server{}, map[string]string{"/v1/completions": done}, ""},
		"chat":                    {engine.Server{Marker: "x"}, map[string]string{"/v1/chat/completions": done}, ""},
		"strict":                  {engine.Server{}, map[string]string{"/v1/completions": "strict"}, ""},
		"URL without completions": {engine.Server{URL: "health"}, map[string]string{"/health": "{}"}, ""},
		"marker alone":            {engine.Server{Marker: "x"}, nil, ""},
		"no sign at all":          {engine.Server{}, nil, "server.ready.url or marker"},
		"no such URL":             {engine.Server{URL: "/healthz"}, map[string]string{"/v1/completions": done}, "server.ready.url: "},
		"loading":                 {engine.Server{URL: "/health"}, map[string]string{"/health": "503", "/v1/completions": done}, "503"},
		"model not there yet":     {engine.Server{}, map[string]string{"/v1/models": "503"}, "503"},
		"completes nothing":       {engine.Server{}, map[string]string{"/v1/completions": `{"choices":[{}],"usage":{"completion_tokens":0}}`}, "0 tokens"},
		"fails":                   {engine.Server{URL: "/health"}, map[string]string{"/health": "{}", "/v1/completions": "500"}, "500"},
	} {
		s := fakeAnswers(t, c.routes)
		err := command(t).Readiness(c.s).Probe(t.Context(), s.Client(), s.URL)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCommand_Marker(t *testing.T) {
	r := command(t).Readiness(engine.Server{Marker: `listening on \S+:\d+$`})
	if r.(server.Unmarked).Unmarked() || r.Observe([]byte("listening soon\n")).Ready || !r.Observe([]byte("main: listening on h:80\n")).Ready {
		t.Error("the marker is not what decides")
	}
	if !command(t).Readiness(engine.Server{}).(server.Unmarked).Unmarked() {
		t.Error("without a marker none is waited for")
	}
}

func TestCommand_ModelOfAServerThatListsNone(t *testing.T) {
	s := fakeAnswers(t, nil)
	if name, err := command(t).Model(t.Context(), s.Client(), s.URL); err != nil || name == "" {
		t.Errorf("%q, %v", name, err)
	}
	s = fakeAnswers(t, map[string]string{"/v1/models": `{"data":[{"id":"m"}]}`})
	if name, err := command(t).Model(t.Context(), s.Client(), s.URL); err != nil || name != "m" {
		t.Errorf("%q, %v", name, err)
	}
}
