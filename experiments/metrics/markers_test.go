package metrics

import (
	"strings"
	"testing"
)

// A rule without words would be lost by a filter that looks for words.
func TestLogMarkers_EveryRuleHasWords(t *testing.T) {
	for _, r := range crashRules {
		words := literals(r.re)
		if len(words) == 0 {
			t.Errorf("no words for %s", r.re)
		}
		for _, w := range words {
			if len(w) < 4 {
				t.Errorf("%q of %s is in too many lines", w, r.re)
			}
			if !containsAny(w, crashWords) {
				t.Errorf("a line with %q would not be looked at for %s", w, r.re)
			}
		}
	}
	for _, m := range LogMarkers().Lines {
		if m.Word == "" || strings.Contains(m.Word, "\n") {
			t.Errorf("marker %q", m.Word)
		}
	}
	t.Logf("%d markers: %+v", len(LogMarkers().Lines), LogMarkers().Lines)
}
