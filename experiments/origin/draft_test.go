package origin

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"specrun/experiments"
)

// planOf drafts a command, writes the file and gives what that plans.
func planOf(t *testing.T, c Command) (*Draft, string, Comparison) {
	t.Helper()
	d, err := NewDraft(c, Options{Host: "gpu-1"})
	if err != nil {
		t.Fatal(err)
	}
	text, err := d.YAML()
	if err != nil {
		t.Fatal(err)
	}
	check, err := d.Check(text, experiments.Engines)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return d, string(text), check
}

const eagle = "/v/bin/python3 -m sglang.launch_server --model-path /m/Llama-3.1-8B --tp-size 8 --mem-fraction-static 0.80 --cuda-graph-bs 1 2 4 --trust-remote-code " +
	"--speculative-algorithm EAGLE3 --speculative-draft-model-path /m/draft --speculative-num-steps 3 --speculative-eagle-topk 1 --speculative-num-draft-tokens 4 " +
	"--speculative-attention-mode prefill --random-seed 08 --host 0.0.0.0 --port 31000"

func TestNewDraft_LiftsSpeculationIntoParams(t *testing.T) {
	d, text, check := planOf(t, Command{From: "process 42", Argv: strings.Fields(eagle), Cwd: "/data"})
	if !check.Equal || !slices.Equal(check.Planned, strings.Fields(eagle)) {
		t.Errorf("%s\n%q", check, check.Planned)
	}
	for _, want := range []string{
		"name: llama-3.1-8b\n", "hosts: [gpu-1]\n", "  engine: sglang\n", "  python: /v/bin/python3 ", "  cwd: /data\n", "  gpus: all\n", "  port: 31000 ",
		"    mem-fraction-static: 0.80\n", "    cuda-graph-bs: [1, 2, 4]\n", "    trust-remote-code: true\n", "    random-seed: 08\n",
		"    speculative-num-steps: ${steps}\n", "    speculative-eagle-topk: ${topk}\n", "    speculative-num-draft-tokens: ${draft}\n", "    speculative-attention-mode: ${mode}\n",
		"    speculative-draft-model-path: /m/draft\n",
		"  steps: {values: 1..4, default: 3, help: draft steps in a cycle}\n", `  draft: {default: "${topk == 1 ? steps + 1 : 8}", `, "  mode: {values: [prefill, decode], default: prefill, ",
		`where: ["draft <= steps * topk + 1", "topk > 1 || draft == steps + 1"]`, `baseline: {flags: {"speculative-*": null}, patches: []} # without speculation`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if len(d.Lifted) != 4 || d.Lifted[0] != "steps: --speculative-num-steps 3" {
		t.Errorf("lifted %q", d.Lifted)
	}
	// The params are those of a sweep, and the baseline is without them.
	spec, err := experiments.LoadSpec("specrun.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	e, err := experiments.Engines("sglang")
	if err != nil {
		t.Fatal(err)
	}
	x, err := experiments.Resolve(spec, experiments.Options{Renderer: e.(experiments.Renderer)})
	if err != nil {
		t.Fatal(err)
	}
	if len(x.Cells) != 1+4*2 {
		t.Errorf("%d cells", len(x.Cells))
	}
	for _, f := range x.Cells[0].Server.Flags {
		if strings.HasPrefix(f.Name, "speculative") {
			t.Errorf("the baseline has %s", f.Name)
		}
	}
}

// A default that is computed must give what stood there.
func TestNewDraft_DerivesDraftTokensOnlyWhereItGivesTheOriginal(t *testing.T) {
	for _, c := range []struct{ steps, topk, draft, fallback string }{
		{"3", "1", "4", `"${topk == 1 ? steps + 1 : 8}"`},
		{"4", "1", "24", "24"},
		{"5", "4", "16", `"${topk == 1 ? steps + 1 : 16}"`},
		{"5", "4", "64", `"${topk == 1 ? steps + 1 : 64}"`},
	} {
		argv := []string{"p", "-m", "sglang.launch_server", "--port", "30000", "--speculative-num-steps", c.steps, "--speculative-eagle-topk", c.topk, "--speculative-num-draft-tokens", c.draft}
		_, text, check := planOf(t, Command{Argv: argv})
		if !check.Equal || !strings.Contains(text, "draft: {default: "+c.fallback) {
			t.Errorf("%v: %s\n%s", c, check, text)
		}
	}
}

func TestNewDraft_TakesCommandsApart(t *testing.T) {
	for name, c := range map[string]struct {
		command Command
		want    []string // lines of the file
		notes   []string
		differs bool
	}{
		"prefix": {command: Command{Argv: strings.Fields("nohup numactl --interleave=all /v/bin/python -m sglang.launch_server --tp 1")},
			want: []string{"  prefix: [numactl, --interleave=all]", "  python: /v/bin/python "}, notes: []string{"left out: nohup", "--port 30000 is added"}},
		"env": {command: Command{Argv: strings.Fields("env -u X NCCL_DEBUG=INFO CUDA_VISIBLE_DEVICES=4,5,6 /v/bin/python -m sglang.launch_server --port 1")},
			want: []string{"    NCCL_DEBUG: INFO", "  gpus: [4-6] "}, notes: []string{"write X: null into server.env"}},
		"interpreter by the process's PATH": {command: Command{Argv: strings.Fields("python3 -m sglang.launch_server --port 1"), Program: "/v/bin/python3"}, want: []string{"  python: /v/bin/python3 "}},
		"interpreter of an environment":     {command: Command{Argv: strings.Fields("python3 -m sglang.launch_server --port 1"), Venv: "/srv/venv"}, want: []string{"  python: /srv/venv/bin/python3 "}},
		"console script":                    {command: Command{Argv: strings.Fields("/v/bin/python3 /v/bin/sglang serve --port 1")}, want: []string{"  python: /v/bin/python3 "}, notes: []string{"/v/bin/sglang serve is started as -m sglang.launch_server, which is the same server"}},
		"console script in a shell":         {command: Command{Argv: strings.Fields("/v/bin/sglang serve --port 1")}, want: []string{"  python: /v/bin/python3 "}},
		"console script of nobody knows":    {command: Command{Argv: strings.Fields("sglang serve --port 1")}, notes: []string{"set server.python"}},
		"a file":                            {command: Command{Argv: strings.Fields("/v/bin/python3 -u /sgl/python/sglang/launch_server.py --port 1")}, want: []string{`    PYTHONUNBUFFERED: 1`}, notes: []string{"-u is written as"}},
		"GPUs by UUID":                      {command: Command{Argv: strings.Fields("p -m sglang.launch_server --port 1"), Env: map[string]string{"CUDA_VISIBLE_DEVICES": "GPU-b,GPU-c"}, Devices: map[string]int{"GPU-a": 0, "GPU-b": 1, "GPU-c": 2}}, want: []string{"  gpus: [1-2] "}},
		"GPUs in an order":                  {command: Command{Argv: strings.Fields("p -m sglang.launch_server --port 1"), Env: map[string]string{"CUDA_VISIBLE_DEVICES": "3,1"}}, want: []string{"  gpus: [3, 1] "}},
		"a part of a GPU":                   {command: Command{Argv: strings.Fields("p -m sglang.launch_server --port 1"), Env: map[string]string{"CUDA_VISIBLE_DEVICES": "MIG-1"}}, want: []string{"  gpus: all", "    CUDA_VISIBLE_DEVICES: MIG-1"}},
		"words that are no flags":           {command: Command{Argv: strings.Fields("p -m sglang.launch_server --port 1 --tp 1 -x y --z")}, want: []string{"  args: [-x, 'y'] "}, notes: []string{"at the end of the command, as server.args: -x y"}, differs: true},
		"a flag that is given often":        {command: Command{Argv: strings.Fields("p -m sglang.launch_server --port 1 --tag a --tag b")}, want: []string{"      repeat: [a, b]"}},
		"a YAML word":                       {command: Command{Argv: strings.Fields("p -m sglang.launch_server --port 1 --a true --b null --c yes --d=-1 --e ~ --f ${x}")}, want: []string{"    a: 'true'", "    b: 'null'", "    d: -1", "    f: '$${x}'"}},
		"our own launch does not matter":    {command: Command{Argv: strings.Fields("uv run python -m sglang.launch_server --port 1")}, notes: []string{"uv chooses the interpreter"}},
	} {
		t.Run(name, func(t *testing.T) {
			d, text, check := planOf(t, c.command)
			if check.Equal == c.differs {
				t.Errorf("%s: %q", check, check.Planned)
			}
			for _, want := range c.want {
				if !strings.Contains(text, want) {
					t.Errorf("no %q in\n%s", want, text)
				}
			}
			for _, want := range c.notes {
				if !strings.Contains(strings.Join(d.Notes, "\n"), want) {
					t.Errorf("notes %q, want %q", d.Notes, want)
				}
			}
		})
	}
}

func TestNewDraft_VLLM(t *testing.T) {
	for name, c := range map[string]struct {
		argv []string
		want []string
	}{
		"a program in /proc": {[]string{"/v/bin/python3", "/v/bin/vllm", "serve", "/m/tiny", "--port", "8001", "-tp", "2", "--enforce-eager", "--speculative-config", `{"method":"ngram","num_speculative_tokens":3,"prompt_lookup_max":4}`},
			[]string{"  engine: vllm\n", "  python: /v/bin/python3 ", "  port: 8001 ", "    model: /m/tiny\n", "    tensor-parallel-size: 2\n", "    enforce-eager: true\n",
				`    speculative-config: {method: ngram, num_speculative_tokens: "${num_speculative_tokens}", prompt_lookup_max: 4}`, "  num_speculative_tokens: {values: 1..3, default: 3, ",
				`baseline: {flags: {"speculative-config": null}, patches: []}`}},
		"JSON with blanks": {[]string{"/v/bin/vllm", "serve", "M", "--port", "1", "--speculative-config", `{"method": "ngram", "num_speculative_tokens": 5}`},
			[]string{`    speculative-config: '{"method": "ngram", "num_speculative_tokens": ${num_speculative_tokens}}'`, "default: 5"}},
		"keys with a dot": {[]string{"p", "-m", "vllm.entrypoints.openai.api_server", "--model", "M", "--port", "1", "--speculative-config.method", "ngram", "--speculative-config.num_speculative_tokens", "2"},
			[]string{"    speculative-config.num_speculative_tokens: ${num_speculative_tokens}", `{"speculative-config.*": null}`}},
		"the model behind flags": {[]string{"/v/bin/vllm", "serve", "--port=1", "--enforce-eager", "M", "--max-model-len", "1024"}, []string{"    model: M\n", "    enforce-eager: true\n"}},
		"no speculation":         {[]string{"/v/bin/vllm", "serve", "M", "--port=1"}, []string{"# baseline:"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, text, check := planOf(t, Command{Argv: c.argv})
			if !check.Equal {
				t.Errorf("%s: %q", check, check.Planned)
			}
			for _, want := range c.want {
				if !strings.Contains(text, want) {
					t.Errorf("no %q in\n%s", want, text)
				}
			}
		})
	}
	d, text, _ := planOf(t, Command{Argv: []string{"/v/bin/vllm", "serve", "M", "--port", "1", "--api-key", "top-secret-1"}})
	if strings.Contains(text, "top-secret-1") || !strings.Contains(text, "VLLM_API_KEY: {from: env}") || !slices.Equal(d.Needs, []string{"VLLM_API_KEY"}) {
		t.Errorf("needs %q\n%s", d.Needs, text)
	}
}

func TestNewDraft_AnotherEngineKeepsItsCommandLine(t *testing.T) {
	_, text, check := planOf(t, Command{Argv: strings.Fields("nohup /opt/llama-server -m /m/x.gguf --port 8080 -ngl 99 --api-prefix {a}"), Port: 8080})
	for _, want := range []string{"  engine: command\n", "  port: 8080 ", "  command: [/opt/llama-server, -m, /m/x.gguf, --port, ", "${port}", "    url: /health #"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if !check.Equal {
		t.Errorf("%s: %q", check, check.Planned)
	}
	d, text, _ := planOf(t, Command{Argv: strings.Fields("/opt/x --api-key abcdefgh --listen 0.0.0.0:9000"), Port: 9000})
	if strings.Contains(text, "abcdefgh") || !strings.Contains(strings.Join(d.Notes, " "), "a secret stood in the command") || !strings.Contains(text, "0.0.0.0:${port}") {
		t.Errorf("%q\n%s", d.Notes, text)
	}
}

func TestNewDraft_WhatIsNoServerIsRefused(t *testing.T) {
	for _, argv := range [][]string{{"sleep", "60"}, {"nohup"}, {}, {"/opt/x", "\xff", "--port", "1"}} {
		var invalid *InvalidError
		if d, err := NewDraft(Command{Argv: argv}, Options{}); !errors.As(err, &invalid) || invalid.Hint() == "" {
			t.Errorf("%q: %+v, %v", argv, d, err)
		}
	}
	_, text, _ := planOf(t, Command{Argv: strings.Fields("python3 -m http.server 9000"), Port: 9000})
	if !strings.Contains(text, "  command: [python3, -m, http.server, '${port}']") {
		t.Error(text)
	}
	d, err := NewDraft(Command{Argv: []string{"/opt/own-server"}, Port: 9000}, Options{})
	if err != nil || !strings.Contains(strings.Join(d.Notes, " "), "no word of the command is the port") {
		t.Errorf("%v, %v", d, err)
	}
}

func TestNewDraft_WritesNoSecret(t *testing.T) {
	secrets := []string{"hf_AbCdEfGhIjKlMnOpQrSt", "sk-abcdefghijklmnopqrstuv", "hunter2secret", "eyJhbGciOiJI.eyJzdWIiOiIx.c2ln", "p4ssw0rdx", "apikey-value-1", "bearer-value-22", "json-secret-9"}
	c := Command{From: "process 7", Cwd: "/", Argv: []string{"env", "WANDB_API_KEY=" + secrets[2], "/v/bin/python3", "-m", "sglang.launch_server", "--port", "1", "--api-key", secrets[5],
		"--admin-api-key=" + secrets[1], "--weird", secrets[3], "-x", secrets[0], "--json-model-override-args", `{"api_key":"` + secrets[7] + `"}`, "--header", "Authorization: Bearer " + secrets[6], "--tp", "1"},
		Env:   map[string]string{"HF_TOKEN": secrets[0], "HTTPS_PROXY": "http://me:" + secrets[4] + "@proxy:1", "VLLM_X": secrets[3], "NCCL_DEBUG": "INFO", "TOKENIZERS_PARALLELISM": "false"},
		Notes: []string{"the command is x"}}
	d, text, _ := planOf(t, c)
	for _, s := range secrets {
		if strings.Contains(text, s) || strings.Contains(strings.Join(d.Notes, "\n")+d.compareText(), s) {
			t.Errorf("%s is written:\n%s\n%q", s, text, d.Notes)
		}
	}
	for _, want := range []string{"HF_TOKEN: {from: env} #", "HTTPS_PROXY: {from: env} #", "WANDB_API_KEY: {from: env} #", "# api-key: left out, a secret", "NCCL_DEBUG: INFO", "TOKENIZERS_PARALLELISM: 'false'"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if !slices.Equal(d.Needs, []string{"HF_TOKEN", "HTTPS_PROXY", "VLLM_X", "WANDB_API_KEY"}) {
		t.Errorf("needs %q", d.Needs)
	}
}

// compareText is what a comparison with nothing says.
func (d *Draft) compareText() string { return d.compare([]string{"x"}).String() }

func TestNewDraft_ContainerRun(t *testing.T) {
	d, err := NewDraft(Command{Argv: strings.Fields("sudo docker run -d --rm -it --gpus all --shm-size 32g -p 30000:30000 -e NCCL_DEBUG=INFO -e HF_TOKEN -v /m:/m --name sg --ipc=host lmsysorg/sglang:latest python3 -m sglang.launch_server --model-path /m/x --port 30000")}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	src, err := d.YAML()
	if err != nil {
		t.Fatal(err)
	}
	text := string(src)
	if _, err := experiments.LoadSpec("specrun.yaml", src); err != nil {
		t.Error(err)
	}
	for _, want := range []string{"  launch: docker ", "    image: lmsysorg/sglang:latest", "    args: [--gpus, all, --shm-size, 32g, -p, '30000:30000', -v, '/m:/m', --ipc=host]", "NCCL_DEBUG: INFO", "HF_TOKEN: {from: env}", "  python: python3 "} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if !strings.Contains(strings.Join(d.Notes, "\n"), "left out of docker run: -d --rm -i -t --name sg") {
		t.Errorf("%q", d.Notes)
	}
}

// The words of any command line come back from the file that was made of it.
func TestDraft_AnyArgvComesBack(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for n := range 120 {
		argv := randomArgv(r)
		d, text, check := planOf(t, Command{Argv: argv})
		if !check.Equal {
			t.Fatalf("case %d: %s\n%q\n%q\n%s\n%+v", n, check, argv, check.Planned, text, d.args)
		}
	}
}

var (
	someFlags = []string{"tp-size", "model-path", "mem-fraction-static", "cuda-graph-bs", "trust-remote-code", "random-seed", "x", "a.b", "under_score", "n", "yes", "null", "json-model-override-args",
		"speculative-num-steps", "speculative-eagle-topk", "speculative-num-draft-tokens", "speculative-attention-mode", "speculative-algorithm"}
	someValues = []string{"8", "0.90", "1e-3", "08", "true", "False", "null", "~", "", "on", "/m/x", "a b", "a: b", "a #b", "'q'", `"q"`, "x,y", "[1]", "{a}", "${x}", "$${y}", "$x", "-1", "-0.5", "- a", "é", "a\nb", "\ttab",
		`{"a":1,"b":[true,null,"x"],"c":{"d":0.90,"e":"1.5"}}`, `{"a": 1}`, `{"repeat":[1]}`, `{"a":1,"a":2}`, `{"a":"<&>\u00e9"}`, `{}`, `{"k":"${x}","n":1e999,"t":"true","s":"a, b"}`, "1..4", "@x", "%y", "*z", "&w", "!t", "|", ">", "?", "prefill", "3", "4", "1", "=", "a=b", "0x10", "1_000", "12:30:45", "2026-11-29", ".5", "+1", ".inf"}
)

func randomArgv(r *rand.Rand) []string {
	argv := []string{"/v/bin/python3", "-m", "sglang.launch_server"}
	if r.IntN(4) == 0 {
		argv = append([]string{"numactl", "--cpunodebind=0"}, argv...)
	}
	value := func() string { return someValues[r.IntN(len(someValues))] }
	plain := func() string {
		for {
			if v := value(); isValue(v) {
				return v
			}
		}
	}
	for _, i := range r.Perm(len(someFlags))[:r.IntN(len(someFlags))] {
		name := "--" + someFlags[i]
		switch r.IntN(6) {
		case 0:
			argv = append(argv, name)
		case 1:
			argv = append(argv, name+"="+value())
		case 2:
			argv = append(argv, name, plain(), plain(), plain())
		case 3:
			argv = append(argv, name, plain(), name, plain())
		default:
			argv = append(argv, name, plain())
		}
		if r.IntN(8) == 0 && !slices.Contains(argv, "--port") {
			argv = append(argv, "--port", fmt.Sprint(1+r.IntN(65535)))
		}
	}
	return argv
}

func TestKeep_ChoosesByPrefixAndDifference(t *testing.T) {
	session := map[string]string{"PATH": "/usr/bin:/bin", "HOME": "/home/u", "LD_LIBRARY_PATH": "/same", "NCCL_DEBUG": "INFO"}
	environ := map[string]string{"PATH": "/v/bin:/usr/bin:/bin", "HOME": "/home/u", "LD_LIBRARY_PATH": "/same", "NCCL_DEBUG": "INFO", "SGLANG_X": "1", "PYTHONPATH": "/p", "SSH_CONNECTION": "1 2 3", "TERM": "xterm", "USER": "u",
		"OLDPWD": "/", "SHLVL": "2", "SPECRUN_RUN_ID": "x", "LS_COLORS": "y", "CUDA_HOME": "/c", "LANG": "C.UTF-8", "http_proxy": "http://p:1"}
	got := Keep(environ, session, "/v/bin/python3")
	want := []string{"CUDA_HOME", "NCCL_DEBUG", "PYTHONPATH", "SGLANG_X", "http_proxy"}
	var names []string
	for name := range got {
		names = append(names, name)
	}
	slices.Sort(names)
	if !slices.Equal(names, want) {
		t.Errorf("kept %q, want %q", names, want)
	}
	environ["PATH"] = "/usr/local/cuda/bin:/usr/bin"
	if Keep(environ, session, "/v/bin/python3")["PATH"] == "" {
		t.Error("a PATH with another folder is left out")
	}
}

func TestTemplate_IsAnExperiment(t *testing.T) {
	for _, host := range []string{"", "gpu-1", "u@10.0.0.7:22"} {
		spec, err := experiments.LoadSpec("specrun.yaml", Template(host))
		if err != nil {
			t.Fatal(err)
		}
		if host != "" && !slices.Equal(spec.Hosts, []string{host}) {
			t.Errorf("hosts %q", spec.Hosts)
		}
	}
}
