package deploy

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/user"
	"path"
	"slices"
	"strings"
	"time"

	"specrun/patches"
)

// Change is what the user wants. Either SetExact, or any of the others: first
// Remove (or RemoveAll), then Add.
type Change struct {
	Add       []*patches.Patch
	Remove    []string // names
	RemoveAll bool
	// Exact is the whole set wanted on every file that the interpreter sees,
	// in order; nil with SetExact is none.
	Exact    []*patches.Patch
	SetExact bool
}

// wanted lists the patches that a change puts on files.
func (c Change) wanted() []*patches.Patch {
	if c.SetExact {
		return c.Exact
	}
	return c.Add
}

// removes says whether patches may go that were not named with their files.
func (c Change) removes() bool { return c.SetExact || c.RemoveAll || len(c.Remove) > 0 }

// Options of a plan. The zero value is ready to use.
type Options struct {
	Force      bool          // overwrite content that is not ours, keeping it as a blob
	AllowDirty bool          // patch files of a source checkout that have uncommitted changes
	IDs        func() string // of transactions, unguessable; nil = 64 random bits
	Controller string        // who asks; "" = user@host of this process
	// NotUnderSweep refuses to change anything while a sweep holds a patch set of
	// the state folder: its next launch would measure something else, and its end
	// puts back what it found.
	NotUnderSweep bool
}

// Action is what a plan does to one file.
type Action string

// Actions.
const (
	Keep    Action = "keep"    // as it should be already
	Patch   Action = "patch"   // new content with patches
	Restore Action = "restore" // pristine content
	Forget  Action = "forget"  // the file is pristine or gone: only the ledger changes
)

// PlannedFile is one file of a plan.
type PlannedFile struct {
	Path    string   `json:"path"`
	Link    string   `json:"link,omitempty"` // as the interpreter finds it, where that is another path
	Action  Action   `json:"action"`
	Verdict Verdict  `json:"verdict"` // before
	Pre     string   `json:"pre"`     // SHA-256, "none" for no file
	Post    string   `json:"post"`
	Before  []string `json:"before"` // names of the stack
	After   []string `json:"after"`

	old, new []byte // contents
	tx       txFile
	ledger   []byte // new ledger
	read     string // SHA-256 of the ledger that was read, "none"
}

// Plan is every decision made and nothing changed yet. It is a value for one
// target at one moment: Apply refuses it when the files have changed since.
type Plan struct {
	Host     string        `json:"host"`
	ID       string        `json:"id"` // of its transaction
	StateDir string        `json:"state_dir"`
	Python   string        `json:"python"`
	Files    []PlannedFile `json:"files"` // in order of their paths
	Notes    []string      `json:"notes,omitempty"`
	// Live are processes that were started with patched content which this
	// plan replaces: they keep running it.
	Live []Process `json:"live,omitempty"`

	controller  string
	user        string
	hostID      string
	force       bool
	shared      bool // the state folder is its group's too
	cachePrefix string
	blobs       map[string][]byte // patches to be kept on the host, by SHA-256
	leftovers   leftovers
}

// Empty says that there is nothing to change.
func (p *Plan) Empty() bool {
	return !slices.ContainsFunc(p.Files, func(f PlannedFile) bool { return f.Action != Keep })
}

// NewPlan decides what has to be done so that the change holds. It is pure but
// for the defaults of o. Errors, joined when there are several:
// *OpenTransactionError, *NoEngineError, *DriftError, *ConflictError,
// *ClaimedError, *DiskFullError, *LedgerError.
func NewPlan(f *Facts, c Change, o Options) (*Plan, error) {
	if !f.Full {
		return nil, errors.New("plan from the facts of a status: they have no contents")
	}
	b := &planner{facts: f, change: c, options: o, plan: &Plan{
		Host: f.Host, Python: f.Interpreter, user: f.User, hostID: f.HostID, force: o.Force,
		blobs: map[string][]byte{}, controller: o.Controller}}
	if b.plan.controller == "" {
		b.plan.controller = thisController()
	}
	b.plan.ID = randomID()
	if o.IDs != nil {
		b.plan.ID = o.IDs()
	}
	if !validID(b.plan.ID) {
		return nil, fmt.Errorf("%q is no id for a transaction", b.plan.ID)
	}
	if err := b.build(); err != nil {
		return nil, err
	}
	if o.NotUnderSweep && !b.plan.Empty() {
		for _, s := range f.States {
			if len(s.Sweeps) > 0 {
				return nil, &SweepError{Host: f.Host, Sweep: s.Sweeps[0]}
			}
		}
	}
	return b.plan, nil
}

// transaction is the plan as the host keeps it until it is done.
func (p *Plan) transaction() (transaction, error) {
	t := transaction{Schema: ledgerSchema, ID: p.ID, Files: []txFile{}, CachePrefix: p.cachePrefix}
	for _, f := range p.Files {
		if f.Action == Keep {
			continue
		}
		t.Files = append(t.Files, f.tx)
		stage := f.tx.Stage != "-"
		at := slices.IndexFunc(t.Folders, func(x txFolder) bool { return x.Path == path.Dir(f.Path) })
		if at < 0 {
			t.Folders = append(t.Folders, txFolder{Path: path.Dir(f.Path), Stage: stage})
		} else {
			t.Folders[at].Stage = t.Folders[at].Stage || stage
		}
	}
	t.sortFolders()
	entry, err := json.Marshal(map[string]any{"tx": p.ID, "by": p.controller, "files": t.Files})
	if err != nil {
		return t, fmt.Errorf("write the journal: %w", err)
	}
	t.Journal = string(entry)
	return t, nil
}

// sortFolders puts folders into the order in which everyone takes their locks.
func (t *transaction) sortFolders() {
	slices.SortFunc(t.Folders, func(a, b txFolder) int { return strings.Compare(folderKey(a.Path), folderKey(b.Path)) })
}

func randomID() string {
	var b [8]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// thisController says who asks, for the ledger and the journal.
func thisController() string {
	name, host := "unknown", "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if h, err := os.Hostname(); err == nil {
		host = h
	}
	return name + "@" + host
}

func hostMicros(now float64) int64 { return int64(now * float64(time.Second/time.Microsecond)) }
