package edit

import "testing"

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{
		{"", "", 0}, {"", "abc", 3}, {"abc", "", 3}, {"steps", "steps", 0},
		{"stpes", "steps", 1},      // a swap
		{"step", "steps", 1},       // one more
		{"stops", "steps", 1},      // another one
		{"kitten", "sitting", 3},   // of all kinds
		{"ca", "abc", 3},           // nothing is put between two that were swapped
		{"größe", "grosse", 3},     // letters, not bytes
		{"abcdef", "badcfe", 3},    // three swaps
		{"topk", "temperature", 9}, // nothing alike
	} {
		if got := Distance(c.a, c.b); got != c.want {
			t.Errorf("Distance(%q, %q) = %d, want %d", c.a, c.b, got, c.want)
		}
		if got := Distance(c.b, c.a); got != c.want {
			t.Errorf("Distance(%q, %q) = %d, want %d", c.b, c.a, got, c.want)
		}
	}
}
