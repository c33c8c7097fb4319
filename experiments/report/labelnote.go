package report

import (
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// labelReason is why cells have a label: reasons that differ in their numbers only
// are one, and the largest number is told.
type labelReason struct {
	shape string // without its numbers
	text  string // the worst
	of    []string
	less  []string // cells with smaller numbers
}

// add notes why a cell has the label.
func (n *labelNote) add(cell, reason string) {
	shape := shapeOf(reason)
	i := slices.IndexFunc(n.reasons, func(r labelReason) bool { return r.shape == shape })
	if i < 0 {
		n.reasons = append(n.reasons, labelReason{shape: shape, text: reason, of: []string{cell}})
		return
	}
	r := &n.reasons[i]
	has := func(list []string) bool { return slices.Contains(list, cell) }
	switch {
	case reason == r.text:
		r.less = slices.DeleteFunc(r.less, func(name string) bool { return name == cell })
		if !has(r.of) {
			r.of = append(r.of, cell)
		}
	case firstNumber(reason) > firstNumber(r.text):
		for _, name := range r.of {
			if name != cell && !slices.Contains(r.less, name) {
				r.less = append(r.less, name)
			}
		}
		r.less = slices.DeleteFunc(r.less, func(name string) bool { return name == cell })
		r.text, r.of = reason, []string{cell}
	case !has(r.of) && !has(r.less):
		r.less = append(r.less, cell)
	}
}

// text tells the label: each reason with its cells. Where every cell has it that
// is said, since it stands in no row of the table then.
func (n labelNote) text(shared bool) string {
	var parts []string
	for _, r := range n.reasons {
		cells := cellsText(r.of)
		if len(r.less) > 0 {
			others := cellsText(r.less)
			if shared && len(n.reasons) == 1 {
				others = "the others"
			}
			cells += "; less in " + others
		}
		if shared && len(n.reasons) == 1 && len(r.less) == 0 {
			cells = "all cells"
		}
		parts = append(parts, strings.TrimSpace(plain(r.text)+" ("+cells+")"))
	}
	const most = 3
	if more := len(parts) - most; more > 0 {
		parts = append(parts[:most], plural(more, "other reason"))
	}
	if shared && len(parts) == 1 && len(n.reasons[0].less) == 0 && n.reasons[0].text == "" {
		return n.name + " (all cells)"
	}
	text := n.name
	if shared && !strings.HasSuffix(parts[0], "(all cells)") {
		text = "all cells " + text
	}
	if n.reasons[0].text == "" && len(parts) == 1 {
		return text + " " + parts[0]
	}
	return text + ": " + strings.Join(parts, "; ")
}

// shapeOf is a reason without its numbers.
func shapeOf(reason string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsDigit(r) || r == '.' || r == '+' || r == '-' {
			return -1
		}
		return r
	}, reason)
}

// firstNumber is the size of the first number of a reason, 0 without one.
func firstNumber(reason string) float64 {
	at := strings.IndexFunc(reason, unicode.IsDigit)
	if at < 0 {
		return 0
	}
	end := at
	for end < len(reason) && (reason[end] >= '0' && reason[end] <= '9' || reason[end] == '.') {
		end++
	}
	v, err := strconv.ParseFloat(strings.TrimRight(reason[at:end], "."), 64)
	if err != nil { // such as 1.2.3, which is no size
		return 0
	}
	return v
}
