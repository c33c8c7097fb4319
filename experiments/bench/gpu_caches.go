package bench

import (
	"io/fs"
	"os"
	"path/filepath"
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
}

// Changed says that files were added, removed or written.
func (c Cache) Changed() bool {
	return c.Before.Files != c.After.Files || c.Before.NewestUs != c.After.NewestUs
}

// CachesChanged names the caches that changed in the measured part; known is
// false when none was looked at.
func (s Surroundings) CachesChanged() (changed []string, known bool) {
	for _, c := range s.Caches {
		if c.Changed() {
			changed = append(changed, c.Path)
		}
	}
	return changed, len(s.Caches) > 0
}

// A look at a cache ends after so many files or so long; then it says Cut.
const (
	maxCacheFiles = 50_000
	maxCacheLook  = 300 * time.Millisecond
)

func lookAtCache(path string) CacheState {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		home, err := os.UserHomeDir()
		if err != nil {
			return CacheState{}
		}
		path = filepath.Join(home, rest)
	}
	var s CacheState
	began := time.Now()
	// What cannot be read is left out: it is so before and after.
	_ = filepath.WalkDir(path, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil
		}
		// A lock is taken also by who only reads.
		if !d.Type().IsRegular() || strings.HasSuffix(d.Name(), ".lock") || d.Name() == "lock" {
			return nil
		}
		if s.Files++; s.Files >= maxCacheFiles || s.Files%512 == 0 && time.Since(began) > maxCacheLook {
			s.Cut = true
			return fs.SkipAll
		}
		if info, err := d.Info(); err == nil {
			s.NewestUs = max(s.NewestUs, info.ModTime().UnixMicro())
		}
		return nil
	})
	return s
}
