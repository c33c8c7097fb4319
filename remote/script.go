package remote

import (
	"crypto/rand"
	_ "embed"
	"encoding/hex"
	"fmt"
	"strings"
	"time"
)

// The only two command lines ever sent to a host. They hold no value, so no
// login shell can misread one: sh, bash, zsh, csh and fish agree on them.
const (
	execLine = "/bin/sh -s"
	// Reads a script up to a line ".", byte by byte, and leaves the rest of
	// standard input to it. dash reads a script given by -s in blocks and would
	// swallow what follows.
	execPayloadLine = `/bin/sh -c '` + payloadReader + `'`
	payloadReader   = `n=$(printf "\nx");n=${n%x};s=;while IFS= read -r l;do [ "$l" = . ]&&break;s=$s$l$n;done;eval "$s"`
)

// DefaultScriptTimeout bounds a script whose Timeout is 0.
const DefaultScriptTimeout = 60 * time.Second

//go:embed scripts/frame.sh
var frameText string

// Script is one POSIX shell script. It works alike under dash, bash and busybox.
type Script struct {
	Name string // for errors and logs: "facts", "commit"
	// Text holds function definitions only, among them main, and cleanup where
	// something must happen at every exit (it gets the status as $1; it replaces
	// "trap ... EXIT", which belongs to the frame). main runs in the shell
	// itself, not in a subshell: $$ is the script.
	Text string
	// Vars become quoted assignments before the functions.
	Vars []Var
	// Timeout bounds the script itself, 0 is DefaultScriptTimeout. At its end
	// the script's processes are ended, as on cancel.
	Timeout time.Duration
	// Grace is the time between SIGTERM and SIGKILL when the script is ended,
	// 0 is 2 s.
	Grace time.Duration
	// Payload, when not nil, is the script's standard input (else /dev/null).
	// A cut connection looks like the end of input, so the script must check
	// the length and hash, which the caller gives in Vars.
	Payload []byte
}

// Var is one assignment before the script. Names beginning with "specrun_"
// belong to the frame.
type Var struct{ Name, Value string }

// Outcome says what is known about a script's end.
type Outcome int

const (
	// NotStarted: the host never got the whole script; nothing of it ran.
	NotStarted Outcome = iota
	// Unknown: it was sent, its end was not seen. Ask the host.
	Unknown
	// Done: it ended and told its exit status.
	Done
)

func (o Outcome) String() string {
	switch o {
	case Done:
		return "done"
	case Unknown:
		return "unknown"
	case NotStarted:
		return "not started"
	}
	return fmt.Sprintf("Outcome(%d)", int(o))
}

// Result is what a script left. Stdout and Stderr are what was printed between
// the frame's marks, byte for byte.
type Result struct {
	Stdout, Stderr []byte
	Exit           int // valid when Outcome is Done
	Outcome        Outcome
	StderrCut      bool // more than 1 MiB came; Stderr has the first part
}

// newMarker returns 128 random bits in hex.
func newMarker() string {
	var b [16]byte
	rand.Read(b[:]) // never fails since Go 1.24
	return hex.EncodeToString(b[:])
}

// render returns the bytes to send: assignments, functions, and a last line
// that only a shell which got all of it can run.
func (s Script) render(marker string, withInput bool) (string, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "specrun_marker=%s\n", marker)
	for _, v := range s.Vars {
		if !validName(v.Name) {
			return "", fmt.Errorf("%q is no name for a variable", v.Name)
		}
		quoted, err := Quote(v.Value)
		if err != nil {
			return "", fmt.Errorf("variable %s: %w", v.Name, err)
		}
		fmt.Fprintf(&b, "%s=%s\n", v.Name, quoted)
	}
	b.WriteString(frameText)
	b.WriteString(s.Text)
	// In braces: a stream cut anywhere before the "}" is a syntax error, not a
	// shorter command.
	if withInput {
		b.WriteString("\n{ specrun_run; exit $?; }\n")
	} else {
		b.WriteString("\n{ specrun_run </dev/null; exit $?; }\n")
	}
	text := b.String()
	if strings.IndexByte(text, 0) >= 0 {
		return "", fmt.Errorf("text holds a NUL byte")
	}
	if withInput && strings.Contains(text, "\n.\n") {
		return "", fmt.Errorf(`text holds a line ".", which ends a script sent with a payload`)
	}
	return text, nil
}

func validName(name string) bool {
	for i := 0; i < len(name); i++ {
		c := name[i]
		letter := c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		if !letter && (i == 0 || c < '0' || '9' < c) {
			return false
		}
	}
	return name != "" && !strings.HasPrefix(name, "specrun_")
}
