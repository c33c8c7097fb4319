//go:build integration || soak

package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"specrun/experiments/lab"
)

// What a user's secrets are stands in no output and in nothing that is kept, of
// runs that work and of those that fail with them on their lips.
func TestSecrets(t *testing.T) {
	t.Parallel()
	const ofEnv, ofFlag, ofNobody = "open-sesame-77", "sk-of-the-flag", "sk-nobody-knows"
	one := 1
	u := newUser(t, buildSpecrun(t))
	u.env = append(u.env, "PRACTICE_TOKEN="+ofEnv)
	u.startLab(func(s *lab.Settings) {
		fast(s)
		s.Failures = []lab.Failure{{Kind: lab.Crash, Steps: &one, Message: "died of ServerArgs(api_key='" + ofFlag + "', admin_api_key='" + ofNobody + "') with " + ofEnv}}
	})
	spec, _ := u.practiceSpec("NCCL_PROTO: LL,", "NCCL_PROTO: LL, PRACTICE_TOKEN: { from: env },",
		"    random-seed: 1\n", "    random-seed: 1\n    api-key: "+ofFlag+"\n")
	sweep := []string{"sweep", "-f", spec, "steps=1..2", "--rounds", "1", "--host", "lab", "--store", "results.db"}
	said := []answer{u.does(0, append(sweep, "--dry-run")...), u.does(0, append(sweep, "--dry-run", "--json")...), u.does(3, sweep...)}
	stored := func(args ...string) answer { return u.does(0, append(args, "--store", "results.db")...) }
	failed, worked := "", ""
	for _, r := range stored("list", "--runs", "--json").lines(t, "run") {
		id, _ := r["id"].(string)
		if r["state"] == "failed" {
			failed = id
		} else if steps, _ := number(r["params"], "steps"); steps == 2 {
			worked = id
		}
	}
	logs := stored("logs", failed)
	if !strings.Contains(logs.stdout, "died of ServerArgs(api_key='(secret, sha ") {
		t.Errorf("the log kept does not have the failure with its secrets hidden: %s", logs)
	}
	for _, args := range [][]string{{"list"}, {"list", "--runs"}, {"list", "--runs", "--json"}, {"show", "last"}, {"show", "last", "--json"}, {"show", failed}, {"show", failed, "--json"},
		{"show", worked}, {"show", worked, "--json"}, {"logs", worked}, {"compare", "last/baseline", worked}, {"diff", "last/baseline", worked}, {"diff", "last/baseline", worked, "--json"},
		{"export", "--format", "json"}} {
		said = append(said, stored(args...))
	}
	// The log as it lies on the host, brought home by hand.
	old := u.write("old.log", "server_args=ServerArgs(model_path='/m', api_key='"+ofFlag+"', admin_api_key='"+ofNobody+"')\n"+
		"[2025-10-02 12:00:10] Decode batch. #running-req: 1, #token: 512, accept len: 2.10, gen throughput (token/s): 83.12, #queue-req: 0\n")
	said = append(said, logs, stored("import", old), stored("compare", old, worked, "--force"), stored("diff", old, worked), stored("import", old, "--json"))
	for _, secret := range []string{ofEnv, ofFlag, ofNobody} {
		for _, a := range said {
			if at := strings.Index(a.stdout+a.stderr, secret); at >= 0 {
				t.Errorf("%s is told by specrun %s: ...%s", secret, strings.Join(a.args, " "), (a.stdout + a.stderr)[max(0, at-200):at+len(secret)])
			}
		}
		files := 0
		err := filepath.WalkDir(u.dir, func(path string, e fs.DirEntry, err error) error {
			if e != nil && e.IsDir() && path == u.labDir() { // the host
				return filepath.SkipDir
			}
			if err != nil || e.IsDir() || path == spec || path == old || filepath.Base(path) == "settings.json" {
				return err
			}
			files++
			raw, err := os.ReadFile(path)
			text := strings.ReplaceAll(string(raw), `"values":["`+ofFlag+`"]`, "") // the plan, that resume starts servers from
			if at := strings.Index(text, secret); at >= 0 {
				t.Errorf("%s is kept in %s: ...%q", secret, path, text[max(0, at-200):at+len(secret)])
			}
			return err
		})
		if must(t, err); files < 5 {
			t.Errorf("only %d files are kept", files)
		}
	}
}
