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
	"slices"
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
// known to have failed; when ctx ends during the commit, the host has all of
// it, nothing, or an open transaction, which the next command finishes or
// undoes.
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
		o.event("commit", fmt.Sprintf("%d file(s)", len(tx.Files)))
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
