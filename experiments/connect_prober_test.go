package experiments

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"specrun/experiments/record"
	"specrun/remote"
)

// probeSite is a host of its own with an interpreter and an engine.
type probeSite struct {
	t      *testing.T
	home   string
	python string
	shell  []string
	extra  []string // environment of the session
}

func newProbeSite(t *testing.T) *probeSite {
	t.Helper()
	out, err := exec.Command("python3", "-c", "import sys; print(sys.executable)").Output() // which may stand behind a script
	if err != nil {
		t.Fatalf("python3: %v: make prereqs installs it", err)
	}
	s := &probeSite{t: t, home: t.TempDir(), python: strings.TrimSpace(string(out))}
	s.extra = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.home}
	return s
}

func (s *probeSite) put(name, text string) string {
	s.t.Helper()
	path := filepath.Join(s.home, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		s.t.Fatal(err)
	}
	return path
}

// prober is one of a new connection.
func (s *probeSite) prober() *remoteProber {
	s.t.Helper()
	h := remote.Local(remote.LocalConfig{Env: s.extra, Dir: s.home, Shell: s.shell})
	s.t.Cleanup(func() { h.Close() })
	return newProber(h)
}

// where sees the packages below site.
func (s *probeSite) where(site string) Where {
	return Where{Python: s.python, Env: map[string]string{"PYTHONPATH": filepath.Join(s.home, site), "WITH SPACE": "x"}}
}

func (s *probeSite) launch(p *remoteProber, q LaunchQuery) (LaunchProbe, map[string]string) {
	s.t.Helper()
	got, err := p.Launch(context.Background(), q)
	if err != nil {
		s.t.Fatal(err)
	}
	return got, byKey(got.Facts)
}

func byKey(list []record.Fact) map[string]string {
	out := map[string]string{}
	for _, f := range list {
		out[f.Group+" "+f.Key] = f.Value
	}
	return out
}

// wheel installs an engine with these files below site, as an installer does.
func (s *probeSite) wheel(site string, files map[string]string) {
	s.t.Helper()
	var list []string
	for name, text := range files {
		s.put(site+"/"+name, text)
		list = append(list, name)
	}
	slices.Sort(list)
	info := site + "/sglang-0.5.10.dist-info/"
	s.put(info+"METADATA", "Name: sglang\nVersion: 0.5.10\n")
	text := ""
	for _, name := range list {
		sum := sha256Sum(files[name])
		text += fmt.Sprintf("%s,sha256=%s,%d\n", name, base64.RawURLEncoding.EncodeToString(sum[:]), len(files[name]))
	}
	s.put(info+"RECORD", text+"sglang-0.5.10.dist-info/RECORD,,\n")
}

var engineFiles = map[string]string{"sglang/__init__.py": "raise SystemExit('imported')\n", "sglang/srt/speculative/eagle_worker.py": "a = 1\n",
	"sglang/srt/speculative/deep/x.py": "b = 1\n", "sglang/srt/layers/moe.json": "{}", "sglang/version.py": "v = 1\n"}

func differing(a, b map[string]string) []string {
	var out []string
	for k := range a {
		if a[k] != b[k] {
			out = append(out, k)
		}
	}
	for k := range b {
		if _, ok := a[k]; !ok {
			out = append(out, k)
		}
	}
	slices.Sort(out)
	return slices.DeleteFunc(out, func(k string) bool { return k == "host load_average" || k == "host clock_offset_ms" })
}

func TestProber_NamesTheEngineFileThatChanged(t *testing.T) {
	t.Parallel()
	s := newProbeSite(t)
	site := "venv/lib/python3/site-packages"
	s.wheel(site, engineFiles)
	s.put(site+"/torch-2.9.1+cu130.dist-info/METADATA", "Name: torch\n")
	s.put(site+"/nvidia_nccl_cu12-2.28.9.dist-info/METADATA", "")
	s.put(site+"/sitecustomize.py", "print('noise')\nimport sys\nprint('fact\\tnot enough', file=sys.stderr)\n")
	q := LaunchQuery{Where: s.where(site), Engine: "sglang"}
	p := s.prober()
	_, first := s.launch(p, q)
	for k, want := range map[string]string{"packages torch": "2.9.1+cu130", "packages nvidia-nccl-cu12": "2.28.9", "packages sglang": "0.5.10"} {
		if first[k] != want {
			t.Errorf("%s = %q, want %q", k, first[k], want)
		}
	}
	if !strings.HasPrefix(first["code engine_files"], "5 files, sha256 ") || first["code file sglang/srt/speculative/*"] == "" || first["code python_version"] == "" {
		t.Fatalf("facts: %v", first)
	}
	_, again := s.launch(p, q)
	if d := differing(first, again); len(d) > 0 {
		t.Errorf("nothing changed, and yet these differ: %q", d)
	}
	// Another length is not needed for a change to be seen.
	s.put(site+"/sglang/srt/speculative/eagle_worker.py", "a = 2\n")
	s.put(site+"/sglang/srt/speculative/__pycache__/eagle_worker.cpython-312.pyc", "x")
	_, changed := s.launch(p, q)
	want := []string{"code engine_files", "code file sglang/srt/speculative/*", "code file sglang/srt/speculative/eagle_worker.py"}
	if d := differing(first, changed); !slices.Equal(d, want) {
		t.Errorf("differ: %q, want %q", d, want)
	}
	if v := changed["code file sglang/srt/speculative/eagle_worker.py"]; !strings.HasSuffix(v, " modified") {
		t.Errorf("the file is %q", v)
	}
	s.put(site+"/sglang/srt/new.py", "")
	if err := os.Remove(filepath.Join(s.home, site, "sglang/version.py")); err != nil {
		t.Fatal(err)
	}
	_, more := s.launch(p, q)
	if !strings.HasSuffix(more["code file sglang/srt/new.py"], " added") || more["code file sglang/version.py"] != "- missing" {
		t.Errorf("%v", more)
	}
}

func TestProber_AFileThatAPatchOfOursChangedCountsAsBefore(t *testing.T) {
	t.Parallel()
	s := newProbeSite(t)
	site := "site-packages"
	s.wheel(site, engineFiles)
	p, q := s.prober(), LaunchQuery{Where: s.where(site), Engine: "sglang"}
	_, plain := s.launch(p, q)
	sum := func(text string) string { return fmt.Sprintf("%x", sha256Sum(text)) }
	path := s.put(site+"/sglang/srt/speculative/eagle_worker.py", "patched\n")
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		t.Fatal(err)
	}
	q.Patched = []PatchedFile{{Path: real, SHA256: sum("patched\n"), Pristine: sum("a = 1\n"), Verdict: "patched"}}
	_, patched := s.launch(p, q)
	if d := differing(plain, patched); len(d) > 0 {
		t.Errorf("a patch alone makes these differ: %q", d)
	}
	// Somebody edited it since: that is no patch of ours.
	s.put(site+"/sglang/srt/speculative/eagle_worker.py", "patched and edited\n")
	_, edited := s.launch(p, q)
	if d := differing(plain, edited); !slices.Equal(d, []string{"code engine_files", "code file sglang/srt/speculative/*"}) {
		t.Errorf("differ: %q", d)
	}
}

func TestProber_EditableEngine(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("git"); err != nil {
		t.Fatalf("%v: make prereqs installs it", err)
	}
	s := newProbeSite(t)
	for name, text := range engineFiles {
		s.put("work/python/"+name, text)
	}
	s.put("work/.gitattributes", "*.py filter=evil diff=evil\n")
	git := func(args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-C", filepath.Join(s.home, "work"), "-c", "user.name=x", "-c", "user.email=x@x", "-c", "commit.gpgsign=false"}, args...)...)
		cmd.Env = append(s.extra, "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("git %q: %v\n%s", args, err, out)
		}
	}
	git("init", "-q", "-b", "main")
	git("add", ".")
	git("commit", "-q", "-m", "x")
	evil := filepath.Join(s.home, "evil")
	git("config", "core.fsmonitor", "touch "+evil+"; false")
	git("config", "diff.evil.textconv", "touch "+evil+"; cat")
	git("config", "diff.external", "touch "+evil+"; false")
	git("config", "filter.evil.clean", "touch "+evil+"; cat")
	git("config", "filter.evil.process", "touch "+evil+"; false")
	git("config", "filter.evil.required", "true")
	git("config", "filter.of.two.parts.clean", "touch "+evil+"; cat")
	s.put("site-packages/sglang-0.5.11.dev0.dist-info/direct_url.json", `{"url": "file:///work/python", "dir_info": {"editable": true}}`)
	w := Where{Python: s.python, Env: map[string]string{"PYTHONPATH": filepath.Join(s.home, "work/python") + ":" + filepath.Join(s.home, "site-packages")}}
	q := LaunchQuery{Where: w, Engine: "sglang"}
	got, clean := s.launch(s.prober(), q)
	if len(clean["code git_commit"]) != 40 || clean["code git_branch"] != "main" || clean["code git_dirty"] != "no" || clean["code engine_install"] != "editable" ||
		clean["packages sglang"] != "0.5.11.dev0 (editable)" || got.Diff != nil {
		t.Errorf("%v", clean)
	}
	s.put("work/python/sglang/srt/speculative/eagle_worker.py", "a = 2\nb = 3\n")
	s.put("work/python/sglang/untracked.py", "")
	got, dirty := s.launch(s.prober(), q)
	if !strings.HasPrefix(dirty["code git_dirty"], "2 files, +2 -1, diff sha256 ") || !strings.Contains(string(got.Diff), "+b = 3") {
		t.Errorf("%q with diff %q", dirty["code git_dirty"], got.Diff)
	}
	for _, f := range []string{"srt/speculative/eagle_worker.py", "untracked.py"} {
		if !strings.HasSuffix(dirty["code file sglang/"+f], " changed") {
			t.Errorf("%s is %q", f, dirty["code file sglang/"+f])
		}
	}
	if _, err := os.Stat(evil); err == nil {
		t.Error("a program that the repository names was run")
	}
	// A filter whose name could not be turned off: git is not asked.
	git("config", "filter.a=b.clean", "touch "+evil)
	_, odd := s.launch(s.prober(), q)
	if !strings.HasPrefix(odd["code git_dirty"], "not known") {
		t.Errorf("with a filter that stays: %q", odd["code git_dirty"])
	}
	git("config", "--remove-section", "filter.a=b")
	// Without git, the commit at least.
	bin := filepath.Join(s.home, "bin")
	if err := os.Mkdir(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, tool := range []string{"sh", "sed", "cat", "date", "uname", "tr", "head", "sort", "grep", "readlink", "sleep", "kill", "mkdir", "rm", "stat", "setsid", "ps", "env", "timeout"} {
		if path, err := exec.LookPath(tool); err == nil {
			if err := os.Symlink(path, filepath.Join(bin, tool)); err != nil {
				t.Fatal(err)
			}
		}
	}
	s.extra[0] = "PATH=" + bin
	_, without := s.launch(s.prober(), q)
	if without["code git_commit"] != clean["code git_commit"] || !strings.HasPrefix(without["code git_dirty"], "not known") {
		t.Errorf("without git: commit %q, dirty %q", without["code git_commit"], without["code git_dirty"])
	}
}

func TestProber_ModelFingerprints(t *testing.T) {
	t.Parallel()
	s := newProbeSite(t)
	s.put("models/llama/config.json", `{"layers": 80}`)
	big := s.put("models/llama/model-00001.safetensors", strings.Repeat("w", 1000))
	snapshot := "hub/models--org--draft/snapshots/0123456789abcdef0123456789abcdef01234567"
	s.put("hub/models--org--draft/refs/main", "0123456789abcdef0123456789abcdef01234567")
	s.put(snapshot+"/config.json", "{}")
	w := Where{Python: s.python, Env: map[string]string{"HF_HUB_CACHE": filepath.Join(s.home, "hub")}}
	q := LaunchQuery{Where: w, Models: []ModelFiles{{What: "model", Path: "~/models/llama"}, {What: "draft", Path: "org/draft"}}}
	p := s.prober()
	_, before := s.launch(p, q)
	if before["workload model_files"] != "2 files, 1014 bytes" || before["workload draft_snapshot"] != "0123456789abcdef0123456789abcdef01234567" || before["workload draft_fingerprint"] == "" {
		t.Errorf("%v", before)
	}
	if err := os.WriteFile(big, []byte(strings.Repeat("w", 999)+"x"), 0o644); err != nil {
		t.Fatal(err)
	}
	_, after := s.launch(p, q)
	if d := differing(before, after); !slices.Equal(d, []string{"workload model_fingerprint"}) {
		t.Errorf("differ: %q", d)
	}
	q.Models = []ModelFiles{{What: "model", Path: "org/not-here"}}
	if _, none := s.launch(p, q); none["workload model_files"] != "" {
		t.Errorf("%v", none)
	}
}

func TestProber_InterpretersThatFail(t *testing.T) {
	t.Parallel()
	s := newProbeSite(t)
	broken := s.put("broken", "#!/bin/sh\nexit 9\n")
	if err := os.Chmod(broken, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, w := range map[string]Where{"missing": {Python: s.home + "/nowhere"}, "broken": {Python: "~/broken"}, "no folder": {Python: s.python, Cwd: "/nowhere"}} {
		_, got := s.launch(s.prober(), LaunchQuery{Where: w, Engine: "sglang"})
		if !strings.HasPrefix(got["code note"], "no package was read: ") || got["host load_average"] == "" {
			t.Errorf("%s: %v", name, got)
		}
	}
	if _, got := s.launch(s.prober(), LaunchQuery{}); got["code note"] != "" {
		t.Errorf("no interpreter is wanted, and yet: %q", got["code note"])
	}
}

func sha256Sum(text string) [32]byte { return sha256.Sum256([]byte(text)) }
