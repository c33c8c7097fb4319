package origin

import (
	"errors"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

func TestScript_FollowsAShellText(t *testing.T) {
	home := func(name string) (string, bool) {
		v, ok := map[string]string{"HOME": "/home/u", "PATH": "/usr/bin"}[name]
		return v, ok
	}
	for name, c := range map[string]struct {
		src  string
		argv []string
		env  map[string]string
		cwd  string
		log  string
		venv string
		note string
	}{
		"words": {src: `python -m sglang.launch_server --a 'b c' --d "e \"f\" \$g" h\ i --j='k'l ""`,
			argv: []string{"python", "-m", "sglang.launch_server", "--a", "b c", "--d", `e "f" $g`, "h i", "--j=kl", ""}},
		"continuations": {src: "python -m sglang.launch_server \\\n  --tp 8 \\\r\n  --port 1\n", argv: []string{"python", "-m", "sglang.launch_server", "--tp", "8", "--port", "1"}},
		"assignments and nohup": {src: `A=1 B="x y" nohup python -m sglang.launch_server --tp 8 > server.log 2>&1 &`,
			argv: []string{"nohup", "python", "-m", "sglang.launch_server", "--tp", "8"}, env: map[string]string{"A": "1", "B": "x y"}, log: "server.log", note: "left out: >server.log 2>&1 &"},
		"tee":               {src: "vllm serve M 2>&1 | tee -a /tmp/v.log", argv: []string{"vllm", "serve", "M"}, log: "/tmp/v.log", note: "left out: 2>&1 | tee -a /tmp/v.log; specrun"},
		"all that reads it": {src: "vllm serve M 2>&1 |\n ts '%T  x' | grep -v '|' | tee \"$LOG\" 2>/dev/null &\necho $!", argv: []string{"vllm", "serve", "M"}, note: "left out: 2>&1 | ts %T  x | grep -v | | tee ... 2>/dev/null &; specrun"},
		"cd and a virtual environment": {src: "cd /data && source venv/bin/activate && python -m sglang.launch_server --tp 1",
			argv: []string{"python", "-m", "sglang.launch_server", "--tp", "1"}, cwd: "/data", venv: "/data/venv"},
		"a subshell, as a plan prints it": {src: "(cd /data && exec env A=b /v/bin/python3 -m sglang.launch_server --tp 1)",
			argv: []string{"exec", "env", "A=b", "/v/bin/python3", "-m", "sglang.launch_server", "--tp", "1"}, cwd: "/data"},
		"variables": {src: "MODEL=/m/x\nTP=${TP:-8}\nexport NCCL_DEBUG=INFO\npython -m sglang.launch_server --model-path \"$MODEL\" --tp ${TP} --x $MODEL/y",
			argv: []string{"python", "-m", "sglang.launch_server", "--model-path", "/m/x", "--tp", "8", "--x", "/m/x/y"}, env: map[string]string{"NCCL_DEBUG": "INFO"}, note: `TP is taken as not set, so it is "8"`},
		"splitting": {src: "F='--a b   --c'\nF+=' d'\nE=\npython -m sglang.launch_server $F $E \"$E\"", argv: []string{"python", "-m", "sglang.launch_server", "--a", "b", "--c", "d", ""}},
		"arrays": {src: "ARGS=(--a 'b c'  # why\n  --d)\nARGS+=(--e)\npython -m sglang.launch_server \"${ARGS[@]}\" \"$@\"",
			argv: []string{"python", "-m", "sglang.launch_server", "--a", "b c", "--d", "--e"}, note: "the script's own arguments are taken as none"},
		"the command in a variable":    {src: "CMD=\"python -m sglang.launch_server --tp 2\"\n$CMD --port 1", argv: []string{"python", "-m", "sglang.launch_server", "--tp", "2", "--port", "1"}},
		"the environment of a host":    {src: "export PATH=/opt/bin:$PATH\npython -m sglang.launch_server --model-path ~/m --q $HOME/q", argv: []string{"python", "-m", "sglang.launch_server", "--model-path", "/home/u/m", "--q", "/home/u/q"}, env: map[string]string{"PATH": "/opt/bin:/usr/bin"}},
		"what is not the server":       {src: "set -euo pipefail\nulimit -n 65535\nif [ -f x ]; then rm x; fi\nnvidia-smi\npython -m sglang.launch_server --tp 1 &\necho $! > pid\nwait", argv: []string{"python", "-m", "sglang.launch_server", "--tp", "1"}},
		"here-documents are skipped":   {src: "cat <<EOF > config\npython -m sglang.launch_server --wrong $(x)\nEOF\npython -m sglang.launch_server --right", argv: []string{"python", "-m", "sglang.launch_server", "--right"}},
		"a substitution nobody needs":  {src: "cd \"$(dirname \"$0\")\"\nNOW=$(date +%s)\npython -m sglang.launch_server --tp 1", argv: []string{"python", "-m", "sglang.launch_server", "--tp", "1"}, note: "the folder of line 1 (cd) is not known"},
		"JSON":                         {src: `vllm serve M --speculative-config '{"method": "ngram", "num_speculative_tokens": 3}'`, argv: []string{"vllm", "serve", "M", "--speculative-config", `{"method": "ngram", "num_speculative_tokens": 3}`}},
		"comments and a ~ interpreter": {src: "# start\n~/venv/bin/python -m sglang.launch_server --a b#c # d", argv: []string{"/home/u/venv/bin/python", "-m", "sglang.launch_server", "--a", "b#c"}},
		"set -a":                       {src: "set -a\nNCCL_ALGO=Ring\nset +a\npython -m sglang.launch_server", argv: []string{"python", "-m", "sglang.launch_server"}, env: map[string]string{"NCCL_ALGO": "Ring"}},
		"a default given by :":         {src: ": \"${PORT:=1234}\"\npython -m sglang.launch_server --port $PORT", argv: []string{"python", "-m", "sglang.launch_server", "--port", "1234"}},
		"the text of a shell": {src: "export NCCL_DEBUG=INFO\nnohup bash -lc 'cd /data && A=1 exec python -m sglang.launch_server --tp 8 --x \"$NCCL_DEBUG\"' >s.log 2>&1 &",
			argv: []string{"nohup", "exec", "python", "-m", "sglang.launch_server", "--tp", "8", "--x", "INFO"}, env: map[string]string{"A": "1", "NCCL_DEBUG": "INFO"}, cwd: "/data", log: "s.log", note: "left out: bash -lc"},
		"behind what pins it": {src: "numactl -N 0 sh -c \"vllm serve M\"", argv: []string{"numactl", "-N", "0", "vllm", "serve", "M"}, note: "left out: sh -c"},
		"the text of a terminal": {src: "tmux new-session -d -s sgl \"python -m sglang.launch_server --tp 1 2>&1 | tee /tmp/s.log\"",
			argv: []string{"python", "-m", "sglang.launch_server", "--tp", "1"}, log: "/tmp/s.log", note: "left out: tmux new-session -d -s sgl"},
		"what is typed into one": {src: "tmux send-keys -t sgl 'vllm serve M' C-m", argv: []string{"vllm", "serve", "M"}},
		"a shell in screen":      {src: "screen -dmS s bash -c 'vllm serve M'", argv: []string{"vllm", "serve", "M"}, note: "left out: screen -dmS s bash -c"},
		"that of a container": {src: "docker run --gpus all lmsysorg/sglang:latest bash -c 'python3 -m sglang.launch_server --tp 8'",
			argv: []string{"docker", "run", "--gpus", "all", "lmsysorg/sglang:latest", "python3", "-m", "sglang.launch_server", "--tp", "8"}},
		"the last of two":               {src: "vllm serve A --port 1 &\nvllm serve B --port 2 &\nwait", argv: []string{"vllm", "serve", "B", "--port", "2"}, note: "line 1 starts a server as well: the one of line 2 is read"},
		"eval":                          {src: "CMD='A=1 python -m sglang.launch_server --x \"a b\"'\neval \"$CMD\" --y", argv: []string{"python", "-m", "sglang.launch_server", "--x", "a b", "--y"}, env: map[string]string{"A": "1"}},
		"what eval assigns":             {src: "eval TP=4\npython -m sglang.launch_server --tp $TP", argv: []string{"python", "-m", "sglang.launch_server", "--tp", "4"}},
		"its own arguments, set":        {src: "set -e\nset -- --tp 8\nset -- \"$@\" --x 'a b'\npython -m sglang.launch_server \"$@\"", argv: []string{"python", "-m", "sglang.launch_server", "--tp", "8", "--x", "a b"}},
		"all of a list in one":          {src: "A=(--tp 8)\npython -m sglang.launch_server ${A[*]} \"${A[*]}\" $A", argv: []string{"python", "-m", "sglang.launch_server", "--tp", "8", "--tp 8", "--tp"}},
		"an environment of conda's":     {src: "conda run -n sgl python -m sglang.launch_server --tp 1", argv: []string{"conda", "run", "-n", "sgl", "python", "-m", "sglang.launch_server", "--tp", "1"}},
		"lines that end as on Windows":  {src: "\ufeff#!/bin/bash\r\ncat <<EOF >x\r\na\r\nEOF\r\npython -m sglang.launch_server --tp 1\r\n", argv: []string{"python", "-m", "sglang.launch_server", "--tp", "1"}},
		"braces in a plain shell":       {src: "#!/bin/sh\npython -m sglang.launch_server --x {1,2} --y {a}", argv: []string{"python", "-m", "sglang.launch_server", "--x", "{1,2}", "--y", "{a}"}},
		"set +a ends set -a":            {src: "set -o allexport\nA=1\nset +o allexport\nB=2\nvllm serve M", argv: []string{"vllm", "serve", "M"}, env: map[string]string{"A": "1"}},
		"any other program, as it ends": {src: "mkdir -p x\n./llama-server -m x.gguf --port 8080\n", argv: []string{"./llama-server", "-m", "x.gguf", "--port", "8080"}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Script("launch.sh", c.src, home)
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got.Argv, c.argv) {
				t.Errorf("argv\n%q\nwant\n%q", got.Argv, c.argv)
			}
			if c.env == nil {
				c.env = map[string]string{}
			}
			if !maps.Equal(got.Env, c.env) {
				t.Errorf("env %v, want %v", got.Env, c.env)
			}
			if got.Cwd != c.cwd || got.Log != c.log || got.Venv != c.venv {
				t.Errorf("cwd %q log %q venv %q", got.Cwd, got.Log, got.Venv)
			}
			if !strings.Contains(strings.Join(got.Notes, "\n"), c.note) {
				t.Errorf("notes %q, want %q", got.Notes, c.note)
			}
		})
	}
}

func TestScript_WhatCannotBeKnownNamesItsLine(t *testing.T) {
	for name, c := range map[string]struct {
		src  string
		line int
		msg  string
	}{
		"a command substitution":        {"python -m sglang.launch_server --port $(free_port)", 1, "the command substitution $(...)"},
		"one in a variable":             {"P=1\nP=`free_port`\n\npython -m sglang.launch_server --port $P", 4, "$P is not known, since line 2 has the command substitution"},
		"a conditional around it":       {"if true; then\n python -m sglang.launch_server --tp 1\nfi", 2, "it is inside the if that begins on line 1"},
		"a loop around it":              {"for i in 0 1; do\n  CUDA_VISIBLE_DEVICES=$i python -m sglang.launch_server &\ndone", 2, "inside the for"},
		"a function":                    {"start() {\n  python -m sglang.launch_server --tp 1\n}\nstart", 2, "inside a function that begins on line 1"},
		"a conditional before it":       {"TP=1\nif [ -n \"$BIG\" ]; then\n  TP=8\nfi\npython -m sglang.launch_server --tp $TP", 5, "$TP is not known, since it is assigned on line 3"},
		"a conditional list":            {"test -f x && python -m sglang.launch_server --tp 1", 1, "what stands before && succeeds"},
		"the caller's environment":      {"python -m sglang.launch_server --model-path $MODEL", 1, "$MODEL is not assigned"},
		"an argument of the script":     {"python -m sglang.launch_server --model-path $1", 1, "$1"},
		"arithmetic":                    {"python -m sglang.launch_server --port $((30000 + 1))", 1, "arithmetic"},
		"an expansion that cuts":        {"M=/a/b\npython -m sglang.launch_server --model-path ${M##*/}", 2, "the expansion ${M...}"},
		"a pattern":                     {"python -m sglang.launch_server --model-path /m/*", 1, "a pattern that names files"},
		"a quote that never ends":       {"python -m sglang.launch_server --model-path 'x", 1, "a quote that is not closed"},
		"one within the program":        {"python -m \"sglang.launch_server --tp 1\n", 1, "a quote that is not closed"},
		"the home of nobody knows":      {"python -m sglang.launch_server --model-path ~/m", 1, "~ is the home folder on the host"},
		"an assignment before it":       {"A=$(x) python -m sglang.launch_server", 1, "the command substitution"},
		"a list in braces":              {"vllm serve M --x {1,2}", 1, "braces with a list"},
		"JSON that bash takes apart":    {"vllm serve M --x {\"a\":1,\"b\":2}", 1, "quote them"},
		"a command that is substituted": {"$(cat x)", 1, "the command substitution"},
		"a here-document":               {"bash <<EOF\nvllm serve M\nEOF\n", 1, "here-document"},
		"in the text of a shell":        {"A=1\nbash -c 'vllm serve $1'", 2, "$1"},
		"arguments that are shifted":    {"set -- --tp 8\nshift\nvllm serve M \"$@\"", 3, "line 2 shifts them"},
		"eval of what is not known":     {"eval \"$(x)\"\nvllm serve $M", 2, "$M"},
		"eval that may not be run":      {"test -f x && eval vllm serve M", 1, "inside the eval"},
		"nothing at all":                {"# only a comment\n", 1, "no command is in it"},
		"case":                          {"case $1 in\n a) python -m sglang.launch_server --tp 1 ;;\nesac", 2, "inside the case"},
		"a later server is not seen":    {"python -m sglang.launch_server --tp 1 &\nvllm serve $(x)", 2, "the command substitution"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Script("launch.sh", c.src, nil)
			var e *ScriptError
			if !errors.As(err, &e) {
				t.Fatalf("%+v, %v", got, err)
			}
			if e.Line != c.line || !strings.Contains(e.Msg, c.msg) || e.File != "launch.sh" || e.Hint() == "" {
				t.Errorf("line %d: %s", e.Line, e.Msg)
			}
		})
	}
}

// What a real shell makes of the words is what we make of them.
func TestScript_WordsAreThoseOfAShell(t *testing.T) {
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Fatal(err)
	}
	for _, words := range []string{
		`a 'b c' "d e" f\ g`, `--x='{"a": 1}' --y="{\"a\": 1}"`, `"a'b" 'c"d' e''f`, `a"b"'c'\d`, `"" '' x`, `"\a\\\"\$"`, `'\n' \\n`,
		`a#b`, `a=b c==d`, `"a
b" 'c
d'`, `${X:-one two} "${X:-one two}"`, `${X-} "${X-}"`, `"${X:-"q r"}"`, `$Y "$Y" "$Y"z$Y`, `x${Y}y`, `$Z`, `"$Z"`, `a\
b`, `{a}`, `~x a~`, `é "ü ß"`, `$ "$" a$`, `"a\b"`,
	} {
		const set = "Y='1  2'\nZ=\n"
		out, err := exec.Command(sh, "-c", set+`printf '%s\0' python -m sglang.launch_server `+words).Output()
		if err != nil {
			t.Fatalf("%s: %v", words, err)
		}
		want := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
		got, err := Script("x", set+"python -m sglang.launch_server "+words, nil)
		if err != nil {
			t.Errorf("%s: %v", words, err)
			continue
		}
		if !slices.Equal(got.Argv, want) {
			t.Errorf("%s\n got %q\nwant %q", words, got.Argv, want)
		}
	}
}

// Whatever the text, reading ends and never panics.
func FuzzScript(f *testing.F) {
	f.Add("python -m sglang.launch_server --a ${X:-b} \"$(c)\" <<E\nE\n")
	f.Add("if a; then (b && c) || { d; } fi; f() { g; }; case x in y) z;; esac")
	f.Add("A=(1 2 3; $'x' `y` &>z 2>&1 | tee")
	f.Fuzz(func(t *testing.T, src string) {
		c, err := Script("f", src, nil)
		if err == nil && len(c.Argv) == 0 {
			t.Errorf("%q: neither words nor an error", src)
		}
	})
}
