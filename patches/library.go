package patches

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

//go:embed library
var library embed.FS

// Library loads the built-in patches, sorted by name. It fails only when a
// build of specrun carries a faulty one.
func Library() ([]*Patch, error) {
	root, err := fs.Sub(library, "library")
	if err != nil {
		return nil, err
	}
	entries, err := fs.ReadDir(root, ".")
	if err != nil {
		return nil, err
	}
	var ps []*Patch
	for _, e := range entries {
		if _, err := fs.Stat(root, e.Name()+"/"+manifestName); err != nil {
			continue // what patches share
		}
		p, err := LoadDir(root, e.Name())
		if err != nil {
			return nil, fmt.Errorf("built-in patch: %w", err)
		}
		ps = append(ps, p)
	}
	return ps, nil
}

// Lookup finds a patch by name: in the given folders of patches, in order, then
// among the built-in ones. A name that holds a path separator is itself the
// folder of a patch. One that is nowhere is a *NotFoundError. Folders that do
// not exist are passed over.
func Lookup(name string, dirs ...string) (*Patch, error) {
	if strings.ContainsRune(name, filepath.Separator) || name == "." || name == ".." {
		return loadOS(name)
	}
	known, err := Library()
	if err != nil {
		return nil, err
	}
	var all []string
	for _, p := range known {
		all = append(all, p.Name)
	}
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("look for patch %s: %w", name, err)
		}
		for _, e := range entries {
			if !e.IsDir() {
				continue
			}
			if e.Name() == name {
				return loadOS(filepath.Join(dir, name))
			}
			all = append(all, e.Name())
		}
	}
	if i := slices.IndexFunc(known, func(p *Patch) bool { return p.Name == name }); i >= 0 {
		return known[i], nil
	}
	return nil, &NotFoundError{Name: name, Nearest: nearest(name, all), Looked: append(slices.Clone(dirs), "the built-in patches")}
}

// loadOS loads a folder of this machine; its faults name the file as the user
// would.
func loadOS(dir string) (*Patch, error) {
	p, err := LoadDir(os.DirFS(dir), ".")
	var fault *LoadError
	if errors.As(err, &fault) {
		fault.File = filepath.Join(dir, fault.File)
	}
	return p, err
}
