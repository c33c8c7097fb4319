package metrics

import "regexp"

// Rows of a profiler block. Only the indented "name: number unit/cyc" rows and
// the TOTAL are relied on; the header is read where it says which cycles the
// block covers.
var (
	reRow     = regexp.MustCompile(`^([ \t]*)([A-Za-z][\w .()#/-]*?)[ \t]*[:=][ \t]*([-+]?(?:\.?\d[\d.,]*(?:[eE][-+]?\d+)?|[nN][aA][nN]|[iI]nf))[ \t]*(ns|us|µs|μs|ms|s)[ \t]*/[ \t]*cyc(?:le)?s?\b`)
	reBareRow = regexp.MustCompile(`^[ \t]*(?:TOTAL|draft|target verify|draft re-extend|other)[ \t]*[:=][ \t]*[-+.\d]+[\w./]*[ \t]*$`)
	reShare   = regexp.MustCompile(`^[ \t]*\([^)]*\)`)
	reAccept  = regexp.MustCompile(`^[ \t]+accept(?:ance)?[ _]len(?:gth)?[ \t]*[:=][ \t]*(\S+)`)
	reRange   = regexp.MustCompile(`(?i)\bcycles?\b[ #:=]{0,3}(\d+)[ ]?(?:-|–|\.\.|to)[ ]?(\d+)`)
	reLast    = regexp.MustCompile(`(?i)\b(?:last|over|of|avg)\b[^\d]{0,8}(\d+) cyc`)
	reProf    = regexp.MustCompile(`(?i)prof`)
	unitShift = map[string]int{"ns": -6, "us": -3, "µs": -3, "μs": -3, "ms": 0, "s": 3}
)

// rowMetric maps a row's name to its metric. Releases of the profiler differ in
// words: "draft" and "draft steps" are the same row.
var rowMetric = map[string]string{
	"total": "cycle_total",
	"draft": "cycle_draft", "draft steps": "cycle_draft", "draft step": "cycle_draft",
	"target verify": "cycle_verify", "verify": "cycle_verify",
	"draft re-extend": "cycle_extend", "re-extend": "cycle_extend", "draft extend": "cycle_extend", "draft reextend": "cycle_extend", "extend": "cycle_extend",
	"other": "cycle_other", "others": "cycle_other",
	"call": "cycle_call",
}

// cycleWord is in every header and row with a unit.
const cycleWord = "cyc"

// reAcceptWords is what reAccept needs at least.
var reAcceptWords = regexp.MustCompile(`accept(?:ance)?[ _]len`)

const total = "cycle_total"

// block is one summary of the profiler as text.
type block struct {
	first, last  int // cycle range of the header, 0 = none
	cycles       int // cycles it covers, 0 = not said
	line         int
	start, end   int64
	at           float64
	stream       stream
	run          int
	settled      bool // handed out; kept to notice a duplicate
	indent       int  // of the component rows; deeper rows are nested details
	rows         []blockRow
	accept       Value // null = not printed
	rate         Value // tok/s, null = not printed
	lastMetric   string
	ambiguous    bool // rows of two writers without marks were mixed in
	headerless   bool
	sawUnitShift bool
}

type blockRow struct {
	metric string
	value  float64
	line   int
	off    int64
}

func (b *block) get(metric string) (float64, bool) {
	for _, r := range b.rows {
		if r.metric == metric {
			return r.value, true
		}
	}
	return 0, false
}

// same says whether two blocks carry the same numbers for the same cycles.
func (b *block) same(o *block) bool {
	if o == nil || b.run != o.run || b.last == 0 || b.first != o.first || b.last != o.last || len(b.rows) != len(o.rows) {
		return false
	}
	for i := range b.rows {
		if b.rows[i].metric != o.rows[i].metric || b.rows[i].value != o.rows[i].value {
			return false
		}
	}
	return true
}
