package deploy

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"specrun/internal/tier"
	"specrun/patches"
	"specrun/remote"
)

var _ Target = (*remote.Host)(nil)

// The tests mostly wait for processes.
func TestMain(m *testing.M) { os.Exit(tier.Main(m, 2)) }

const v1Source = `import os


class Base:
    def draft(self):
        return 1


class EAGLEWorker(Base):
    def verify(self):
        return 2

    def forward(self):
        return self.draft() + self.verify()
`

const v2Source = `class EAGLEWorkerV2:
    def verify(self):
        return 3
`

// site is a small engine that a real interpreter can import, and a host to
// reach it through: this machine.
type site struct {
	t       testing.TB
	root    string // site-packages
	folder  string // that the workers are in
	v1, v2  string // real paths
	state   string
	bin     string // first in the host's PATH
	where   Where
	host    *remote.Host
	library []*patches.Patch // to look for, beside the patches of a change
	holder  *exec.Cmd        // a process that a test lets hold a lock
}

func newSite(t testing.TB, shell ...string) *site {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	s := &site{t: t, root: filepath.Join(dir, "site packages's"), state: filepath.Join(dir, "state dir")}
	s.folder = filepath.Join(s.root, "engine", "srt", "spec")
	s.v1, s.v2 = filepath.Join(s.folder, "worker.py"), filepath.Join(s.folder, "worker_v2.py")
	s.write("engine/__init__.py", "raise SystemExit('imported')\n")
	s.write("engine/srt/__init__.py", "")
	s.write("engine/srt/spec/__init__.py", "")
	s.write("engine/srt/spec/worker.py", v1Source)
	s.write("engine/srt/spec/worker_v2.py", v2Source)
	s.write("engine-1.2.3.dist-info/METADATA", "Metadata-Version: 2.1\nName: engine\nVersion: 1.2.3\n\nbody\n")
	s.record()
	old := time.Date(2024, 5, 6, 7, 8, 9, 123456789, time.UTC)
	for _, f := range []string{s.v1, s.v2} {
		if err := os.Chmod(f, 0o640); err != nil {
			t.Fatal(err)
		}
		if err := os.Chtimes(f, old, old); err != nil {
			t.Fatal(err)
		}
	}
	s.where = Where{Python: python(t), StateDir: s.state, Env: map[string]string{"PYTHONPATH": s.root}}
	s.bin = filepath.Join(dir, "bin")
	if err := os.Mkdir(s.bin, 0o755); err != nil {
		t.Fatal(err)
	}
	s.host = localHost(t, s.bin, shell...)
	return s
}

// on moves the site to another host on this machine, in whose PATH bin is first.
func (s *site) on(host *remote.Host, bin string) *site {
	s.host, s.bin = host, bin
	left, err := filepath.Glob(filepath.Join(bin, "*"))
	if err != nil {
		s.t.Fatal(err)
	}
	for _, f := range left {
		if err := os.RemoveAll(f); err != nil {
			s.t.Fatal(err)
		}
	}
	return s
}

func localHost(t testing.TB, bin string, shell ...string) *remote.Host {
	t.Helper()
	env := []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "LC_ALL=C"}
	h := remote.Local(remote.LocalConfig{Shell: shell, Env: env})
	t.Cleanup(func() { h.Close() })
	return h
}

func python(t testing.TB) string {
	t.Helper()
	for _, p := range []string{"/usr/bin/python3"} {
		if _, err := os.Stat(p); err == nil {
			return p
		}
	}
	p, err := exec.LookPath("python3")
	if err != nil {
		t.Fatal("these tests need a python3: ", err)
	}
	return p
}

func (s *site) write(name, content string) {
	s.t.Helper()
	path := filepath.Join(s.root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		s.t.Fatal(err)
	}
}

// record writes the RECORD of the fake release, as an installer would.
func (s *site) record() {
	var b strings.Builder
	for _, name := range []string{"engine/__init__.py", "engine/srt/spec/worker.py", "engine/srt/spec/worker_v2.py"} {
		data, err := os.ReadFile(filepath.Join(s.root, name))
		if err != nil {
			s.t.Fatal(err)
		}
		sum := sha256.Sum256(data)
		fmt.Fprintf(&b, "%s,sha256=%s,%d\n", name, base64.RawURLEncoding.EncodeToString(sum[:]), len(data))
	}
	s.write("engine-1.2.3.dist-info/RECORD", b.String())
}

// tree lists what is in site-packages, without compiled copies: path, mode,
// owner, link count, time and content of everything.
func (s *site) tree() string {
	s.t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(s.root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.Name() == "__pycache__" {
			return filepath.SkipDir
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s %v %s", path, info.Mode(), owner(info))
		if info.Mode().IsRegular() {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, " %x %d", sha256.Sum256(data), info.ModTime().UnixNano())
		}
		b.WriteString("\n")
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return b.String()
}

func (s *site) read(path string) string {
	s.t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		s.t.Fatal(err)
	}
	return string(data)
}

// leftBehind lists everything of ours in site-packages.
func (s *site) leftBehind() []string {
	s.t.Helper()
	var found []string
	err := filepath.WalkDir(s.root, func(path string, _ fs.DirEntry, err error) error {
		if strings.Contains(filepath.Base(path), ".specrun") {
			found = append(found, path)
		}
		return err
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return found
}

// newPatch makes a patch that appends a line to both workers.
func newPatch(t testing.TB, name, version, code string) *patches.Patch {
	t.Helper()
	p, err := patches.LoadDir(fstest.MapFS{
		name + "/patch.yaml": {Data: []byte("name: " + name + "\nversion: \"" + version + `"
summary: a test
targets:
  - module: engine.srt.spec.worker
    requires: [{class: EAGLEWorker, methods: [draft, verify]}]
    kind: append
    content: [code.py]
  - module: engine.srt.spec.worker_v2
    requires: [{class: EAGLEWorkerV2, methods: [verify]}]
    kind: append
    content: [code.py]
`)},
		name + "/code.py": {Data: []byte(code)},
	}, name)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (s *site) do(c Change) (*Plan, *Outcome, error) {
	return Do(context.Background(), s.host, s.where, c, DoOptions{Library: s.library})
}

func (s *site) mustDo(c Change) *Outcome {
	s.t.Helper()
	_, out, err := s.do(c)
	if err != nil {
		s.t.Fatalf("%v\n%+v", err, err)
	}
	return out
}

func (s *site) status(lib ...*patches.Patch) *Report {
	s.t.Helper()
	r, err := Status(context.Background(), s.host, s.where, lib)
	if err != nil {
		s.t.Fatal(err)
	}
	return r
}

func (s *site) verdicts(lib ...*patches.Patch) string {
	s.t.Helper()
	var b []string
	for _, f := range s.status(lib...).Files {
		b = append(b, fmt.Sprintf("%s:%s:%s", filepath.Base(f.Path), f.Verdict, strings.Join(f.Patches, "+")))
	}
	return strings.Join(b, " ")
}
