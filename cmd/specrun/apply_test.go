package main

import (
	"testing"

	"specrun/deploy"
)

func TestPlanSummary_CountsFilesAndLines(t *testing.T) {
	const two = "--- a/x.py\n+++ b/x.py\n@@ -1,2 +1,3 @@\n a\n--- not a name\n+b\n++++ c\n\\ No newline at end of file\n" +
		"--- a/y.py\n+++ b/y.py\n@@ -0,0 +1,1 @@\n+d\n"
	for _, c := range []struct {
		actions []deploy.Action
		diff    string
		want    string
	}{
		{[]deploy.Action{deploy.Patch, deploy.Patch, deploy.Keep}, two, "patch 2 files, +3 lines, -1 line"},
		{[]deploy.Action{deploy.Restore, deploy.Forget}, "--- a/x\n+++ b/x\n@@ -1,1 +0,0 @@\n-a\n", "restore 1 file, forget 1 file, -1 line"},
	} {
		p := &deploy.Plan{}
		for _, action := range c.actions {
			p.Files = append(p.Files, deploy.PlannedFile{Action: action})
		}
		if got := planSummary(p, c.diff); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}
