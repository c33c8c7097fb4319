package deploy

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
)

// ledgerSchema is the version of the JSON below. A ledger of another schema is
// refused, never rewritten.
const ledgerSchema = 1

// historyLimit bounds a ledger's history; the journal has all of it.
const historyLimit = 50

// Ledger is what specrun knows about one real file that it changed. An empty
// Stack means that the file has its pristine content again.
type Ledger struct {
	Schema          int     `json:"schema"`
	Path            string  `json:"path"`
	Link            string  `json:"link,omitempty"` // as the interpreter finds it, where that is another path
	Engine          string  `json:"engine,omitempty"`
	EngineVersion   string  `json:"engine_version,omitempty"`
	Python          string  `json:"python,omitempty"` // that changed it last
	PristineSHA256  string  `json:"pristine_sha256"`
	PristineVerdict Verdict `json:"pristine_verdict"` // pristine or pre-edited
	PristineMtimeNs int64   `json:"pristine_mtime_ns"`
	CurrentSHA256   string  `json:"current_sha256"`
	LastMtime       int64   `json:"last_mtime"` // newest whole second ever given to the file
	Stack           []Layer `json:"stack"`
	History         []Entry `json:"history"`
}

// Layer is one patch in a file's stack, the lowest first.
type Layer struct {
	Name      string `json:"name"`
	Version   string `json:"version"`
	Blob      string `json:"blob"`   // SHA-256 of the whole patch, kept on the host
	Target    string `json:"target"` // which target of the patch the file is
	AppliedUs int64  `json:"applied_us"`
	By        string `json:"by"`
}

func (l Layer) same(o Layer) bool {
	return l.Name == o.Name && l.Blob == o.Blob && l.Target == o.Target
}

// fileID names a file's ledger, folderKey the lock and claim of a folder.
func fileID(path string) string { return hashText(path)[:20] }

func folderKey(folder string) string { return hashText(folder)[:20] }

func hashText(s string) string { return hashBytes([]byte(s)) }

func hashBytes(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

func decodeLedger(data []byte) (*Ledger, error) {
	var l Ledger
	if err := json.Unmarshal(data, &l); err != nil {
		return nil, err
	}
	if l.Schema != ledgerSchema {
		return nil, fmt.Errorf("schema %d is not known to this version", l.Schema)
	}
	return &l, nil
}

func (l *Ledger) encode() ([]byte, error) {
	data, err := json.MarshalIndent(l, "", " ")
	if err != nil {
		return nil, fmt.Errorf("write the ledger of %s: %w", l.Path, err)
	}
	return append(data, '\n'), nil
}

func layerNames(ls []Layer) []string {
	names := make([]string, len(ls))
	for i, l := range ls {
		names[i] = l.Name
	}
	return names
}

// Entry is one change in a ledger's history.
type Entry struct {
	AtUs    int64    `json:"at_us"` // the host's clock
	Tx      string   `json:"tx"`
	By      string   `json:"by"`
	Action  Action   `json:"action"`
	Pre     string   `json:"pre"`
	Post    string   `json:"post"`
	Patches []string `json:"patches"`        // the stack afterwards
	Kept    string   `json:"kept,omitempty"` // foreign content that was overwritten, as a blob
}
