package experiments

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"specrun/deploy/server"
	"specrun/experiments/store"
)

// What a server prints of itself is kept, of runs that work and of those that
// fail, but not the secrets in it.
func TestExecute_WhatIsKeptHasNoSecrets(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"", "server-dies"} {
		r := newRig(t)
		r.w.environ = map[string]string{"OPENAI_API_KEY": "sk-of-the-session"}
		said := "server_args=ServerArgs(model_path='/m', api_key='sk-of-the-flag', admin_api_key='sk-from-nowhere')\nHF_TOKEN=hunter2 OPENAI=sk-of-the-session\n"
		r.w.onStart = func(l server.Launch) { r.w.servers[l.ID].log.WriteString(said) }
		r.w.bench = func(l server.Launch, _ BenchJob) string { return how }
		p := r.plan(func(s *Spec) {
			s.Server.Flags = append(s.Server.Flags, Flag{Name: "api-key", Value: Value{Scalar: ParseScalar("sk-of-the-flag")}})
		}, "steps=2")
		dir := t.TempDir()
		db, err := store.Open(context.Background(), filepath.Join(dir, "specrun.db"))
		if err != nil {
			t.Fatal(err)
		}
		d := r.deps()
		d.Recorder = db
		sum, err := Execute(context.Background(), d, p, nil)
		if err != nil || (sum.Failed > 0) != (how != "") {
			t.Fatalf("%+v %v", sum, err)
		}
		v, err := db.View(context.Background(), sum.SweepID)
		if err != nil {
			t.Fatal(err)
		}
		kept := map[string]string{}
		for _, a := range v.Artifact {
			raw, err := readKept(a)
			if err != nil {
				t.Fatal(err)
			}
			kept[a.Name] = string(raw)
		}
		for _, name := range []string{"server.log", map[string]string{"": "bench.json", "server-dies": "server-tail.log"}[how]} {
			if kept[name] == "" {
				t.Errorf("no %s was kept", name)
			}
			if strings.HasSuffix(name, "log") && !strings.Contains(kept[name], "model_path='/m', api_key='(secret, sha ") {
				t.Errorf("%s: %s", name, kept[name])
			}
		}
		if strings.Contains(string(v.Sweep.Spec), "sk-of-the-flag") || !strings.Contains(string(v.Sweep.Plan), "sk-of-the-flag") {
			t.Errorf("the plan needs the flag, to be resumed; nothing else does: spec %s", v.Sweep.Spec)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		for _, secret := range []string{"hunter2", "sk-of-the-session", "sk-from-nowhere", "sk-of-the-flag"} {
			for path, text := range filesIn(t, dir) {
				if secret == "sk-of-the-flag" {
					text = strings.ReplaceAll(text, `"values":["sk-of-the-flag"]`, "") // the plan's
				}
				if at := strings.Index(text, secret); at >= 0 {
					t.Errorf("%q: %s has %s: ...%q", how, path, secret, text[max(0, at-80):at+len(secret)])
				}
			}
		}
	}
}

func filesIn(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		raw, err := os.ReadFile(path)
		out[filepath.Base(path)] = string(raw)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestPlan_IsShownWithoutSecrets(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	p := r.plan(func(s *Spec) {
		s.Server.Flags = append(s.Server.Flags, Flag{Name: "api-key", Value: Value{Scalar: ParseScalar("abc")}})
		s.Server.Args = append(s.Server.Args, Entry{Value: ParseScalar("--admin-api-key")}, Entry{Value: ParseScalar("sk-of-the-args")})
		s.Server.Env = append(s.Server.Env, EnvVar{Name: "MY_PASSWORD", Value: ParseScalar("pw-of-the-env")})
	}, "steps=2")
	text, _, err := p.Shown().Encode()
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{`"abc"`, " abc", "sk-of-the-args", "pw-of-the-env"} {
		if strings.Contains(string(text), secret) {
			t.Errorf("%s is in the plan as shown:\n%s", secret, text)
		}
		if strings.Contains(p.Launches[0].Command, secret) {
			t.Errorf("%s is in the command %s", secret, p.Launches[0].Command)
		}
	}
	if c := p.Cells[0].Server; c.Env["MY_PASSWORD"] != "pw-of-the-env" {
		t.Errorf("the plan itself was changed: %+v", c)
	}
	if !strings.Contains(strings.Join(p.Notes, "\n"), "MY_PASSWORD is a secret") {
		t.Errorf("notes: %q", p.Notes)
	}
}

// A value of an axis names cells, everywhere: a secret is refused as one, and the
// refusal does not tell it.
func TestResolve_RefusesSecretsAsValues(t *testing.T) {
	t.Parallel()
	s := loadExample(t)
	s.Params = append(s.Params, Param{Name: "access"})
	s.Server.Flags = append(s.Server.Flags, Flag{Name: "api-key", Value: Value{Scalar: ParseScalar("${access}")}})
	s.Params[len(s.Params)-1].Default = ParseScalar("none")
	for _, arg := range []string{"flag.api-key=sk-typed", "env.MY_PASSWORD=sk-typed,x", "access=sk-typed", "flag.api-key=sk-typed..", "env.A_TOKEN+env.B=sk-typed"} {
		axes, err := ParseArgs([]string{arg})
		if err == nil {
			_, err = Resolve(s, Options{Axes: axes, Patches: fakePatch, Renderer: fakeRenderer{}, Host: HostConfig{Name: "h", Python: "/py"}})
		}
		if err == nil || strings.Contains(err.Error(), "sk-typed") {
			t.Errorf("%s: %v", arg, err)
		}
	}
	for _, arg := range []string{"flag.api-key=null", "access=none", "env.NCCL_PROTO=LL"} {
		axes, err := ParseArgs([]string{arg})
		if err == nil {
			_, err = Resolve(s, Options{Axes: axes, Patches: fakePatch, Renderer: fakeRenderer{}, Host: HostConfig{Name: "h", Python: "/py"}})
		}
		if err != nil {
			t.Errorf("%s: %v", arg, err)
		}
	}
}
