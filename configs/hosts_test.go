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

func load(t *testing.T, text string) (*Hosts, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), FileName)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	h, err := Load(file)
	if h != nil {
		h.knownAlias = func(_ context.Context, name string) (bool, error) { return name == "alias", nil }
	}
	return h, err
}

const full = `
hosts:
  kimi-8gpu:
    address: ubuntu@10.0.0.7:2222
    identity_file: keys/id
    known_hosts: /etc/known
    jump: bastion
    python: ~/ml-env/bin/python3
    env: {HF_HOME: /data/hf, N: 08}
    cwd: /data
    state_dir: /srv/specrun
    spec: specrun.yaml
    labels: {site: a}
  plain:
groups:
  all: [kimi-8gpu, plain]
`

func TestLoad_ReadsEveryKey(t *testing.T) {
	h, err := load(t, full)
	if err != nil {
		t.Fatal(err)
	}
	got, err := h.Resolve(t.Context(), "kimi-8gpu")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Dir(h.File)
	want := Host{Name: "kimi-8gpu", Kind: KindSSH, Address: "10.0.0.7", User: "ubuntu", Port: 2222,
		IdentityFile: filepath.Join(dir, "keys/id"), KnownHosts: "/etc/known", Jump: "bastion",
		Python: "~/ml-env/bin/python3", Cwd: "/data", StateDir: "/srv/specrun", Spec: filepath.Join(dir, "specrun.yaml"),
		Env: map[string]string{"HF_HOME": "/data/hf", "N": "08"}, Labels: map[string]string{"site": "a"}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	names, err := h.Expand([]string{"plain", "all"})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"plain", "kimi-8gpu"}, names); d != "" {
		t.Error(d)
	}
	if plain, _ := h.Resolve(t.Context(), "plain"); plain.Address != "plain" {
		t.Errorf("a host without an address has the address %q, want its own name", plain.Address)
	}
}

func TestLoad_SaysWhatWhereAndWhatWasMeant(t *testing.T) {
	for _, c := range []struct{ text, want, hint string }{
		{"hosts:\n  a: {adress: x}", ":2:7: hosts.a: unknown key \"adress\"", `did you mean "address"?`},
		{"host: {}", ":1:1: unknown key \"host\"", `did you mean "hosts"?`},
		{"hosts:\n  a: {port: 99999}", `hosts.a.port: "99999" is no port`, ""},
		{"hosts:\n  a: {user: [x]}", "hosts.a.user: a text is needed here", ""},
		{"hosts: [a]", "hosts: a mapping of names is needed here", ""},
		{"groups: {all: a}", "groups.all: a list of hosts is needed here", "write [name, name]"},
		{"hosts:\n  a: {}\n  a: {}", "given twice", ""},
		{"hosts:\n\t- a", "found character that cannot start any token", ""},
	} {
		_, err := load(t, c.text)
		var fault *FileError
		if !errors.As(err, &fault) {
			t.Errorf("%q: error %v, want a FileError", c.text, err)
			continue
		}
		if !strings.Contains(err.Error(), c.want) || fault.Hint() != c.hint {
			t.Errorf("%q:\ngot  %s (hint %q)\nwant %s (hint %q)", c.text, err, fault.Hint(), c.want, c.hint)
		}
	}
}

func TestResolve_Names(t *testing.T) {
	h, err := load(t, "hosts:\n  gpu-01: {address: 10.0.0.7}\n")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]Host{
		"local":              {Name: "local", Kind: KindLocal},
		"lab":                {Name: "lab", Kind: KindLab},
		"root@10.0.0.9:2200": {Name: "root@10.0.0.9:2200", Kind: KindSSH, User: "root", Address: "10.0.0.9", Port: 2200},
		"alias":              {Name: "alias", Kind: KindSSH, Address: "alias"},
	} {
		got, err := h.Resolve(t.Context(), name)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: %s", name, d)
		}
	}
	_, err = h.Resolve(t.Context(), "gpu-1")
	var unknown *UnknownHostError
	if !errors.As(err, &unknown) || unknown.Nearest != "gpu-01" || !strings.Contains(err.Error(), h.File) {
		t.Errorf("unknown host: %v, want one that names gpu-01 and the file", err)
	}
}

func TestFind_OnlyANamedFileMustExist(t *testing.T) {
	t.Chdir(t.TempDir())
	h, err := Find("", "/nowhere")
	if err != nil {
		t.Fatal(err)
	}
	h.knownAlias = func(context.Context, string) (bool, error) { return false, nil }
	if _, err := h.Resolve(t.Context(), "x"); err == nil || !strings.Contains(err.Error(), "/nowhere/hosts.yaml") {
		t.Errorf("error %v does not say where was looked", err)
	}
	if _, err := Find("absent.yaml", ""); err == nil || !strings.Contains(err.Error(), "absent.yaml") {
		t.Errorf("a named file that does not exist: error %v", err)
	}
}
