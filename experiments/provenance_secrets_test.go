package experiments

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"specrun/deploy/server"
	"specrun/experiments/record"
	"specrun/experiments/store"
)

func TestIsSecret_ByWords(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"HF_TOKEN", "AWS_SECRET_ACCESS_KEY", "AWS_ACCESS_KEY_ID", "DB_PASSWORD", "api-key", "admin_api_key", "apiKey", "ssl_keyfile_password",
		"GITHUB_TOKEN_2", "GOOGLE_APPLICATION_CREDENTIALS", "BASIC_AUTH", "hf-token", "PASSWORD", "MYSQL_PWD"} {
		if !isSecret(name) {
			t.Errorf("%s is taken for none", name)
		}
	}
	for _, name := range []string{"TOKENIZERS_PARALLELISM", "max_total_num_tokens", "PWD", "KEYBOARD", "speculative-token-map", "eos_token", "tokenizer-path", "ssl_keyfile",
		"NCCL_PROTO", "author", "monkey", "SGLANG_MAX_TOKEN", "time_per_token"} {
		if isSecret(name) {
			t.Errorf("%s is taken for one", name)
		}
	}
}

func TestRedactor_TellsThatASecretChanged(t *testing.T) {
	t.Parallel()
	a, b := newRedactor("h1", nil), newRedactor("h1", nil)
	if a.hide("hunter2") != b.hide("hunter2") || a.hide("hunter2") == a.hide("hunter3") {
		t.Error("equal secrets must stand out as equal on one host, others as other")
	}
	if newRedactor("h2", nil).hide("hunter2") == a.hide("hunter2") {
		t.Error("not salted by the host")
	}
}

func TestRedactor_Texts(t *testing.T) {
	t.Parallel()
	r := newRedactor("h", map[string]string{"MINE": "X"})
	env := r.values(map[string]string{"MINE": "opensesame", "HF_TOKEN": "hf_abcdef123456", "EMPTY_TOKEN": "", "ARGS": "--x opensesame", "PLAIN": "c",
		"PROXY": "http://joe:swordfish@proxy:3128/", "PIP": "https://ghp_0123456789abcdef@github.com/x", "FLAGS": "--api-key tellnobody --tp 8",
		"CFG": `{"api_key": "jsonsecret", "tp": "8"}`, "HDR": "Authorization: Bearer abcdefghijkl"})
	for _, secret := range []string{"opensesame", "hf_abcdef123456", "swordfish", "ghp_0123456789abcdef", "tellnobody", "jsonsecret", "abcdefghijkl"} {
		for name, value := range env {
			if strings.Contains(value, secret) {
				t.Errorf("%s = %q", name, value)
			}
		}
	}
	stand := func(v string) string { return r.hide(v) }
	for name, want := range map[string]string{"PLAIN": "c", "EMPTY_TOKEN": "", "ARGS": "--x " + stand("opensesame"), "PROXY": "http://joe:" + stand("swordfish") + "@proxy:3128/",
		"FLAGS": "--api-key " + stand("tellnobody") + " --tp 8", "CFG": `{"api_key": "` + stand("jsonsecret") + `", "tp": "8"}`} {
		if env[name] != want {
			t.Errorf("%s = %q, want %q", name, env[name], want)
		}
	}
	got := r.argv([]string{"python3", "--api-key", "abc", "--admin-api-key=abcd", "--tp", "8", "--model-path", "/m", "--api-key"})
	want := []string{"python3", "--api-key", stand("abc"), "--admin-api-key=" + stand("abcd"), "--tp", "8", "--model-path", "/m", "--api-key"}
	if !slices.Equal(got, want) {
		t.Errorf("argv %q", got)
	}
	c := Checked{Effective: map[string]string{"api_key": "servers", "admin_api_key": "None", "tp_size": "8"}, Mismatches: []Mismatch{{Flag: "api-key", Asked: "servers", Effective: "***"}}}
	r.checked(&c)
	if c.Effective["api_key"] != stand("servers") || c.Effective["admin_api_key"] != "None" || c.Effective["tp_size"] != "8" || c.Mismatches[0].Asked != stand("servers") {
		t.Errorf("%+v", c)
	}
}

// The keys of facts are names: taken for secrets they would be hidden in every
// fact, argument and log of the run, such as the name of the engine's package.
func TestRedactor_KeysOfFactsAreNames(t *testing.T) {
	t.Parallel()
	raw, err := json.Marshal(launchFacts{Host: []record.Fact{{Group: "packages", Key: "sglang", Value: "0.5.10"}, {Group: "host", Key: "kernel", Value: "6.8"}, {Group: "env", Key: "X", Value: "--api-key tellnobody"}}})
	if err != nil {
		t.Fatal(err)
	}
	r := newRedactor("h", nil)
	want := strings.ReplaceAll(string(raw), "tellnobody", newRedactor("h", nil).hide("tellnobody"))
	if got := string(r.json(raw)); got != want {
		t.Errorf("%s became %s", raw, got)
	}
	if got := r.text("python3 -m sglang.launch_server"); got != "python3 -m sglang.launch_server" {
		t.Errorf("the command became %q", got)
	}
	for _, secret := range []string{`{"Key":"tellnobody"}`, `{"key":"tellnobody","value":"1"}`} {
		if got := string(r.json([]byte(secret))); strings.Contains(got, "tellnobody") || !json.Valid([]byte(got)) {
			t.Errorf("%s became %s", secret, got)
		}
	}
}

// What a session's and a spec's secrets are must be nowhere in the store: not in
// the database, not in what is kept beside it, not in what is told meanwhile.
func TestExecute_SecretsAreNowhere(t *testing.T) {
	t.Parallel()
	secrets := []string{"hunter2", "sk-session-secret", "pw-in-url", "argv-secret", "told-by-the-host", "server-says-it"}
	r := newRig(t)
	r.w.environ = map[string]string{"OPENAI_API_KEY": "sk-session-secret", "HTTPS_PROXY": "http://me:pw-in-url@proxy", "PLAIN": "contains hunter2 too", "SSH_CONNECTION": "1.2.3.4", "NCCL_ALGO": "Ring"}
	r.w.probe = func(LaunchQuery) (LaunchProbe, error) {
		return LaunchProbe{Facts: []record.Fact{{Group: "code", Key: "engine_install", Value: "from https://x:told-by-the-host@git/x"}},
			Diff: []byte("+TOKEN = 'hunter2'\n")}, nil
	}
	p := r.plan(nil, "steps=2")
	for i := range p.Cells {
		p.Cells[i].Server.Args = append(p.Cells[i].Server.Args, "--api-key", "argv-secret")
	}
	dir := t.TempDir()
	db, err := store.Open(context.Background(), filepath.Join(dir, "specrun.db"))
	if err != nil {
		t.Fatal(err)
	}
	d := r.deps()
	d.Recorder = db
	var told []byte
	d.OnEvent = func(p Progress) {
		p.Cell, p.Cells = nil, nil // the plan's own: what the user wrote
		line, err := json.Marshal(p)
		if err != nil {
			t.Error(err)
		}
		told = append(told, line...)
	}
	plain, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	sum, err := Execute(context.Background(), d, p, nil)
	if err != nil || sum.Failed != 0 || sum.Done == 0 {
		t.Fatalf("%+v %v", sum, err)
	}
	v, err := db.View(context.Background(), sum.SweepID)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, data := range v.Data {
		for _, f := range data.Provenance {
			got[f.Group+" "+f.Key] = f.Value
		}
	}
	for _, k := range []string{"env OPENAI_API_KEY", "env HF_TOKEN", "command argv", "code engine_install"} {
		if !strings.Contains(got[k], "(secret, sha ") {
			t.Errorf("%s = %q", k, got[k])
		}
	}
	if got["env NCCL_ALGO"] != "Ring" || got["env SSH_CONNECTION"] != "" {
		t.Errorf("environment: %v", slices.Sorted(maps.Keys(got)))
	}
	diffs := 0
	for _, a := range v.Artifact {
		if a.Name == diffName {
			diffs++
		}
	}
	if diffs != len(v.Launches) {
		t.Errorf("%d diffs of %d launches", diffs, len(v.Launches))
	}
	// The server really got it.
	if argv := r.w.servers[v.Launches[0].ID].launch.Argv; !slices.Contains(argv, "argv-secret") {
		t.Errorf("the server was started with %q", argv)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	files := 0
	for _, secret := range secrets {
		err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
			if err != nil || e.IsDir() {
				return err
			}
			files++
			raw, err := os.ReadFile(path)
			text := string(raw)
			if secret == "argv-secret" { // the plan is what the user wrote, and resume needs it
				text = strings.ReplaceAll(text, string(plain), "")
				text = strings.ReplaceAll(text, `"args":["--api-key","argv-secret"]`, "")
			}
			if strings.Contains(text, secret) {
				at := strings.Index(text, secret)
				t.Errorf("%s has %s: ...%q", filepath.Base(path), secret, text[max(0, at-80):at+len(secret)])
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(told), secret) {
			t.Errorf("%s was told: %s", secret, told)
		}
	}
	if files < len(secrets)*3 {
		t.Errorf("only %d files were looked at", files)
	}
}

// A server that dies may quote its arguments.
func TestExecute_AFailureTellsNoSecret(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.w.ready = func(server.Launch) error { return errors.New("died: namespace(api_key='hunter2-of-the-spec', tp=8)") }
	var told strings.Builder
	d := r.deps()
	d.Getenv = func(string) (string, bool) { return "hunter2-of-the-spec", true }
	d.OnEvent = func(p Progress) { told.WriteString(p.Message + "\n") }
	sum, err := Execute(context.Background(), d, r.plan(nil, "steps=2"), nil)
	if err != nil || sum.Failed == 0 {
		t.Fatalf("%+v %v", sum, err)
	}
	v, err := r.mem.View(context.Background(), sum.SweepID)
	if err != nil {
		t.Fatal(err)
	}
	for _, run := range v.Runs {
		if strings.Contains(run.Reason, "hunter2") || !strings.Contains(run.Reason, "(secret, sha ") {
			t.Errorf("the reason is %q", run.Reason)
		}
	}
	for _, e := range v.Events {
		if strings.Contains(string(e.Evidence), "hunter2") {
			t.Errorf("event %s %s: %s", e.Step, e.Kind, e.Evidence)
		}
	}
	if strings.Contains(told.String(), "hunter2") {
		t.Errorf("told: %s", told.String())
	}
}

func TestEnvironment_LeavesTheSessionOut(t *testing.T) {
	t.Parallel()
	got := environment(map[string]string{"TERM": "xterm", "SSH_CLIENT": "x", "_": "/bin/x", "XDG_SESSION_ID": "3", "XDG_CACHE_HOME": "/c", "PATH": "/bin", "LS_COLORS": "x",
		"SPECRUN_RUN_ID": "r", "LONG": strings.Repeat("x", 5000), "HOME": "/root"}, newRedactor("h", nil))
	if names := slices.Sorted(maps.Keys(got)); !slices.Equal(names, []string{"HOME", "LONG", "PATH", "XDG_CACHE_HOME"}) {
		t.Errorf("kept %q", names)
	}
	if len(got["LONG"]) > longestValue+100 || !strings.Contains(got["LONG"], "5000 bytes") {
		t.Errorf("LONG = %d bytes", len(got["LONG"]))
	}
}

func TestCacheFolders(t *testing.T) {
	t.Parallel()
	got := cacheFolders(map[string]string{"HOME": "/h", "TRITON_CACHE_DIR": "/t", "FLASHINFER_WORKSPACE_BASE": "/f"}, "joe")
	for _, want := range []string{"/t", "/f/.cache/flashinfer", "/tmp/torchinductor_joe", "/h/.cache/tvm-ffi"} {
		if !slices.Contains(got, want) {
			t.Errorf("no %s in %q", want, got)
		}
	}
}

func TestLiteralSecrets_AreNamed(t *testing.T) {
	t.Parallel()
	got := secretNames(literalSecrets([]Cell{{Server: ServerConfig{Flags: []ServerFlag{{Name: "api-key", Values: []string{"x"}}, {Name: "tp-size", Values: []string{"8"}}},
		Args: []string{"--admin-api-key=y", "--ssl-keyfile-password", "z", "--tp", "8"}, Env: map[string]string{"HF_TOKEN": "t", "NCCL_PROTO": "LL", "EMPTY_TOKEN": ""},
		Secrets: map[string]string{"OTHER_TOKEN": "X"}}}}))
	if want := []string{"--admin-api-key", "--api-key", "--ssl-keyfile-password", "HF_TOKEN"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}
