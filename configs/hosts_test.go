package configs

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const example = `# two hosts
hosts:
  kimi:
    address: me@10.0.0.7:2222
    identity_file: ~/.ssh/id_gpu
    known_hosts: keys/known
    spec: eagle.yaml
    jump: bastion,me@[::1]:23
    python: ~/ml-env/bin/python3
    state_dir: /data/specrun
    env: { NCCL_PROTO: LL, N: 08, ON: on }
    labels: { gpu: h200 }
  gpu-01: { address: gpu-01.example, user: root, port: 22 }
  plain:
  here: { kind: local, cwd: /tmp }
groups:
  all: [kimi, gpu-01, local, you@other]
`

func load(t *testing.T, text string) (*Hosts, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "hosts.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return Load(file, "/home/me")
}

func TestLoad_ReadsEveryField(t *testing.T) {
	h, err := load(t, example)
	if err != nil {
		t.Fatal(err)
	}
	got, err := h.Resolve("kimi")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Dir(h.looked[0])
	want := Host{Name: "kimi", Kind: SSH, Address: "10.0.0.7", User: "me", Port: 2222,
		IdentityFile: "/home/me/.ssh/id_gpu", KnownHosts: dir + "/keys/known", Spec: dir + "/eagle.yaml",
		Jump: "bastion,me@[::1]:23", Python: "~/ml-env/bin/python3", StateDir: "/data/specrun",
		Env: map[string]string{"NCCL_PROTO": "LL", "N": "08", "ON": "on"}, Labels: map[string]string{"gpu": "h200"}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"bastion", "me@[::1]:23"}, got.JumpHosts()); d != "" {
		t.Error(d)
	}
	if plain, err := h.Resolve("plain"); err != nil || plain.Address != "plain" {
		t.Errorf("%+v, %v", plain, err)
	}
	if here, err := h.Resolve("here"); err != nil || here.Kind != Local {
		t.Errorf("%+v, %v", here, err)
	}
	if d := cmp.Diff([]string{"gpu-01", "here", "kimi", "plain"}, h.Names()); d != "" {
		t.Error(d)
	}
}

func TestLoad_MistakesHaveTheirPlace(t *testing.T) {
	for _, c := range []struct{ text, want, hint string }{
		{"hosts:\n  a: {adress: x}\n", "hosts.yaml:2:7: hosts.a.adress: unknown key", "did you mean address?"},
		{"host: {}\n", "hosts.yaml:1:1: host: unknown key", "did you mean hosts?"},
		{"hosts:\n  a: {port: 99999}\n", ":2:13: hosts.a.port: must be a number from 1 to 65535", ""},
		{"hosts:\n  a: {port: 0x16}\n", "must be a number", ""},
		{"hosts:\n  a: {address: u@h, user: v}\n", "names user u, and user: names v", "give the user once"},
		{"hosts:\n  a: {address: '@h'}\n", "no user before the @", "write host"},
		{"hosts:\n  a: {env: [x]}\n", "hosts.a.env: must be a map", ""},
		{"hosts:\n  a: {python: [x]}\n", "hosts.a.python: must be a text", ""},
		{"hosts:\n  a: {}\n  a: {}\n", "given twice", ""},
		{"hosts:\n  lab: {}\n", "practice host", "another name"},
		{"hosts:\n  a b: {}\n", "one word", ""},
		{"hosts:\n  kimi: {}\ngroups:\n  g: [kim]\n", `:4:7: groups.g: no host "kim"`, "did you mean kimi?"},
		{"hosts:\n  a: {}\ngroups:\n  a: [a]\n", "there is a host of this name", "rename"},
		{"hosts:\n  a: {kind: lab}\n", "is none", "ssh or local"},
		{"groups:\n  g: x\n", "must be a list", ""},
		{"hosts: [\n", "hosts.yaml:", "no valid YAML"},
		{"- a\n", "must be a map", ""},
		{"hosts:\n  a: &x {user: u}\n  b: {<<: *x}\n", "plain word", ""},
	} {
		_, err := load(t, c.text)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v", c.text, err)
			continue
		}
		var e *FileError
		if !errors.As(err, &e) || !strings.Contains(e.Hint(), c.hint) {
			t.Errorf("%q: hint of %v", c.text, err)
		}
	}
	if h, err := load(t, "# nothing yet\n"); err != nil || len(h.Names()) != 0 {
		t.Errorf("empty file: %v", err)
	}
}

func TestResolve_Order(t *testing.T) {
	h, err := load(t, example)
	if err != nil {
		t.Fatal(err)
	}
	h.Aliases = func(_ context.Context, name string) (bool, error) {
		switch name {
		case "alias":
			return true, nil
		case "broken":
			return false, errors.New("bad config")
		}
		return false, nil
	}
	for name, want := range map[string]Host{
		"local":      {Name: "local", Kind: Local},
		"lab":        {Name: "lab", Kind: Lab},
		"u@h":        {Name: "u@h", Kind: SSH, Address: "h", User: "u"},
		"u@h:23":     {Name: "u@h:23", Kind: SSH, Address: "h", User: "u", Port: 23},
		"u@[::1]:23": {Name: "u@[::1]:23", Kind: SSH, Address: "::1", User: "u", Port: 23},
		"alias":      {Name: "alias", Kind: SSH, Address: "alias", FromSSHConfig: true},
	} {
		got, err := h.Resolve(name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
	var unknown *UnknownHostError
	if _, err := h.Resolve("kimmi"); !errors.As(err, &unknown) || !strings.Contains(unknown.Hint(), "kimi") || !strings.Contains(err.Error(), h.looked[0]) {
		t.Errorf("%v", err)
	}
	if _, err := h.Resolve("broken"); !errors.As(err, &unknown) || unknown.Err == nil {
		t.Errorf("%v", err)
	}
	if _, err := h.Resolve("all"); err == nil {
		t.Error("a group was taken for a host")
	}
	if _, err := h.Resolve("-oProxyCommand=x"); err == nil {
		t.Error("an option was taken for a host")
	}
}

func TestExpand_GroupsInOrderEachOnce(t *testing.T) {
	h, err := load(t, example)
	if err != nil {
		t.Fatal(err)
	}
	all, err := h.Expand([]string{"gpu-01", "all", "local"})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, host := range all {
		names = append(names, host.Name)
	}
	if d := cmp.Diff([]string{"gpu-01", "kimi", "local", "you@other"}, names); d != "" {
		t.Error(d)
	}
}

func TestFind_LooksInOrder(t *testing.T) {
	dir, home := t.TempDir(), t.TempDir()
	if p, looked, err := Find("", dir, home); p != "" || len(looked) != 2 || err != nil {
		t.Errorf("%q %q %v", p, looked, err)
	}
	user := filepath.Join(home, "specrun", FileName)
	os.MkdirAll(filepath.Dir(user), 0o700)
	os.WriteFile(user, nil, 0o600)
	if p, _, _ := Find("", dir, home); p != user {
		t.Errorf("%q", p)
	}
	own := filepath.Join(dir, FileName)
	os.WriteFile(own, nil, 0o600)
	if p, _, _ := Find("", dir, home); p != own {
		t.Errorf("%q", p)
	}
	if _, _, err := Find(filepath.Join(dir, "no.yaml"), dir, home); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%v", err)
	}
}
