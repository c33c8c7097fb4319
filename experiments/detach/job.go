package detach

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"specrun/patches"
)

// Files of a sweep's folder.
const (
	jobFile      = "job.json"
	ResultsFile  = "results.db" // what the process records to
	eventsFile   = "events.jsonl"
	nowFile      = "now.json"
	endFile      = "end.json"
	identityFile = "identity"
	reserveFile  = "end.reserve" // room for the end
)

const jobSchema = 1

// Job is what a process on a host does. The plan is in the results that lie
// beside it.
type Job struct {
	Schema      int    `json:"schema"` // 1
	SweepID     string `json:"sweep"`
	Version     string `json:"version"` // of the specrun that made it; another one refuses it
	From        string `json:"from"`    // who made it, for people
	Store       string `json:"store"`   // what the results are for; no blanks
	RetryFailed bool   `json:"retry_failed,omitempty"`
	EndOnly     bool   `json:"end_only,omitempty"` // end what is open, measure nothing
	// Wait is how long it may wait for what others have on the host.
	Wait    time.Duration `json:"wait_ns,omitempty"`
	Patches []Patch       `json:"patches,omitempty"`
}

// Patch is a patch that the plan names, whole.
type Patch struct {
	Name   string `json:"name"`
	Folder string `json:"folder,omitempty"` // where it was read from, as the plan says
	SHA256 string `json:"sha256"`
	Blob   string `json:"blob"` // as patches.Marshal writes it
}

// NewPatch packs a patch.
func NewPatch(p *patches.Patch, folder string) (Patch, error) {
	blob, err := p.Marshal()
	if err != nil {
		return Patch{}, err
	}
	return Patch{Name: p.Name, Folder: folder, SHA256: p.SHA256(), Blob: string(blob)}, nil
}

// VersionError says that a job was made by another specrun than the one that is
// to do it.
type VersionError struct{ Want, Have string }

func (e *VersionError) Error() string {
	return fmt.Sprintf("the job was made by specrun %s, and this is %s", e.Want, e.Have)
}

// ReadJob reads the job of a folder and its patches, whose contents are compared
// with their hashes. A field that this build does not know is an error: it would
// change what is measured.
func ReadJob(dir, version string) (Job, func(name string) (*patches.Patch, error), error) {
	var j Job
	raw, err := os.ReadFile(filepath.Join(dir, jobFile))
	if err != nil {
		return j, nil, err
	}
	// The version first: a newer one's fields would only say so less clearly.
	var head struct{ Version string }
	if err := json.Unmarshal(raw, &head); err != nil {
		return j, nil, fmt.Errorf("job %s: %w", filepath.Join(dir, jobFile), err)
	}
	if head.Version != version {
		return j, nil, &VersionError{Want: head.Version, Have: version}
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(&j); err != nil {
		return j, nil, fmt.Errorf("job %s: %w", filepath.Join(dir, jobFile), err)
	}
	if j.Schema != jobSchema {
		return j, nil, fmt.Errorf("job %s has schema %d, want %d", filepath.Join(dir, jobFile), j.Schema, jobSchema)
	}
	lookup, err := j.lookup()
	return j, lookup, err
}

// lookup finds the job's patches, as a plan names them: by folder, else by name.
func (j Job) lookup() (func(name string) (*patches.Patch, error), error) {
	known := map[string]*patches.Patch{}
	for _, packed := range j.Patches {
		p, err := patches.Unmarshal([]byte(packed.Blob))
		if err != nil {
			return nil, fmt.Errorf("patch %s: %w", packed.Name, err)
		}
		if p.SHA256() != packed.SHA256 {
			return nil, fmt.Errorf("patch %s: content has SHA-256 %s, the job says %s", packed.Name, p.SHA256(), packed.SHA256)
		}
		if packed.Folder != "" {
			known[packed.Folder] = p
		} else {
			known[packed.Name] = p
		}
	}
	return func(name string) (*patches.Patch, error) {
		if p := known[name]; p != nil {
			return p, nil
		}
		return patches.Lookup(name)
	}, nil
}
