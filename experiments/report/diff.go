package report

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"specrun/experiments/record"
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

// DifferenceLine is the JSON line of type difference. A side that has no such
// fact is null.
type DifferenceLine struct {
	Group string  `json:"group"`
	Key   string  `json:"key"`
	A     *string `json:"a"`
	B     *string `json:"b"`
}

// DifferenceLines gives the lines of a diff, likely causes first.
func DifferenceLines(ds []record.Difference) []DifferenceLine {
	sorted := slices.Clone(ds)
	slices.SortStableFunc(sorted, func(a, b record.Difference) int {
		if c := compareGroups(a.Group, b.Group); c != 0 {
			return c
		}
		return strings.Compare(a.Key, b.Key)
	})
	out := make([]DifferenceLine, len(sorted))
	for i, d := range sorted {
		out[i] = DifferenceLine(d)
	}
	return out
}

// sideBySide is how long two values may be together to stand in one line.
const sideBySide = 60

// WriteDiff writes what differs in the provenance of two runs, by group, and
// only what differs. What differs between any two launches is counted only,
// unless Options.All is set.
func WriteDiff(w io.Writer, a, b record.RunView, ds []record.Difference, o Options) error {
	var out strings.Builder
	head := grid{}
	head.add("a", plain(a.Run.ID), plain(a.Sweep.Name), allParams(a.Cell), plain(a.Run.Host), stamp(a.Run.StartUs))
	head.add("b", plain(b.Run.ID), plain(b.Sweep.Name), allParams(b.Cell), plain(b.Run.Host), stamp(b.Run.StartUs))
	if err := head.write(&out); err != nil {
		return err
	}
	hidden := 0
	if !o.All {
		told := slices.DeleteFunc(slices.Clone(ds), ofEveryLaunch)
		hidden, ds = len(ds)-len(told), told
	}
	lines := DifferenceLines(ds)
	width := 0
	for _, d := range lines {
		width = max(width, utf8.RuneCountInString(plain(d.Key)))
	}
	group := ""
	for i, d := range lines {
		if i == 0 || d.Group != group {
			group = d.Group
			fmt.Fprintf(&out, "\n%s\n", plain(group))
		}
		left, right := side(d.A), side(d.B)
		if len(left)+len(right) <= sideBySide {
			fmt.Fprintf(&out, "  %-*s  %s -> %s\n", width, plain(d.Key), left, right)
			continue
		}
		fmt.Fprintf(&out, "  %s\n    a: %s\n    b: %s\n", plain(d.Key), left, right)
	}
	facts := len(a.Data.Provenance)
	switch {
	case facts == 0 && len(b.Data.Provenance) == 0:
		out.WriteString("\nnothing to compare: neither run has provenance\n")
	case len(lines) == 0:
		fmt.Fprintf(&out, "\nno difference in %s of provenance\n", plural(facts, "fact"))
	default:
		fmt.Fprintf(&out, "\n%s in provenance\n", plural(len(lines), "difference"))
	}
	if hidden > 0 {
		fmt.Fprintf(&out, "not shown: %s that any two launches have, such as the port (-v)\n", plural(hidden, "difference"))
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// ofEveryLaunch says that a difference is there between any two launches and
// explains nothing: the port in the command line, the practice host's clock.
func ofEveryLaunch(d record.Difference) bool {
	switch {
	case d.A == nil || d.B == nil:
		return false
	case d.Group == "flags" && d.Key == "specrun_lab":
		return true
	case d.Group == "command" && d.Key == "argv":
		a, okA := withoutPort(*d.A)
		b, okB := withoutPort(*d.B)
		return okA && okB && slices.Equal(a, b)
	}
	return false
}

// withoutPort reads a stored command line and leaves out which port it names.
func withoutPort(text string) (argv []string, ok bool) {
	if err := json.Unmarshal([]byte(text), &argv); err != nil {
		return nil, false
	}
	for i, arg := range argv {
		if strings.HasPrefix(arg, "--port=") {
			argv[i] = "--port="
		} else if i > 0 && argv[i-1] == "--port" {
			argv[i] = ""
		}
	}
	return argv, true
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
