package remote_test

import (
	"context"
	"crypto/ed25519"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"

	"specrun/remote"
	"specrun/remote/loopback"
	"specrun/remote/remotetest"
)

func TestDial_HostKey(t *testing.T) {
	s := serve(t, loopback.Limits{})
	_, other := newKey(t)
	address := strings.Fields(s.HostKeyLine())[0]
	otherLine := address + " " + strings.TrimSpace(string(ssh.MarshalAuthorizedKey(other))) + "\n"
	ecdsaLine := address + " ecdsa-sha2-nistp256 AAAAE2VjZHNhLXNoYTItbmlzdHAyNTYAAAAIbmlzdHAyNTYAAABBBEmKSENjQEezOmxkZMy7opKgwFB9nkt5YRrYMjNuG5N87uRgg6CLrbo5wAdT/y6v0mKV0U2w0WZ2YB/++Tpockg=\n"
	for name, c := range map[string]struct {
		known string
		want  error
		hint  string
	}{
		"known":         {s.HostKeyLine(), nil, ""},
		"unknown":       {"", remote.ErrHostKeyUnknown, "--accept-new"},
		"other host":    {"[127.0.0.1]:1 " + strings.SplitN(s.HostKeyLine(), " ", 2)[1], remote.ErrHostKeyUnknown, "--accept-new"},
		"changed":       {otherLine, remote.ErrHostKeyChanged, "in between"},
		"type":          {ecdsaLine, remote.ErrHostKeyType, "ssh-keyscan"},
		"revoked":       {s.HostKeyLine() + "@revoked * " + strings.SplitN(s.HostKeyLine(), " ", 2)[1], remote.ErrHostKeyChanged, "in between"},
		"unread line":   {"host new-type AAAA\n" + s.HostKeyLine(), nil, ""},
		"type and ours": {ecdsaLine + s.HostKeyLine(), nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "known_hosts")
			if err := os.WriteFile(file, []byte(c.known), 0o600); err != nil {
				t.Fatal(err)
			}
			config := s.Config("gpu-01")
			config.KnownHosts = []string{filepath.Join(t.TempDir(), "absent"), file}
			config.AcceptNew = c.want != remote.ErrHostKeyUnknown // must not accept a changed one
			_, err := dial(t, config)
			if !errors.Is(err, c.want) || (c.want == nil) != (err == nil) {
				t.Fatalf("error %v", err)
			}
			if !strings.Contains(hint(err), c.hint) {
				t.Errorf("hint %q of %v", hint(err), err)
			}
			if _, err := os.Stat(config.KnownHosts[0]); err == nil {
				t.Error("a file was written")
			}
		})
	}
}

func TestDial_AcceptNewRecordsOnce(t *testing.T) {
	s := serve(t, loopback.Limits{})
	file := filepath.Join(t.TempDir(), "new", "known_hosts")
	c := s.Config("gpu-01")
	c.KnownHosts, c.AcceptNew = []string{file}, true
	mustDial(t, c)
	mustDial(t, c)
	c.AcceptNew = false
	mustDial(t, c)
	if b, _ := os.ReadFile(file); string(b) != s.HostKeyLine() {
		t.Errorf("recorded %q", b)
	}
	// Behind a last line that lacks its newline.
	os.WriteFile(file, []byte("# mine"), 0o600)
	c.AcceptNew = true
	mustDial(t, c)
	if b, _ := os.ReadFile(file); string(b) != "# mine\n"+s.HostKeyLine() {
		t.Errorf("recorded %q", b)
	}
}

func TestDial_Authentication(t *testing.T) {
	dir := t.TempDir()
	keep := func(name string, text []byte) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	text, err := os.ReadFile("testdata/client_key")
	if err != nil {
		t.Fatal(err)
	}
	raw, err := ssh.ParseRawPrivateKey(text)
	if err != nil {
		t.Fatal(err)
	}
	good := *raw.(*ed25519.PrivateKey)
	keep("client_key", text) // which the server takes for its own
	s, err := loopback.Start(t.Context(), loopback.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	if text, err = os.ReadFile("testdata/locked_key"); err != nil {
		t.Fatal(err)
	}
	locked := keep("locked", text)
	stranger, _ := newKey(t)
	block, err := ssh.MarshalPrivateKey(stranger, "")
	if err != nil {
		t.Fatal(err)
	}
	wrong := keep("wrong", pem.EncodeToMemory(block))

	many := make([]ed25519.PrivateKey, 7)
	for i := range many {
		many[i], _ = newKey(t)
	}
	absent := filepath.Join(dir, "absent")
	answer := func(a string) func(context.Context, string) (string, error) {
		return func(context.Context, string) (string, error) { return a, nil }
	}
	for name, c := range map[string]struct {
		change func(*remote.Config)
		ok     bool
		says   string
		hint   string
	}{
		"refused":         {func(c *remote.Config) { c.IdentityFiles = []string{wrong} }, false, wrong, "authorized_keys"},
		"no key":          {func(c *remote.Config) { c.IdentityFiles = []string{absent} }, false, absent, "identity_file"},
		"user":            {func(c *remote.Config) { c.User = "root" }, false, "root", "user name"},
		"second file":     {func(c *remote.Config) { c.IdentityFiles = []string{absent, wrong, s.ClientKeyPath()} }, true, "", ""},
		"locked":          {func(c *remote.Config) { c.IdentityFiles = []string{locked} }, false, "passphrase", "ssh-add " + locked},
		"unlocked":        {func(c *remote.Config) { c.IdentityFiles = []string{locked}; c.Prompt = answer("secret") }, true, "", ""},
		"wrong answer":    {func(c *remote.Config) { c.IdentityFiles = []string{locked}; c.Prompt = answer("?") }, false, locked, ""},
		"agent":           {func(c *remote.Config) { c.IdentityFiles = nil; c.AgentSocket = serveAgent(t, good) }, true, "", ""},
		"locked in agent": {func(c *remote.Config) { c.IdentityFiles = []string{locked}; c.AgentSocket = serveAgent(t, good) }, true, "", ""},
		"file first":      {func(c *remote.Config) { c.AgentSocket = serveAgent(t, many...) }, true, "", ""},
		"only ours": {func(c *remote.Config) {
			c.IdentityFiles, c.IdentitiesOnly, c.AgentSocket = []string{wrong}, true, serveAgent(t, good)
		}, false, wrong, ""},
		"five at most": {func(c *remote.Config) {
			c.IdentityFiles, c.AgentSocket = nil, serveAgent(t, append(many, good)...)
		}, false, "5 keys are the most", ""},
		"no agent": {func(c *remote.Config) { c.IdentityFiles, c.AgentSocket = nil, absent }, false, "agent:", ""},
	} {
		t.Run(name, func(t *testing.T) {
			config := s.Config("gpu-01")
			c.change(&config)
			_, err := dial(t, config)
			switch {
			case c.ok && err != nil:
				t.Error(err)
			case !c.ok && (!errors.Is(err, remote.ErrAuth) || !strings.Contains(err.Error(), c.says) || !strings.Contains(hint(err), c.hint)):
				t.Errorf("error %v, hint %q", err, hint(err))
			}
		})
	}
}

func serveAgent(t *testing.T, keys ...ed25519.PrivateKey) string {
	t.Helper()
	ring := agent.NewKeyring()
	for _, k := range keys {
		if err := ring.Add(agent.AddedKey{PrivateKey: k}); err != nil {
			t.Fatal(err)
		}
	}
	dir, err := os.MkdirTemp("", "agent") // a socket's name must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	l, err := net.Listen("unix", filepath.Join(dir, "s"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() { agent.ServeAgent(ring, c); c.Close() }()
		}
	}()
	return l.Addr().String()
}

func TestDial_Unreachable(t *testing.T) {
	s := serve(t, loopback.Limits{})
	gone := s.Config("gpu-01")
	s.Close()
	if _, err := dial(t, gone); !errors.Is(err, remote.ErrUnreachable) || !strings.Contains(err.Error(), "gpu-01") {
		t.Errorf("error %v", err)
	}
	other := gone
	other.Address, other.Port = listen(t, func(_ int, c net.Conn) {
		io.WriteString(c, "HTTP/1.1 400 Bad Request\r\n\r\n")
	})
	if _, err := dial(t, other); !errors.Is(err, remote.ErrUnreachable) || !strings.Contains(err.Error(), "no SSH server") {
		t.Errorf("error %v", err)
	}
	blocked := gone
	tries := make(chan int, 100)
	blocked.Address, blocked.Port = listen(t, func(n int, c net.Conn) {
		tries <- n
		io.WriteString(c, "Not allowed at this time\r\n")
	})
	if _, err := dial(t, blocked); !errors.Is(err, remote.ErrUnreachable) || len(tries) != 1 {
		t.Errorf("error %v after %d tries", err, len(tries))
	}
	for _, c := range []remote.Config{{Name: "a", User: "u"}, {Name: "a", Address: "b"}, {Name: "a", Address: "b", User: "u", Port: -1}} {
		if _, err := dial(t, c); err == nil {
			t.Errorf("%+v was dialled", c)
		}
	}
}

func TestDial_TriesAgainWhenThrottled(t *testing.T) {
	s := serve(t, loopback.Limits{})
	p := remotetest.StartProxy(t, s.Addr())
	p.HangUp(2)
	mustDial(t, p.Through(s.Config("gpu-01")))
	if p.Dials() != 3 {
		t.Errorf("%d dials", p.Dials())
	}
	p.HangUp(1000)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := remote.Dial(ctx, p.Through(s.Config("gpu-01"))); !errors.Is(err, remote.ErrThrottled) {
		t.Errorf("error %v", err)
	}
}

// golang/go#15113: the library's own timeout ends with the TCP connect.
func TestDial_MutePeerTimesOut(t *testing.T) {
	bastion := serve(t, loopback.Limits{})
	for _, jump := range [][]string{nil, {bastion.Addr()}} {
		c := bastion.Config("gpu-01")
		c.Address, c.Port = mute(t)
		c.HandshakeTimeout = 100 * time.Millisecond
		c.Jump = jump
		if jump != nil {
			c.HandshakeTimeout = 700 * time.Millisecond // the bastion's handshake is within it
		}
		if _, err := dial(t, c); !errors.Is(err, remote.ErrTimeout) {
			t.Errorf("jump %v: error %v", jump, err)
		}
	}
	c := bastion.Config("gpu-01")
	c.Address, c.Port = mute(t)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	if _, err := remote.Dial(ctx, c); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

func TestDial_ThroughJumpHosts(t *testing.T) {
	first, second, target := serve(t, loopback.Limits{}), serve(t, loopback.Limits{}), serve(t, loopback.Limits{})
	c := target.Config("gpu-01")
	c.KnownHosts = []string{first.KnownHostsPath(), second.KnownHostsPath(), target.KnownHostsPath()}
	// One key for all: each server has its own, so a hop resolves to its file.
	servers := map[string]*loopback.Server{"one": first, "two": second}
	c.Resolve = func(_ context.Context, name string) (remote.Alias, error) {
		s, ok := servers[name]
		if !ok {
			return remote.Alias{}, fmt.Errorf("no %s", name)
		}
		sc := s.Config(name)
		a := remote.Alias{HostName: sc.Address, Port: sc.Port, User: sc.User, IdentityFiles: sc.IdentityFiles}
		if name == "two" {
			a.ProxyJump = []string{"one"}
		}
		return a, nil
	}
	keys := c.IdentityFiles
	c.IdentityFiles = append([]string{first.ClientKeyPath(), second.ClientKeyPath()}, keys...)
	for _, jump := range [][]string{{"one"}, {"one", "two"}, {"two"}} {
		c.Jump = jump
		if _, err := mustDial(t, c).Run(t.Context(), remote.Script{Name: "x", Text: "main() { :; }"}); err != nil {
			t.Errorf("jump %v: %v", jump, err)
		}
	}
	// Each hop's key is verified.
	c.KnownHosts = []string{first.KnownHostsPath(), target.KnownHostsPath()}
	if _, err := dial(t, c); !errors.Is(err, remote.ErrHostKeyUnknown) || !strings.Contains(err.Error(), "two") {
		t.Errorf("error %v", err)
	}
	c.Jump = []string{"one", "two", "one"}
	if _, err := dial(t, c); !errors.Is(err, remote.ErrUnreachable) || !strings.Contains(err.Error(), "itself") {
		t.Errorf("error %v", err)
	}
}

func TestParseAddress(t *testing.T) {
	for in, want := range map[string]string{
		"h": "|h|0", "u@h": "u|h|0", "u@h:22": "u|h|22", "h:1": "|h|1", "[::1]:22": "|::1|22", "u@[::1]": "u|::1|0",
		"::1": "|::1|0", "a@b@h": "a@b|h|0",
		"": "!", "@h": "!", "u@": "!", "h:0": "!", "h:x": "!", "h:70000": "!", "-x": "!", "a b": "!", "[::1": "!",
	} {
		user, host, port, err := remote.ParseAddress(in)
		got := user + "|" + host + "|" + strconv.Itoa(port)
		if err != nil {
			got = "!"
		}
		if got != want {
			t.Errorf("%q: %s (%v), want %s", in, got, err, want)
		}
	}
}
