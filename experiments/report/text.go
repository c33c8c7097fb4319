package report

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// grid is an aligned text table. Columns are as wide as their widest entry; the
// last one is not padded, so that lines have no blanks at their end.
type grid struct {
	right []bool // by column: flush right
	rows  [][]string
}

func (g *grid) add(cells ...string) { g.rows = append(g.rows, cells) }

// widths are those of the columns.
func (g *grid) widths() (width []int) {
	for _, r := range g.rows {
		for i, c := range r {
			if i == len(width) {
				width = append(width, 0)
			}
			width[i] = max(width[i], utf8.RuneCountInString(c))
		}
	}
	return width
}

// width is that of the whole.
func (g *grid) width() int {
	total := -2
	for _, w := range g.widths() {
		total += w + 2
	}
	return total
}

// dropLast leaves out the last column.
func (g *grid) dropLast() {
	for i, r := range g.rows {
		g.rows[i] = r[:len(r)-1]
	}
}

func (g *grid) write(w io.Writer) error {
	width := g.widths()
	for _, r := range g.rows {
		var b strings.Builder
		for i, c := range r {
			pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(c))
			if i > 0 {
				b.WriteString("  ")
			}
			if i < len(g.right) && g.right[i] {
				b.WriteString(pad + c)
			} else {
				b.WriteString(c + pad)
			}
		}
		if _, err := io.WriteString(w, strings.TrimRight(b.String(), " ")+"\n"); err != nil {
			return err
		}
	}
	return nil
}

// number writes a value with as many digits as its unit is worth reading.
func number(v float64, unit string) string {
	switch {
	case math.IsNaN(v), math.IsInf(v, 0):
		return strconv.FormatFloat(v, 'f', -1, 64)
	case v != 0 && math.Abs(v) < 0.01:
		return strconv.FormatFloat(v, 'g', 3, 64)
	}
	switch unit {
	case "tok/s", "req/s":
		if math.Abs(v) < 10 {
			return strconv.FormatFloat(v, 'f', 2, 64)
		}
		return strconv.FormatFloat(v, 'f', 1, 64)
	case "requests", "tokens":
		if v == math.Trunc(v) {
			return strconv.FormatFloat(v, 'f', 0, 64)
		}
	case "tokens/step":
		return strconv.FormatFloat(v, 'f', 3, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

// Wrap breaks a text at blanks into lines of at most width characters; those
// after the first begin with indent. A word that is longer stands alone.
func Wrap(text string, width int, indent string) []string {
	var lines []string
	for utf8.RuneCountInString(text) > width {
		head := string([]rune(text)[:width+1])
		at := strings.LastIndexByte(head, ' ')
		for at > len(indent) && strings.HasPrefix(text[at+1:], "%") { // a number keeps its unit
			at = strings.LastIndexByte(head[:at], ' ')
		}
		if at <= len(indent) {
			next := strings.IndexByte(text[len(indent):], ' ')
			if next < 0 {
				break
			}
			at = len(indent) + next
		}
		lines = append(lines, text[:at])
		text = indent + strings.TrimLeft(text[at:], " ")
	}
	return append(lines, text)
}

func percent(fraction float64) string {
	switch p := 100 * fraction; {
	case math.Abs(p) >= 100:
		return fmt.Sprintf("%.0f %%", p)
	case math.Abs(p) < 0.1 && math.Abs(p) >= 0.005:
		return fmt.Sprintf("%.2f %%", p)
	default:
		return fmt.Sprintf("%.1f %%", p)
	}
}

// plain quotes text that would move the cursor or break a line.
func plain(s string) string {
	if strings.IndexFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }) < 0 {
		return s
	}
	return strconv.Quote(s)
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// firstLine cuts a reason for a line of a table; the whole is shown by show.
func firstLine(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return plain(strings.TrimSpace(line))
}

// stamp writes microseconds since the epoch as people and JSON read them.
func stamp(us int64) string {
	if us == 0 {
		return "-"
	}
	return time.UnixMicro(us).UTC().Format(time.RFC3339)
}
