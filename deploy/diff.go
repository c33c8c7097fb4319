package deploy

import (
	"strings"

	"github.com/rogpeppe/go-internal/diff"
)

// Diff is what the plan changes, as a unified diff; "" when no content changes.
func (p *Plan) Diff() string {
	var b strings.Builder
	for _, f := range p.Files {
		if f.Action != Patch && f.Action != Restore {
			continue
		}
		d := diff.Diff("a"+f.Path, f.old, "b"+f.Path, f.new)
		// Its first line repeats the names in the form of the diff command.
		if _, rest, ok := strings.Cut(string(d), "\n"); ok {
			b.WriteString(rest)
		}
	}
	return b.String()
}
