//go:build integration

package deploy

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"specrun/patches"
	"specrun/patches/wheels"
	"specrun/remote"
	"specrun/remote/remotetest"
)

// released are the releases that the built-in profilers must fit.
var released = []string{"0.4.9.post2", "0.5.2", "0.5.6", "0.5.10", "0.5.12", "0.5.14", "newest"}

// newVenv makes a venv with the wheel unpacked into it and returns its
// interpreter and site-packages.
func newVenv(t testing.TB, version string) (python3, sitePackages string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "venv")
	if out, err := exec.Command(python(t), "-m", "venv", "--without-pip", dir).CombinedOutput(); err != nil {
		t.Fatalf("make a venv: %v\n%s", err, out)
	}
	found, err := filepath.Glob(filepath.Join(dir, "lib", "python3*", "site-packages"))
	if err != nil || len(found) != 1 {
		t.Fatalf("site-packages of the venv: %v %v", found, err)
	}
	if err := os.Remove(found[0]); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(wheels.Get(t, version), found[0]); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(dir, "bin", "python3"), found[0]
}

func TestReleases_ApplyAndRollbackOnRealFiles(t *testing.T) {
	t.Parallel()
	sshd := remotetest.StartSSHD(t, remotetest.Options{})
	host := sshd.Dial(t)
	pins := wheels.Versions()
	for _, version := range released {
		if version == "newest" {
			version = pins[len(pins)-1]
		}
		t.Run(version, func(t *testing.T) { checkRelease(t, host, version) })
	}
}

func checkRelease(t *testing.T, host *remote.Host, version string) {
	py, root := newVenv(t, version)
	s := &site{t: t, root: root, state: filepath.Join(t.TempDir(), "state"), host: host}
	s.where = Where{Python: py, StateDir: s.state}
	lib, err := patches.Library()
	if err != nil {
		t.Fatal(err)
	}
	before := s.tree()
	for _, name := range []string{"profiling-v4", "profiling-v3"} {
		p, err := patches.Lookup(name)
		if err != nil {
			t.Fatal(err)
		}
		add := Change{Add: []*patches.Patch{p}}
		plan, _, err := Do(context.Background(), host, s.where, add, DoOptions{DryRun: true})
		if err != nil {
			t.Fatal(err)
		}
		if plan.Empty() || !strings.Contains(plan.Diff(), "+# >>> specrun "+name) {
			t.Fatalf("%s: the dry run shows no change:\n%s", name, plan.Diff())
		}
		if after := s.tree(); after != before {
			t.Fatalf("%s: the dry run wrote into site-packages", name)
		}
		if _, err := os.Stat(s.state); !os.IsNotExist(err) && name == "profiling-v4" {
			t.Fatalf("the dry run wrote into the state folder: %v", err)
		}
		out := s.mustDo(add)
		if len(out.Changed) == 0 || !out.Durable {
			t.Fatalf("%s: %+v", name, out)
		}
		for _, f := range out.Changed {
			t.Logf("%s: %s", name, strings.TrimPrefix(f.Path, root))
			compile := `import sys; compile(open(sys.argv[1], "rb").read(), sys.argv[1], "exec")`
			if msg, err := exec.Command(py, "-B", "-c", compile, f.Path).CombinedOutput(); err != nil {
				t.Fatalf("%s does not compile: %s", f.Path, msg)
			}
		}
		s.wantVerdicts(lib, Patched, name, len(out.Changed))
		if again := s.mustDo(add); again.Tx != "" || len(again.Changed) != 0 {
			t.Fatalf("%s: apply again is no no-op: %+v", name, again)
		}
		s.mustDo(Change{RemoveAll: true})
		s.wantVerdicts(lib, Pristine, "", len(out.Changed))
		if after := s.tree(); after != before {
			t.Fatalf("%s: the tree differs after rollback", name)
		}
		if left := s.leftBehind(); len(left) != 0 {
			t.Fatalf("%s: left behind: %v", name, left)
		}
	}
}

func (s *site) wantVerdicts(lib []*patches.Patch, v Verdict, patch string, n int) {
	s.t.Helper()
	r := s.status(lib...)
	if len(r.Files) != n {
		s.t.Fatalf("status lists %d files, want %d: %+v", len(r.Files), n, r.Files)
	}
	for _, f := range r.Files {
		if f.Verdict != v || strings.Join(f.Patches, ",") != patch {
			s.t.Fatalf("%s is %s with %v, want %s with %q", f.Path, f.Verdict, f.Patches, v, patch)
		}
	}
}
