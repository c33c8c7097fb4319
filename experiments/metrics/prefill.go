package metrics

// PrefillLine is one of SGLang's "Prefill batch" lines.
type PrefillLine struct {
	Offset, End int64 // byte offsets of the line; End is behind its newline
	NewTokens   int   // computed; -1 not printed
	Cached      int   // prompt tokens found in the prefix cache; -1 not printed
}

func prefillLine(e *entry, pairs []fieldPair) PrefillLine {
	p := PrefillLine{Offset: e.start, End: e.end, NewTokens: -1, Cached: -1}
	for key, to := range map[string]*int{"#new-token": &p.NewTokens, "#cached-token": &p.Cached} {
		if i := indexKey(pairs, key); i >= 0 {
			if f, ok := parseNumber(pairs[i].value, 0); ok && f >= 0 {
				*to = int(f)
			}
		}
	}
	return p
}

// Prefills drains the prefill lines of the server log.
func (f *Follower) Prefills() []PrefillLine {
	out := f.p.sglang.prefills
	f.p.sglang.prefills = nil
	return out
}

// CachedTokens sums the prefill lines inside a window: prompt tokens from the
// prefix cache, and prompt tokens in all. prompt is 0 when no line says it.
func CachedTokens(lines []PrefillLine, w Window) (cached, prompt int) {
	for _, p := range lines {
		if w.holds(p.Offset, p.End) && p.NewTokens >= 0 && p.Cached >= 0 {
			cached += p.Cached
			prompt += p.Cached + p.NewTokens
		}
	}
	return cached, prompt
}
