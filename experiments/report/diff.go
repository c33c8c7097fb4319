package report

import (
	"cmp"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// groups of provenance, the likeliest causes of a difference first.
var groups = [...]string{"flags", "env", "patches", "code", "workload", "packages", "gpu", "host", "command"}

func compareGroups(a, b string) int {
	at := func(g string) int {
		if i := slices.Index(groups[:], g); i >= 0 {
			return i
		}
		return len(groups)
	}
	if c := cmp.Compare(at(a), at(b)); c != 0 {
		return c
	}
	return strings.Compare(a, b)
}

// DiffSides gives what differs in the provenance of two sides, of sweeps over the
// cells that both have.
func DiffSides(a, b Side) Diff {
	var cells []cellRuns
	pairs, _, _ := match(&a, &b)
	for _, p := range pairs {
		if left, right := a.done(p.a), b.done(p.b); len(left) > 0 && len(right) > 0 {
			cells = append(cells, cellRuns{a: left, b: right})
		}
	}
	if len(cells) == 0 {
		var c cellRuns
		c.a, c.partialA = a.measured(a.cells())
		c.b, c.partialB = b.measured(b.cells())
		cells = append(cells, c)
	}
	return explain(cells)
}

// sideBySide is how long two values may be together to stand in one line.
const sideBySide = 60

// WriteDiff writes what differs between two sides: the likely causes first with
// the reason, the rest by group. What differs between any two launches is only
// counted unless Options.All is set.
func WriteDiff(w io.Writer, a, b Side, d Diff, o Options) error {
	var out strings.Builder
	head := grid{}
	head.add(a.head("a")...)
	head.add(b.head("b")...)
	if err := head.write(&out); err != nil {
		return err
	}
	d.write(&out, o.All)
	_, err := io.WriteString(w, out.String())
	return err
}

// write writes the differences below whatever came before.
func (d Diff) write(out *strings.Builder, all bool) {
	told := d.Likely()
	if len(told) > 0 {
		out.WriteString("\nlikely causes, the likeliest first\n")
		for _, l := range told {
			l.write(out, fmt.Sprintf("%3d  %s  ", l.Rank, plain(l.Group)), 0, all)
		}
	}
	rest, hidden := d.Lines[len(told):], 0
	if !all {
		shown := slices.DeleteFunc(slices.Clone(rest), func(l DifferenceLine) bool { return l.Weight <= noise })
		rest, hidden = shown, len(rest)-len(shown)
	}
	if len(rest) > 0 {
		title := "\nother differences\n"
		if len(told) == 0 {
			title = "\nno difference that is known to matter; others\n"
		}
		out.WriteString(title)
		d.writeGroups(out, rest, all)
	}
	switch {
	case d.Facts == 0 && len(d.Lines) == 0 && len(d.Unknown) == 0:
		out.WriteString("\nnothing to compare: neither side has provenance\n")
	case len(d.Lines) == 0 && len(d.Unknown) > 0:
		out.WriteString("\nno difference in what is known of both\n")
	case len(d.Lines) == 0:
		fmt.Fprintf(out, "\nno difference in %s of provenance\n", plural(d.Facts, "fact"))
	default:
		fmt.Fprintf(out, "\n%s in provenance\n", plural(len(told)+len(rest), "difference"))
	}
	if len(d.Unknown) > 0 {
		fmt.Fprintf(out, "not known on one side, so not compared: %s\n", plain(strings.Join(d.Unknown, ", ")))
	}
	for _, text := range d.Varying {
		for _, line := range Wrap("changed while both sides were measured: "+plain(shortHashes(text)), noteWidth, "  ") {
			out.WriteString(line + "\n")
		}
	}
	for _, partial := range []struct {
		letter   string
		facts    int
		imported bool
	}{{"a", d.PartialA, d.ImportedA}, {"b", d.PartialB, d.ImportedB}} {
		switch {
		case partial.facts == 0:
		case partial.imported:
			fmt.Fprintf(out, "%s is imported: of %s its logs say nothing, so not compared\n", partial.letter, plural(partial.facts, "fact"))
		default:
			fmt.Fprintf(out, "no run of %s is done: %s not known of its failed runs, so not compared\n", partial.letter, plural(partial.facts, "fact"))
		}
	}
	if hidden > 0 {
		fmt.Fprintf(out, "not shown: %s that any two launches have, such as the port (-v)\n", plural(hidden, "difference"))
	}
}

// writeGroups writes lines by group, each with a width of its own.
func (d Diff) writeGroups(out *strings.Builder, lines []DifferenceLine, all bool) {
	lines = slices.Clone(lines)
	slices.SortStableFunc(lines, func(a, b DifferenceLine) int { return compareGroups(a.Group, b.Group) })
	for i := 0; i < len(lines); {
		n, width := 0, 0
		for i+n < len(lines) && lines[i+n].Group == lines[i].Group {
			if key := utf8.RuneCountInString(plain(lines[i+n].Key)); key <= sideBySide {
				width = max(width, key)
			}
			n++
		}
		for _, l := range lines[i : i+n] {
			l.write(out, "  "+plain(l.Group)+"  ", width, all)
		}
		i += n
	}
}

// write writes one difference in a line, or in several when its values are long.
func (l DifferenceLine) write(out *strings.Builder, prefix string, width int, all bool) {
	left, right := side(l.A), side(l.B)
	if !all {
		left, right = shortHashes(left), shortHashes(right)
	}
	indent := strings.Repeat(" ", 5)
	if utf8.RuneCountInString(left)+utf8.RuneCountInString(right) <= sideBySide {
		fmt.Fprintf(out, "%s%-*s  %s -> %s\n", prefix, width, plain(l.Key), left, right)
	} else {
		fmt.Fprintf(out, "%s%s\n%sa: %s\n%sb: %s\n", prefix, plain(l.Key), indent, shorten(left, all), indent, shorten(right, all))
	}
	if l.Weight < likely {
		return
	}
	if l.Why != "" {
		fmt.Fprintf(out, "%s%s\n", indent, l.Why)
	}
	if len(l.Also) > 0 {
		for _, line := range Wrap(indent+"and with it: "+plain(strings.Join(l.Also, ", ")), noteWidth, indent+"  ") {
			out.WriteString(line + "\n")
		}
	}
}

// shorten cuts a value for the screen; --json and -v have it whole.
func shorten(v string, all bool) string {
	const most = 200
	if all || utf8.RuneCountInString(v) <= most {
		return v
	}
	return string([]rune(v)[:most]) + "..."
}

var longHash = regexp.MustCompile(`\b[0-9a-f]{40,64}\b`)

// shortHashes leaves of hashes what tells them apart.
func shortHashes(v string) string {
	const enough = 12
	return longHash.ReplaceAllStringFunc(v, func(h string) string { return h[:enough] })
}

func side(v *string) string {
	switch {
	case v == nil:
		return "(absent)"
	case *v == "":
		return `""`
	}
	return plain(*v)
}
