package remotetest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// Podman is an engine with a store of its own, that ends with the test. It needs
// root, podman and runc (make prereqs installs them).
type Podman struct {
	Env []string // that makes every podman below it use this store
	t   testing.TB
	n   atomic.Int64
}

// HostImage has nothing but links into /usr, which its containers get from this
// machine: so it takes no download, and they have the same programs.
const HostImage = "localhost/specrun-host:1"

// HostMounts are the arguments of "run" that give a container of HostImage the
// programs of this machine.
func HostMounts() []string {
	return []string{"-v", "/usr:/usr:ro", "-v", "/etc/alternatives:/etc/alternatives:ro"}
}

// BusyboxImage has busybox and nothing else.
const BusyboxImage = "localhost/specrun-busybox:1"

// StartPodman prepares an engine with both images. A missing prerequisite fails
// the test.
func StartPodman(t testing.TB) *Podman {
	t.Helper()
	for _, tool := range []string{"podman", "runc", "conmon", "busybox"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Fatalf("%v: make prereqs installs it", err)
		}
	}
	// Not t.TempDir: what the containers leave mounted is unmounted first.
	dir, err := os.MkdirTemp("", "specrun-podman-")
	if err != nil {
		t.Fatal(err)
	}
	p := &Podman{t: t}
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	// Limits below those of a machine whose root may not raise them; runc and
	// cgroupfs also work where cgroups are hybrid.
	containers := write("containers.conf", `[containers]
default_ulimits = ["nofile=8192:8192", "nproc=8192:8192"]
log_driver = "k8s-file"
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
`)
	storage := write("storage.conf", fmt.Sprintf("[storage]\ndriver = \"overlay\"\ngraphroot = %q\nrunroot = %q\n", dir+"/store", dir+"/run"))
	p.Env = []string{"CONTAINERS_CONF=" + containers, "CONTAINERS_STORAGE_CONF=" + storage}
	t.Cleanup(func() {
		if out, err := p.command("rm", "-f", "-t", "0", "-a").CombinedOutput(); err != nil {
			t.Errorf("remove the containers: %v: %s", err, out)
		}
		// Podman's own cleaning up, of a container that has ended, may still write.
		remove := func() error {
			exec.Command("umount", "-l", dir+"/store/overlay").Run() // fails when it is not mounted
			return os.RemoveAll(dir)
		}
		err := remove()
		for until := time.Now().Add(10 * time.Second); err != nil && time.Now().Before(until); err = remove() {
			time.Sleep(20 * time.Millisecond)
		}
		if err != nil {
			t.Errorf("remove the store: %v", err)
		}
	})
	p.importImage(dir, HostImage, `mkdir -p etc tmp proc sys dev root usr run var && chmod 1777 tmp
for d in bin sbin lib lib64; do ln -s usr/$d $d; done
echo root:x:0:0:root:/root:/bin/sh >etc/passwd`)
	p.importImage(dir, BusyboxImage, `mkdir -p bin etc tmp proc sys dev root && chmod 1777 tmp
cp "$(command -v busybox)" bin/busybox
for a in $(busybox --list); do [ "$a" = busybox ] || ln -s busybox "bin/$a"; done
echo root:x:0:0:root:/root:/bin/sh >etc/passwd`)
	return p
}

func (p *Podman) importImage(dir, name, script string) {
	p.t.Helper()
	root, err := os.MkdirTemp(dir, "root-")
	if err != nil {
		p.t.Fatal(err)
	}
	sh := exec.Command("/bin/sh", "-ec", script)
	sh.Dir = root
	if out, err := sh.CombinedOutput(); err != nil {
		p.t.Fatalf("fill %s: %v: %s", name, err, out)
	}
	tar := root + ".tar"
	if out, err := exec.Command("tar", "-C", root, "-cf", tar, ".").CombinedOutput(); err != nil {
		p.t.Fatalf("tar: %v: %s", err, out)
	}
	p.Run("import", "-q", "-c", `CMD ["/bin/sh"]`, tar, name)
}

func (p *Podman) command(args ...string) *exec.Cmd {
	cmd := exec.Command("podman", args...)
	cmd.Env = append(os.Environ(), p.Env...)
	return cmd
}

// Run runs podman and returns what it printed.
func (p *Podman) Run(args ...string) string {
	p.t.Helper()
	cmd := p.command(args...)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		p.t.Fatalf("podman %s: %v: %s%s", strings.Join(args, " "), err, out, stderr.String())
	}
	return strings.TrimSpace(string(out))
}

// Start starts a container that waits, of HostImage unless args name another one
// last, and returns its name.
func (p *Podman) Start(args ...string) string {
	p.t.Helper()
	name := fmt.Sprintf("c%d", p.n.Add(1))
	p.StartAs(name, args...)
	return name
}

// StartAs is Start with a name.
func (p *Podman) StartAs(name string, args ...string) {
	p.t.Helper()
	if len(args) == 0 || !strings.HasPrefix(args[len(args)-1], "localhost/") {
		args = append(append(args, HostMounts()...), HostImage)
	}
	p.Run(append(append([]string{"run", "-d", "--name", name}, args...), "/bin/sh", "-c", "trap 'exit 0' TERM; while :; do sleep 3600 & wait $!; done")...)
}
