package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math/big"
	"net/http"
	"regexp"
	"slices"
	"strings"
)

// Keys of the effective configuration that are about it.
const (
	// ReadFrom says where vLLM's values come from: server_info, log, or metrics,
	// which are a part of it only.
	ReadFrom = "read_from"
	// OnlyAsked lists the names whose values are those of the command line, since
	// the engine itself did not say them: nothing is proved by them.
	OnlyAsked = "only_asked"
)

// Partial says that an effective configuration has not all that was asked for.
func Partial(effective map[string]string) bool { return effective[ReadFrom] == "metrics" }

// onlyAsked says whether a value was never read back; of a map, one of its keys.
func onlyAsked(effective map[string]string, name string) bool {
	return slices.Contains(strings.Split(effective[OnlyAsked], ","), name)
}

// maxEffective is the length up to which a value is kept; longer ones are lists
// of compiler settings that nobody compares by hand.
const maxEffective = 4096

// EffectiveConfig implements Engine. A server in development mode tells its whole
// configuration; of another one it is what it printed when it started, joined
// with what its metrics and its list of models say. A secret among the arguments
// is not taken.
func (vllm) EffectiveConfig(ctx context.Context, client *http.Client, base string, log StartLog) (map[string]string, error) {
	out := map[string]string{}
	found, err := vllmServerInfo(ctx, client, base, out)
	if err != nil {
		return nil, fmt.Errorf("read the effective configuration: %w", err)
	}
	out[ReadFrom] = "metrics"
	var asked map[string]any // by its command line
	if !found && log != nil {
		text, err := log(ctx)
		if err != nil {
			return nil, fmt.Errorf("read the effective configuration from the log: %w", err)
		}
		var said bool
		if asked, said = vllmStartArgs(text, out); said {
			out[ReadFrom] = "log"
		}
	}
	if found {
		out[ReadFrom] = "server_info"
	}
	var version struct {
		Version string `json:"version"`
	}
	if err := get(ctx, client, base, &version, "/version"); err != nil && !absent(err) {
		return nil, fmt.Errorf("read the version: %w", err)
	}
	if version.Version != "" {
		out["version"] = version.Version
	}
	if err := vllmCache(ctx, client, base, out); err != nil {
		return out, err
	}
	var unsaid []string
	keepAsked(out, asked, &unsaid)
	if len(unsaid) > 0 {
		slices.Sort(unsaid)
		out[OnlyAsked] = strings.Join(unsaid, ",")
	}
	return out, nil
}

// vllmParts are the parts of the configuration in the order in which they name a
// flag, with the flags' own names.
var vllmParts = []string{"model_config", "cache_config", "parallel_config", "scheduler_config", "load_config", "device_config",
	"structured_outputs_config", "observability_config"}

// vllmServerInfo asks a server in development mode.
func vllmServerInfo(ctx context.Context, client *http.Client, base string, out map[string]string) (found bool, err error) {
	var info struct {
		Config json.RawMessage `json:"vllm_config"`
	}
	if err := get(ctx, client, base, &info, "/server_info?config_format=json"); absent(err) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	var text string
	if json.Unmarshal(info.Config, &text) == nil { // older releases have text only
		keep(out, pyArguments(text))
		return true, nil
	}
	var parts map[string]any
	if err := decode(string(info.Config), &parts); err != nil {
		return false, fmt.Errorf("vllm_config: %w", err)
	}
	for _, name := range vllmParts {
		part, ok := parts[name].(map[string]any)
		if ok {
			keep(out, part)
		}
	}
	if s, ok := parts[vllmSpeculation].(map[string]any); ok {
		plain := map[string]any{}
		for key, v := range s { // the models' whole configurations are in it, too
			if _, nested := v.(map[string]any); !nested {
				plain[key] = v
			}
		}
		keep(out, map[string]any{vllmSpeculation: plain})
	} else {
		out[vllmSpeculation] = "null"
	}
	return true, nil
}

// keep adds values under the names of their flags; the first one of a name stays.
func keep(out map[string]string, values map[string]any) {
	for name, v := range values {
		key := vllmKey(name)
		if _, there := out[key]; there || vllmSecret.MatchString(name) || strings.HasPrefix(name, "_") {
			continue
		}
		if m, ok := v.(map[string]any); ok && key == vllmSpeculation {
			v = renamed(m)
		}
		text, err := plainJSON(v)
		if err != nil || len(text) > maxEffective {
			continue
		}
		out[key] = strings.TrimPrefix(text, "torch.")
	}
}

var vllmSecret = regexp.MustCompile(`api_key|token$|password|secret`)

// renamed gives the keys of a map the names of their flags.
func renamed(m map[string]any) map[string]any {
	out := make(map[string]any, len(m))
	for key, v := range m {
		if text, ok := v.(string); ok {
			v = strings.TrimPrefix(text, "torch.")
		}
		out[vllmKey(key)] = v
	}
	return out
}

var (
	vllmAsked  = regexp.MustCompile(`non-default args: (\{.*)`)
	vllmRuns   = regexp.MustCompile(`Initializing an? (?:V\d )?LLM engine \(v([^)]+)\) with config: (.*)`)
	vllmServer = regexp.MustCompile(`vLLM API server version v?(\S+)`)
)

// vllmStartArgs reads the lines that a start prints: what the engine runs with, of
// which it says whether there was any, and what was given on the command line.
func vllmStartArgs(log []byte, out map[string]string) (asked map[string]any, said bool) {
	for line := range bytes.SplitSeq(log, []byte("\n")) {
		switch {
		case bytes.Contains(line, []byte("with config: ")):
			if m := vllmRuns.FindSubmatch(line); m != nil {
				keep(out, pyArguments(string(m[2])))
				out["version"], said = string(m[1]), true
			}
		case bytes.Contains(line, []byte("non-default args: ")):
			if m := vllmAsked.FindSubmatch(line); m != nil {
				if given, ok := pyValue(string(m[1])).(map[string]any); ok {
					asked = given
				}
			}
		case bytes.Contains(line, []byte("vLLM API server version")):
			if m := vllmServer.FindSubmatch(line); m != nil {
				out["version"] = string(m[1])
			}
		}
	}
	return asked, said
}

// keepAsked adds what was given on the command line where the engine itself says
// nothing, and lists it in unsaid. A server that runs without speculation stays so.
func keepAsked(out map[string]string, asked map[string]any, unsaid *[]string) {
	if given, ok := asked[vllmSpeculation].(map[string]any); ok {
		var runs map[string]any
		if text, ok := out[vllmSpeculation]; ok && decode(text, &runs) == nil && runs != nil {
			for key, v := range renamed(given) {
				if _, there := runs[key]; !there {
					runs[key] = v
					*unsaid = append(*unsaid, vllmSpeculation+"."+key)
				}
			}
			if text, err := plainJSON(runs); err == nil {
				out[vllmSpeculation] = text
			}
		}
	}
	had := maps.Clone(out)
	keep(out, asked)
	for key := range out {
		if _, there := had[key]; !there {
			*unsaid = append(*unsaid, key)
		}
	}
}

// maxMetrics bounds what is read of /metrics.
const maxMetrics = 32 << 20

// vllmCache reads the one metric whose labels are a configuration.
func vllmCache(ctx context.Context, client *http.Client, base string, out map[string]string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/metrics", nil)
	if err != nil {
		return err
	}
	resp, err := client.Do(req)
	if err != nil {
		return fmt.Errorf("read the metrics: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil // it was told to have none
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxMetrics))
	if err != nil {
		return fmt.Errorf("read the metrics: %w", err)
	}
	for line := range bytes.SplitSeq(text, []byte("\n")) {
		rest, ok := bytes.CutPrefix(line, []byte("vllm:cache_config_info{"))
		if !ok {
			continue
		}
		labels := map[string]any{}
		for _, m := range metricLabel.FindAllSubmatch(rest, -1) {
			if name := string(m[1]); name != "engine" {
				labels[name] = bareWord(string(m[2]))
			}
		}
		keep(out, labels)
		break
	}
	return nil
}

var metricLabel = regexp.MustCompile(`([A-Za-z_]\w*)="((?:[^"\\]|\\.)*)"`)

// Model implements Engine.
func (vllm) Model(ctx context.Context, client *http.Client, base string) (string, error) {
	return firstModel(ctx, client, base)
}

// Compare implements Engine. Of the speculative configuration only the keys that
// were asked for count; what the engine never said is left out.
func (vllm) Compare(asked []Flag, effective map[string]string) []Mismatch {
	var out []Mismatch
	for _, f := range withoutZeroTokens(asked) {
		if f.Kind == Omitted {
			continue
		}
		if key, is := isVLLMSpeculation(f); is {
			out = append(out, speculationMismatch(f, underscores(key), effective)...)
			continue
		}
		name, negated := strings.CutPrefix(vllmKey(f.Name), "no_")
		got, ok := effective[name]
		if negated && ok && f.Kind == Bare {
			if strings.EqualFold(got, "true") {
				out = append(out, Mismatch{Flag: f.Name, Asked: f.Text(), Effective: name + "=" + got})
			}
			continue
		}
		if got, ok = effective[vllmKey(f.Name)]; !ok || onlyAsked(effective, vllmKey(f.Name)) || sameVLLM(vllmKey(f.Name), f, got) {
			continue
		}
		out = append(out, Mismatch{Flag: f.Name, Asked: f.Text(), Effective: got, Rule: vllmRules[vllmKey(f.Name)]})
	}
	return out
}

// vllmRules say why the server changes a flag.
var vllmRules = map[string]string{
	"max_model_len":          "the server shortens it to what the model or its KV cache has room for",
	"enable_chunked_prefill": "some models and platforms cannot",
	"enable_prefix_caching":  "some models and platforms cannot",
	"block_size":             "the platform or the attention backend decides",
	"max_num_batched_tokens": "it is raised to hold max-num-seqs drafts",
}

// speculationMismatch compares the keys of a map, or one key.
func speculationMismatch(f Flag, key string, effective map[string]string) []Mismatch {
	text, ok := effective[vllmSpeculation]
	if !ok || onlyAsked(effective, vllmSpeculation) {
		return nil
	}
	var runs map[string]any
	if decode(text, &runs) != nil || runs == nil {
		return []Mismatch{{Flag: f.Name, Asked: f.Text(), Effective: "null", Rule: "the server runs without speculation"}}
	}
	wanted := map[string]any{}
	if key != "" {
		wanted[key] = bareWord(f.Text())
	} else if err := decode(f.Text(), &wanted); err != nil {
		return nil
	}
	var out []Mismatch
	for _, name := range sortedNames(wanted) {
		has, reported := runs[vllmKey(name)]
		if !reported || onlyAsked(effective, vllmSpeculation+"."+vllmKey(name)) {
			continue
		}
		want, errWant := plainJSON(wanted[name])
		got, errGot := plainJSON(has)
		if errWant != nil || errGot != nil || sameVLLM(name, Flag{Kind: Value, Values: []string{want}}, got) {
			continue
		}
		out = append(out, Mismatch{Flag: "speculative-config." + name, Asked: want, Effective: got})
	}
	return out
}

func sortedNames(m map[string]any) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// vllmDtypes are other names of the same number format.
var vllmDtypes = map[string]string{"half": "float16", "float": "float32", "bf16": "bfloat16"}

func sameVLLM(key string, f Flag, got string) bool {
	if sameValue(key, f, got) {
		return true
	}
	asked := f.Text()
	if to, ok := vllmDtypes[asked]; ok && key == "dtype" {
		return to == got
	}
	if n, ok := humanNumber(asked); ok {
		have, ok := number(got)
		return ok && n.Cmp(have) == 0
	}
	var list []string
	return key == "served_model_name" && decode(got, &list) == nil && slices.Equal(list, f.Values)
}

// humanNumber reads 16k (decimal) and 16K (binary), as the server's arguments
// may be written.
func humanNumber(s string) (*big.Rat, bool) {
	if s == "" {
		return nil, false
	}
	unit := map[byte]int64{'k': 1e3, 'm': 1e6, 'g': 1e9, 't': 1e12, 'K': 1 << 10, 'M': 1 << 20, 'G': 1 << 30, 'T': 1 << 40}[s[len(s)-1]]
	n, ok := number(s[:len(s)-1])
	if unit == 0 || !ok {
		return nil, false
	}
	return n.Mul(n, big.NewRat(unit, 1)), true
}
