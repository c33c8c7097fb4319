package origin

import (
	"path"
	"slices"
	"strings"
)

// containerRun is a "docker run" taken apart.
type containerRun struct {
	runtime string // docker or podman
	image   string
	args    []string // options for each launch
	left    []string // options left out: specrun names, detaches and removes it itself
	argv    []string // of the server in it
	env     map[string]string
	fromEnv []string // -e NAME: its value comes from the environment
	cwd     string
	entry   string // --entrypoint
}

// bare are options of "run" without a value; all others have one.
var bare = []string{"--detach", "--init", "--interactive", "--no-healthcheck", "--oom-kill-disable", "--privileged", "--publish-all", "--quiet",
	"--read-only", "--rm", "--sig-proxy", "--tty", "--disable-content-trust", "--use-api-socket", "--replace", "--rmi", "--tls-verify", "--env-host", "--http-proxy", "--unsetenv-all"}

// ours are options whose work specrun does.
var ours = []string{"--detach", "--interactive", "--tty", "--rm", "--init", "--name", "--restart", "--quiet", "--replace"}

// short spellings of options, by their letter.
var long = map[byte]string{'d': "--detach", 'i': "--interactive", 't': "--tty", 'P': "--publish-all", 'q': "--quiet", 'e': "--env", 'w': "--workdir",
	'p': "--publish", 'v': "--volume", 'h': "--hostname", 'u': "--user", 'm': "--memory", 'l': "--label", 'a': "--attach", 'c': "--cpu-shares"}

// readContainer reads a "docker run ... IMAGE COMMAND", also below sudo; false
// for any other command.
func readContainer(argv []string) (containerRun, bool) {
	at := 0
	if len(argv) > 0 && path.Base(argv[0]) == "sudo" {
		at = 1
	}
	if len(argv) < at+3 || !slices.Contains([]string{"docker", "podman"}, path.Base(argv[at])) {
		return containerRun{}, false
	}
	c := containerRun{runtime: path.Base(argv[at]), env: map[string]string{}}
	words := argv[at+1:]
	if words[0] == "container" {
		words = words[1:]
	}
	if len(words) == 0 || words[0] != "run" {
		return containerRun{}, false
	}
	words = words[1:]
	for len(words) > 0 && strings.HasPrefix(words[0], "-") && words[0] != "--" {
		words = c.option(words)
	}
	if len(words) > 0 && words[0] == "--" {
		words = words[1:]
	}
	if len(words) == 0 {
		return containerRun{}, false
	}
	c.image, c.argv = words[0], words[1:]
	if c.entry != "" {
		c.argv = append([]string{c.entry}, c.argv...)
	}
	// The images of vLLM have the server as their entry point.
	if c.entry == "" && strings.Contains(c.image, "vllm-openai") && (len(c.argv) == 0 || strings.HasPrefix(c.argv[0], "-")) {
		c.argv = append([]string{"python3", "-m", "vllm.entrypoints.openai.api_server"}, c.argv...)
	}
	return c, true
}

// option takes the option at the front of words.
func (c *containerRun) option(words []string) []string {
	word, rest := words[0], words[1:]
	name, value, joined := strings.Cut(word, "=")
	raw := []string{word}
	if !strings.HasPrefix(word, "--") {
		letters := word[1:]
		// -it, -itd: only the last of them may have a value.
		for len(letters) > 1 && slices.Contains(bare, long[letters[0]]) {
			c.left = append(c.left, "-"+letters[:1])
			letters = letters[1:]
		}
		if letters == "" {
			return rest
		}
		name, joined = long[letters[0]], len(letters) > 1
		value = strings.TrimPrefix(letters[1:], "=")
		raw = []string{"-" + letters}
	}
	if !joined && !slices.Contains(bare, name) && len(rest) > 0 {
		value, rest = rest[0], rest[1:]
		raw = append(raw, value)
	}
	switch {
	case slices.Contains(ours, name):
		c.left = append(c.left, raw...)
	case name == "--env" && strings.Contains(value, "="):
		key, text, _ := strings.Cut(value, "=")
		c.env[key] = text
	case name == "--env":
		c.fromEnv = append(c.fromEnv, value)
	case name == "--workdir":
		c.cwd = value
	case name == "--entrypoint":
		c.entry = value
	default:
		c.args = append(c.args, raw...)
	}
	return rest
}
