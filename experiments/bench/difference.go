package bench

import "unicode/utf8"

// FirstDifference finds the first request, by index, whose output is not the
// same in two runs, and the first character (not byte, not token: the stream
// does not say which text is whose token) in which it differs, from 0; reasoning
// counts before the answer. When one output only goes on longer, that is where
// the other ends. Requests that failed in either run, or whose prompts differ,
// are not compared. ok is false when no difference was found.
//
// Where only the part beyond what a report keeps of an output differs, the
// position is the end of what it keeps.
func FirstDifference(a, b []Request) (request, position int, ok bool) {
	other := make(map[int]Request, len(b))
	for _, q := range b {
		other[q.Index] = q
	}
	for _, q := range a {
		o, both := other[q.Index]
		if !both || !q.ok() || !o.ok() || q.PromptSHA != o.PromptSHA || q.OutputSHA == o.OutputSHA || ok && q.Index > request {
			continue
		}
		request, position, ok = q.Index, differAt(q.Output, o.Output), true
	}
	return request, position, ok
}

// differAt is the number of characters that two texts have in common from their
// beginning.
func differAt(a, b string) int {
	n := 0
	for a != "" && b != "" {
		ra, la := utf8.DecodeRuneInString(a)
		rb, lb := utf8.DecodeRuneInString(b)
		if ra != rb || la != lb {
			break
		}
		a, b = a[la:], b[lb:]
		n++
	}
	return n
}
