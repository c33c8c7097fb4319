package bench

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Cache is a folder of compiled kernels before and after the measured part. A
// cold cache makes the first requests slow, and one that grows meanwhile says
// that kernels were compiled in the measurement.
type Cache struct {
	Path   string     `json:"path"` // as Watch has it
	Before CacheState `json:"before"`
	After  CacheState `json:"after"`
}

// CacheState is how such a folder looked. Zero for one that is not there.
type CacheState struct {
	Files    int   `json:"files"`
	NewestUs int64 `json:"newest_us"`     // latest modification; the host's clock
	Cut      bool  `json:"cut,omitempty"` // there is more than was looked at
	// Last is the file at which the look was cut, relative to the folder. The look
	// after the measured part ends there, too.
	Last string `json:"last,omitempty"`
}

// Changed says whether files were added, removed or written among those that
// both looks saw. It is not known when the second look did not get as far as the
// first, and nothing newer or more was seen until there.
func (c Cache) Changed() (changed, known bool) {
	more := c.After.Files > c.Before.Files || c.After.NewestUs > c.Before.NewestUs
	switch {
	case c.Before.Cut && c.Before.Last == "": // of an earlier version, which did not say where
		return false, false
	case c.After.Cut:
		return more, more
	}
	return c.Before.Files != c.After.Files || c.Before.NewestUs != c.After.NewestUs, true
}

// CachesChanged names the caches that changed in the measured part; known is
// false when of none it can be said.
func (s Surroundings) CachesChanged() (changed []string, known bool) {
	for _, c := range s.Caches {
		did, can := c.Changed()
		if did {
			changed = append(changed, c.Path)
		}
		known = known || can
	}
	return changed, known
}

// A look at a cache ends after so many files or so long; then it says Cut. The
// second one may take longer: it has to get as far as the first.
const (
	maxCacheFiles  = 50_000
	maxCacheLook   = 300 * time.Millisecond
	maxCacheSecond = 3 * maxCacheLook
)

// within bounds a look.
func within(limit time.Duration) func(files int) bool {
	began := time.Now()
	return func(files int) bool {
		return files >= maxCacheFiles || files%512 == 0 && time.Since(began) > limit
	}
}

// lookAtCache looks at the files of a folder in the order of their names, as
// long as enough says no of their number, or until that file, which is counted
// too; "" is all.
func lookAtCache(path, until string, enough func(files int) bool) CacheState {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		home, err := os.UserHomeDir()
		if err != nil {
			return CacheState{}
		}
		path = filepath.Join(home, rest)
	}
	var s CacheState
	// What cannot be read is left out: it is so before and after.
	err := filepath.WalkDir(path, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		// A lock is taken also by who only reads.
		if !d.Type().IsRegular() || strings.HasSuffix(d.Name(), ".lock") || d.Name() == "lock" {
			return nil
		}
		rel, err := filepath.Rel(path, name)
		if err != nil {
			return nil
		}
		if until != "" && walked(rel, until) > 0 {
			return fs.SkipAll
		}
		s.Files++
		if info, err := d.Info(); err == nil {
			s.NewestUs = max(s.NewestUs, info.ModTime().UnixMicro())
		}
		if rel != until && enough(s.Files) {
			s.Cut, s.Last = true, rel
			return fs.SkipAll
		}
		return nil
	})
	if err != nil {
		return CacheState{Cut: true} // what is there is not known
	}
	return s
}

// walked compares two paths by the order in which a walk comes to them: by the
// names of folders, not by the text with its separators.
func walked(a, b string) int {
	separator := string(filepath.Separator)
	return slices.Compare(strings.Split(a, separator), strings.Split(b, separator))
}
