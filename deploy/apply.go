package deploy

import (
	"bytes"
	"compress/zlib"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"specrun/remote"
)

// codeHalfDone is commit.sh's status for a failure beyond its commit point; of
// all others the error kind on its standard output says enough.
const codeHalfDone = 77

// tidyLimit bounds clearing away our own staged content after a failure.
const tidyLimit = 15 * time.Second

// ApplyOptions of one execution.
type ApplyOptions struct {
	// Take ends a script that holds the lock, and its children, instead of
	// reporting it. One on another machine cannot be ended.
	Take bool
	// OnEvent hears of progress, in order, from the calling goroutine; nil is nobody.
	OnEvent func(Event)
}

func (o ApplyOptions) event(step, detail string) {
	if o.OnEvent != nil {
		o.OnEvent(Event{step, detail})
	}
}

// Event is one step of an execution.
type Event struct {
	Step   string // recover, facts, commit, undo, tidy, done
	Detail string
}

// Outcome is what an execution did.
type Outcome struct {
	Host    string        `json:"host"`
	Tx      string        `json:"tx,omitempty"` // "" when nothing was to be done
	Changed []PlannedFile `json:"changed"`
	Kept    []PlannedFile `json:"kept"` // already as they should be
	// Durable is false when the host could not say that the new content is on
	// its disk.
	Durable   bool       `json:"durable"`
	Notes     []string   `json:"notes,omitempty"`
	Live      []Process  `json:"live,omitempty"` // still running patched code that is gone from the disk
	Recovered *Recovered `json:"recovered,omitempty"`
}

// Apply executes a plan as one transaction. It blocks until that is done or
// known to have failed; when ctx ends during the commit, the host has either
// nothing or an open transaction, which the next command finishes or undoes.
//
// Errors: *LockedError, *DriftError when the host is no longer as planned,
// *ConflictError, *ClaimedError, *DiskFullError, *OpenTransactionError: nothing
// was changed. *CommitError: begun and undone. *RollbackFailedError: begun, and
// neither finished nor undone. remote.ErrLost and the like: not known; the next
// command asks the host.
func Apply(ctx context.Context, t Target, p *Plan, o ApplyOptions) (*Outcome, error) {
	out := &Outcome{Host: p.Host, Durable: true, Notes: slices.Clone(p.Notes), Live: p.Live, Changed: []PlannedFile{}, Kept: []PlannedFile{}}
	for _, f := range p.Files {
		if f.Action == Keep {
			out.Kept = append(out.Kept, f)
		} else {
			out.Changed = append(out.Changed, f)
		}
	}
	if !p.Empty() {
		tx, err := p.transaction()
		if err != nil {
			return nil, err
		}
		o.event("commit", fmt.Sprintf("%d files", len(tx.Files)))
		r, err := commitNew(ctx, t, p, tx, o)
		if err != nil {
			return nil, err
		}
		out.Tx = p.ID
		out.add(r)
	}
	if !p.leftovers.empty() {
		o.event("tidy", strings.Join(p.leftovers.ids, " "))
		if err := tidy(ctx, t, p.as("tidy"), p.leftovers); err != nil {
			out.Notes = append(out.Notes, fmt.Sprintf("what an earlier command left could not be cleared away: %v", err))
		}
	}
	o.event("done", p.ID)
	return out, nil
}

func (o *Outcome) add(r report) {
	for _, n := range r.notes {
		if strings.HasPrefix(n, "not durable") {
			o.Durable = false
		}
		o.Notes = append(o.Notes, n)
	}
}

// content packs everything that is new on the host: the staged files, the
// ledgers, the patches, and the transaction itself, see seal.py.
func (p *Plan) content(tx transaction) (string, error) {
	mode := fs.FileMode(0o600)
	if p.shared {
		mode = 0o660
	}
	var packed bytes.Buffer
	z := zlib.NewWriter(&packed)
	var err error
	add := func(path string, data []byte, mode fs.FileMode) {
		if err == nil {
			err = cleanPath(path)
		}
		if err == nil {
			_, err = fmt.Fprintf(z, "%d %04o %s\n%s", len(data), mode, path, data)
		}
	}
	doc, docErr := json.Marshal(tx)
	if docErr != nil {
		return "", fmt.Errorf("write the transaction: %w", docErr)
	}
	txdir := p.StateDir + "/tx/" + p.ID
	add(txdir+"/plan.json", doc, mode)
	for _, f := range p.Files {
		if f.Action == Keep {
			continue
		}
		add(txdir+"/ledger-"+f.tx.ID, f.ledger, mode)
		if f.tx.Stage != "-" {
			add(f.tx.Stage, f.new, 0o600)
		}
	}
	for _, sum := range slices.Sorted(maps.Keys(p.blobs)) {
		add(txdir+"/blobs/"+sum, p.blobs[sum], mode)
	}
	if err == nil {
		err = z.Close()
	}
	if err != nil {
		return "", fmt.Errorf("pack the new content: %w", err)
	}
	return base64.StdEncoding.EncodeToString(packed.Bytes()), nil
}

// dropStage takes our own staged content away after a failure, also when ctx
// has ended.
func dropStage(ctx context.Context, t Target, p *Plan, tx transaction) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tidyLimit)
	defer cancel()
	l := leftovers{ids: []string{p.ID}}
	for _, f := range tx.Folders {
		l.folders = append(l.folders, f.Path)
	}
	if err := tidy(ctx, t, p.as("tidy"), l); err != nil {
		return fmt.Errorf("clear the staged content away: %w", err)
	}
	return nil
}

// tidy removes what no transaction needs.
func tidy(ctx context.Context, t Target, c commit, l leftovers) error {
	for _, f := range l.folders {
		c.tx.Folders = append(c.tx.Folders, txFolder{Path: f})
	}
	c.tx.sortFolders()
	c.leftovers = l.ids
	res, err := c.run(ctx, t)
	if err != nil {
		return scriptError(t.Name(), res, err)
	}
	return nil
}

// as prepares a call of commit.sh for a plan.
func (p *Plan) as(mode string) commit {
	return commit{mode: mode, stateDir: p.StateDir, python: p.Python, user: p.user, hostID: p.hostID, cachePrefix: p.cachePrefix}
}

// commitNew runs the commit script of a plan and, when that fails beyond its
// commit point, undoes what it did.
func commitNew(ctx context.Context, t Target, p *Plan, tx transaction, o ApplyOptions) (report, error) {
	c := p.as("new")
	c.tx, c.take = tx, o.Take
	var err error
	if c.content, err = p.content(tx); err != nil {
		return report{}, err
	}
	for _, f := range p.Files {
		if f.Action == Keep {
			continue
		}
		c.ledgers = append(c.ledgers, f.tx.ID, f.read)
	}
	for sum := range p.blobs {
		c.blobs = append(c.blobs, sum)
	}
	slices.Sort(c.blobs)
	res, err := c.run(ctx, t)
	if err == nil {
		return parseReport(res.Stdout), nil
	}
	var exit *remote.ExitError
	switch {
	case !errors.As(err, &exit):
		// Its end was not seen. When it is dead and had not reached its commit
		// point, what it staged goes now; else the next command sees to it.
		if dropErr := dropStage(ctx, t, p, tx); dropErr != nil && ctx.Err() == nil {
			o.event("tidy", dropErr.Error())
		}
		return report{}, fmt.Errorf("commit %s: %w", p.ID, err)
	case exit.Code != codeHalfDone:
		return report{}, scriptError(p.Host, res, err)
	}
	r := parseReport(res.Stdout)
	o.event("undo", r.fields["path"])
	failed := &CommitError{Host: p.Host, Path: r.fields["path"], Reason: halfDone(r, exit)}
	c.mode, c.content = "back", ""
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), remote.DefaultScriptTimeout)
	defer cancel()
	res, err = c.run(ctx, t)
	if err != nil {
		return report{}, &RollbackFailedError{Host: p.Host, Path: failed.Path, StateDir: p.StateDir, Err: errors.Join(failed, scriptError(p.Host, res, err))}
	}
	failed.Undone = parseReport(res.Stdout).result == "back"
	return report{}, failed
}

func halfDone(r report, exit *remote.ExitError) string {
	if r.fields["got"] != "" {
		return fmt.Sprintf("holds %s instead of %s after it was replaced", short(r.fields["got"]), short(r.fields["want"]))
	}
	if tail := lastLine(exit.Stderr); tail != "" {
		return "could not be replaced: " + tail
	}
	return "could not be replaced"
}

var commitScripts = []string{"common.sh", "lock.sh", "commit.sh"}

// commit is one call of commit.sh.
type commit struct {
	mode        string // new, forward, back, tidy
	stateDir    string
	tx          transaction
	take, force bool
	python      string
	user        string
	hostID      string
	cachePrefix string
	ledgers     []string // id, hash of the ledger that was read, ...
	blobs       []string // of patches that were sent
	leftovers   []string // mode tidy: ids
	content     string   // everything new, packed
}

func (c commit) run(ctx context.Context, t Target) (remote.Result, error) {
	vars, err := c.vars()
	if err != nil {
		return remote.Result{}, err
	}
	return t.Run(ctx, remote.Script{Name: c.mode + " commit", Text: text(commitScripts...), Vars: vars})
}

func (c commit) vars() ([]remote.Var, error) {
	var files, seals, saved, pre, post []string
	txdir := c.stateDir + "/tx/" + c.tx.ID
	for _, f := range c.tx.Files {
		mtime, check, want := f.Mtime, yesNo(f.Check), f.Post
		if c.mode == "back" {
			mtime, check, want = f.UndoMtime, "absent", f.Pre
		}
		files = append(files, f.Path, f.Stage, f.Pre, f.Post, strconv.FormatInt(mtime, 10), check, f.ID, yesNo(f.Patched), folderKey(path.Dir(f.Path)))
		if f.Stage != "-" {
			seals = append(seals, f.Path, f.Stage, want, strconv.FormatInt(mtime, 10), check)
		}
		if f.Pre != "none" {
			saved = append(saved, f.Pre+"  "+txdir+"/blobs/"+f.Pre)
			pre = append(pre, f.Pre+"  "+f.Path)
		}
		if f.Post != "none" {
			post = append(post, f.Post+"  "+f.Path)
		}
	}
	for _, sum := range c.blobs {
		saved = append(saved, sum+"  "+txdir+"/blobs/"+sum)
	}
	folders, err := folderWords(c.tx)
	if err != nil {
		return nil, err
	}
	vars := []remote.Var{
		{Name: "mode", Value: c.mode}, {Name: "state", Value: c.stateDir}, {Name: "tx", Value: c.tx.ID},
		{Name: "take", Value: yesNo(c.take)}, {Name: "force", Value: yesNo(c.force)},
		{Name: "user", Value: c.user}, {Name: "host_id", Value: c.hostID},
		{Name: "cache_prefix", Value: c.cachePrefix}, {Name: "python", Value: c.python},
		{Name: "seal", Value: text("seal.py")}, {Name: "content", Value: c.content}, {Name: "journal", Value: c.tx.Journal},
		{Name: "folders", Value: folders}, {Name: "leftovers", Value: strings.Join(c.leftovers, " ")},
		{Name: "saved_sums", Value: strings.Join(saved, "\n")}, {Name: "pre_sums", Value: strings.Join(pre, "\n")},
		{Name: "post_sums", Value: strings.Join(post, "\n")},
	}
	for name, values := range map[string][]string{"files": files, "seal_files": seals, "ledgers": c.ledgers} {
		w, err := words(values...)
		if err != nil {
			return nil, err
		}
		vars = append(vars, remote.Var{Name: name, Value: w})
	}
	return vars, nil
}

func folderWords(tx transaction) (string, error) {
	var out []string
	for _, f := range tx.Folders {
		claim := "none"
		if f.Stage {
			claim = "make"
		}
		out = append(out, folderKey(f.Path), f.Path, claim)
	}
	return words(out...)
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// scriptError turns what a script said into an error of this package.
func scriptError(host string, res remote.Result, err error) error {
	var exit *remote.ExitError
	if !errors.As(err, &exit) {
		return err
	}
	r := parseReport(res.Stdout)
	f := r.fields
	where := f["path"]
	conflict := func(reason, next string) error {
		return &ConflictError{Host: host, Path: where, Reason: reason, Next: next}
	}
	switch r.kind {
	case "locked":
		pid, _ := strconv.Atoi(f["pid"]) // 0 when it did not say
		return &LockedError{Host: host, PID: pid, User: f["user"], What: f["what"], Reason: f["reason"], Lock: f["lock"]}
	case "drift", "ledger-drift":
		return &DriftError{Host: host, Path: where, Want: f["want"], Got: f["got"]}
	case "open":
		id, _, _ := strings.Cut(path.Base(where), ".")
		return &OpenTransactionError{Host: host, StateDir: path.Dir(path.Dir(where)), IDs: []string{id}, Paths: []string{"files of " + id}}
	case "claimed":
		owner := f["user"]
		if owner == "" {
			owner = "someone"
		}
		return &ClaimedError{Host: host, Folder: where, Owner: owner, StateDir: f["state"], Reason: "is not the one of this plan"}
	case "third":
		return &DriftError{Host: host, Path: where, Verdict: Incomplete, Want: f["pre"] + " or " + f["post"], Got: f["got"]}
	case "disk-full":
		return diskFull(host, f, err)
	case "unwritable":
		if full := diskFull(host, f, err); full.FreeBytes >= 0 && full.FreeBytes < spaceMargin || full.FreeInodes == 0 {
			return full
		}
		detail := f["detail"]
		if detail == "" {
			detail = lastLine(exit.Stderr)
		}
		return conflict("cannot be written: "+detail, "act as its owner, or name another state folder with state_dir: in hosts.yaml")
	case "stage-gone", "stage-differs":
		return conflict("the staged content is gone or not what was sent", "run the command again; when it stays so, look at the disk")
	case "syntax":
		return conflict(fmt.Sprintf("with the patch it does not compile: line %s: %s", f["line"], f["detail"]), "the patch does not fit this release")
	case "owner":
		return conflict(fmt.Sprintf("a new file could not be given to uid %s, gid %s", f["uid"], f["gid"]), "act as its owner")
	case "not-sealed":
		return conflict("the interpreter could not check the new content: "+lastLine(exit.Stderr), "does the interpreter run at all?")
	case "half-done":
		return &CommitError{Host: host, Path: where, Reason: halfDone(r, exit)}
	case "no-blob":
		return conflict("its old content is no longer in "+f["blob"], "reinstall its package")
	}
	return err
}

// diskFull reads what room a script found: free blocks, their size, inodes.
func diskFull(host string, f map[string]string, err error) *DiskFullError {
	e := &DiskFullError{Host: host, Path: f["path"], Mount: path.Dir(f["path"]), FreeBytes: -1, FreeInodes: -1, Err: err}
	var blocks, size, inodes int64
	if n, _ := fmt.Sscan(f["room"], &blocks, &size, &inodes); n == 3 {
		e.FreeBytes, e.FreeInodes = blocks*size, inodes
	}
	return e
}
