package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"specrun/experiments/record"
	"specrun/internal/tier"
)

// change is a fact that differs between two sides; "" is absent.
type change struct{ group, key, a, b string }

// explainRuns explains the runs of one cell.
func explainRuns(a, b []record.RunData) Diff { return explain([]cellRuns{{a: a, b: b}}) }

// innocents are differences that explain no number, as two sittings on the same
// machine have them.
var innocents = []change{
	{"flags", "port", "30000", "30001"},
	{"flags", "nccl_port", "41231", "52002"},
	{"flags", "dist_init_addr", "127.0.0.1:4000", "127.0.0.1:4100"},
	{"flags", "log_level", "info", "warning"},
	{"flags", "decode_log_interval", "40", "100"},
	{"flags", "api_key", "(secret, sha 11aa22bb)", "(secret, sha 33cc44dd)"},
	{"flags", "served_model_name", "target", "kimi"},
	{"flags", "specrun_lab", `{"cycles":9}`, `{"cycles":12}`},
	{"flags", "max_total_num_tokens", "412345", "412201"},
	{"flags", "enable_metrics", "false", "true"},
	{"flags", "random_seed", "1", "77123"},
	{"flags", "watchdog_timeout", "300", "600"},
	{"flags", "last_gen_throughput", "93.2", "62.5"},
	{"env", "TERM", "xterm-256color", "screen"},
	{"env", "PWD", "/home/a", "/data"},
	{"env", "OLDPWD", "", "/home/a"},
	{"env", "SSH_CONNECTION", "10.0.0.1 5000 10.0.0.2 22", "10.0.0.1 5123 10.0.0.2 22"},
	{"env", "SSH_TTY", "/dev/pts/0", ""},
	{"env", "LANG", "C.UTF-8", "en_US.UTF-8"},
	{"env", "LC_ALL", "", "C"},
	{"env", "HF_TOKEN", "(secret, sha 1a2b3c4d)", "(secret, sha 9a8b7c6d)"},
	{"env", "NCCL_DEBUG", "WARN", "INFO"},
	{"env", "SGLANG_RUN_ID", "run-1", "run-2"},
	{"env", "XDG_SESSION_ID", "7", "9"},
	{"env", "MY_NOTES", "", "tuesday"},
	{"env", "EAGLE3_PROFILE_EVERY", "25", "100"},
	{"env", "TRITON_CACHE_DIR", "/tmp/a", "/tmp/b"},
	{"code", "specrun", "0.3.0", "0.4.0"},
	{"code", "python", "/home/a/env/bin/python3", "/home/b/env/bin/python3"},
	{"packages", "requests", "2.31.0", "2.32.3"},
	{"packages", "rich", "13.0.0", "14.1.0"},
	{"packages", "pydantic", "1.10.1", "2.9.0"},
	{"packages", "transformers", "4.51.0", "4.57.1"},
	{"gpu", "0 temperature", "41 C", "63 C"},
	{"gpu", "1 temperature", "40 C", "66 C"},
	{"gpu", "0 memory_used", "12 MiB", "900 MiB"},
	{"gpu", "0 uuid", "GPU-1111", "GPU-2222"},
	{"gpu", "0 max_clock", "1980 MHz", "1980.0 MHz"},
	{"host", "hostname", "gpu-01", "gpu-02"},
	{"host", "name", "kimi-a", "kimi-b"},
	{"host", "kernel", "Linux 6.8.0-45-generic", "Linux 6.8.0-47-generic"},
	{"host", "uptime", "12345", "993213"},
	{"host", "clock_offset_ms", "3", "-12"},
	{"host", "memory_free_kib", "1234567", "7654321"},
	{"host", "boot_id", "aa-bb", "cc-dd"},
	{"host", "load", "0.3", "1.2"},
	{"workload", "outputs_sha256", "aaaa", "bbbb"},
	{"workload", "note", "", "the server sent no usage"},
	{"command", "cwd", "/data", "/data2"},
	{"command", "argv", `["/usr/bin/python3","-m","sglang.launch_server","--port","30000","--log-level","info"]`,
		`["/usr/bin/python3","-m","sglang.launch_server","--port","30001","--log-level","warning"]`},
}

// culprits are the true causes, in the spellings in which they occur. Several
// facts: what else the same cause shows in.
var culprits = map[string][]change{
	"NCCL_PROTO removed":          {{"env", "NCCL_PROTO", "LL", ""}},
	"NCCL_PROTO changed, echoed":  {{"env", "NCCL_PROTO", "LL", "Simple"}, {"flags", "env_vars", `{"NCCL_PROTO":"LL"}`, `{"NCCL_PROTO":"Simple"}`}},
	"NCCL_ALGO":                   {{"env", "NCCL_ALGO", "", "Tree"}},
	"a CUDA variable":             {{"env", "CUDA_DEVICE_MAX_CONNECTIONS", "8", "1"}},
	"an engine variable":          {{"env", "SGLANG_ENABLE_SPEC_V2", "0", "1"}},
	"attention backend in effect": {{"flags", "attention_backend", "fa3", "triton"}},
	"attention backend asked": {{"flags", "asked attention-backend", "fa3", "triton"}, {"flags", "attention_backend", "fa3", "triton"},
		{"command", "argv", `["/usr/bin/python3","-m","sglang.launch_server","--attention-backend","fa3","--port","1"]`, `["/usr/bin/python3","-m","sglang.launch_server","--attention-backend","triton","--port","2"]`}},
	"attention mode":              {{"flags", "asked speculative-attention-mode", "prefill", "decode"}},
	"attention mode, with dashes": {{"flags", "--speculative-attention-mode", "prefill", "decode"}},
	"graph size":                  {{"flags", "cuda_graph_max_bs", "160", "8"}},
	"graphs off":                  {{"flags", "disable_cuda_graph", "false", "true"}},
	"a flag set on one side":      {{"flags", "asked disable-overlap-schedule", "", "true"}, {"flags", "disable_overlap_schedule", "false", "true"}},
	"kv cache type":               {{"flags", "kv_cache_dtype", "auto", "fp8_e5m2"}},
	"memory":                      {{"flags", "mem_fraction_static", "0.85", "0.6"}},
	"a flag only in argv":         {{"command", "argv", `["python3","-m","x","--quantization","fp8"]`, `["python3","-m","x"]`}},
	"eagle worker":                {{"code", "file /home/a/env/lib/python3.12/site-packages/sglang/srt/speculative/eagle_worker.py", "1111 pristine", "2222 edited"}},
	"eagle worker in another env": {{"code", "file /home/a/env/lib/python3.12/site-packages/sglang/srt/speculative/eagle_worker.py", "1111 pristine", ""}, {"code", "file /opt/b/lib/python3.12/site-packages/sglang/srt/speculative/eagle_worker.py", "", "2222 pristine"}},
	"eagle worker v2, editable":   {{"code", "file /src/sglang/python/sglang/srt/speculative/eagle_worker_v2.py", "1111 pristine", "2222 pristine"}},
	"another engine file":         {{"code", "file sglang/srt/layers/attention/triton_backend.py", "1111 pristine", "2222 pre-edited"}},
	"eagle worker edited, in every hash": {{"code", "file sglang/srt/speculative/eagle_worker.py", "", "2222 modified"}, {"code", "file sglang/srt/speculative/*", "aa", "bb"},
		{"code", "engine_files", "22 files, sha256 aa", "22 files, sha256 bb"}, {"code", "git_dirty", "no", "1 files, +2 -1, diff sha256 bb"}},
	"a folder of the engine": {{"code", "file sglang/srt/layers/*", "aa", "bb"}, {"code", "engine_files", "22 files, sha256 aa", "22 files, sha256 bb"}},
	"engine version, in every hash": {{"code", "engine_version", "0.5.10", "0.5.12"}, {"code", "file sglang/srt/*", "aa", "bb"}, {"code", "file sglang/srt/speculative/*", "aa", "bb"},
		{"code", "file /x/site-packages/sglang/srt/speculative/eagle_worker.py", "1111 pristine", "2222 pristine"}, {"code", "engine_files", "22 files, sha256 aa", "29 files, sha256 bb"}, {"code", "git_commit", "aa", "bb"}},
	"draft model, in every fact": {{"flags", "asked speculative-draft-model-path", "/data/a", "/data/b"}, {"flags", "speculative_draft_model_path", "/data/a", "/data/b"},
		{"workload", "draft_fingerprint", "aa", "bb"}, {"workload", "draft_files", "2 files, 442 bytes", "2 files, 443 bytes"}, {"workload", "draft_config.json", "aa", "bb"}},
	"model weights":               {{"workload", "model_fingerprint", "aa", "bb"}, {"workload", "model_files", "2 files, 442 bytes", "2 files, 443 bytes"}},
	"git commit":                  {{"code", "engine_commit", "1111111", "2222222"}},
	"engine version":              {{"code", "engine_version", "0.5.10", "0.5.12"}, {"flags", "version", "0.5.10", "0.5.12"}, {"packages", "sglang", "0.5.10", "0.5.12"}},
	"patch content":               {{"patches", "profiling-v3", "1 aaaa", "1 bbbb"}, {"code", "file /x/site-packages/sglang/srt/speculative/eagle_worker.py", "1111 patched", "2222 patched"}},
	"torch":                       {{"packages", "torch", "2.8.0", "2.9.1"}},
	"nccl package":                {{"packages", "nvidia-nccl-cu12", "2.27.3", "2.28.1"}},
	"sgl-kernel, underscores":     {{"packages", "sgl_kernel", "0.3.15", "0.4.0"}},
	"power limit of all GPUs":     {{"gpu", "0 power_limit", "700.00 W", "500.00 W"}, {"gpu", "1 power_limit", "700.00 W", "500.00 W"}},
	"clock of one GPU":            {{"gpu", "0 max_clock_sm", "1980 MHz", "1200 MHz"}},
	"driver":                      {{"gpu", "driver", "570.86.15", "580.95.05"}},
	"governor":                    {{"host", "cpu_governor", "performance", "powersave"}},
	"somebody else on the GPU":    {{"gpu", "0 processes", "", "4711 python3 62000 MiB"}},
	"ECC":                         {{"gpu", "0 ecc", "Enabled", "Disabled"}},
	"tensor parallelism":          {{"flags", "tp_size", "8", "4"}},
	"chunked prefill":             {{"flags", "chunked_prefill_size", "8192", "2048"}},
	"draft model":                 {{"flags", "speculative_draft_model_path", "/data/eagle3/a", "/data/eagle3/b"}},
	"model fingerprint":           {{"workload", "model_fingerprint", "aa11", "bb22"}},
	"a variable in small letters": {{"env", "nccl_proto", "LL", "LL128"}},
	"quantization":                {{"flags", "--quantization", "", "fp8"}},
	"max running requests":        {{"flags", "max_running_requests", "48", "1"}},
	"every launch waits":          {{"env", "CUDA_LAUNCH_BLOCKING", "", "1"}},
}

func sidesOf(changes []change) (a, b []record.RunData) {
	var left, right record.RunData
	for i, c := range changes {
		if c.a != "" {
			left.Provenance = append(left.Provenance, record.Fact{Group: c.group, Key: c.key, Value: c.a})
		}
		if c.b != "" {
			right.Provenance = append(right.Provenance, record.Fact{Group: c.group, Key: c.key, Value: c.b})
		}
		// What both sides have alike in each group, so that no group is unknown.
		same := record.Fact{Group: c.group, Key: "same", Value: fmt.Sprint(i)}
		left.Provenance, right.Provenance = append(left.Provenance, same), append(right.Provenance, same)
	}
	return []record.RunData{left}, []record.RunData{right}
}

// The property that diff exists for: among at least 20 innocent differences,
// whichever and in whatever order, the true cause comes first.
func TestExplain_TrueCauseFirstAmongInnocents(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 11))
	for name, cause := range culprits {
		for round := range tier.Size(6, 24) {
			changes := slices.Clone(innocents)
			r.Shuffle(len(changes), func(i, j int) { changes[i], changes[j] = changes[j], changes[i] })
			changes = changes[:20+r.IntN(len(changes)-20)]
			changes = slices.DeleteFunc(changes, func(c change) bool { // a key has one value
				return slices.ContainsFunc(cause, func(o change) bool { return o.group == c.group && o.key == c.key })
			})
			changes = append(changes, cause...)
			r.Shuffle(len(changes), func(i, j int) { changes[i], changes[j] = changes[j], changes[i] })
			a, b := sidesOf(changes)
			if round%2 == 1 {
				a, b = b, a
			}
			d := explainRuns(a, b)
			if len(d.Lines) < 15 {
				t.Fatalf("%s: only %d differences", name, len(d.Lines))
			}
			first := d.Lines[0]
			is := func(c change) bool {
				return c.group == first.Group && (ruleKey(c.group, modulePath(c.group, c.key)) == ruleKey(c.group, first.Key) || strings.HasSuffix(first.Key, " "+strings.TrimLeft(c.key, "0123456789 ")))
			}
			if !slices.ContainsFunc(cause, is) {
				t.Errorf("%s: first is %s %s (%v), then %s %s (%v)", name, first.Group, first.Key, first.Weight, d.Lines[1].Group, d.Lines[1].Key, d.Lines[1].Weight)
				break
			}
			if first.Weight < likely || first.Why == "" {
				t.Errorf("%s: %+v is no likely cause", name, first)
			}
			// All that it shows in is told with it, not as further causes.
			if likely := d.Likely(); len(likely) != 1 {
				t.Errorf("%s: %d likely causes: %+v", name, len(likely), likely)
				break
			}
		}
	}
}

// Without a true cause nothing is called one.
func TestExplain_InnocentsAreNoLikelyCause(t *testing.T) {
	d := explainRuns(sidesOf(innocents))
	if likely := d.Likely(); len(likely) > 0 {
		t.Errorf("likely causes: %+v", likely)
	}
	if len(d.Lines) < 40 {
		t.Errorf("%d differences of %d", len(d.Lines), len(innocents))
	}
}

func TestExplain_OrderAndMagnitude(t *testing.T) {
	for name, tc := range map[string]struct {
		changes []change
		want    []string // keys, likeliest first
	}{
		"known before unknown before innocent": {[]change{{"flags", "log_level", "info", "debug"}, {"flags", "new_thing", "a", "b"}, {"packages", "torch", "2.8.0", "2.8.1"}},
			[]string{"torch", "new_thing", "log_level"}},
		"a major version before a patch level": {[]change{{"packages", "flashinfer-python", "0.2.7", "0.2.8"}, {"packages", "triton", "3.2.0", "4.0.0"}},
			[]string{"triton", "flashinfer-python"}},
		"a large ratio before a small one": {[]change{{"flags", "max_prefill_tokens", "16384", "16000"}, {"flags", "chunked_prefill_size", "8192", "2048"}},
			[]string{"chunked_prefill_size", "max_prefill_tokens"}},
		"changed before set": {[]change{{"env", "NCCL_ALGO", "", "Ring"}, {"env", "NCCL_PROTO", "LL", "Simple"}}, []string{"NCCL_PROTO", "NCCL_ALGO"}},
		"how the configuration was read is last": {[]change{{"flags", "only_asked", "", "host,port"}, {"flags", "read_from", "log", "server_info"}, {"flags", "new_thing", "a", "b"}},
			[]string{"new_thing", "read_from", "only_asked"}},
		"the practice host's own settings before all": {[]change{{"env", "NCCL_PROTO", "LL", "Simple"}, {"flags", "tp_size", "1", "2"}, {"flags", "specrun_lab_settings", "as built in", "verify_base_ms=14"}},
			[]string{"specrun_lab_settings", "NCCL_PROTO", "tp_size"}},
		"null is None":               {[]change{{"flags", "quantization", "null", "None"}, {"env", "X", "1", "2"}}, []string{"X"}},
		"a clock within 1 % is last": {[]change{{"gpu", "0 clock", "1980 MHz", "1965 MHz"}, {"flags", "new_thing", "a", "b"}}, []string{"new_thing", "0 clock"}},
		"asked, but the server runs with the same": {[]change{{"flags", "asked attention-backend", "fa3", "triton"}, {"flags", "new_thing", "a", "b"}},
			[]string{"attention-backend", "new_thing"}},
	} {
		d := explainRuns(sidesOf(tc.changes))
		var got []string
		for _, l := range d.Lines {
			got = append(got, l.Key)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// A flag that was asked for differently and is the same in effect explains
// little, and is told with that.
func TestExplain_AskedButNotInEffect(t *testing.T) {
	a, b := sidesOf([]change{{"flags", "asked attention-backend", "fa3", "triton"}})
	same := record.Fact{Group: "flags", Key: "attention_backend", Value: "fa3"}
	a[0].Provenance, b[0].Provenance = append(a[0].Provenance, same), append(b[0].Provenance, same)
	d := explainRuns(a, b)
	if len(d.Lines) != 1 || d.Lines[0].Weight >= likely || !strings.Contains(d.Lines[0].Why, "same value") {
		t.Errorf("%+v", d.Lines)
	}
}

func TestExplain_Folds(t *testing.T) {
	a, b := sidesOf(slices.Concat(culprits["attention backend asked"], culprits["power limit of all GPUs"], culprits["patch content"],
		[]change{{"gpu", "0 ecc", "Enabled", "Disabled"}, {"gpu", "1 ecc", "Disabled", "Enabled"}}))
	var got []string
	for _, l := range explainRuns(a, b).Lines {
		got = append(got, l.Group+" "+l.Key+" <- "+strings.Join(l.Also, ", "))
	}
	want := []string{
		"flags attention-backend <- flags asked attention-backend, command argv",
		"patches profiling-v3 <- code file sglang/srt/speculative/eagle_worker.py",
		"gpu 0,1 power_limit <- ",
		"gpu 0 ecc <- ",
		"gpu 1 ecc <- ",
	}
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// What varies within a side is told as that and does not pass for a cause; what
// varies only because the baseline has it not is a plain difference.
func TestExplain_VariesWithinASide(t *testing.T) {
	run := func(facts ...string) record.RunData {
		d := record.RunData{Provenance: []record.Fact{{Group: "env", Key: "x", Value: "1"}, {Group: "flags", Key: "x", Value: "1"}}}
		for i := 0; i < len(facts); i += 3 {
			d.Provenance = append(d.Provenance, record.Fact{Group: facts[i], Key: facts[i+1], Value: facts[i+2]})
		}
		return d
	}
	a := []record.RunData{run("env", "NCCL_ALGO", "Ring"), run("env", "NCCL_ALGO", "Tree", "flags", "speculative-attention-mode", "prefill")}
	b := []record.RunData{run("env", "NCCL_ALGO", "A"), run("env", "NCCL_ALGO", "B", "flags", "speculative-attention-mode", "decode")}
	d := explainRuns(a, b)
	if len(d.Lines) != 2 || d.Lines[0].Key != "speculative-attention-mode" || *d.Lines[0].A != "prefill" || *d.Lines[0].B != "decode" {
		t.Fatalf("%+v", d.Lines)
	}
	if l := d.Lines[1]; *l.A != "varies: Ring, Tree" || *l.B != "varies: A, B" || l.Weight >= likely {
		t.Errorf("%+v", l)
	}
}

// A file that is pristine under the baseline and patched under the other cells was
// edited between two sweeps: the cause, although it varies within each.
func TestDiffSides_VariesBetweenCellsOnly(t *testing.T) {
	side := func(id, pristine, patched string) Side {
		s := sitting(id, 3, 2, 1, 1, fact("host", "load_average", id))
		for run, d := range s.View.Data {
			content := patched + " patched"
			if strings.HasPrefix(run, "r0") {
				content = pristine + " pristine"
			}
			d.Provenance = append(slices.Clone(d.Provenance), fact("code", "file sglang/srt/speculative/eagle_worker.py", content))
			s.View.Data[run] = d
		}
		return s
	}
	d := DiffSides(side("good", "1111", "2222"), side("later", "3333", "4444"))
	if l := d.Lines[0]; l.Group != "code" || l.Weight < 0.9 || *l.A != "varies: 1111 pristine, 2222 patched" {
		t.Errorf("%+v", d.Lines)
	}
	if d := DiffSides(side("good", "1111", "2222"), side("later", "1111", "2222")); len(d.Lines) != 1 {
		t.Errorf("the same files: %+v", d.Lines)
	}
}

// The command lines of several cells: what other differences say is taken out.
func TestExplain_CommandLinesOfSeveralCells(t *testing.T) {
	run := func(backend string, words ...string) record.RunData {
		argv, err := json.Marshal(append([]string{"python3", "-m", "x", "--port", fmt.Sprint(len(words)), "--attention-backend", backend}, words...))
		if err != nil {
			t.Fatal(err)
		}
		return record.RunData{Provenance: []record.Fact{{Group: "flags", Key: "attention_backend", Value: backend}, {Group: "command", Key: "argv", Value: string(argv)}}}
	}
	a := []record.RunData{run("fa3"), run("fa3", "--speculative-num-steps", "2")}
	b := []record.RunData{run("triton", "--speculative-num-steps", "2"), run("triton")}
	d := explainRuns(a, b)
	if len(d.Lines) != 1 || d.Lines[0].Key != "attention_backend" || !slices.Equal(d.Lines[0].Also, []string{"command argv"}) {
		t.Errorf("%+v", d.Lines)
	}
	b = append(b, run("triton", "--new-flag"))
	if d = explainRuns(a, b); len(d.Lines) != 2 || d.Lines[1].A != nil || *d.Lines[1].B != "--new-flag" {
		t.Errorf("%+v", d.Lines)
	}
}

// An old log has no environment: that is no difference of each variable.
func TestExplain_WhatOneSideDoesNotKnow(t *testing.T) {
	a, _ := sidesOf(innocents)
	d := explainRuns(a, []record.RunData{{Provenance: []record.Fact{{Group: "code", Key: "engine", Value: "sglang"}}}})
	if !slices.Contains(d.Unknown, "env") || slices.ContainsFunc(d.Lines, func(l DifferenceLine) bool { return l.Group != "code" }) {
		t.Errorf("unknown %v, lines %+v", d.Unknown, d.Lines)
	}
}

// Each rule is reached by a key: an earlier one that takes its keys would leave
// it dead. The innocents and culprits name most of them.
func TestCauses_WeightsAndReasons(t *testing.T) {
	for i, r := range causes() {
		if r.weight <= 0 || r.weight > decisive || r.why == "" {
			t.Errorf("rule %d of %s: weight %v, why %q", i, r.group, r.weight, r.why)
		}
		if !slices.Contains(groups[:], r.group) {
			t.Errorf("rule %d: no group %q", i, r.group)
		}
	}
	for group, w := range unknowns {
		if w >= likely || w <= innocent {
			t.Errorf("an unknown key of %s has weight %v: it must lie between the known and the innocent", group, w)
		}
	}
}

func TestDiff_Golden(t *testing.T) {
	side := func(ref string, facts []record.Fact) Side {
		s := FileSide("x", []record.RunData{{Provenance: facts}})
		s.Ref, s.Kind, s.Run = ref, SideRun, "start 1"
		s.View.Sweep.Name = "practice"
		s.View.Cells[0].Params, s.View.Cells[0].Baseline = record.Params{"steps": int64(2)}, false
		s.View.Runs[0].Host, s.View.Runs[0].StartUs = "lab", epochUs
		return s
	}
	var out bytes.Buffer
	write := func(a, b []record.Fact, o Options) {
		t.Helper()
		x, y := side("k3v7", a), side("q2m9", b)
		if err := WriteDiff(&out, x, y, DiffSides(x, y), o); err != nil {
			t.Fatal(err)
		}
		out.WriteString("---\n")
	}
	a, b := sidesOf(append(slices.Concat(culprits["attention backend asked"], innocents[:30]),
		change{"env", "NCCL_PROTO", "LL", ""}, change{"flags", "chat", "a\nb", strings.Repeat("long ", 20)}, change{"weather", "sky", "", "grey"}))
	write(a[0].Provenance, b[0].Provenance, Options{})
	write(a[0].Provenance, b[0].Provenance, Options{All: true})
	write(a[0].Provenance, a[0].Provenance, Options{})
	write(a[0].Provenance, b[0].Provenance[:1], Options{})
	write(nil, nil, Options{})
	golden(t, "diff.txt", out.Bytes())
}
