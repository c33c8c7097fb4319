package deploy

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"specrun/patches"
)

// scene is a situation in which one of the scripts runs.
type scene struct {
	name   string
	script string // name of the script that is killed
	// setup brings the site into the situation; p is the patch at hand.
	setup func(s *site, p *patches.Patch)
	// command runs on a target that kills the script.
	command func(s *site, t Target, p *patches.Patch) error
	// settle ends what stood in the way before the next command.
	settle func(s *site)
	// third is content that a file may also hold.
	third string
}

func (s *site) doOn(t Target, c Change, o DoOptions) error {
	_, _, err := Do(context.Background(), t, s.where, c, o)
	return err
}

func applyOn(s *site, t Target, p *patches.Patch) error {
	return s.doOn(t, Change{Add: []*patches.Patch{p}}, DoOptions{})
}

func takeOn(s *site, t Target, p *patches.Patch) error {
	return s.doOn(t, Change{Add: []*patches.Patch{p}}, DoOptions{ApplyOptions: ApplyOptions{Take: true}})
}

func forceOn(s *site, t Target, p *patches.Patch) error {
	return s.doOn(t, Change{Add: []*patches.Patch{p}}, DoOptions{Options: Options{Force: true}})
}

// cutAfter runs an apply whose commit script is killed behind the first line
// that begins with text.
func (s *site) cutAfter(p *patches.Patch, text string) {
	s.t.Helper()
	k := &tamper{Target: s.host, script: "new commit", dies: true, change: func(script string) string {
		for i, l := range strings.Split(script, "\n") {
			if strings.HasPrefix(strings.TrimSpace(l), text) {
				return insert(script, i, 1, "kill -9 $$")
			}
		}
		s.t.Fatalf("the script has no line %q", text)
		return ""
	}}
	if err := applyOn(s, k, p); err == nil || !k.dead.Load() {
		s.t.Fatalf("the script was not killed behind %q: %v", text, err)
	}
}

const firstMove = `[ ! -e "$stage" ] || mv -f "$stage" "$path"`

// scenes lists situations that together run every command of the scripts.
func scenes() []scene {
	noSetup := func(*site, *patches.Patch) {}
	cached := func(s *site, _ *patches.Patch) {
		s.write("engine/srt/spec/__pycache__/worker.cpython-311.pyc", "old")
	}
	lock := func(values map[string]string) func(*site, *patches.Patch) {
		return func(s *site, _ *patches.Patch) { s.plantLock(1, values) }
	}
	return []scene{
		{name: "apply", script: "new commit", setup: cached, command: applyOn},
		{name: "rollback", script: "new commit", command: func(s *site, t Target, _ *patches.Patch) error {
			return s.doOn(t, Change{RemoveAll: true}, DoOptions{})
		}, setup: func(s *site, p *patches.Patch) { s.mustDo(Change{Add: []*patches.Patch{p}}) }},
		{name: "forward", script: "forward commit", command: applyOn,
			setup: func(s *site, p *patches.Patch) { s.cutAfter(p, firstMove) }},
		{name: "back", script: "back commit", command: applyOn, setup: func(s *site, p *patches.Patch) {
			s.cutAfter(p, firstMove)
			s.removeStages()
		}},
		{name: "back, ledgers too", script: "back commit", command: func(s *site, t Target, _ *patches.Patch) error {
			return s.doOn(t, Change{RemoveAll: true}, DoOptions{})
		}, setup: func(s *site, p *patches.Patch) {
			s.mustDo(Change{Add: []*patches.Patch{p}})
			s.failOnce("*ledger-*/files/*.json", 1)
		}, settle: func(s *site) { s.fakeTool("mv", "") }},
		{name: "tidy", script: "tidy commit", command: func(s *site, t Target, _ *patches.Patch) error {
			return s.doOn(t, Change{RemoveAll: true}, DoOptions{})
		}, setup: func(s *site, p *patches.Patch) { s.cutAfter(p, "seal_all") }},
		{name: "back, third content forced", script: "back commit", command: forceOn, third: "third\n", setup: func(s *site, p *patches.Patch) {
			s.cutAfter(p, firstMove)
			s.removeStages()
			s.write("engine/srt/spec/worker_v2.py", "third\n")
		}},
		{name: "drift", script: "new commit", third: "changed\n", command: func(s *site, t Target, p *patches.Patch) error {
			return s.applyChanged(t, p, func() { s.write("engine/srt/spec/worker_v2.py", "changed\n") })
		}, setup: noSetup, settle: func(s *site) { s.restore(s.v2, v2Source) }},
		{name: "no room to stage", script: "new commit", command: applyOn, setup: func(s *site, _ *patches.Patch) {
			s.fakeTool("mkdir", `case $* in *.specrun-*) exit 1 ;; esac; PATH=${PATH#*:}; mkdir "$@"`)
		}, settle: func(s *site) { s.fakeTool("mkdir", "") }},
		{name: "damaged copy", script: "new commit", command: applyOn, setup: func(s *site, _ *patches.Patch) {
			s.fakeTool("cp", `PATH=${PATH#*:}; cp "$@"; for last; do :; done; echo >>"$last"`)
		}, settle: func(s *site) { s.fakeTool("cp", "") }},
		{name: "changed by someone after the move", script: "new commit", command: applyOn, third: "mine\n",
			setup: func(s *site, _ *patches.Patch) { s.fakeMv("mine\n") }, settle: func(s *site) {
				s.fakeMv("")
				s.restore(s.v1, v1Source)
				s.restore(s.v2, v2Source)
			}},
		{name: "claimed meanwhile", script: "new commit", command: func(s *site, t Target, p *patches.Patch) error {
			return s.applyChanged(t, p, func() { s.write("engine/srt/spec/.specrun-claim", "someone\n/elsewhere\nhost\n") })
		}, setup: noSetup, settle: func(s *site) { os.Remove(filepath.Join(s.folder, ".specrun-claim")) }},
		{name: "no hard links", script: "new commit", command: applyOn, setup: func(s *site, _ *patches.Patch) { s.fakeTool("ln", "exit 1") }},
		{name: "lock of a dead script", script: "new commit", command: applyOn,
			setup: lock(map[string]string{"pid": "999999999", "ticks": "1", "session": "1"})},
		{name: "lock from before a reboot", script: "new commit", command: applyOn,
			setup: lock(map[string]string{"pid": "1", "ticks": "1", "boot": "earlier"})},
		{name: "lock being made for an hour", script: "new commit", command: applyOn, setup: lock(nil)},
		{name: "lock of another machine", script: "new commit", command: takeOn,
			setup: lock(map[string]string{"pid": "1", "ticks": "1", "host": "another"}), settle: (*site).dropLocks},
		{name: "lock just being made", script: "new commit", command: applyOn,
			setup: func(s *site, _ *patches.Patch) { s.plantLock(1, map[string]string{"young": "yes"}) }},
		{name: "lock of a running script", script: "new commit", command: applyOn,
			setup: func(s *site, _ *patches.Patch) { s.plantHolder() }, settle: (*site).endHolder},
		{name: "lock taken from a running script", script: "new commit", command: takeOn,
			setup: func(s *site, _ *patches.Patch) { s.plantHolder() }, settle: (*site).endHolder},
		{name: "lock with a child of a dead script", script: "new commit", command: takeOn,
			setup: func(s *site, _ *patches.Patch) { s.plantRemnant() }, settle: (*site).endHolder},
		{name: "lost race for a lock", script: "new commit", command: applyOn,
			setup: func(s *site, _ *patches.Patch) { s.rivalGeneration() }, settle: func(s *site) {
				s.fakeTool("mkdir", "")
				s.endHolder()
			}},
	}
}

// killAt runs the scene with its script killed after one line, checks that
// each file is old or new, then runs the next command and checks the set.
func killAt(t testing.TB, newSite func() *site, sc scene, line int, variant int) {
	t.Helper()
	s := newSite()
	p := newPatch(t, "one", "1", "ONE = 1\n")
	before := s.tree()
	patched := s.patchedContents(p)
	sc.setup(s, p)
	fatal := func(format string, args ...any) {
		t.Helper()
		t.Fatalf("%s, killed after line %d (variant %d): %s", sc.name, line, variant, fmt.Sprintf(format, args...))
	}
	var command string
	k := &tamper{Target: s.host, script: sc.script, dies: variant%3 != 2, change: func(script string) string {
		command = strings.TrimSpace(strings.Split(script, "\n")[line])
		return insert(script, line, 1, "kill -9 $$")
	}}
	if err := sc.command(s, k, p); !k.killed.Load() {
		fatal("%s: the script was not killed: %v", command, err)
	}
	for path, contents := range map[string][]string{s.v1: {v1Source, patched[s.v1], sc.third}, s.v2: {v2Source, patched[s.v2], sc.third}} {
		if got := s.read(path); !slices.Contains(contents, got) || got == "" {
			fatal("%s: %s is neither old nor new:\n%s", command, path, got)
		}
	}
	if sc.settle != nil {
		sc.settle(s)
	}
	if variant%2 == 0 {
		s.mustDoAfter(fatal, Change{Add: []*patches.Patch{p}})
		if s.read(s.v1) != patched[s.v1] || s.read(s.v2) != patched[s.v2] {
			fatal("%s: the set is not new after apply", command)
		}
		if got := s.leftBehind(); len(got) != 1 || filepath.Base(got[0]) != ".specrun-claim" {
			fatal("%s: left after apply: %v", command, got)
		}
	}
	s.mustDoAfter(fatal, Change{RemoveAll: true})
	if got := s.leftBehind(); len(got) != 0 {
		fatal("%s: left after rollback: %v", command, got)
	}
	if after := s.tree(); after != before && sc.third == "" {
		fatal("%s: the tree differs:\nbefore\n%safter\n%s", command, before, after)
	}
	if left := s.openInState(); len(left) != 0 {
		fatal("%s: left in the state folder: %v", command, left)
	}
}

func (s *site) mustDoAfter(fatal func(string, ...any), c Change) {
	s.t.Helper()
	if _, _, err := Do(context.Background(), s.host, s.where, c, DoOptions{Options: Options{Force: true}}); err != nil {
		fatal("the next command: %v", err)
	}
}

// traceScene runs a scene unharmed and returns the commands that its script does.
func traceScene(t testing.TB, s *site, sc scene) []int {
	t.Helper()
	p := newPatch(t, "one", "1", "ONE = 1\n")
	sc.setup(s, p)
	file := filepath.Join(t.TempDir(), "trace")
	k := &tamper{Target: s.host, script: sc.script, change: traced(file)}
	err := sc.command(s, k, p)
	if sc.settle != nil {
		sc.settle(s)
	}
	if !k.hit.Load() {
		t.Fatalf("%s: no script %q was run: %v", sc.name, sc.script, err)
	}
	return readTrace(t, file)
}

// killPlan says at which points of which scene a script is killed, so that
// every command of every script is met.
type killPoint struct {
	scene scene
	line  int
}

func killPoints(t testing.TB, newSite func() *site, whole ...string) (points []killPoint, commands int) {
	t.Helper()
	done := map[int]bool{}
	for _, sc := range scenes() {
		for _, line := range traceScene(t, newSite(), sc) {
			if !done[line] || slices.Contains(whole, sc.name) {
				points = append(points, killPoint{sc, line})
			}
			done[line] = true
		}
	}
	lines := strings.Split(shell(commitScripts...), "\n")
	for _, i := range commandLines(shell(commitScripts...)) {
		if unused(lines, i) {
			continue
		}
		commands++
		if !done[i] {
			t.Errorf("no scene runs line %d: %s", i, strings.TrimSpace(lines[i]))
		}
	}
	return points, commands
}

// unused is true inside shared functions that only other scripts call.
func unused(lines []string, i int) bool {
	for ; i >= 0; i-- {
		if name, ok := strings.CutSuffix(lines[i], "() {"); ok {
			return name == "host_identity" || name == "expand"
		}
	}
	return false
}

// TestKillMatrix_Sample kills at a few points behind the taking of the lock
// (before it, the next command waits seconds for a lock without owner). The
// whole matrix runs on a real sshd, see kill_integration_test.go.
func TestKillMatrix_Sample(t *testing.T) {
	t.Parallel()
	site := func() *site { return newSite(t) }
	locks := strings.Count(shell(commitScripts[:2]...), "\n")
	for _, sc := range scenes()[:3] {
		lines := slices.DeleteFunc(traceScene(t, site(), sc), func(line int) bool { return line < locks })
		for i := 5; i < len(lines); i += 148 {
			killAt(t, site, sc, lines[i], i)
		}
	}
}
