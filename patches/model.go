package patches

// Probe says how far a patch disturbs what it measures.
type Probe string

// Probes, from none (measures nothing) to the one that changes timing most.
const (
	ProbeNone   Probe = "none"   // measures nothing
	ProbeLight  Probe = "light"  // reads clocks only
	ProbeEvents Probe = "events" // records device events, reads them later
	ProbeSync   Probe = "sync"   // waits for the device
)

// Kind says how a target's file is changed.
type Kind string

// Kinds that this version applies.
const (
	KindAppend Kind = "append"
	KindEdits  Kind = "edits"
)

// Acceptance says how a profiler counts accepted tokens.
type Acceptance string

// Ways of counting. The bonus token is the one that the target model yields
// in each step whatever was accepted of the draft.
const (
	AcceptanceNone         Acceptance = "" // prints no accept length
	AcceptanceWithBonus    Acceptance = "with-bonus"
	AcceptanceWithoutBonus Acceptance = "without-bonus"
)

// Emits is what a running server with the patch prints.
type Emits struct {
	Rows       []string // names of the rows of a text block, in order
	Acceptance Acceptance
	Phases     string // what the phases are in words; "" when there are none
}

// Patch is a named, versioned change to files of an engine. It is loaded whole
// and never changed afterwards; it is safe for concurrent use.
type Patch struct {
	Name    string
	Version string
	Summary string
	Probe   Probe
	Engine  string            // sglang, vllm; "" when it does not matter
	LabOnly bool              // of use on the practice host only
	Env     map[string]string // to set when the server starts
	Emits   Emits
	Targets []Target

	manifest []byte            // patch.yaml as written
	files    map[string][]byte // content files as written, by the name in patch.yaml
	sha      string            // of the canonical blob
}

// SHA256 is the content hash of the patch in lower-case hex: of its canonical
// blob, and so of patch.yaml and all content files.
func (p *Patch) SHA256() string { return p.sha }

// String is the name and version, as messages show them.
func (p *Patch) String() string { return p.Name + " " + p.Version }

// Target is one file that a patch changes.
type Target struct {
	Module   string // dotted Python module; "" when Path is set
	Path     string // absolute, or below the home folder (~/...); "" when Module is set
	Requires []Requirement
	Kind     Kind
	Content  []byte // of kind append: LF line ends, ASCII, placeholders not yet filled
	Edits    []Edit // of kind edits
}

// Name is the module or path, whichever the target has.
func (t Target) Name() string {
	if t.Module != "" {
		return t.Module
	}
	return t.Path
}

// Requirement is what a file must contain to be the one that the patch means.
// A name may give alternatives: "forward_batch_generation|forward_batch".
type Requirement struct {
	Class    string
	Methods  []string // of Class, its own or of a base class in the same file
	Function string   // at module level; instead of Class
	Optional bool     // only checked when the class is there
}

// Edit replaces the lines that match Find, or inserts beside them. Find and
// Text are whole lines with LF ends; the target's own line ends are used when
// they are applied.
type Edit struct {
	Find   string
	Text   string
	Action EditAction
	Line   int // of the edit in patch.yaml, for messages
}

// EditAction is what an edit does at its anchor.
type EditAction string

// Actions.
const (
	Replace EditAction = "replace"
	Before  EditAction = "before"
	After   EditAction = "after"
)
