package patches

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
)

// An appended block lies between two comment lines. The first names the patch,
// its version and its content hash. The second line of a block may say that
// the file had no newline at its end: the one before the block is then ours.
const noNewlineMark = "# specrun: the file had no newline at its end"

var (
	fenceStart = regexp.MustCompile(`^# >>> specrun (\S+) (\S+) sha256:([0-9a-f]{64}) >>>$`)
	fenceEnd   = regexp.MustCompile(`^# <<< specrun (\S+) <<<$`)
)

func startMark(p *Patch) string {
	return fmt.Sprintf("# >>> specrun %s %s sha256:%s >>>", p.Name, p.Version, p.SHA256())
}

func endMark(p *Patch) string { return fmt.Sprintf("# <<< specrun %s <<<", p.Name) }

// Fence is an appended block found in a file.
type Fence struct {
	Name, Version string
	SHA256        string // content hash of the patch that it came from
	Line          int    // 1-based, of its first mark
	// Start and End are the byte span to cut so that the file is as before the
	// block was appended, the newline that was added before it included.
	Start, End int
}

// FindFence lists the appended blocks of a file in order. Damaged marks are a
// *FenceError: a start without its end, an end without its start, one block
// inside another.
func FindFence(src []byte) ([]Fence, error) {
	if !bytes.Contains(src, []byte(" specrun ")) {
		return nil, nil
	}
	var fences []Fence
	var open *Fence
	at := 0
	lines := splitLines(src)
	for i, l := range lines {
		start := at
		at += len(l.text) + len(l.end)
		text := string(l.text)
		if !strings.HasPrefix(text, "# >>> ") && !strings.HasPrefix(text, "# <<< ") {
			continue
		}
		if m := fenceStart.FindStringSubmatch(text); m != nil {
			if open != nil {
				return nil, &FenceError{Line: i + 1, Msg: fmt.Sprintf("block of %s begins inside the block of %s that began in line %d", m[1], open.Name, open.Line)}
			}
			open = &Fence{Name: m[1], Version: m[2], SHA256: m[3], Line: i + 1, Start: start}
			if i > 0 && i+1 < len(lines) && string(lines[i+1].text) == noNewlineMark {
				open.Start -= len(lines[i-1].end)
			}
			continue
		}
		if m := fenceEnd.FindStringSubmatch(text); m != nil {
			if open == nil || open.Name != m[1] {
				return nil, &FenceError{Line: i + 1, Msg: fmt.Sprintf("block of %s ends here but does not begin", m[1])}
			}
			open.End = at
			fences = append(fences, *open)
			open = nil
		}
	}
	if open != nil {
		return nil, &FenceError{Line: open.Line, Msg: fmt.Sprintf("block of %s begins here but does not end", open.Name)}
	}
	return fences, nil
}

// Cut gives the file without the block, byte for byte as before it was
// appended. f must come from FindFence on the same bytes.
func (f Fence) Cut(src []byte) []byte {
	return append(bytes.Clone(src[:f.Start]), src[f.End:]...)
}
