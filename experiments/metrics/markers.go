package metrics

import (
	"cmp"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
)

// Lines behind a marker that may belong to it. The readers forget what they
// opened at the same distance, so that a log without its other lines reads the
// same.
const (
	blockLines = 200 // of a benchmark's result block
	traceLines = 100 // of a traceback, behind its last frame
	traceTail  = 12  // text that an exception prints behind its first line
	forever    = -1
)

// Marker is text that makes a line worth reading.
type Marker struct {
	Word  string `json:"word"`
	After int    `json:"after"` // lines behind it that may belong to it; -1 = all
}

// Markers says which lines of a log can tell anything: a log without all others
// (with line numbers and offsets kept) gives the same report, but for warnings
// about lines that could not be read. It is data, for a filter that runs where
// the log lies. Words are compared byte by byte with the raw line.
type Markers struct {
	Lines []Marker `json:"lines"`
	// Hints are groups of words of which the first otherwise useless line counts:
	// they tell the engine.
	Hints [][]string `json:"hints"`
	// Alive are words that together make a line a sign of life: the first such
	// line of each writer behind a crash marker counts.
	Alive []string `json:"alive"`
	// Openers begin a line that may hold a quoted prompt; where the quotation
	// stays open the next Guard lines count. Quotes stand before it.
	Openers []string `json:"openers"`
	Quotes  []string `json:"quotes"`
	Guard   int      `json:"guard"`
}

// broader words stand for many of the rules' own, and are still in few lines:
// each word costs the filter a pass.
var broader = []string{"ut of memory", "CUBLAS_STATUS_", " is already ", " is not available in", "lready in use"}

// LogMarkers derives the markers from the patterns of the readers themselves.
func LogMarkers() Markers {
	m := Markers{Hints: [][]string{sglangWords, vllmWords}, Alive: []string{servedMark, postMark}, Openers: openers, Quotes: promptMarks, Guard: guardLines}
	add := func(after int, words ...string) {
		for _, w := range words {
			m.Lines = append(m.Lines, Marker{w, after})
			if q := strings.ReplaceAll(w, `"`, `\"`); q != w { // within a JSON log record
				m.Lines = append(m.Lines, Marker{q, after})
			}
		}
	}
	patterns := func(after int, res ...*regexp.Regexp) {
		for _, re := range res {
			add(after, literals(re)...)
		}
	}
	patterns(0, reDecodeHead, rePrefillHead, reVEngine, reVSpec, reVSpecV0, reSMIHead, reAcceptWords)
	add(0, profileMark[1:], cycleWord, smiMemory)
	add(0, rateWords...)
	add(0, startWords...)
	add(0, readyWords...)
	add(0, stopWords...)
	add(0, clientWords...)
	add(0, tableWords...)
	add(0, nvmlWords...)
	add(1, boxWalls...)
	patterns(blockLines, reBlockHead)
	add(traceLines+traceTail+1, "Traceback", `File "`)
	patterns(traceLines+traceTail+1, reChained)
	for _, m := range phaseMarks {
		patterns(0, m.re)
	}
	for _, r := range crashRules {
		patterns(4, r.re) // a failed engine start may stand up to 3 lines before its traceback
	}
	add(forever, smiColumnWords...)
	add(forever, csvHeads...)
	add(4, broader...)
	m.Lines = reduce(m.Lines)
	return m
}

// reduce leaves out a marker that holds a shorter one which asks for as much.
func reduce(all []Marker) []Marker {
	slices.SortFunc(all, func(a, b Marker) int {
		return cmp.Or(cmp.Compare(len(a.Word), len(b.Word)), strings.Compare(a.Word, b.Word), -cmp.Compare(uint(a.After), uint(b.After)))
	})
	var out []Marker
	for _, m := range all {
		if !slices.ContainsFunc(out, func(o Marker) bool { return uint(o.After) >= uint(m.After) && strings.Contains(m.Word, o.Word) }) {
			out = append(out, m)
		}
	}
	return out
}

// maxLiterals bounds the words that stand for one stretch of a pattern.
const maxLiterals = 12

// literals gives words of which at least one is in every text that re matches;
// none when there are no such words.
func literals(re *regexp.Regexp) []string {
	tree, err := syntax.Parse(re.String(), syntax.Perl)
	if err != nil {
		return nil
	}
	return required(tree)
}

// required is literals for a part of a pattern.
func required(t *syntax.Regexp) []string {
	switch t.Op {
	case syntax.OpCapture, syntax.OpPlus:
		return required(t.Sub[0])
	case syntax.OpRepeat:
		if t.Min == 0 {
			return nil
		}
		return required(t.Sub[0])
	case syntax.OpAlternate:
		if all := exact(t); all != nil && !slices.Contains(all, "") {
			return all
		}
		var all []string
		for _, s := range t.Sub {
			one := required(s)
			if len(one) == 0 {
				return nil
			}
			all = append(all, one...)
		}
		return all
	case syntax.OpConcat:
		return requiredOf(t.Sub)
	}
	if all := exact(t); !slices.Contains(all, "") {
		return all
	}
	return nil
}

// requiredOf picks the best stretch of a sequence: long words, few of them.
func requiredOf(parts []*syntax.Regexp) []string {
	var best []string
	offer := func(words []string) {
		words = dropHolders(words)
		if len(words) > 0 && (best == nil || score(words) > score(best)) {
			best = words
		}
	}
	stretch := []string{""}
	for _, p := range parts {
		words := exact(p)
		if words != nil && len(words)*len(stretch) <= maxLiterals {
			var longer []string
			for _, a := range stretch {
				for _, b := range words {
					longer = append(longer, a+b)
				}
			}
			stretch = longer
			continue
		}
		offer(stretch)
		stretch = []string{""}
		if words != nil {
			stretch = words
			continue
		}
		offer(required(p))
	}
	offer(stretch)
	return best
}

// dropHolders leaves out words that hold another of them; nil when one is empty.
func dropHolders(words []string) []string {
	var out []string
	for i, w := range words {
		if w == "" {
			return nil
		}
		if !slices.ContainsFunc(words[:i], func(o string) bool { return o == w }) &&
			!slices.ContainsFunc(words, func(o string) bool { return o != w && strings.Contains(w, o) }) {
			out = append(out, w)
		}
	}
	return out
}

func score(words []string) float64 {
	least := len(words[0])
	for _, w := range words {
		least = min(least, len(w))
	}
	return float64(least) - float64(len(words))/4
}

// exact gives all texts that a part can match; nil when it cannot be told, or
// when they are too many.
func exact(t *syntax.Regexp) []string {
	switch t.Op {
	case syntax.OpEmptyMatch, syntax.OpBeginLine, syntax.OpEndLine, syntax.OpBeginText, syntax.OpEndText, syntax.OpWordBoundary:
		return []string{""}
	case syntax.OpLiteral:
		if t.Flags&syntax.FoldCase != 0 && strings.ToLower(string(t.Rune)) != strings.ToUpper(string(t.Rune)) {
			return nil
		}
		return []string{string(t.Rune)}
	case syntax.OpCharClass:
		var out []string
		for i := 0; i < len(t.Rune); i += 2 {
			for r := t.Rune[i]; r <= t.Rune[i+1]; r++ {
				if out = append(out, string(r)); len(out) > 3 {
					return nil
				}
			}
		}
		return out
	case syntax.OpCapture:
		return exact(t.Sub[0])
	case syntax.OpQuest:
		if in := exact(t.Sub[0]); in != nil {
			return append(slices.Clone(in), "")
		}
	case syntax.OpAlternate:
		var all []string
		for _, s := range t.Sub {
			in := exact(s)
			if in == nil {
				return nil
			}
			all = append(all, in...)
		}
		if len(all) <= maxLiterals {
			return all
		}
	case syntax.OpConcat:
		out := []string{""}
		for _, s := range t.Sub {
			in := exact(s)
			if in == nil || len(in)*len(out) > maxLiterals {
				return nil
			}
			var longer []string
			for _, a := range out {
				for _, b := range in {
					longer = append(longer, a+b)
				}
			}
			out = longer
		}
		return out
	}
	return nil
}
