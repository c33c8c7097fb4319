package origin

import (
	"regexp"
	"slices"
	"strings"
	"testing"
)

func TestServes_TheServerItselfAndNoneThatStartsIt(t *testing.T) {
	pattern := regexp.MustCompile(ServerPattern())
	for command, want := range map[string]string{
		"python3 -m sglang.launch_server --tp 8":                      SGLang,
		"/v/bin/python -u -m sglang.launch_server":                    SGLang,
		"/v/bin/python3 /v/bin/vllm serve M":                          VLLM,
		"vllm serve M":                                                VLLM,
		"/v/bin/python3 -m vllm.entrypoints.openai.api_server --tp 8": VLLM,
		"/opt/llama/llama-server -m x.gguf":                           "llama-server",
		"/usr/bin/python3 /v/bin/trtllm-serve M":                      "trtllm-serve",
		"timeout 1h vllm serve M":                                     "",
		"sudo -u x python3 -m sglang.launch_server":                   "",
		"docker run --gpus all image python3 -m sglang.launch_server": "",
		"sglang::scheduler_TP0":                                       "",
		"VLLM::EngineCore":                                            "",
		"/v/sglang/bin/python3 -c from_multiprocessing_import_spawn":  "",
		"grep sglang.launch_server":                                   "",
		"vim llama-server":                                            "",
		"":                                                            "",
	} {
		if got := Serves(strings.Fields(command)); got != want {
			t.Errorf("%s: %q, want %q", command, got, want)
		}
		if want != "" && !slices.ContainsFunc(strings.Fields(command), pattern.MatchString) {
			t.Errorf("%s would not be found", command)
		}
	}
	for _, arg := range []string{"/v/vllm/bin/python3", "sglang::scheduler_TP0", "sglangxlaunch_server", "sglang.launch_server.py"} {
		if pattern.MatchString(arg) {
			t.Errorf("%s is looked at", arg)
		}
	}
}
