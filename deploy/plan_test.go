package deploy

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"specrun/patches"
)

const workerPath = "/site/engine/srt/spec/worker.py"

// given describes what a host looks like, for facts made by hand.
type given struct {
	source  string   // now in the file; "" = no file
	release string   // content that RECORD vouches for; "" = no RECORD
	stack   []string // in the ledger, of patches a, b
	current string   // content that the ledger takes the file for; "" = derived from the stack
	git     string
	claim   *Claim
	change  func(*FileFacts)
	state   func(*StateFacts)
}

func planPatches(t testing.TB) map[string]*patches.Patch {
	return map[string]*patches.Patch{
		"a": newPatch(t, "a", "1", "A = 1\n"), "b": newPatch(t, "b", "1", "B = 1\n"), "a2": newPatch(t, "a", "2", "A = 2\n"),
	}
}

func stacked(t testing.TB, ps map[string]*patches.Patch, source string, names ...string) string {
	t.Helper()
	var layers []patches.Layer
	for _, n := range names {
		layers = append(layers, patches.Layer{Patch: ps[n], Target: ps[n].Targets[0]})
	}
	out, err := patches.Stack([]byte(source), layers)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// facts makes what the probe would have found.
func (g given) facts(t testing.TB, ps map[string]*patches.Patch, asked ...*patches.Patch) *Facts {
	t.Helper()
	file := &FileFacts{Path: workerPath, MtimeNs: 100e9 + 5, CanChown: true, Owner: "eve",
		Folder: FolderState{Writable: true, Owner: "eve", Space: Space{Free: 1 << 30, Inodes: 1000, Device: 1}}}
	if g.source != "" {
		file.Exists, file.Content, file.SHA256 = true, packed(g.source), hashText(g.source)
		file.Fenced = strings.Contains(g.source, "# >>> specrun")
	}
	if g.release != "" {
		file.Release = &Release{Name: "engine", Version: "1", SHA256: hashText(g.release)}
	}
	if g.git != "" {
		file.Git = &Git{Root: "/site", State: g.git}
	}
	file.Outline = patches.Outline{SyntaxOK: true, Classes: map[string]patches.Class{"EAGLEWorker": {Methods: []string{"draft", "verify"}}}}
	if g.change != nil {
		g.change(file)
	}
	state := &StateFacts{Path: "/state", Exists: true, Writable: true, Owner: "eve", Blobs: map[string]packed{}, Space: Space{Free: 1 << 30, Inodes: 1000, Device: 2}}
	if g.stack != nil {
		current := g.current
		if current == "" {
			current = stacked(t, ps, v1Source, g.stack...)
		}
		l := Ledger{Schema: 1, Path: workerPath, PristineSHA256: hashText(v1Source), PristineVerdict: Pristine, PristineMtimeNs: 90e9 + 7,
			CurrentSHA256: hashText(current), LastMtime: 500}
		for _, n := range g.stack {
			p := ps[n]
			l.Stack = append(l.Stack, Layer{Name: p.Name, Version: p.Version, Blob: p.SHA256(), Target: p.Targets[0].Name(), AppliedUs: 1, By: "someone"})
			blob, err := p.Marshal()
			if err != nil {
				t.Fatal(err)
			}
			state.Blobs[p.SHA256()] = blob
		}
		state.Blobs[l.PristineSHA256] = packed(v1Source)
		data, err := l.encode()
		if err != nil {
			t.Fatal(err)
		}
		state.Ledgers = append(state.Ledgers, document{Name: fileID(workerPath) + ".json", SHA256: hashBytes(data), JSON: data})
	}
	if g.state != nil {
		g.state(state)
	}
	f := &Facts{Host: "h", Interpreter: "/py", User: "eve", HostID: "here", Now: 400.5, StateDir: "/state", Full: true, Scoped: true, SysPath: []string{"/site"},
		Files: []*FileFacts{file}, States: []*StateFacts{state}, Folders: map[string]FolderFacts{filepath.Dir(workerPath): {Claim: g.claim}},
		Engines: map[string]Engine{"engine": {Name: "engine", Version: "1"}}}
	for _, p := range asked {
		found := Found{Path: workerPath, Real: workerPath}
		if g.source == "" {
			found = Found{Searched: []string{workerPath}}
		}
		f.Asked = append(f.Asked, Asked{p, p.Targets[0]}, Asked{p, p.Targets[1]})
		f.Found = append(f.Found, found, Found{Searched: []string{"/site/engine/srt/spec/worker_v2.py"}})
	}
	return f
}

// TestNewPlan_FactsInActionsOut: what a host looks like, what is wanted, and
// what is to be done, as data.
func TestNewPlan_FactsInActionsOut(t *testing.T) {
	ps := planPatches(t)
	with := func(names ...string) string { return stacked(t, ps, v1Source, names...) }
	add := func(names ...string) Change {
		var c Change
		for _, n := range names {
			c.Add = append(c.Add, ps[n])
		}
		return c
	}
	exact := func(names ...string) Change { return Change{SetExact: true, Exact: add(names...).Add} }
	all := Change{RemoveAll: true}
	for _, c := range []struct {
		name   string
		given  given
		change Change
		o      Options
		want   string // verdict, action, content after; or the error's type
		post   string
	}{
		{"first patch", given{source: v1Source, release: v1Source}, add("a"), Options{}, "pristine patch a", with("a")},
		{"same patch again", given{source: with("a"), release: v1Source, stack: []string{"a"}}, add("a"), Options{}, "patched keep a", with("a")},
		{"second patch on top", given{source: with("a"), release: v1Source, stack: []string{"a"}}, add("b"), Options{}, "patched patch a b", with("a", "b")},
		{"new version in its place", given{source: with("a", "b"), release: v1Source, stack: []string{"a", "b"}}, add("a2"), Options{}, "patched patch a b", with("a2", "b")},
		{"lower one removed", given{source: with("a", "b"), release: v1Source, stack: []string{"a", "b"}}, Change{Remove: []string{"a"}}, Options{}, "patched patch b", with("b")},
		{"upper one removed", given{source: with("a", "b"), release: v1Source, stack: []string{"a", "b"}}, Change{Remove: []string{"b"}}, Options{}, "patched patch a", with("a")},
		{"all removed", given{source: with("a", "b"), release: v1Source, stack: []string{"a", "b"}}, all, Options{}, "patched restore", v1Source},
		{"nothing to remove", given{source: v1Source, release: v1Source}, all, Options{}, "", ""},
		{"exact set replaces another", given{source: with("a"), release: v1Source, stack: []string{"a"}}, exact("b"), Options{}, "patched patch b", with("b")},
		{"exact set in another order", given{source: with("a", "b"), release: v1Source, stack: []string{"a", "b"}}, exact("b", "a"), Options{}, "patched patch b a", with("b", "a")},
		{"exact nothing", given{source: with("a"), release: v1Source, stack: []string{"a"}}, exact(), Options{}, "patched restore", v1Source},
		{"exact set that is there", given{source: with("a"), release: v1Source, stack: []string{"a"}}, exact("a"), Options{}, "patched keep a", with("a")},
		{"edited", given{source: with("a") + "# mine\n", release: v1Source, stack: []string{"a"}}, all, Options{}, "*deploy.DriftError edited", ""},
		{"edited, forced", given{source: with("a") + "# mine\n", release: v1Source, stack: []string{"a"}}, all, Options{Force: true}, "edited restore", v1Source},
		{"edited, same patch wanted", given{source: with("a") + "# mine\n", release: v1Source, stack: []string{"a"}}, add("a"), Options{}, "*deploy.DriftError edited", ""},
		{"edited, same patch forced", given{source: with("a") + "# mine\n", release: v1Source, stack: []string{"a"}}, add("a"), Options{Force: true}, "edited patch a", with("a")},
		{"restored by hand", given{source: v1Source, release: v1Source, stack: []string{"a"}}, all, Options{}, "pristine forget", v1Source},
		{"restored by hand, patched again", given{source: v1Source, release: v1Source, stack: []string{"a"}}, add("a"), Options{}, "pristine patch a", with("a")},
		{"package upgraded", given{source: v2Source, release: v2Source, stack: []string{"a"}}, all, Options{}, "pristine forget", v2Source},
		{"package upgraded, patched again", given{source: v2Source, release: v2Source, stack: []string{"a"}}, add("b"), Options{}, "pristine patch b", stacked(t, ps, v2Source, "b")},
		{"missing", given{release: v1Source, stack: []string{"a"}}, all, Options{}, "*deploy.DriftError missing", ""},
		{"missing, forced", given{release: v1Source, stack: []string{"a"}}, all, Options{Force: true}, "missing forget", "none"},
		{"missing, patch wanted", given{release: v1Source, stack: []string{"a"}}, add("a"), Options{}, "*deploy.NoEngineError", ""},
		{"no engine", given{}, add("a"), Options{}, "*deploy.NoEngineError", ""},
		{"changed by someone before us", given{source: v1Source + "# own\n", release: v1Source}, add("a"), Options{}, "pre-edited patch a", stacked(t, ps, v1Source+"# own\n", "a")},
		{"a patch that no ledger knows", given{source: with("b"), release: v1Source}, add("a"), Options{}, "*deploy.DriftError foreign", ""},
		{"a patch that no ledger knows, forced", given{source: with("b"), release: v1Source}, add("a"), Options{Force: true}, "foreign patch a", with("a")},
		{"checkout with changes", given{source: v1Source, git: "modified"}, add("a"), Options{}, "*deploy.DriftError pre-edited", ""},
		{"checkout with changes, allowed", given{source: v1Source, git: "modified"}, add("a"), Options{AllowDirty: true}, "pre-edited patch a", with("a")},
		{"clean checkout", given{source: v1Source, git: "clean"}, add("a"), Options{}, "pristine patch a", with("a")},
		{"class missing", given{source: v1Source, release: v1Source, change: func(f *FileFacts) { f.Outline.Classes = nil }}, add("a"), Options{}, "*deploy.ConflictError", ""},
		{"read-only mount", given{source: v1Source, release: v1Source, change: func(f *FileFacts) { f.Mount.ReadOnly = true }}, add("a"), Options{}, "*deploy.ConflictError", ""},
		{"bind-mounted file", given{source: v1Source, release: v1Source, change: func(f *FileFacts) { f.Mount.Point = workerPath }}, add("a"), Options{}, "*deploy.ConflictError", ""},
		{"immutable", given{source: v1Source, release: v1Source, change: func(f *FileFacts) { f.Frozen = true }}, add("a"), Options{}, "*deploy.ConflictError", ""},
		{"folder not writable", given{source: v1Source, release: v1Source, change: func(f *FileFacts) { f.Folder.Writable = false }}, add("a"), Options{}, "*deploy.ConflictError", ""},
		{"owner cannot be kept", given{source: v1Source, release: v1Source, change: func(f *FileFacts) { f.CanChown = false }}, add("a"), Options{}, "*deploy.ConflictError", ""},
		{"compiled copy that stays", given{source: v1Source, release: v1Source, change: func(f *FileFacts) { f.CacheStuck = []string{"/c.pyc"} }}, add("a"), Options{}, "*deploy.ConflictError", ""},
		{"disk full beside the file", given{source: v1Source, release: v1Source, change: func(f *FileFacts) { f.Folder.Space.Free = 5000 }}, add("a"), Options{}, "*remote.DiskFullError", ""},
		{"no inode for the state", given{source: v1Source, release: v1Source, state: func(s *StateFacts) { s.Space.Inodes = 3 }}, add("a"), Options{}, "*remote.DiskFullError", ""},
		{"a full disk keeps nobody from looking", given{source: with("a"), release: v1Source, stack: []string{"a"}, state: func(s *StateFacts) { s.Space.Free = 0 }}, add("a"), Options{}, "patched keep a", with("a")},
		{"state folder not writable", given{source: v1Source, release: v1Source, state: func(s *StateFacts) { s.Writable = false }}, add("a"), Options{}, "*deploy.ConflictError", ""},
		{"claimed from elsewhere", given{source: v1Source, release: v1Source, claim: &Claim{User: "bob", StateDir: "/bob", HostID: "here"}}, add("a"), Options{}, "*deploy.ClaimedError", ""},
		{"claimed on another machine", given{source: v1Source, release: v1Source, claim: &Claim{User: "bob", StateDir: "/state", HostID: "there"}}, add("a"), Options{}, "*deploy.ClaimedError", ""},
		{"shared disk, claimed on another machine", given{source: with("a"), release: v1Source, stack: []string{"a"}, claim: &Claim{User: "bob", StateDir: "/state", HostID: "there"}}, all, Options{}, "patched restore", v1Source},
		{"pristine blob lost", given{source: with("a"), release: v1Source, stack: []string{"a"}, state: func(s *StateFacts) { delete(s.Blobs, hashText(v1Source)) }}, all, Options{}, "*deploy.ConflictError", ""},
		{"blob of the remaining patch lost", given{source: with("a", "b"), release: v1Source, stack: []string{"a", "b"}, state: func(s *StateFacts) { delete(s.Blobs, ps["b"].SHA256()) }}, Change{Remove: []string{"a"}}, Options{}, "*deploy.ConflictError", ""},
		{"ledger of a newer specrun", given{source: with("a"), release: v1Source, stack: []string{"a"}, state: func(s *StateFacts) { s.Ledgers[0].JSON = []byte(`{"schema":2}`) }}, all, Options{}, "*deploy.LedgerError", ""},
		{"open transaction", given{source: v1Source, release: v1Source, state: func(s *StateFacts) {
			s.Transactions = []transactionFile{{ID: "x", Phase: "prepared", document: document{JSON: []byte(`{"schema":1,"id":"x","files":[{"path":"/p"}]}`)}}}
		}}, add("a"), Options{}, "*deploy.OpenTransactionError", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := c.given.facts(t, ps, c.change.wanted()...)
			p, err := NewPlan(f, c.change, c.o)
			if err != nil {
				got := describe(err)
				if got != c.want {
					t.Fatalf("got %s: %v\nwant %s", got, err, c.want)
				}
				hint, ok := innermost(err).(interface{ Hint() string })
				if !ok || hint.Hint() == "" {
					t.Fatalf("%T has no hint: %v", err, err)
				}
				return
			}
			got, post := "", ""
			for _, file := range p.Files {
				got = strings.TrimSpace(fmt.Sprintf("%s %s %s", file.Verdict, file.Action, strings.Join(file.After, " ")))
				post = file.Post
			}
			if got != c.want {
				t.Fatalf("got %q, want %q", got, c.want)
			}
			if c.post != "" && c.post != "none" && post != hashText(c.post) || c.post == "none" && post != "none" {
				t.Fatalf("the file would hold %s, want the hash of:\n%s", post, c.post)
			}
		})
	}
}

func innermost(err error) error {
	for {
		joined, ok := err.(interface{ Unwrap() []error })
		if !ok || len(joined.Unwrap()) == 0 {
			return err
		}
		if _, typed := err.(interface{ Hint() string }); typed {
			return err
		}
		err = joined.Unwrap()[0]
	}
}

func describe(err error) string {
	var drift *DriftError
	if errors.As(err, &drift) {
		return fmt.Sprintf("%T %s", drift, drift.Verdict)
	}
	return fmt.Sprintf("%T", innermost(err))
}

func TestNewPlan_MtimeIsAWholeSecondNewerThanAllKnown(t *testing.T) {
	ps := planPatches(t)
	for _, c := range []struct {
		name  string
		given given
		c     Change
		want  int64
	}{
		{"now", given{source: v1Source, release: v1Source}, Change{Add: []*patches.Patch{ps["a"]}}, 400e9},
		{"file from the future", given{source: v1Source, release: v1Source, change: func(f *FileFacts) { f.MtimeNs = 900e9 + 1 }}, Change{Add: []*patches.Patch{ps["a"]}}, 901e9},
		{"second change within one second", given{source: stacked(t, ps, v1Source, "a"), release: v1Source, stack: []string{"a"}}, Change{Add: []*patches.Patch{ps["b"]}}, 501e9},
		{"pristine gets its own back", given{source: stacked(t, ps, v1Source, "a"), release: v1Source, stack: []string{"a"}}, Change{RemoveAll: true}, 90e9 + 7},
	} {
		p, err := NewPlan(c.given.facts(t, ps, c.c.wanted()...), c.c, Options{})
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if got := p.Files[0].tx.Mtime; got != c.want {
			t.Errorf("%s: mtime %d, want %d", c.name, got, c.want)
		}
	}
}

func TestNewPlan_KeepsForeignContentAndNamesWhereItIs(t *testing.T) {
	ps := planPatches(t)
	g := given{source: stacked(t, ps, v1Source, "a") + "# mine\n", release: v1Source, stack: []string{"a"}}
	p, err := NewPlan(g.facts(t, ps), Change{RemoveAll: true}, Options{Force: true, Controller: "me@laptop"})
	if err != nil {
		t.Fatal(err)
	}
	l, err := decodeLedger(p.Files[0].ledger)
	if err != nil {
		t.Fatal(err)
	}
	last := l.History[len(l.History)-1]
	if last.Kept != hashText(g.source) || last.By != "me@laptop" || len(l.Stack) != 0 {
		t.Fatalf("history: %+v", last)
	}
	if !slices.ContainsFunc(p.Notes, func(n string) bool { return strings.Contains(n, "/state/blobs/"+hashText(g.source)) }) {
		t.Fatalf("notes: %q", p.Notes)
	}
}

func TestPlan_DiffIsUnified(t *testing.T) {
	ps := planPatches(t)
	c := Change{Add: []*patches.Patch{ps["a"]}}
	p, err := NewPlan(given{source: v1Source, release: v1Source}.facts(t, ps, ps["a"]), c, Options{})
	if err != nil {
		t.Fatal(err)
	}
	d := p.Diff()
	if !strings.HasPrefix(d, "--- a"+workerPath+"\n+++ b"+workerPath+"\n@@ ") || !strings.Contains(d, "\n+A = 1\n") || strings.Contains(d, "\n-") {
		t.Fatalf("diff:\n%s", d)
	}
	keep, err := NewPlan(given{source: stacked(t, ps, v1Source, "a"), release: v1Source, stack: []string{"a"}}.facts(t, ps, ps["a"]), c, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if keep.Diff() != "" || !keep.Empty() {
		t.Fatalf("a plan without changes shows %q", keep.Diff())
	}
}

func TestNewPlan_NamesProcessesThatKeepPatchedCode(t *testing.T) {
	ps := planPatches(t)
	f := given{source: stacked(t, ps, v1Source, "a"), release: v1Source, stack: []string{"a"}}.facts(t, ps)
	f.Processes = []Process{{PID: 7, Started: 0.5}, {PID: 8, Started: 3}}
	old := f.Processes[0]
	old.PID, old.Started = 6, -1
	f.Processes = append(f.Processes, old)
	p, err := NewPlan(f, Change{RemoveAll: true}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var pids []int
	for _, x := range p.Live {
		pids = append(pids, x.PID)
	}
	if fmt.Sprint(pids) != "[7 8]" {
		t.Fatalf("live: %v", pids)
	}
}

func TestNewPlan_LeavesOtherEnvironmentsAlone(t *testing.T) {
	ps := planPatches(t)
	f := given{source: stacked(t, ps, v1Source, "a"), release: v1Source, stack: []string{"a"}}.facts(t, ps)
	f.SysPath = []string{"/another"}
	p, err := NewPlan(f, Change{RemoveAll: true}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if !p.Empty() || len(p.Notes) != 1 || !strings.Contains(p.Notes[0], workerPath) {
		t.Fatalf("%+v", p)
	}
	f.Scoped = false
	if p, err = NewPlan(f, Change{RemoveAll: true}, Options{}); err != nil || p.Empty() {
		t.Fatalf("without an interpreter all of the ledger is meant: %+v %v", p, err)
	}
}
