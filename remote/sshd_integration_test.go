//go:build integration

package remote_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"specrun/remote"
	"specrun/remote/remotetest"
)

const noisyRC = "echo 'Welcome to the cluster'\nprintf '\\033[1mdisk is 80%% full\\033[0m\\n' >&2\nalias cat='echo no'\ncd /\n"

func home(t *testing.T, rc string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, ".bashrc"), []byte(rc), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestSSHD_KeepsTheContract(t *testing.T) {
	for name, o := range map[string]remotetest.Options{
		"plain":       {},
		"no sftp":     {NoSFTP: true},
		"MaxSessions": {MaxSessions: 1},
		// A login shell with a chatty rc file, and SFTP through that shell.
		"noisy": {Env: map[string]string{"HOME": home(t, noisyRC)}, SFTP: "/usr/lib/openssh/sftp-server"},
	} {
		t.Run(name, func(t *testing.T) {
			h := remotetest.StartSSHD(t, o).Dial(t)
			remotetest.Run(t, func(t *testing.T) *remote.Host { return h })
		})
	}
}

// golang/go#29286: with one of three host keys recorded, that one is negotiated.
func TestSSHD_EachHostKeyTypeAloneConnects(t *testing.T) {
	kinds := []string{"ed25519", "ecdsa", "rsa"}
	s := remotetest.StartSSHD(t, remotetest.Options{KeyTypes: kinds})
	for _, kind := range kinds {
		line, err := s.KnownHostsLine(kind)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "known_hosts")
		if err := os.WriteFile(file, []byte(line), 0o600); err != nil {
			t.Fatal(err)
		}
		c := s.Config()
		c.KnownHosts = []string{file}
		if h, err := remote.Dial(t.Context(), c); err != nil {
			t.Errorf("%s: %v", kind, err)
		} else {
			h.Close()
		}
	}
}

// k0sctl#813: the line that we record is one that ssh accepts, and the reverse.
func TestSSHD_RecordedKeyIsOpenSSHs(t *testing.T) {
	s := remotetest.StartSSHD(t, remotetest.Options{})
	file := filepath.Join(t.TempDir(), "known_hosts")
	s.Dial(t, func(c *remote.Config) { c.KnownHosts, c.AcceptNew = []string{file}, true })
	ssh := func(mode, known string) {
		t.Helper()
		out, err := exec.Command("ssh", "-F", "none", "-i", s.ClientKey, "-p", fmt.Sprint(s.Port), "-o", "UserKnownHostsFile="+known,
			"-o", "GlobalKnownHostsFile=none", "-o", "StrictHostKeyChecking="+mode, "-o", "BatchMode=yes", s.User+"@"+s.Address, "true").CombinedOutput()
		if err != nil {
			t.Errorf("ssh: %v %s", err, out)
		}
	}
	ssh("yes", file)
	theirs := file + ".ssh"
	ssh("accept-new", theirs)
	s.Dial(t, func(c *remote.Config) { c.KnownHosts = []string{theirs} })
}

// pyinfra#1963, #1445: ssh_config as ssh itself reads it, three hops.
func TestSSHD_AliasThroughJumpHosts(t *testing.T) {
	var servers []*remotetest.SSHD
	dir := t.TempDir()
	config, known := "", ""
	for i, jump := range []string{"none", "one", "two"} {
		s := remotetest.StartSSHD(t, remotetest.Options{})
		servers = append(servers, s)
		name := []string{"one", "two", "three"}[i]
		config += fmt.Sprintf("Host %s\n HostName %s\n Port %d\n IdentityFile %s\n ProxyJump %s\n", name, s.Address, s.Port, s.ClientKey, jump)
		line, err := s.KnownHostsLine("ed25519")
		if err != nil {
			t.Fatal(err)
		}
		known += line
	}
	config += "Match final all\n ForwardX11 no\nMatch host x exec \"false\"\n User nobody\n"
	config += "Host *\n User " + servers[0].User + "\n UserKnownHostsFile " + dir + "/known_hosts\n GlobalKnownHostsFile none\n"
	for name, text := range map[string]string{"config": config, "known_hosts": known} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	o := remote.AliasOptions{ConfigFile: dir + "/config", Home: dir}
	resolve := func(ctx context.Context, name string) (remote.Alias, error) { return remote.ResolveAlias(ctx, name, o) }
	a, err := resolve(t.Context(), "three")
	if err != nil {
		t.Fatal(err)
	}
	c := remote.Config{Name: "three", Resolve: resolve}
	a.Fill(&c)
	h, err := remote.Dial(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	if _, err := h.Run(t.Context(), remote.Script{Name: "x", Text: "main() { :; }"}); err != nil {
		t.Error(err)
	}
	for _, s := range servers {
		if !strings.Contains(s.Log(), "Accepted publickey") {
			t.Error("one of the hops was left out")
		}
	}
	for name, want := range map[string]bool{"one": true, "unheard-of": false} {
		if got, err := remote.KnownAlias(t.Context(), name, o); got != want || err != nil {
			t.Errorf("%s known: %v, %v", name, got, err)
		}
	}
}

// k0sctl#422: more keys in the agent than the server takes tries.
func TestSSHD_NoMoreKeysThanTheServerTakes(t *testing.T) {
	s := remotetest.StartSSHD(t, remotetest.Options{OnlyThese: true})
	var files []string
	for i := range 8 {
		file := filepath.Join(t.TempDir(), fmt.Sprint(i))
		if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", file).CombinedOutput(); err != nil {
			t.Fatalf("%v %s", err, out)
		}
		files = append(files, file)
	}
	c := s.Config()
	c.IdentityFiles = files
	if _, err := remote.Dial(t.Context(), c); !errors.Is(err, remote.ErrAuth) || !strings.Contains(err.Error(), "not offered") {
		t.Errorf("error %v", err)
	}
	if strings.Contains(s.Log(), "maximum authentication attempts") {
		t.Error("the server hung up on us")
	}
}

// ansible#24594: many operations on one host, many dials to one sshd.
func TestSSHD_ManyOperationsWithinItsLimits(t *testing.T) {
	s := remotetest.StartSSHD(t, remotetest.Options{MaxSessions: 3, MaxStartups: "10:30:100"})
	h := s.Dial(t)
	var wg sync.WaitGroup
	dir := t.TempDir()
	for i := range 64 {
		wg.Go(func() {
			if _, err := h.Run(t.Context(), remote.Script{Name: "x", Text: "main() { sleep 0.02; }"}); err != nil {
				t.Error(err)
			}
			if _, err := h.PutVerified(t.Context(), remote.File{Path: filepath.Join(dir, fmt.Sprint(i)), Data: []byte("x")}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func TestSSHD_ForcedCommandIsNamed(t *testing.T) {
	plain := remotetest.StartSSHD(t, remotetest.Options{})
	pub, err := os.ReadFile(plain.ClientKey + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	s := remotetest.StartSSHD(t, remotetest.Options{OnlyThese: true,
		AuthorizedKeys: []string{`command="echo This account is for backups only" ` + string(pub)}})
	h := s.Dial(t, func(c *remote.Config) { c.IdentityFiles = []string{plain.ClientKey} })
	r, err := h.Run(t.Context(), remote.Script{Name: "x", Text: "main() { :; }"})
	if !errors.Is(err, remote.ErrNoise) || r.Outcome != remote.NotStarted || !strings.Contains(err.Error(), "backups only") {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestSSHD_ServerKilledWhileUploading(t *testing.T) {
	s := remotetest.StartSSHD(t, remotetest.Options{})
	p := remotetest.StartProxy(t, s.HostPort())
	h, err := remote.Dial(t.Context(), p.Through(s.Config()))
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	p.Delay(20 * time.Millisecond)
	end := make(chan error, 1)
	go func() {
		end <- h.Put(t.Context(), remote.File{Path: filepath.Join(t.TempDir(), "f"), Data: bytes.Repeat([]byte("x"), 16<<20)})
	}()
	start := p.Sent()
	waitFor(t, func() bool { return p.Sent() > start+1<<20 })
	s.CutConnections()
	if err := <-end; !errors.Is(err, remote.ErrLost) {
		t.Errorf("error %v", err)
	}
}

// A full disk, a full inode table, a read-only mount: SFTP has one code for
// all. The mounts live in the sshd's own mount namespace.
func TestSSHD_FullDiskIsNamed(t *testing.T) {
	if os.Getuid() != 0 {
		t.Fatal("needs root for mounts of its own")
	}
	dir := t.TempDir()
	for name, options := range map[string]string{"small": "size=512k", "nodes": "nr_inodes=2", "ro": "ro"} {
		path := filepath.Join(dir, name)
		if err := os.Mkdir(path, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Mount("none", path, "tmpfs", 0, strings.TrimPrefix(options, "ro")); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { syscall.Unmount(path, 0) })
	}
	if err := os.WriteFile(filepath.Join(dir, "nodes", "last"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("none", filepath.Join(dir, "ro"), "tmpfs", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""); err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]remotetest.Options{"sftp": {}, "script": {NoSFTP: true}} {
		h := remotetest.StartSSHD(t, o).Dial(t)
		put := func(folder string, size int) error {
			return h.Put(t.Context(), remote.File{Path: filepath.Join(dir, folder, "f"), Data: bytes.Repeat([]byte("x"), size)})
		}
		var full *remote.DiskFullError
		for _, size := range []int{600_000, 5 << 20} {
			if err := put("small", size); !errors.As(err, &full) || !errors.Is(err, remote.ErrDiskFull) || !strings.Contains(full.Mount, "small") {
				t.Errorf("%s: %d bytes on a full disk: %v", name, size, err)
			}
		}
		if err := put("nodes", 1); !errors.As(err, &full) || full.FreeInodes != 0 {
			t.Errorf("%s: no inode: %v", name, err)
		}
		if err := put("ro", 1); !errors.Is(err, remote.ErrReadOnly) {
			t.Errorf("%s: read-only: %v", name, err)
		}
		for _, folder := range []string{"small", "nodes", "ro"} {
			if _, err := os.Stat(filepath.Join(dir, folder, "f")); err == nil {
				t.Errorf("%s: a partial file stays in %s", name, folder)
			}
		}
	}
}

func TestSSHD_AnotherUser(t *testing.T) {
	s := remotetest.StartSSHD(t, remotetest.Options{UID: 4001})
	h := s.Dial(t)
	r, err := h.Run(t.Context(), remote.Script{Name: "x", Text: "main() { id -u; echo $HOME; }"})
	if err != nil || string(r.Stdout) != "4001\n"+s.Home+"\n" {
		t.Fatalf("%q, %v", r.Stdout, err)
	}
	if err := h.Put(t.Context(), remote.File{Path: "/etc/specrun-test", Data: []byte("x")}); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("error %v", err)
	}
	if err := h.Put(t.Context(), remote.File{Path: s.Home + "/f", Data: []byte("x"), Mode: 0o400}); err != nil {
		t.Error(err)
	}
}

// mutagen#26: whatever the login shell is, the exec lines reach /bin/sh.
func TestSSHD_LoginShells(t *testing.T) {
	for _, shell := range []string{"dash", "bash", "busybox", "tcsh", "fish", "zsh"} {
		path, err := exec.LookPath(shell)
		if err != nil {
			t.Logf("no %s here", shell)
			continue
		}
		t.Run(shell, func(t *testing.T) {
			if shell == "busybox" {
				link := filepath.Join(t.TempDir(), "sh")
				if err := os.Symlink(path, link); err != nil {
					t.Fatal(err)
				}
				path = link
				for dir := filepath.Dir(link); dir != os.TempDir(); dir = filepath.Dir(dir) {
					os.Chmod(dir, 0o755)
				}
			}
			h := remotetest.StartSSHD(t, remotetest.Options{UID: 4001, Shell: path}).Dial(t)
			for _, payload := range [][]byte{nil, []byte("it's a !payload\n")} {
				s := remote.Script{Name: "x", Text: "main() { cat; echo \"$v\"; return 9; }", Vars: []remote.Var{{Name: "v", Value: "it's !\n$x"}}, Payload: payload}
				r, err := h.Run(t.Context(), s)
				var exit *remote.ExitError
				if !errors.As(err, &exit) || r.Exit != 9 || string(r.Stdout) != string(payload)+"it's !\n$x\n" {
					t.Errorf("%+v, %v", r, err)
				}
			}
		})
	}
}
