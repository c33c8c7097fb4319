package deploy

import (
	"encoding/json"

	"specrun/patches"
)

// Facts is what one host looked like at one moment: everything a plan needs,
// and nothing that a plan decides. Times are the host's.
type Facts struct {
	Host        string   `json:"-"`
	Interpreter string   `json:"interpreter"` // sys.executable of the interpreter that answered
	Version     string   `json:"version"`     // of Python
	Scoped      bool     `json:"-"`           // an interpreter was named: only what it sees is ours to change
	Full        bool     `json:"-"`           // contents and preconditions were read too
	SysPath     []string `json:"sys_path"`    // real paths
	User        string   `json:"user"`
	UID         int      `json:"uid"`
	HostID      string   `json:"host_id"` // machine and PID namespace
	Now         float64  `json:"now"`     // seconds since the epoch
	StateDir    string   `json:"state_dir"`

	Asked     []Asked                `json:"-"`
	Found     []Found                `json:"targets"` // one for each Asked
	Files     []*FileFacts           `json:"files"`
	Folders   map[string]FolderFacts `json:"folders"` // that hold one of Files
	States    []*StateFacts          `json:"states"`  // the user's, and those that claims name
	Engines   map[string]Engine      `json:"engines"` // by top-level package
	Processes []Process              `json:"processes"`
}

// Asked is a target of a patch that facts were wanted about.
type Asked struct {
	Patch  *patches.Patch
	Target patches.Target
}

// Found is where the interpreter finds a target.
type Found struct {
	Path     string   `json:"found"` // as imported; "" = not found
	Real     string   `json:"real"`  // with symlinks resolved
	Searched []string `json:"searched"`
	Error    string   `json:"error"`
}

// FileFacts describes one real file. Only Path, Exists and Error are set for
// one that cannot be read; what follows Git only when Facts.Full.
type FileFacts struct {
	Path    string   `json:"path"`
	Exists  bool     `json:"exists"`
	Error   string   `json:"error"`
	Size    int64    `json:"size"`
	SHA256  string   `json:"sha256"`
	Mode    uint32   `json:"mode"` // permission bits
	UID     int      `json:"uid"`
	GID     int      `json:"gid"`
	Owner   string   `json:"owner"`
	Links   int      `json:"nlink"`
	MtimeNs int64    `json:"mtime_ns"`
	Fenced  bool     `json:"fenced"` // holds the mark of an appended block
	Release *Release `json:"release"`
	Git     *Git     `json:"git"`

	Content      packed          `json:"content"`
	Outline      patches.Outline `json:"outline"`
	Folder       FolderState     `json:"folder"`
	Frozen       bool            `json:"frozen"` // immutable or append-only
	Mount        Mount           `json:"mount"`
	CacheFolders []string        `json:"cache_folders"` // of compiled copies, beside __pycache__
	CacheStuck   []string        `json:"cache_stuck"`   // compiled copies that are used unseen and cannot be removed
	CanChown     bool            `json:"can_chown"`     // owner and group can be given to a new file
}

// Release is what the RECORD of the installed package says about a file.
type Release struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	SHA256  string `json:"sha256"`
}

// Git is the state of a file in a source checkout: clean, modified, untracked
// or unknown.
type Git struct {
	Root  string `json:"root"`
	State string `json:"state"`
}

// FolderState says whether files can be replaced in a folder.
type FolderState struct {
	Writable bool   `json:"writable"`
	Sticky   bool   `json:"sticky"` // only the file's owner may replace it
	Owner    string `json:"owner"`
	Frozen   bool   `json:"frozen"`
	Space    Space  `json:"space"`
}

// Space is what is free for us on a file system; -1 is unknown.
type Space struct {
	Free   int64  `json:"free"` // bytes
	Inodes int64  `json:"inodes"`
	Device uint64 `json:"device"`
}

// Mount is the file system a file lies on.
type Mount struct {
	Type     string `json:"type"`
	Point    string `json:"point"` // equal to the file's path: the file itself is bind-mounted
	ReadOnly bool   `json:"read_only"`
}

// FolderFacts is what of ours lies in a folder.
type FolderFacts struct {
	Claim  *Claim  `json:"claim"`
	Stages []Stage `json:"stages"`
}

// Claim says whose ledger counts in a folder.
type Claim struct {
	User     string `json:"user"`
	StateDir string `json:"state_dir"`
	HostID   string `json:"host_id"`
	Owner    string `json:"owner"` // of the claim file
}

// Stage is a private folder with staged content.
type Stage struct {
	ID   string  `json:"id"`
	Age  float64 `json:"age"` // seconds
	Mine bool    `json:"mine"`
}

// StateFacts is one state folder.
type StateFacts struct {
	Path         string            `json:"path"`
	Exists       bool              `json:"exists"`
	Writable     bool              `json:"writable"`
	Shared       bool              `json:"shared"` // setgid: its group uses it too
	Owner        string            `json:"owner"`
	Error        string            `json:"error"`
	Space        Space             `json:"space"`
	Ledgers      []document        `json:"ledgers"`
	Transactions []transactionFile `json:"transactions"`
	Blobs        map[string]packed `json:"blobs"`  // of those asked for that are there
	Sweeps       []string          `json:"sweeps"` // that hold a patch set of this folder, in words
}

// document is a JSON file of the state folder as it was read.
type document struct {
	Name   string          `json:"name"`
	SHA256 string          `json:"sha256"`
	Error  string          `json:"error"`
	JSON   json.RawMessage `json:"json"`
}

// transactionFile is a transaction found in a state folder.
type transactionFile struct {
	document
	ID      string   `json:"id"`
	Phase   string   `json:"phase"`   // staged, prepared, done
	Folders []string `json:"folders"` // that it is about
	Age     float64  `json:"age"`     // seconds
}

// Engine is an installed engine, from its metadata.
type Engine struct {
	Name     string   `json:"name"`
	Version  string   `json:"version"`
	DistInfo string   `json:"dist_info"`
	Editable bool     `json:"editable"`
	Folders  []string `json:"folders"`
}

// Process is a process that was started with the engine.
type Process struct {
	PID     int      `json:"pid"`
	User    string   `json:"user"`
	Started float64  `json:"started"` // seconds since the epoch
	Argv    []string `json:"argv"`
}

func (f *Facts) file(path string) *FileFacts {
	for _, x := range f.Files {
		if x.Path == path {
			return x
		}
	}
	return nil
}

func (f *Facts) state(path string) *StateFacts {
	for _, s := range f.States {
		if s.Path == path {
			return s
		}
	}
	return nil
}

// engineOf returns the engine that a target belongs to.
func (f *Facts) engineOf(target string) Engine {
	for top, e := range f.Engines {
		if len(target) > len(top) && target[:len(top)+1] == top+"." {
			return e
		}
	}
	return Engine{}
}
