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
	if err := b.build(); err != nil {
		return nil, err
	}
	return b.plan, nil
}

type planner struct {
	facts   *Facts
	change  Change
	options Options
	plan    *Plan
	// layers wanted on a file by Add or Exact, in order.
	wanted map[string][]wantedLayer
	links  map[string]string
}

type wantedLayer struct {
	patch  *patches.Patch
	target patches.Target
}

func (w wantedLayer) layer() Layer {
	return Layer{Name: w.patch.Name, Version: w.patch.Version, Blob: w.patch.SHA256(), Target: w.target.Name()}
}

func (b *planner) build() error {
	if err := b.checkOpen(); err != nil {
		return err
	}
	if err := b.match(); err != nil {
		return err
	}
	paths, err := b.candidates()
	if err != nil {
		return err
	}
	var errs []error
	for _, p := range paths {
		if err := b.file(p); err != nil {
			errs = append(errs, err)
		}
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	b.plan.StateDir = b.facts.StateDir
	if err := b.oneState(); err != nil {
		return err
	}
	if s := b.facts.state(b.plan.StateDir); s != nil {
		b.plan.shared = s.Shared
	}
	b.absent()
	b.live()
	b.plan.leftovers = b.facts.leftovers(b.plan.StateDir)
	return b.checkSpace()
}

// checkOpen refuses to plan on top of a transaction that was cut off.
func (b *planner) checkOpen() error {
	e := &OpenTransactionError{Host: b.facts.Host}
	for _, s := range b.facts.States {
		for _, t := range b.facts.open(s) {
			e.StateDir = s.Path
			e.IDs = append(e.IDs, t.ID)
			for _, f := range t.Files {
				e.Paths = append(e.Paths, f.Path)
			}
		}
	}
	if len(e.IDs) == 0 {
		return nil
	}
	return e
}

// match finds the files of the wanted patches. A target that is not there, or
// lacks what the patch requires, is left out when another one of the patch fits.
func (b *planner) match() error {
	b.wanted, b.links = map[string][]wantedLayer{}, map[string]string{}
	var errs []error
	for _, p := range b.change.wanted() {
		missing := &NoEngineError{Host: b.facts.Host, Python: b.facts.Interpreter, Patch: p.Name}
		var unfit []error
		fits, asked := 0, false
		for i, a := range b.facts.Asked {
			if a.Patch.SHA256() != p.SHA256() {
				continue
			}
			asked = true
			found := b.facts.Found[i]
			if found.Real == "" {
				missing.Missing = append(missing.Missing, MissingTarget{a.Target.Name(), found.Searched, found.Error})
				continue
			}
			if err := b.fits(a.Target, found.Real); err != nil {
				unfit = append(unfit, err)
				continue
			}
			fits++
			b.wanted[found.Real] = append(b.wanted[found.Real], wantedLayer{p, a.Target})
			if found.Path != found.Real {
				b.links[found.Real] = found.Path
			}
		}
		switch {
		case !asked:
			errs = append(errs, fmt.Errorf("%s: no facts were read about %s", b.facts.Host, p.Name))
		case fits == 0 && len(unfit) > 0:
			errs = append(errs, unfit...)
		case fits == 0:
			errs = append(errs, missing)
		default:
			for _, err := range unfit {
				b.note("left out: %v", err)
			}
		}
	}
	return errors.Join(errs...)
}

func (b *planner) fits(t patches.Target, real string) error {
	file := b.facts.file(real)
	if file == nil || !file.Exists {
		reason := "cannot be read"
		if file != nil && file.Error != "" {
			reason += ": " + file.Error
		}
		return &ConflictError{Host: b.facts.Host, Path: real, Reason: reason}
	}
	if len(t.Requires) == 0 {
		return nil
	}
	if err := t.Check(file.Outline); err != nil {
		return &ConflictError{Host: b.facts.Host, Path: real, Err: err}
	}
	return nil
}

// candidates lists the files that the change is about: those of the wanted
// patches, and, when patches go, those that have any.
func (b *planner) candidates() ([]string, error) {
	var paths []string
	for p := range b.wanted {
		paths = append(paths, p)
	}
	if b.change.removes() {
		var left []string
		for _, file := range b.facts.Files {
			k, err := b.facts.know(file.Path)
			if err != nil {
				return nil, err
			}
			switch {
			case k.ledger == nil || len(k.ledger.Stack) == 0:
			case !b.facts.inScope(k.ledger):
				left = append(left, file.Path)
			default:
				paths = append(paths, file.Path)
			}
		}
		if len(left) > 0 {
			b.note("left alone, since %s does not see it: %s", b.facts.Interpreter, strings.Join(left, ", "))
		}
	}
	slices.Sort(paths)
	return slices.Compact(paths), nil
}

// oneState makes sure that one ledger folder keeps all that changes.
func (b *planner) oneState() error {
	for i, f := range b.plan.Files {
		if f.Action == Keep {
			continue
		}
		k, err := b.facts.know(f.Path)
		if err != nil {
			return err
		}
		if i > 0 && b.plan.StateDir != b.facts.StateDir && b.plan.StateDir != k.state.Path {
			return &ConflictError{Host: b.facts.Host, Path: f.Path, Reason: fmt.Sprintf("its ledger is in %s, that of other files of this change in %s", k.state.Path, b.plan.StateDir),
				Next: "roll one of them back first"}
		}
		b.plan.StateDir = k.state.Path
	}
	return cleanPath(b.plan.StateDir)
}

// absent notes names to remove that are on no file.
func (b *planner) absent() {
	for _, name := range b.change.Remove {
		on := func(f PlannedFile) bool { return slices.Contains(f.Before, name) }
		if !slices.ContainsFunc(b.plan.Files, on) {
			b.note("%s is not applied", name)
		}
	}
}

// live finds processes that started after the patches they may run were put on.
func (b *planner) live() {
	since := int64(0)
	for _, f := range b.plan.Files {
		if f.Action == Keep || len(f.Before) == 0 {
			continue
		}
		if k, err := b.facts.know(f.Path); err == nil && k.ledger != nil {
			for _, l := range k.ledger.Stack {
				if since == 0 || l.AppliedUs < since {
					since = l.AppliedUs
				}
			}
		}
	}
	for _, p := range b.facts.Processes {
		// A process's start is known to a hundredth of a second.
		if since > 0 && int64(p.Started*1e6)+20_000 >= since {
			b.plan.Live = append(b.plan.Live, p)
		}
	}
}

func (b *planner) note(format string, args ...any) {
	b.plan.Notes = append(b.plan.Notes, fmt.Sprintf(format, args...))
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
