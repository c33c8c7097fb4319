package deploy

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	"specrun/remote"
)

// Recovered is what was done about transactions that earlier commands left open.
type Recovered struct {
	Transactions []RecoveredTx `json:"transactions"`
}

// RecoveredTx is one of them.
type RecoveredTx struct {
	ID     string   `json:"id"`
	Result string   `json:"result"` // forward, back, settled (another command was faster)
	Paths  []string `json:"paths"`
}

func (r *Recovered) empty() bool { return r == nil || len(r.Transactions) == 0 }

// RecoverOptions of one recovery.
type RecoverOptions struct {
	ApplyOptions
	// Force replaces content that is neither old nor new, keeping it as a blob.
	Force bool
}

// Recover finishes or undoes what earlier commands left open on t: when every
// file is old or new, what is missing is moved in from the stage; when the
// stage is gone, what was replaced comes back from the blobs. Content that is
// neither is a *DriftError, and nothing is touched. It clears away what is no
// longer needed. Without anything open it changes nothing.
func Recover(ctx context.Context, t Target, w Where, o RecoverOptions) (*Recovered, error) {
	f, err := readFacts(ctx, t, w, nil, reading{walk: true, any: true})
	if err != nil {
		return nil, err
	}
	return recoverFacts(ctx, t, f, o)
}

func recoverFacts(ctx context.Context, t Target, f *Facts, o RecoverOptions) (*Recovered, error) {
	done := &Recovered{Transactions: []RecoveredTx{}}
	for _, s := range f.States {
		for _, d := range s.Transactions {
			if d.Phase != "prepared" {
				continue
			}
			r, err := recoverOne(ctx, t, f, s, d, o)
			if err != nil {
				return done, err
			}
			done.Transactions = append(done.Transactions, r)
		}
		if l := f.leftovers(s.Path); !l.empty() && len(f.open(s)) == 0 {
			o.event("tidy", strings.Join(l.ids, " "))
			var locked *LockedError
			if err := tidy(ctx, t, commit{mode: "tidy", stateDir: s.Path, user: f.User, hostID: f.HostID, python: f.Interpreter}, l); err != nil && !errors.As(err, &locked) {
				return done, err
			}
		}
	}
	return done, nil
}

func recoverOne(ctx context.Context, t Target, f *Facts, s *StateFacts, d transactionFile, o RecoverOptions) (RecoveredTx, error) {
	where := s.Path + "/tx/" + d.Name
	var tx transaction
	err := errors.New(d.Error)
	if d.Error == "" {
		err = json.Unmarshal(d.JSON, &tx)
	}
	if err == nil {
		err = tx.check(d.ID)
	}
	if err != nil {
		return RecoveredTx{}, &LedgerError{Host: f.Host, Path: where, Err: err}
	}
	if !s.Writable {
		return RecoveredTx{}, &ClaimedError{Host: f.Host, Folder: tx.Folders[0].Path, Owner: s.Owner, StateDir: s.Path, Reason: "cannot be written, and has an open transaction"}
	}
	c := commit{mode: direction(f, tx), stateDir: s.Path, tx: tx, take: o.Take, force: o.Force,
		python: f.Interpreter, user: f.User, hostID: f.HostID, cachePrefix: tx.CachePrefix}
	r := RecoveredTx{ID: d.ID}
	for _, x := range tx.Files {
		r.Paths = append(r.Paths, x.Path)
	}
	o.event("recover", c.mode+" "+d.ID)
	res, err := c.run(ctx, t)
	if err != nil && c.mode == "forward" && exitCode(err) == codeHalfDone {
		// What stopped the first try may stop every one: give the old content back.
		first := scriptError(f.Host, res, err)
		c.mode = "back"
		if res, err = c.run(ctx, t); err != nil {
			err = errors.Join(first, scriptError(f.Host, res, err))
			return r, &RollbackFailedError{Host: f.Host, Path: strings.Join(r.Paths, ", "), StateDir: s.Path, Err: err}
		}
	}
	if exitCode(err) == codeHalfDone {
		return r, &RollbackFailedError{Host: f.Host, Path: strings.Join(r.Paths, ", "), StateDir: s.Path, Err: scriptError(f.Host, res, err)}
	}
	if err != nil {
		return r, scriptError(f.Host, res, err)
	}
	r.Result = parseReport(res.Stdout).result
	return r, nil
}

// check says why a transaction is none that this version makes: in a shared
// state folder others can write it, and its names become paths to replace and
// to remove.
func (tx transaction) check(id string) error {
	if tx.Schema != ledgerSchema {
		return fmt.Errorf("schema %d is not known to this version", tx.Schema)
	}
	if tx.ID != id || !validID(id) || len(tx.Files) == 0 || len(tx.Folders) == 0 {
		return fmt.Errorf("it is not the transaction %q", id)
	}
	for _, f := range tx.Folders {
		if !validFolder(f.Path) {
			return fmt.Errorf("folder %q", f.Path)
		}
	}
	for _, f := range tx.Files {
		folder := path.Dir(f.Path)
		here := slices.ContainsFunc(tx.Folders, func(d txFolder) bool { return d.Path == folder })
		staged := f.Stage == "-" || f.Stage == folder+"/.specrun-"+id+"/"+path.Base(f.Path)
		if !here || !validFolder(f.Path) || !staged || f.ID != fileID(f.Path) || !validSum(f.Pre) || !validSum(f.Post) {
			return fmt.Errorf("file %q, staged as %q", f.Path, f.Stage)
		}
	}
	return nil
}

// validSum: a SHA-256, or "none" for no file.
func validSum(s string) bool {
	data, err := hex.DecodeString(s)
	return s == "none" || err == nil && len(data) == sha256.Size
}

// direction is forward unless content that is still to be moved is gone.
func direction(f *Facts, tx transaction) string {
	gone := func(x txFile) bool {
		file := f.file(x.Path)
		isNew := file != nil && orNone(file) == x.Post
		return !isNew && x.StageSHA256 != x.Post
	}
	if slices.ContainsFunc(tx.Files, gone) {
		return "back"
	}
	return "forward"
}

func exitCode(err error) int {
	var exit *remote.ExitError
	if errors.As(err, &exit) {
		return exit.Code
	}
	return 0
}
