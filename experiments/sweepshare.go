package experiments

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

	"specrun/deploy/server"
)

// share is the sweep's part in the patch set of one interpreter.
type share struct {
	folders []string // of its files, as leases name them
	files   []string
	set     string     // that it has a share in, by content; "" none now
	found   PatchState // before the sweep's first change, or that of who shares it
	unknown bool       // it could not be read
}

// setOf names a patch set: by content and order, and in words.
func setOf(refs []PatchRef) (set, words string) {
	if len(refs) == 0 {
		return "none", "no patches"
	}
	var shas, names []string
	for _, r := range refs {
		shas = append(shas, r.SHA256)
		names = append(names, r.Name)
	}
	sum := sha256.Sum256([]byte(strings.Join(shas, "\n")))
	return hex.EncodeToString(sum[:6]), "the patches " + strings.Join(names, ", ")
}

// lease names of a share with a set.
func (s *share) lease(set, owner string) []string {
	var names []string
	for _, f := range s.folders {
		names = append(names, server.SharedPatchesLease(f, set, owner))
	}
	return names
}

// wanted is the patch set of the first launch of each interpreter and environment.
func (x *execution) wanted(key string, cell int) []PatchRef {
	for _, l := range x.plan.Launches {
		if len(l.Runs) > 0 {
			if s := x.plan.Cells[l.Runs[0].Cell].Server; s.where().key() == key {
				return s.Patches
			}
		}
	}
	return x.plan.Cells[cell].Server.Patches
}

// readShares finds the folders that the plan's patch sets are in: those of the
// files, since several interpreters may see the same ones. Where no file is known
// the interpreter and its environment stand for them.
func (h *held) readShares(ctx context.Context) error {
	x := h.x
	h.shares = map[string]*share{}
	if x.plan.attaches() || x.plan.disposable() {
		return nil
	}
	for _, cell := range x.wheres() {
		w := x.whereOf(cell)
		state, err := x.host.Patcher.Current(ctx, w)
		if err != nil && (ctx.Err() != nil || hostLost(err)) {
			return err // any other error is told by the launch that needs the interpreter
		}
		s := &share{found: state, unknown: err != nil}
		if known, ok := x.found[w.key()]; ok {
			s.found = known.State
		}
		s.set, _ = setOf(x.wanted(w.key(), cell))
		if len(state.Files) == 0 {
			s.folders = append(s.folders, folderLease(w.key()))
		}
		for _, f := range state.Files {
			s.files = append(s.files, f.Path)
			s.folders = append(s.folders, folderLease(path.Dir(f.Path)))
		}
		slices.Sort(s.folders)
		s.folders = slices.Compact(s.folders)
		slices.Sort(s.files)
		h.shares[w.key()] = s
	}
	return nil
}

func folderLease(what string) string {
	sum := sha256.Sum256([]byte(what))
	return hex.EncodeToString(sum[:6])
}

// sharedFound is what a sweep lets those know who share its patch set.
type sharedFound struct {
	Key   string     `json:"key"`
	State PatchState `json:"state"`
}

func (h *held) foundText() (string, error) {
	var all []sharedFound
	for _, key := range sortedKeys(h.shares) {
		if s := h.shares[key]; !s.unknown {
			all = append(all, sharedFound{key, s.found})
		}
	}
	text, err := json.Marshal(all)
	if err != nil {
		return "", fmt.Errorf("what was found: %w", err)
	}
	return string(text), nil
}

// adopt takes over what those found whose patch set the sweep shares: what it
// would find itself is their work.
func (h *held) adopt(sharers []server.Sharer) {
	if h.x.found != nil {
		return // it was there before
	}
	for _, by := range sharers {
		var all []sharedFound
		if json.Unmarshal([]byte(by.Found), &all) != nil {
			continue // of another specrun, which says it otherwise
		}
		for _, f := range all {
			var files []string
			for _, file := range f.State.Files {
				files = append(files, file.Path)
			}
			slices.Sort(files)
			for key, s := range h.shares {
				if key == f.Key || len(files) > 0 && slices.Equal(files, s.files) {
					s.found, s.unknown = f.State, false
					h.x.inherit(key, f.State, by.Launch)
				}
			}
		}
	}
}

// inherit notes what an earlier sweep found, instead of what this one finds.
func (x *execution) inherit(key string, s PatchState, from string) {
	if x.inherited == nil {
		x.inherited = map[string]PatchState{}
	}
	if _, ok := x.inherited[key]; !ok {
		x.inherited[key] = s
		x.note(fmt.Sprintf("%s: shares the patched files with %s; what that found is put back by the last one to end", x.plan.Host.Name, from))
	}
}

// want changes the sweep's share to another patch set, before a launch changes the
// files: it has to be alone with them, or with those who want that set too. While
// it waits for that it has no share at all, since another one may wait for the
// same. a is the launch.
func (h *held) want(ctx context.Context, a *attempt, key string, refs []PatchRef) error {
	s := h.shares[key]
	set, words := setOf(refs)
	if s == nil || s.set == set {
		return nil
	}
	x := h.x
	names := s.lease(set, h.owner.Launch)
	var before []string
	if s.set != "" {
		before = s.lease(s.set, h.owner.Launch)
	}
	err := x.waiting(ctx, a, func() error {
		err := h.acquire(ctx, names, words)
		if len(before) > 0 && (err == nil || x.deps.Wait > 0 && errors.As(err, new(*server.HeldError))) {
			h.remove(before...)
			s.set = ""
			if err := x.host.Leases.Release(ctx, before, h.owner); err != nil {
				return err
			}
			before = nil
		}
		return err
	})
	if err == nil {
		s.set = set
	}
	return err
}

// publish lets those who share the patch set know what was really found, when that
// is not what the sweep saw before it had its leases.
func (h *held) publish(ctx context.Context, found []foundPatches) error {
	changed := false
	var names []string
	for _, f := range found {
		s := h.shares[h.x.whereOf(f.Cell).key()]
		if s == nil || f.Error != "" {
			continue
		}
		names = append(names, s.lease(s.set, h.owner.Launch)...)
		changed = changed || !s.found.isAs(f.State)
		s.found = f.State
	}
	if !changed {
		return nil
	}
	slices.Sort(names)
	return h.acquire(ctx, slices.Compact(names), "")
}

// last says that nobody else has a share in an interpreter's patch set: then the
// sweep has it alone until release. Else other has, and puts back what was found.
func (h *held) last(ctx context.Context, key string) (other *server.Lease, err error) {
	s := h.shares[key]
	if s == nil {
		return nil, nil
	}
	var whole []string
	for _, f := range s.folders {
		whole = append(whole, server.PatchesLease(f))
	}
	other, err = h.x.host.Leases.Last(ctx, whole, h.owner, h.x.deps.LeaseTTL)
	switch {
	case err != nil:
		return nil, err
	case other != nil:
		h.remove(s.lease(s.set, h.owner.Launch)...)
		s.set = ""
		return other, nil
	}
	h.add(whole...)
	return nil, nil
}
