package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"specrun/experiments/record"
)

// DifferenceLine is the JSON line of type difference. A side that has no such
// fact is null; one within which the fact varies says so.
type DifferenceLine struct {
	Rank   int      `json:"rank"` // from 1, the likeliest cause first
	Group  string   `json:"group"`
	Key    string   `json:"key"`
	A      *string  `json:"a"`
	B      *string  `json:"b"`
	Weight float64  `json:"weight"`         // how likely it moves a number: 1 = known to, 0 = known not to
	Why    string   `json:"why"`            // "" = nothing is known about this fact
	Also   []string `json:"also,omitempty"` // differences that merely follow from this one
}

// Diff is what differs in the provenance of two sides, likely causes first.
type Diff struct {
	Lines []DifferenceLine
	// Unknown are the groups of which one side has no fact at all, such as all
	// groups of an old log: a difference there cannot be seen.
	Unknown []string
	Facts   int // of the reference
	// PartialA and PartialB count the facts that only the other side has where this
	// one has failed runs alone: how far those came decides what is known of them.
	// So it is with an imported side, of which its log decides.
	PartialA, PartialB   int
	ImportedA, ImportedB bool
	// Varying are facts of code that vary between the runs of a cell, on both sides
	// alike, so that they are no difference: in words.
	Varying []string
}

// Likely are the first lines: those with a weight that makes them likely causes.
func (d Diff) Likely() []DifferenceLine {
	for i, l := range d.Lines {
		if l.Weight < likely {
			return d.Lines[:i]
		}
	}
	return d.Lines
}

// explain gives the differences between the provenance of the runs of two sides,
// of one cell or several, ranked by what is known to matter and by magnitude,
// nothing else.
func explain(cells []cellRuns) Diff {
	var a, b []record.RunData
	for _, c := range cells {
		a, b = append(a, c.a...), append(b, c.b...)
	}
	ds, unknown := compareFacts(a, b)
	out := Diff{Unknown: unknown, Facts: len(sideFacts(a))}
	out.ImportedA, out.ImportedB = imported(a), imported(b)
	partialA, partialB := cells[0].partialA || out.ImportedA, cells[0].partialB || out.ImportedB // with failed runs there is one cell
	if partialA || partialB {
		ds = slices.DeleteFunc(ds, func(d *difference) bool {
			unknownA, unknownB := partialA && unsaid(&d.a), partialB && unsaid(&d.b)
			if unknownA {
				out.PartialA++
			}
			if unknownB {
				out.PartialB++
			}
			return unknownA || unknownB
		})
	}
	steadyIn(ds, cells)
	ds = fold(ds, a, b)
	for _, d := range ds {
		d.judge()
	}
	slices.SortStableFunc(ds, func(x, y *difference) int {
		if c := cmp.Compare(y.weight, x.weight); c != 0 {
			return c
		}
		if c := compareGroups(x.group, y.group); c != 0 {
			return c
		}
		return strings.Compare(x.key, y.key)
	})
	vary := unsteady(cells)
	for i, d := range ds {
		l := DifferenceLine{Rank: i + 1, Group: d.group, Key: d.key, A: sideText(d.a), B: sideText(d.b),
			Weight: min(1, math.Round(d.weight*1000)/1000), Why: d.why, Also: d.also}
		within := vary[d.factKey] // what a side has in some runs only counts, but all is told
		if within[0] != "" {
			l.A = &within[0]
		}
		if within[1] != "" {
			l.B = &within[1]
		}
		delete(vary, d.factKey)
		out.Lines = append(out.Lines, l)
	}
	for k, within := range vary {
		if within[0] != "" && within[1] != "" && !slices.ContainsFunc(ds, func(d *difference) bool { return slices.Contains(d.also, k.group+" "+k.key) }) {
			out.Varying = append(out.Varying, fmt.Sprintf("%s %s: a %s; b %s", k.group, k.key, within[0], within[1]))
		}
	}
	slices.Sort(out.Varying)
	return out
}

// imported says that all runs of a side were imported: its logs tell some facts and
// are silent of others.
func imported(runs []record.RunData) bool {
	return len(runs) > 0 && !slices.ContainsFunc(runs, func(d record.RunData) bool {
		return !slices.ContainsFunc(d.Labels, func(l record.Label) bool { return l.Name == "imported" })
	})
}

// unsaid takes absence out of the values of failed or imported runs, which does not say
// more than that they came no further, or that the log has no word of it; true when nothing else was there.
func unsaid(values *[]string) bool {
	*values = slices.DeleteFunc(slices.Clone(*values), func(v string) bool { return v == absent })
	return len(*values) == 0
}

// judge sets the weight of a difference and the reason: that of its rule times
// its magnitude.
func (d *difference) judge() {
	const sameEffect = 0.1
	switch {
	case d.weight > 0: // decided when it was folded
		return
	case d.why != "":
		d.weight, _ = cause(d.group, d.key)
		d.weight *= sameEffect
		return
	}
	d.weight, d.why = cause(d.group, d.key)
	d.weight *= d.magnitude()
	for _, also := range d.also { // a file's hash counts as much as what changed it
		group, key, _ := strings.Cut(also, " ")
		if w, why := cause(group, key); group == "flags" && w > d.weight {
			d.weight, d.why = w*d.magnitude(), why
		}
	}
}

// Magnitudes, as a part of the weight.
const (
	varying     = 0.3  // varies within a side as well, so that it does not tell the sides apart
	toDefault   = 0.4  // set on one side to what is mostly the default: false, 0
	setOrNot    = 0.95 // present on one side only
	leastChange = 0.78 // of versions and numbers that differ by little
	sameNumber  = 0.1  // of numbers that are equal within 1 %
)

// magnitude is how large a difference is, from 0 to 1.
func (d *difference) magnitude() float64 {
	a, b, ok := d.values()
	if !ok {
		return varying
	}
	if nothing(a) || nothing(b) {
		if v := cmp.Or(strip(a), strip(b)); v == "false" || v == "False" || v == "0" || v == "auto" {
			return toDefault
		}
		return setOrNot
	}
	if d.isVersion() && version.MatchString(a) && version.MatchString(b) {
		return distance(a, b)
	}
	if x, y, ok := quantities(a, b); ok {
		return numeric(x, y)
	}
	return 1
}

// isVersion tells 12.8 the version from 12.8 the number.
func (d *difference) isVersion() bool {
	return d.group == "packages" || strings.Contains(d.key, "version") || d.group == "gpu" && (d.key == "driver" || d.key == "cuda")
}

func strip(v string) string {
	if nothing(v) {
		return ""
	}
	return v
}

// quantities reads two numbers of the same unit, such as 700.00 W.
func quantities(a, b string) (x, y float64, ok bool) {
	read := func(s string) (float64, string, bool) {
		number, unit, _ := strings.Cut(strings.TrimSpace(s), " ")
		v, err := strconv.ParseFloat(number, 64)
		return v, unit, err == nil && !math.IsNaN(v) && !math.IsInf(v, 0)
	}
	x, ux, okX := read(a)
	y, uy, okY := read(b)
	return x, y, okX && okY && ux == uy
}

// numeric measures the distance of two numbers on a logarithmic scale.
func numeric(x, y float64) float64 {
	const near, far = 0.01, 1.4 // of the logarithm: 1 %, fourfold
	switch {
	case x == y:
		return sameNumber
	case x <= 0 || y <= 0:
		return 1
	}
	r := math.Abs(math.Log(y / x))
	if r <= near {
		return sameNumber
	}
	// Up to 10 % the weight rises steeply: 1980 MHz for 1965 explains little.
	const felt = 0.1
	if r < felt {
		return sameNumber + (leastChange-sameNumber)*(r-near)/(felt-near)
	}
	return leastChange + (1-leastChange)*min(1, (r-felt)/(far-felt))
}

// distance of two versions: the first part that differs counts.
func distance(a, b string) float64 {
	parts := func(v string) []string {
		return strings.FieldsFunc(strings.TrimPrefix(v, "v"), func(r rune) bool { return r == '.' || r == '+' || r == '-' })
	}
	pa, pb := parts(a), parts(b)
	for i := range min(len(pa), len(pb)) {
		if pa[i] == pb[i] {
			continue
		}
		switch i {
		case 0:
			return 1
		case 1:
			return 0.95
		case 2:
			return 0.88
		}
		break
	}
	return leastChange
}

// sideText writes the values of a side; nil when it has no such fact.
func sideText(values []string) *string {
	if len(values) == 1 {
		if values[0] == absent {
			return nil
		}
		return &values[0]
	}
	const most = 4
	shown := make([]string, 0, most+1)
	for _, v := range values {
		if v == absent {
			v = "(absent)"
		}
		if len(shown) == most {
			shown = append(shown, "...")
			break
		}
		shown = append(shown, v)
	}
	text := "varies: " + strings.Join(shown, ", ")
	return &text
}
