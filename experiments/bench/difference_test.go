package bench

import "testing"

func TestFirstDifference(t *testing.T) {
	q := func(index int, output string) Request {
		return Request{Index: index, PromptSHA: "p", Output: output, OutputSHA: hashTexts([]string{output})}
	}
	cut := func(index int, output, sha string) Request { r := q(index, output); r.OutputSHA = sha; return r }
	failed := Request{Index: 1, PromptSHA: "p", Error: "HTTP 500", OutputSHA: "x"}
	other := q(1, "b")
	other.PromptSHA = "another"
	for name, c := range map[string]struct {
		a, b              []Request
		request, position int
		ok                bool
	}{
		"the same":                 {[]Request{q(0, "a"), q(1, "b")}, []Request{q(0, "a"), q(1, "b")}, 0, 0, false},
		"in the second request":    {[]Request{q(0, "a"), q(1, "one two")}, []Request{q(0, "a"), q(1, "one too")}, 1, 5, true},
		"the first of several":     {[]Request{q(2, "x"), q(1, "x")}, []Request{q(1, "y"), q(2, "y")}, 1, 0, true},
		"one goes on":              {[]Request{q(0, "one")}, []Request{q(0, "one two")}, 0, 3, true},
		"characters, not bytes":    {[]Request{q(0, "äöü!")}, []Request{q(0, "äöü?")}, 0, 3, true},
		"inside a character":       {[]Request{q(0, "ä")}, []Request{q(0, "ö")}, 0, 0, true},
		"behind what is kept":      {[]Request{cut(0, "ab", "1")}, []Request{cut(0, "ab", "2")}, 0, 2, true},
		"failed ones do not count": {[]Request{failed}, []Request{q(1, "b")}, 0, 0, false},
		"other prompts":            {[]Request{q(1, "a")}, []Request{other}, 0, 0, false},
		"only in one":              {[]Request{q(1, "a")}, nil, 0, 0, false},
	} {
		request, position, ok := FirstDifference(c.a, c.b)
		if request != c.request || position != c.position || ok != c.ok {
			t.Errorf("%s: request %d, position %d, %v; want %d, %d, %v", name, request, position, ok, c.request, c.position, c.ok)
		}
	}
}
