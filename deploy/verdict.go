package deploy

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
)

// Verdict says what a file is, compared with the ledger and the release.
type Verdict string

// Verdicts.
const (
	Pristine   Verdict = "pristine"   // as released, or nothing is known against it
	PreEdited  Verdict = "pre-edited" // differs from the release, but not by us
	Patched    Verdict = "patched"    // exactly what the ledger says
	Edited     Verdict = "edited"     // ours, then changed
	Incomplete Verdict = "incomplete" // an open transaction covers it
	Foreign    Verdict = "foreign"    // someone else's specrun, or a patch that no ledger knows
	Missing    Verdict = "missing"    // the ledger says patched, and there is no file
)

// known is what facts and ledgers together say about one file.
type known struct {
	file    *FileFacts
	state   *StateFacts // whose ledger counts
	claim   *Claim
	ledger  *Ledger // nil: none
	doc     document
	verdict Verdict
}

// know judges one file.
func (f *Facts) know(filePath string) (known, error) {
	k := known{file: f.file(filePath)}
	if k.file == nil {
		k.file = &FileFacts{Path: filePath}
	}
	k.claim = f.Folders[path.Dir(filePath)].Claim
	stateDir := f.StateDir
	if k.claim != nil && k.claim.StateDir != "" {
		stateDir = k.claim.StateDir
	}
	k.state = f.state(stateDir)
	if k.state == nil {
		k.state = &StateFacts{Path: stateDir}
	}
	for _, d := range k.state.Ledgers {
		if d.Name != fileID(filePath)+".json" {
			continue
		}
		if d.Error != "" {
			return k, &LedgerError{Host: f.Host, Path: k.state.Path + "/files/" + d.Name, Err: fmt.Errorf("%s", d.Error)}
		}
		l, err := decodeLedger(d.JSON)
		if err != nil {
			return k, &LedgerError{Host: f.Host, Path: k.state.Path + "/files/" + d.Name, Err: err}
		}
		k.ledger, k.doc = l, d
	}
	k.verdict = f.judge(k)
	return k, nil
}

func (f *Facts) judge(k known) Verdict {
	if slices.ContainsFunc(f.open(k.state), func(t transaction) bool { return t.covers(k.file.Path) }) {
		return Incomplete
	}
	patched := k.ledger != nil && len(k.ledger.Stack) > 0
	switch {
	case !k.file.Exists:
		return Missing
	case patched && k.file.SHA256 == k.ledger.CurrentSHA256:
		return Patched
	case patched && k.file.SHA256 == k.ledger.PristineSHA256:
		return k.ledger.PristineVerdict
	case k.asReleased():
		return Pristine // perhaps by reinstalling what we had patched
	case patched:
		return Edited
	case k.file.Fenced, k.claim != nil && (!k.state.Exists || k.state.Error != ""):
		return Foreign
	case k.file.Release != nil && k.file.Release.SHA256 != "":
		return PreEdited
	case k.file.Git != nil && (k.file.Git.State == "modified" || k.file.Git.State == "untracked"):
		return PreEdited
	}
	return Pristine
}

// asReleased is true when the release or the checkout vouches for the content.
func (k known) asReleased() bool {
	if k.file.Release != nil && k.file.Release.SHA256 != "" {
		return k.file.Release.SHA256 == k.file.SHA256
	}
	return k.file.Git != nil && k.file.Git.State == "clean"
}

// stack is what is on the file now; a stack whose patches are gone from the
// file counts as empty.
func (k known) stack() []Layer {
	if k.ledger != nil && (k.verdict == Patched || k.verdict == Edited || k.verdict == Missing) {
		return k.ledger.Stack
	}
	return nil
}

// claimable says why the folder's ledger cannot be used from this account.
func (f *Facts) claimable(k known) error {
	folder := path.Dir(k.file.Path)
	elsewhere := k.claim != nil && k.claim.HostID != f.HostID && !k.state.keeps(folder)
	if k.claim != nil && (k.claim.StateDir != f.StateDir || elsewhere) {
		e := &ClaimedError{Host: f.Host, Folder: folder, Owner: k.claim.User, StateDir: k.claim.StateDir}
		switch {
		case k.claim.User == "":
			e.Owner, e.Reason = k.claim.Owner, "is not named in its claim"
		case elsewhere:
			e.Reason = "is on another machine or in another container"
		case !k.state.Exists:
			e.Reason = "no longer exists or cannot be entered"
		case !k.state.Writable:
			e.Reason = "cannot be written"
		default:
			return nil
		}
		return e
	}
	if !k.state.Writable {
		return &ConflictError{Host: f.Host, Path: k.state.Path, Reason: "the state folder cannot be written by " + f.User,
			Next: "it belongs to " + k.state.Owner + "; name another one with state_dir: in hosts.yaml"}
	}
	return nil
}

// keeps is true when the state folder has a ledger of the folder, so that it
// is the one that a claim made on another host means: on a shared disk.
func (s *StateFacts) keeps(folder string) bool {
	return slices.ContainsFunc(s.Ledgers, func(d document) bool {
		var l struct{ Path string }
		return json.Unmarshal(d.JSON, &l) == nil && path.Dir(l.Path) == folder
	})
}

// transaction is what the plan.json of a transaction holds: all that is
// needed to finish or undo it without the command that began it.
type transaction struct {
	Schema  int        `json:"schema"`
	ID      string     `json:"id"`
	Files   []txFile   `json:"files"`
	Folders []txFolder `json:"folders"`
	Journal string     `json:"journal"`
	// CachePrefix is PYTHONPYCACHEPREFIX of the interpreter, "" for none.
	CachePrefix string `json:"cache_prefix,omitempty"`
}

type txFile struct {
	Path      string `json:"path"`
	Stage     string `json:"stage"` // "-": only the ledger changes
	Pre       string `json:"pre"`   // SHA-256, "none" for no file
	Post      string `json:"post"`
	Mtime     int64  `json:"mtime_ns"`
	UndoMtime int64  `json:"undo_mtime_ns"`
	Check     bool   `json:"check"`
	ID        string `json:"id"`
	Patched   bool   `json:"patched"`
	// How it was when the transaction was found; set by the probe.
	StageSHA256 string `json:"stage_sha256,omitempty"`
	PreBlob     bool   `json:"pre_blob,omitempty"`
}

type txFolder struct {
	Path  string `json:"path"`
	Stage bool   `json:"stage"` // content is staged in it, and it is claimed
}

func (t transaction) covers(path string) bool {
	return slices.ContainsFunc(t.Files, func(f txFile) bool { return f.Path == path })
}

// open lists the transactions of a state folder that are past their commit
// point. One that cannot be read covers nothing; Recover reports it.
func (f *Facts) open(s *StateFacts) []transaction {
	var ts []transaction
	for _, d := range s.Transactions {
		var t transaction
		if d.Phase == "prepared" && d.Error == "" && json.Unmarshal(d.JSON, &t) == nil {
			ts = append(ts, t)
		}
	}
	return ts
}

// inScope says whether a ledger's file is one that the named interpreter sees.
func (f *Facts) inScope(l *Ledger) bool {
	if !f.Scoped {
		return true
	}
	roots := slices.Clone(f.SysPath)
	for _, e := range f.Engines {
		roots = append(roots, e.Folders...)
	}
	below := func(root string) bool {
		root = strings.TrimSuffix(root, "/") + "/"
		return strings.HasPrefix(l.Path, root) || strings.HasPrefix(l.Link, root)
	}
	byPath := func(x Layer) bool { return strings.Contains(x.Target, "/") }
	return l.Python == f.Interpreter || slices.ContainsFunc(roots, below) || slices.ContainsFunc(l.Stack, byPath)
}

// shadowed says that the interpreter finds every module whose patches are on a
// ledger's file in other files, so that no server it starts now imports this one.
func (f *Facts) shadowed(l *Ledger) bool {
	elsewhere := func(x Layer) bool {
		return f.finds(x.Target) && !f.sees(l.Path)
	}
	return f.Scoped && len(l.Stack) > 0 && !slices.ContainsFunc(l.Stack, func(x Layer) bool { return !elsewhere(x) })
}

// finds says whether the interpreter finds a target at all.
func (f *Facts) finds(target string) bool {
	for i, a := range f.Asked {
		if a.Target.Name() == target && f.Found[i].Real != "" {
			return true
		}
	}
	return false
}

// sees says whether a file is the target of a patch, as the interpreter finds it.
func (f *Facts) sees(real string) bool {
	return slices.ContainsFunc(f.Found, func(o Found) bool { return o.Real == real })
}
