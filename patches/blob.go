package patches

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
)

// blob is a patch as it is kept and sent. encoding/json sorts the files, so
// equal patches have equal blobs.
type blob struct {
	Schema   int               `json:"specrun_patch"`
	Manifest []byte            `json:"manifest"` // patch.yaml as written
	Files    map[string][]byte `json:"files"`
}

const blobSchema = 1

// Marshal gives the patch as one self-contained blob. Equal patches give equal
// bytes, and their SHA-256 is p.SHA256().
func (p *Patch) Marshal() ([]byte, error) {
	b, err := json.Marshal(blob{Schema: blobSchema, Manifest: p.manifest, Files: p.files})
	if err != nil {
		return nil, fmt.Errorf("marshal patch %s: %w", p, err)
	}
	return append(b, '\n'), nil
}

// Unmarshal reads what Marshal wrote, as strictly as LoadDir reads a folder.
func Unmarshal(data []byte) (*Patch, error) {
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	var b blob
	if err := d.Decode(&b); err != nil {
		return nil, fmt.Errorf("read patch blob: %w", err)
	}
	if b.Schema != blobSchema {
		return nil, fmt.Errorf("read patch blob: schema %d is not known to this version", b.Schema)
	}
	p, err := load(manifestName, b.Manifest, func(name string) ([]byte, error) {
		content, ok := b.Files[name]
		if !ok {
			return nil, fs.ErrNotExist
		}
		return content, nil
	})
	if err != nil {
		return nil, fmt.Errorf("read patch blob: %w", err)
	}
	if len(p.files) != len(b.Files) {
		return nil, errors.New("read patch blob: it holds files that its patch.yaml does not name")
	}
	return p, nil
}

func blobSHA(p *Patch) string {
	b, err := p.Marshal()
	if err != nil {
		panic(err) // bytes and strings only: encoding/json cannot fail on them
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}
