package deploy

import (
	"slices"
	"strings"
)

// record makes the file's ledger and its part of the transaction.
func (b *planner) record(f *PlannedFile, k known, want []Layer) error {
	now := hostMicros(b.facts.Now)
	l := Ledger{Schema: ledgerSchema, Path: f.Path, PristineSHA256: f.Pre, PristineVerdict: k.verdict, PristineMtimeNs: k.file.MtimeNs}
	rebase := k.ledger == nil || len(k.ledger.Stack) == 0 || k.verdict == Pristine || k.verdict == PreEdited
	l.Link = f.Link
	if k.ledger != nil {
		if l.Link == "" {
			l.Link = k.ledger.Link
		}
		l.LastMtime, l.History = k.ledger.LastMtime, k.ledger.History
		if !rebase || f.Action == Forget {
			l.PristineSHA256, l.PristineVerdict, l.PristineMtimeNs = k.ledger.PristineSHA256, k.ledger.PristineVerdict, k.ledger.PristineMtimeNs
		}
	}
	if k.verdict == Foreign {
		base, err := cutFences(k.file.Content)
		if err != nil {
			return err
		}
		l.PristineSHA256, l.PristineVerdict = hashBytes(base), PreEdited
		if r := k.file.Release; r != nil && r.SHA256 == l.PristineSHA256 {
			l.PristineVerdict = Pristine
		}
		b.plan.blobs[l.PristineSHA256] = base
	}
	l.Python, l.Stack, l.CurrentSHA256 = b.facts.Interpreter, slices.Clone(want), f.Post
	for i := range l.Stack {
		if l.Stack[i].AppliedUs == 0 {
			l.Stack[i].AppliedUs, l.Stack[i].By = now, b.plan.controller
		}
		if e := b.facts.engineOf(l.Stack[i].Target); e.Name != "" {
			l.Engine, l.EngineVersion = e.Name, e.Version
		}
	}
	if l.Stack == nil {
		l.Stack = []Layer{}
	}
	entry := Entry{AtUs: now, Tx: b.plan.ID, By: b.plan.controller, Action: f.Action, Pre: f.Pre, Post: f.Post, Patches: layerNames(want)}
	if k.verdict == Edited || k.verdict == Foreign {
		entry.Kept = f.Pre
	}
	l.History = append(slices.Clone(l.History), entry)
	l.History = l.History[max(0, len(l.History)-historyLimit):]

	f.tx = txFile{Path: f.Path, Stage: f.tx.Stage, Pre: f.Pre, Post: f.Post, ID: fileID(f.Path), Patched: len(want) > 0,
		UndoMtime: k.file.MtimeNs, Check: f.Action == Patch && strings.HasSuffix(f.Path, ".py")}
	if f.Action == Restore && f.Post == l.PristineSHA256 && l.PristineMtimeNs != 0 {
		// The old time is safe: patched content always had another second.
		f.tx.Mtime = l.PristineMtimeNs
	} else {
		// Python takes a compiled copy for good when size and whole second agree.
		l.LastMtime = max(int64(b.facts.Now), k.file.MtimeNs/1e9+1, l.PristineMtimeNs/1e9+1, l.LastMtime+1)
		f.tx.Mtime = l.LastMtime * 1e9
	}
	data, err := l.encode()
	if err != nil {
		return err
	}
	f.ledger = data
	return nil
}
