package patches

import (
	"bytes"
	"fmt"
	"strings"
)

// Placeholders in appended content, filled when it is applied.
const (
	placeName    = "@specrun:name@"
	placeVersion = "@specrun:version@"
	placeHash    = "@specrun:hash@" // first 12 hex digits of the content hash
)

// applyAppend puts the fenced block behind the file's own bytes. The result
// starts with src, and Fence.Cut gives src back.
func applyAppend(p *Patch, t Target, src []byte) ([]byte, error) {
	fences, err := FindFence(src)
	if err != nil {
		return nil, &Conflict{Patch: p.String(), Target: t.Name(), Reason: "damaged block of an earlier patch: " + err.Error()}
	}
	for _, f := range fences {
		if f.Name != p.Name {
			continue
		}
		if f.SHA256 != p.SHA256() {
			return nil, &Conflict{Patch: p.String(), Target: t.Name(), Reason: fmt.Sprintf("line %d holds another version of it (%s, sha256:%.12s)", f.Line, f.Version, f.SHA256)}
		}
		before := f.Cut(src)[:f.Start]
		if !bytes.Equal(src[f.Start:f.End], block(p, t, before)) {
			return nil, &Conflict{Patch: p.String(), Target: t.Name(), Reason: fmt.Sprintf("its block from line %d on was changed by hand", f.Line)}
		}
		return nil, ErrAlreadyApplied
	}
	return append(bytes.Clone(src), block(p, t, src)...), nil
}

// block is what is put behind src.
func block(p *Patch, t Target, src []byte) []byte {
	end := dominantEnd(splitLines(src))
	var b strings.Builder
	terminated := len(src) == 0 || src[len(src)-1] == '\n' || src[len(src)-1] == '\r'
	if !terminated {
		b.WriteString("\n")
	}
	b.WriteString(startMark(p) + "\n")
	if !terminated {
		b.WriteString(noNewlineMark + "\n")
	}
	b.Write(fill(p, t.Content))
	b.WriteString(endMark(p) + "\n")
	return withEnds([]byte(b.String()), end)
}

func fill(p *Patch, content []byte) []byte {
	r := strings.NewReplacer(placeName, p.Name, placeVersion, p.Version, placeHash, p.SHA256()[:12])
	return []byte(r.Replace(string(content)))
}
