package patches

import (
	"errors"
	"fmt"
	"strings"
)

// ErrAlreadyApplied says that the bytes already hold this very patch.
var ErrAlreadyApplied = errors.New("already applied")

// LoadError is a fault in a patch folder. Nothing was applied.
type LoadError struct {
	File         string // as the caller named it
	Line, Column int    // 1-based; 0 when the fault is the file as a whole
	Msg          string
	Suggest      string // what was probably meant; ""
}

func (e *LoadError) Error() string {
	at := e.File
	if e.Line > 0 {
		at = fmt.Sprintf("%s:%d:%d", e.File, e.Line, e.Column)
	}
	return at + ": " + e.Msg
}

// Hint says what to do next; it may be empty.
func (e *LoadError) Hint() string {
	if e.Suggest == "" {
		return ""
	}
	return fmt.Sprintf("did you mean %q?", e.Suggest)
}

// NotFoundError says that no patch has the name.
type NotFoundError struct {
	Name    string
	Nearest []string // names that look alike, best first
	Looked  []string // where it was looked for
}

func (e *NotFoundError) Error() string {
	return fmt.Sprintf("no patch %q in %s", e.Name, strings.Join(e.Looked, ", "))
}

// Hint names the patches that look alike.
func (e *NotFoundError) Hint() string {
	if len(e.Nearest) == 0 {
		return `see "specrun patch list"`
	}
	return "did you mean " + strings.Join(e.Nearest, " or ") + "?"
}

// Conflict says that a file is not as the patch needs it. The file was not
// changed, and trying again cannot help.
type Conflict struct {
	Patch      string // name and version
	Target     string // module or path
	Edit       int    // 1-based number of the edit; 0 when it is not about one
	Reason     string
	Candidates []Candidate // lines that look like the anchor, best first
}

// Candidate is a place in the file that an anchor may have meant.
type Candidate struct {
	Line int // 1-based
	Text string
	Why  string
}

func (e *Conflict) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s", e.Target, e.Patch)
	if e.Edit > 0 {
		fmt.Fprintf(&b, " edit %d", e.Edit)
	}
	b.WriteString(": " + e.Reason)
	for i, c := range e.Candidates {
		sep := "; "
		if i == 0 {
			sep = ": "
		}
		fmt.Fprintf(&b, "%sline %d (%s) %q", sep, c.Line, c.Why, c.Text)
	}
	return b.String()
}

// Hint says what to do next.
func (e *Conflict) Hint() string {
	return `the file differs from the releases that the patch was written for; see "specrun patch show" for what it needs`
}

// UnmetError says what a file lacks of a target's requires.
type UnmetError struct {
	Target  string
	Missing []string // "class EAGLEWorker", "method EAGLEWorker.draft", ...
	Have    []string // classes that the file does have
}

func (e *UnmetError) Error() string {
	return fmt.Sprintf("%s has no %s", e.Target, strings.Join(e.Missing, ", no "))
}

// Hint lists what the file has instead.
func (e *UnmetError) Hint() string {
	if len(e.Have) == 0 {
		return "the file defines no class; is it the right module?"
	}
	return "the file defines " + strings.Join(e.Have, ", ")
}

// FenceError says that the marks of an appended block are damaged.
type FenceError struct {
	Line int // 1-based
	Msg  string
}

func (e *FenceError) Error() string { return fmt.Sprintf("line %d: %s", e.Line, e.Msg) }
