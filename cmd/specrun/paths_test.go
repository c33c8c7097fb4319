package main

import "testing"

func TestShortPaths(t *testing.T) {
	packages := map[string]bool{"sglang": true}
	const worker = "/venv/lib/python3.12/site-packages/sglang/srt/speculative/eagle_worker.py"
	for _, c := range []struct {
		verbose     bool
		paths       []string
		first, want string
	}{
		{false, []string{worker}, worker, "sglang/srt/speculative/eagle_worker.py"},
		{true, []string{worker}, worker, worker},
		{false, []string{"/src/sglang/python/sglang/a.py"}, "/src/sglang/python/sglang/a.py", "sglang/a.py"},
		{false, []string{"/a/sglang/x.py", "/b/sglang/x.py"}, "/a/sglang/x.py", "/a/sglang/x.py"}, // two interpreters
		{false, []string{"/a/sglang/x.py", "/b/sglang/y.py"}, "/a/sglang/x.py", "sglang/x.py"},
		{false, []string{"/etc/motd"}, "/etc/motd", "/etc/motd"},
		{false, []string{"/opt/sglang"}, "/opt/sglang", "/opt/sglang"}, // a file of that name is no package
		{false, []string{worker}, "/other/sglang/z.py", "/other/sglang/z.py"},
	} {
		a := &app{flags: globals{verbose: c.verbose}}
		if got := a.shortPaths(c.paths, packages)(c.first); got != c.want {
			t.Errorf("%v: %s, want %s", c.paths, got, c.want)
		}
	}
}
