package deploy

import (
	"errors"
	"fmt"
	"path"
	"strings"
)

// replaceable checks what would make replacing the file fail half way.
func (b *planner) replaceable(k known) error {
	file, folder := k.file, path.Dir(k.file.Path)
	if err := cleanPath(file.Path); err != nil {
		return &ConflictError{Host: b.facts.Host, Path: file.Path, Err: err}
	}
	no := func(reason, next string) error {
		return &ConflictError{Host: b.facts.Host, Path: file.Path, Reason: reason, Next: next}
	}
	switch {
	case file.Mount.Point == file.Path:
		return no("it is bind-mounted by itself, so it cannot be replaced in one step", "patch the file that is mounted there, or inside the container before it is mounted")
	case file.Mount.ReadOnly:
		return no("its file system is mounted read-only at "+file.Mount.Point, "use an environment on a writable file system")
	case file.Frozen || file.Folder.Frozen:
		return no("it or its folder has the immutable or append-only attribute", "chattr -i -a it, or leave it alone: someone set that on purpose")
	case !file.Folder.Writable:
		return no(fmt.Sprintf("user %s cannot write to its folder, which belongs to %s", b.facts.User, file.Folder.Owner), "act as "+file.Folder.Owner)
	case file.Folder.Sticky:
		return no(fmt.Sprintf("its folder lets only %s replace it", file.Owner), "act as "+file.Owner)
	case !file.CanChown:
		return no(fmt.Sprintf("it belongs to %s and user %s could not give the new file back", file.Owner, b.facts.User), "act as "+file.Owner)
	case len(file.CacheStuck) > 0:
		return no("a compiled copy would be used instead and cannot be removed: "+strings.Join(file.CacheStuck, ", "), "have its owner remove it")
	}
	if file.Links > 1 {
		b.note("%s has %d hard links (an installer's cache): only this one changes", file.Path, file.Links)
	}
	if len(file.CacheFolders) > 0 {
		prefix := strings.TrimSuffix(file.CacheFolders[0], folder)
		b.plan.cachePrefix = prefix
	}
	return nil
}

// spaceMargin is for blocks, folders and the transaction itself, in bytes.
const spaceMargin = 64 << 10

// checkSpace compares what will be written with what is free: new contents
// beside the old ones, and what is kept in the state folder.
func (b *planner) checkSpace() error {
	type need struct {
		bytes, inodes int64
		space         Space
		path          string
	}
	needs := map[uint64]*need{}
	add := func(s Space, where string, size int) {
		n := needs[s.Device]
		if n == nil {
			n = &need{bytes: spaceMargin, inodes: 8, space: s, path: where}
			needs[s.Device] = n
		}
		n.bytes += int64(size) + 4096
		n.inodes++
	}
	state := b.facts.state(b.plan.StateDir)
	if state == nil || b.plan.Empty() {
		return nil
	}
	for _, f := range b.plan.Files {
		if f.Action == Keep {
			continue
		}
		add(state.Space, state.Path, len(f.old)+len(f.ledger))
		if file := b.facts.file(f.Path); file != nil && f.tx.Stage != "-" {
			add(file.Folder.Space, path.Dir(f.Path), len(f.new))
		}
	}
	for _, blob := range b.plan.blobs {
		add(state.Space, state.Path, len(blob))
	}
	var errs []error
	for _, n := range needs {
		full := &DiskFullError{Host: b.facts.Host, Path: n.path, Mount: n.path, FreeBytes: n.space.Free, FreeInodes: n.space.Inodes}
		switch {
		case n.space.Inodes >= 0 && n.space.Inodes < n.inodes:
			full.FreeInodes = 0 // none to spare
			errs = append(errs, full)
		case n.space.Free >= 0 && n.space.Free < n.bytes:
			errs = append(errs, full)
		}
	}
	return errors.Join(errs...)
}
