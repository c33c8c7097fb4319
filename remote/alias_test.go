package remote

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// fakeSSH answers -G as OpenSSH does: for every name, and one that it knows.
const fakeSSH = `#!/bin/sh
[ "$1" = -G ] || exit 1
while [ $# -gt 1 ]; do shift; done
case $1 in
broken) echo "/home/me/.ssh/config line 3: Bad configuration option" >&2; exit 255 ;;
kimi) cat <<'END'
host kimi
user ubuntu
hostname 10.0.0.7
port 2222
identitiesonly yes
identityfile ~/.ssh/id_gpu
identityfile /keys/other
identityagent none
userknownhostsfile ~/.ssh/known_hosts /dev/null
globalknownhostsfile /etc/ssh/ssh_known_hosts
hostkeyalias kimi-key
proxyjump me@bastion:23,second
END
;;
*) printf 'host %s\nuser root\nhostname %s\nport 22\nidentityfile ~/.ssh/id_rsa\nproxyjump none\nidentityagent SSH_AUTH_SOCK\n' "$1" "$1" ;;
esac
`

func aliasOptions(t *testing.T) AliasOptions {
	t.Helper()
	program := filepath.Join(t.TempDir(), "ssh")
	if err := os.WriteFile(program, []byte(fakeSSH), 0o700); err != nil {
		t.Fatal(err)
	}
	return AliasOptions{SSH: program, Home: "/home/me"}
}

func TestResolveAlias(t *testing.T) {
	o := aliasOptions(t)
	got, err := ResolveAlias(t.Context(), "kimi", o)
	if err != nil {
		t.Fatal(err)
	}
	want := Alias{Name: "kimi", HostName: "10.0.0.7", User: "ubuntu", Port: 2222, IdentitiesOnly: true,
		IdentityFiles: []string{"/home/me/.ssh/id_gpu", "/keys/other"}, IdentityAgent: "none", HostKeyAlias: "kimi-key",
		KnownHosts: []string{"/home/me/.ssh/known_hosts", "/etc/ssh/ssh_known_hosts"}, ProxyJump: []string{"me@bastion:23", "second"}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	plain, err := ResolveAlias(t.Context(), "other", o)
	if err != nil || plain.HostName != "other" || plain.ProxyJump != nil || plain.IdentityAgent != "" {
		t.Errorf("%+v, %v", plain, err)
	}
	for _, bad := range []string{"broken", "-oProxyCommand=touch /tmp/x", "", "a b"} {
		if a, err := ResolveAlias(t.Context(), bad, o); err == nil {
			t.Errorf("%q became %+v", bad, a)
		}
	}
	o.SSH = filepath.Join(t.TempDir(), "none")
	if _, err := ResolveAlias(t.Context(), "kimi", o); !errors.Is(err, ErrNoSSH) {
		t.Errorf("error %v", err)
	}
}

func TestKnownAlias(t *testing.T) {
	o := aliasOptions(t)
	for name, want := range map[string]bool{"kimi": true, "other": false} {
		if got, err := KnownAlias(t.Context(), name, o); got != want || err != nil {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

func TestAlias_FillKeepsWhatIsSet(t *testing.T) {
	a := Alias{HostName: "10.0.0.7", User: "ubuntu", Port: 2222, IdentityFiles: []string{"/a"}, KnownHosts: []string{"/own", "/user"}, ProxyJump: []string{"b"}}
	c := Config{Address: "kimi", User: "me", KnownHosts: []string{"/own"}, AgentSocket: "/agent"}
	a.Fill(&c)
	want := Config{Address: "10.0.0.7", User: "me", Port: 2222, IdentityFiles: []string{"/a"}, KnownHosts: []string{"/own", "/user"},
		AgentSocket: "/agent", Jump: []string{"b"}}
	if d := cmp.Diff(want, c, cmp.FilterPath(func(p cmp.Path) bool { return p.Last().Type().Kind().String() == "func" }, cmp.Ignore())); d != "" {
		t.Error(d)
	}
}
